"""Patterns of what is read: they mean what they mean to git, and say by which of them a file is left out."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from kb.errors import ConfigError
from kb.ingest.ignore import Patterns, Selection
from kb.ingest.walk import Walk, walk

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write files of a folder: `write("a.md", **{".kbignore": "*.txt"})`; gives the folder."""

    def files(*names: str, **texts: str) -> Path:
        for name, text in {**dict.fromkeys(names, "words"), **texts}.items():
            file = tmp_path / "root" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        return tmp_path / "root"

    return files


def look(root: Path, **patterns: Sequence[str]) -> Walk:
    return walk(root, {".md", ".txt"}, selection=Selection(root, **patterns))


def found(walked: Walk) -> list[str]:
    return [file.relative for file in walked.files]


# What a pattern means

TREE = ("a.md", "b.md", "sub/a.md", "sub/b.txt", "sub/deep/a.md", "sub/deep/b.txt", "notes/a.md", "[x].md", "x y.md")
LINES = [
    ["a.md"], ["/a.md"], ["*.md"], ["*.md", "!a.md"], ["sub/"], ["sub"], ["/sub/*"], ["sub/**"], ["**/deep"],
    ["sub/**/b.txt"], ["**"], ["*", "!*/", "!*.txt"], ["/*", "!/sub/"], ["sub", "!sub/a.md"], ["/*/", "!notes/"],
    ["?.md"], ["[ab].md"], ["[!a].md"], ["\\[x].md"], ["x y.md  "], ["# a.md", "", "\\#"], ["a.md/"], ["deep/a.md"],
    ["*/a.md"], ["s*b/*b.*t"], ["**/"], ["!a.md"], ["sub/deep/", "!sub/deep/a.md"], ["a*.m*d", "\\!b"],
]  # fmt: skip


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git to compare with")
def test_patterns_mean_what_they_mean_to_git(write: Write) -> None:
    root = write(*TREE)
    git = ["git", "-c", "core.excludesFile=", "-C", str(root)]
    subprocess.run([*git, "init", "-q"], check=True)
    for lines in LINES:
        for name in (".gitignore", ".kbignore"):
            (root / name).write_text("\n".join(lines), encoding="utf-8")
        listed = [*git, "ls-files", "-z", "--others", "--exclude-standard"]
        taken = subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split("\0")
        assert found(look(root)) == sorted(name for name in taken if name in TREE), lines


@pytest.mark.parametrize(
    ("lines", "read"),
    [
        (["*.md"], ["a.md", "sub/a.md", "sub/deep/a.md"]),
        (["/sub/"], ["sub/a.md", "sub/b.txt", "sub/deep/a.md"]),
        (["sub/", "!*.txt"], ["sub/a.md", "sub/deep/a.md"]),
        (["sub/deep/a.md", "/a.*"], ["a.md", "sub/deep/a.md"]),
        (["sub/*.txt"], ["sub/b.txt"]),
    ],
)
def test_include_reads_what_it_matches_and_all_below_a_folder_that_it_matches(
    write: Write, lines: list[str], read: list[str]
) -> None:
    root = write("a.md", "sub/a.md", "sub/b.txt", "sub/deep/a.md", "other/c.txt")
    assert found(look(root, include=lines)) == read
    assert found(look(root, only=lines)) == read


def test_a_name_is_matched_in_either_unicode_spelling_and_in_any_script(write: Write) -> None:
    root = write(unicodedata.normalize("NFD", "é.md"), "ポリシー/a.md", "退款.md", "b.md")
    lines = [unicodedata.normalize("NFC", "é.md"), unicodedata.normalize("NFD", "ポリシー/"), "退?.md"]
    assert found(look(root, exclude=lines)) == ["b.md"]


# Where patterns stand


def test_a_deeper_file_comes_before_those_above_it_and_counts_from_its_own_folder(write: Write) -> None:
    texts = {".kbignore": "b.md\n", "sub/.kbignore": "!b.md\n/a.md\n"}
    assert found(look(write("a.md", "b.md", "sub/a.md", "sub/b.md", "sub/deep/a.md", **texts))) == [
        "a.md",
        "sub/b.md",
        "sub/deep/a.md",
    ]


def test_no_kbignore_brings_back_what_the_settings_exclude(write: Write) -> None:
    root = write("a.md", "private/b.md", "c.txt", **{".kbignore": "!private/\n!b.md\n!*.txt\n"})
    assert found(look(root, exclude=["private/"], include=["*.md"])) == ["a.md"]


