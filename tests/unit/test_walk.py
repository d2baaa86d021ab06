"""The folder walk: every file is found once or skipped with a reason, and nothing can catch the walk."""

from __future__ import annotations

import os
import socket
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest

from kb.errors import ConfigError
from kb.ingest.walk import Walk, walk
from kb.loading import document_id

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a small file below the root."""

    def write_it(*names: str) -> Path:
        for name in names:
            path = tmp_path / "root" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("words", encoding="utf-8")
        return tmp_path / "root"

    return write_it


def found(result: Walk) -> list[str]:
    return [file.relative for file in result.files]


def look(root: Path, *exclude: Path) -> Walk:
    return walk(root, {".md", ".txt", ".docx"}, exclude=exclude)


def test_documents_are_found_in_order_with_size_and_time(write: Write) -> None:
    root = write("b.md", "a/z.txt", "a/UPPER.MD", "a b/会議.md")
    result = look(root)
    assert found(result) == ["a b/会議.md", "a/UPPER.MD", "a/z.txt", "b.md"]
    assert result.skipped == ()
    file = result.files[-1]
    status = (root / "b.md").stat()
    assert (file.path, file.size, file.mtime_ns) == (root / "b.md", 5, status.st_mtime_ns)
    assert file.document_id == document_id("b.md")


def test_what_is_no_document_is_skipped_with_a_reason(write: Write) -> None:
    root = write("a.md", "~$a.docx", ".DS_Store", ".git/config.md", "node_modules/x/readme.md", "data.sfx", "LICENSE")
    result = look(root)
    assert found(result) == ["a.md"]
    reasons = dict(result.skipped)
    assert set(reasons) == {"~$a.docx", ".DS_Store", ".git", "node_modules", "data.sfx", "LICENSE"}
    assert "open in Word" in reasons["~$a.docx"]
    assert "hidden" in reasons[".git"]
    assert ".docx, .md, .txt" in reasons["data.sfx"]
    assert ".docx, .md, .txt" in reasons["LICENSE"]


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("会議録.DOC", "no loader reads .doc: an old Word file; save it as .docx"),
        ("budget.xls", "export each sheet as .csv"),
        ("slides.ppt", "save them as .pptx"),
        ("letter.odt", "save it as .docx or .pdf"),
        ("扫描件.jpeg", "run OCR"),
        ("backup.tar.gz", "unpack it"),
        ("call.mp3", "transcript"),
        ("thread.eml", "save the messages"),
        ("name.md ", "no loader reads '.md '; readable are"),
    ],
)
def test_what_no_loader_reads_is_skipped_with_what_would_help(write: Write, name: str, advice: str) -> None:
    assert advice in dict(look(write(name)).skipped)[name]


def test_a_suffix_that_a_loader_reads_is_read_whatever_is_known_about_it(write: Write) -> None:
    assert found(walk(write("old.doc"), {".doc"})) == ["old.doc"]


def test_hidden_means_hidden_below_the_root(tmp_path: Path) -> None:
    root = tmp_path / ".notes" / ".deep"
    root.mkdir(parents=True)
    (root / "a.md").write_text("words", encoding="utf-8")
    assert found(look(root)) == ["a.md"]


def test_a_folder_called_like_a_document_is_walked_into(write: Write) -> None:
    assert found(look(write("folder.md/inside.md"))) == ["folder.md/inside.md"]


def test_loops_of_links_end_and_give_no_file_twice(write: Write) -> None:
    root = write("loop/inside.md")
    (root / "loop" / "self").symlink_to(".")
    (root / "loop" / "up").symlink_to("..")
    (root / "knot.md").symlink_to("knot.md")
    result = look(root)
    assert found(result) == ["loop/inside.md"]
    assert set(dict(result.skipped)) == {"loop/self", "loop/up", "knot.md"}


def test_links_to_files_are_read_only_where_their_target_is_below_and_not_walked(write: Write, tmp_path: Path) -> None:
    root = write("a.md", "..2026/mounted.md")
    outside = tmp_path / "outside.md"
    outside.write_text("words", encoding="utf-8")
    (root / "mounted.md").symlink_to("..2026/mounted.md")
    (root / "again.md").symlink_to("a.md")
    (root / "outside.md").symlink_to(outside)
    (root / "broken.md").symlink_to("nowhere.md")
    (root / "endless.txt").symlink_to("/dev/zero")
    result = look(root)
    assert found(result) == ["a.md", "mounted.md"]
    reasons = dict(result.skipped)
    assert "which is read itself" in reasons["again.md"]
    assert "outside" in reasons["outside.md"]
    assert "does not exist" in reasons["broken.md"]
    assert "endless.txt" in reasons


def test_pipes_and_sockets_are_never_opened(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write("a.md")
    os.mkfifo(root / "pipe.md")
    monkeypatch.chdir(root)  # a socket's path may have 100 bytes at most
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind("sock.txt")
        result = look(root)
    assert found(result) == ["a.md"]
    assert set(dict(result.skipped)) == {"pipe.md", "sock.txt"}


@pytest.mark.skipif(os.geteuid() == 0, reason="the system lets root read everything")
def test_a_folder_that_cannot_be_listed_is_skipped_and_the_walk_goes_on(write: Write) -> None:
    root = write("a.md", "closed/b.md", "z.md")
    (root / "closed").chmod(0)
    try:
        result = look(root)
    finally:
        (root / "closed").chmod(0o700)
    assert found(result) == ["a.md", "z.md"]
    assert "permissions" in dict(result.skipped)["closed"]


def test_two_spellings_of_one_name_are_one_document(write: Write) -> None:
    composed, decomposed = unicodedata.normalize("NFC", "é.md"), unicodedata.normalize("NFD", "é.md")
    root = write(composed)
    other = root / decomposed
    if other.exists():
        pytest.skip("this file system keeps one spelling only")
    write(decomposed)
    result = look(root)
    assert found(result) == [composed]
    assert len(result.skipped) == 1
    assert "another Unicode spelling" in result.skipped[0][1]


def test_a_decomposed_name_gives_the_same_document_as_the_composed_one(write: Write) -> None:
    root = write(unicodedata.normalize("NFD", "ポリシー.md"))
    file = look(root).files[0]
    assert file.relative == unicodedata.normalize("NFC", "ポリシー.md")
    assert file.document_id == document_id("ポリシー.md")
    assert file.path.exists()


def test_a_name_that_is_not_unicode_is_found_and_shown_escaped(write: Write) -> None:
    root = write("a.md")
    raw = os.path.join(os.fsencode(root), b"latin1-\xe9.md")
    try:
        with open(raw, "wb") as file:
            file.write(b"words")
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    result = look(root)
    assert found(result) == ["a.md", "latin1-\\xe9.md"]
    assert result.files[1].path.read_bytes() == b"words"


@pytest.mark.parametrize("name", ["two\nlines.md", "a\tb.md", "$(x); 100%25 'q'.md", "[draft]*?{x}.md", "🚀 launch.md"])
def test_odd_names_come_through(write: Write, name: str) -> None:
    assert found(look(write(name))) == [name]


def test_the_data_folder_is_never_walked(write: Write, tmp_path: Path) -> None:
    root = write("a.md", "kb_data/generated.md")
    (root / "into.md").symlink_to("kb_data/generated.md")
    (tmp_path / "alias").symlink_to(root)
    result = look(tmp_path / "alias", root / "kb_data")
    assert found(result) == ["a.md"]
    assert set(dict(result.skipped)) == {"kb_data", "into.md"}


def test_sixty_folders_deep(write: Write) -> None:
    name = "/".join(f"d{n}" for n in range(60)) + "/deep.md"
    assert found(look(write(name))) == [name]


def test_a_missing_root_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such folder"):
        look(tmp_path / "nowhere")