def test_every_reason_names_the_pattern_and_where_it_stands_and_a_folder_is_one_entry(write: Write) -> None:
    root = write("a.md", "b.md", "drafts/x.md", "drafts/y.md", "sub/c.md", "sub/d.txt", "old/e.md")
    write(**{".kbignore": "# not finished\ndrafts/\n", "sub/.kbignore": "c.*\n"})
    walked = look(root, exclude=["b.md"], include=["*.md", "sub/"])
    assert dict(walked.skipped) == {
        ".kbignore": "no pattern of [loading] include matches it",
        "b.md": "excluded by 'b.md' in [loading] exclude",
        "drafts": "excluded by 'drafts/' in .kbignore, line 2",
        "sub/.kbignore": "it holds patterns of what is not read",
        "sub/c.md": "excluded by 'c.*' in sub/.kbignore, line 1",
    }
    assert walked.excluded == {".kbignore", "b.md", "drafts", "sub/c.md"}
    assert "old" in dict(look(root, include=["/sub/", "/a.md"]).skipped), "no pattern leads into it"


def test_what_only_passes_over_is_no_entry_at_all(write: Write) -> None:
    walked = look(write("a.md", "b.md", "picture.png", "sub/c.md", "other/d.md"), only=["/a.md", "/sub/"])
    assert (found(walked), walked.skipped) == (["a.md", "sub/c.md"], ())


@pytest.mark.parametrize("linked", ["public.md", "z/public.md"])
def test_a_link_to_what_is_excluded_is_read_under_its_own_name_and_one_to_what_is_read_is_not(
    write: Write, linked: str
) -> None:
    root = write("archive/v3.md", "current/v4.md", "z/.kbignore")
    for name, target in ((linked, "archive/v3.md"), ("again.md", "current/v4.md")):
        (root / name).symlink_to(root / target)
    assert found(look(root, exclude=["archive/"])) == ["current/v4.md", linked]
    write(**{"current/.kbignore": "*"})
    assert found(look(root, exclude=["archive/"])) == ["again.md", linked], "a file below is read before it is met"


# What is no pattern


@pytest.mark.parametrize("line", ["!", "[a", "a\\", "[[:alpha:]].md", "[z-a].md", "/", "**/a/**/b/**/c/**/d"])
def test_what_is_no_pattern_is_an_error_that_names_it_and_its_place(write: Write, line: str) -> None:
    root = write("a.md")
    for place in ("include", "exclude", "only"):
        with pytest.raises(ConfigError, match=r"(--only|\[loading\] (in|ex)clude): .* is no pattern"):
            look(root, **{place: [line]})
    write(**{"sub/.kbignore": f"# private\n{line}\n"})
    with pytest.raises(ConfigError, match=r"sub/\.kbignore, line 2: .* is no pattern"):
        look(root)


@pytest.mark.parametrize("line", ["", "  ", "# private/"])
def test_a_blank_line_or_a_comment_in_the_settings_is_an_error_as_somebody_meant_something(
    write: Write, line: str
) -> None:
    for place in ("include", "exclude", "only"):
        with pytest.raises(ConfigError, match="is blank or a comment"):
            look(write("a.md"), **{place: ["*.md", line]})


def test_patterns_that_only_take_away_select_nothing_which_is_an_error(write: Write) -> None:
    with pytest.raises(ConfigError, match="nothing is selected"):
        look(write("a.md"), include=["!b.md"])


def test_a_kbignore_that_cannot_be_read_ends_the_walk_rather_than_let_all_be_read(write: Write) -> None:
    root = write("a.md")
    file = root / ".kbignore"
    file.write_bytes(b"\xff\xfe*\x00")
    with pytest.raises(ConfigError, match=r"\.kbignore is no text in UTF-8"):
        look(root)
    file.write_bytes(b"# a comment\n" * 100_000)
    with pytest.raises(ConfigError, match=r"\.kbignore has more than"):
        look(root)
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(ConfigError, match=r"\.kbignore is not a file"):
        look(root)


# What it costs


def test_no_pattern_makes_matching_a_long_name_slow() -> None:
    pattern = Patterns(["*a*a*a*a*a*a*a*a*a*b", "/x/*a*a*a*a*a*b/**/*a*a*a*c"], "here")
    started = time.perf_counter()
    assert pattern.decides("a" * 255, is_folder=False) is None
    assert pattern.decides(f"x/{'a' * 255}/{'a' * 255}", is_folder=False) is None
    assert pattern.decides("a" * 200 + "b", is_folder=False) is not None
    # Tried in every way, the first would take longer than the universe is old.
    assert time.perf_counter() - started < 1
