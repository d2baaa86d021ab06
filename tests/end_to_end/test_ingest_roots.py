"""No wipe by mistake: which folder is taken, which is refused, and what is never read."""

from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kb.errors import ConfigError, RemovalRefusedError
from pipelines import ingest as command
from tests.end_to_end._bases import NUMBERS, UNREADABLE, Place, a_text

ROOT = Path(__file__).parents[2]
links = pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A collection of twelve documents."""
    place = Place(tmp_path / "documents", tmp_path / "data")
    for number in NUMBERS:
        place.write(f"{number}.md", a_text([number]))
    place.ingest()
    return place


def another_folder(place: Place) -> Path:
    other = place.documents.with_name("other")
    other.mkdir()
    (other / "one.md").write_text(a_text(["one"]), encoding="utf-8")
    return other


def a_missing_folder(place: Place) -> Path:
    place.documents.rename(place.documents.with_name("moved"))
    return place.documents


def an_emptied_folder(place: Place) -> Path:
    for file in place.documents.iterdir():
        file.unlink()
    return place.documents


def a_folder_that_lost_seven_of_twelve(place: Place) -> Path:
    for number in NUMBERS[:7]:
        (place.documents / f"{number}.md").unlink()
    return place.documents


@pytest.mark.parametrize(
    ("change", "removed", "left"),
    [
        (another_folder, 12, 1),
        (a_missing_folder, 12, 0),
        (an_emptied_folder, 12, 0),
        (a_folder_that_lost_seven_of_twelve, 7, 5),
    ],
)
@pytest.mark.parametrize("rebuild", [False, True])
def test_a_run_that_would_remove_much_is_refused_with_counts_and_done_when_allowed(
    place: Place, change: Callable[[Place], Path], removed: int, left: int, rebuild: bool
) -> None:
    before = place.contents()
    folder = change(place)
    with pytest.raises(RemovalRefusedError, match="nothing was changed") as refused:
        place.ingest(folder, rebuild=rebuild)
    assert (refused.value.removed, refused.value.total) == (removed, 12)
    assert str(folder) in str(refused.value)
    assert place.contents() == before
    report = place.ingest(folder, rebuild=rebuild, allow_removals=True)
    assert (report.removed, report.chunks_total, report.embedded) == (12 - left, left, 0)
    assert len(place.contents()) == left
    if left:
        assert place.ingest(folder).unchanged == left, "the folder is the collection's own from now on"


@pytest.mark.parametrize(
    ("change", "removed"),
    [
        (another_folder, 12),
        (a_missing_folder, 12),
        (an_emptied_folder, 12),
        (a_folder_that_lost_seven_of_twelve, 7),
    ],
)
@pytest.mark.parametrize("dry_run", [False, True])
def test_looking_at_some_files_only_wipes_no_more_than_looking_at_all(
    place: Place, change: Callable[[Place], Path], removed: int, dry_run: bool
) -> None:
    before = place.contents()
    folder = change(place)
    with pytest.raises(RemovalRefusedError, match="nothing was changed") as refused:
        place.ingest(folder, only="*.md", dry_run=dry_run)
    assert (refused.value.removed, refused.value.total) == (removed, 12)
    assert place.contents() == before


def test_an_empty_folder_takes_nothing_of_what_only_names_and_a_folder_in_use_does(place: Place) -> None:
    """A disk that is not mounted is an empty folder; a file that was deleted leaves its neighbours."""
    (place.documents / "one.md").unlink()
    assert place.ingest(only="/one.md").removed == 1
    before = place.contents()
    an_emptied_folder(place)
    with pytest.raises(RemovalRefusedError, match="holds no document now"):
        place.ingest(only="/two.md")
    assert place.contents() == before
    place.write("notes.log", "no document")
    assert place.ingest(only="/two.md").removed == 1


def test_much_of_what_only_names_does_not_go_at_once_however_large_the_rest_is(place: Place) -> None:
    for other in range(30):
        place.write(f"rest/{other}.md", a_text([f"rest{other}"]))
    place.ingest()
    for name in NUMBERS[:7]:
        (place.documents / f"{name}.md").unlink()
    with pytest.raises(RemovalRefusedError, match="7 of 12 documents"):
        place.ingest(only="/*.md")
    assert place.ingest(only="/*.md", allow_removals=True).removed == 7


def test_half_of_the_documents_or_most_of_a_few_may_go_without_a_question(place: Place) -> None:
    for number in NUMBERS[:6]:
        (place.documents / f"{number}.md").unlink()
    assert place.ingest().removed == 6
    for number in NUMBERS[6:11]:
        (place.documents / f"{number}.md").unlink()
    assert place.ingest().removed == 5


def test_files_that_never_became_documents_may_go_without_a_question(place: Place) -> None:
    for number in range(20):
        place.write(f"bad{number}.md", UNREADABLE)
    assert place.ingest().failed == 20
    for number in range(20):
        (place.documents / f"bad{number}.md").unlink()
    report = place.ingest()
    assert (report.unchanged, report.failed, report.chunks_removed) == (12, 0, 0)


def test_a_misspelt_folder_wipes_nothing_even_when_removals_are_allowed(place: Place) -> None:
    before = place.contents()
    with pytest.raises(RemovalRefusedError, match="does not exist"):
        place.ingest(place.documents.with_name("documnets"), allow_removals=True)
    assert place.contents() == before


def test_the_command_says_what_it_refuses_and_exits_with_2(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place.data.parent)
    monkeypatch.setenv("KB_DATA_DIR", str(place.data))
    monkeypatch.setenv("KB_EMBEDDING__USE", "hashing")
    monkeypatch.setenv("KB_STORE__USE", "memory")
    folder = a_folder_that_lost_seven_of_twelve(place)
    assert command.main([str(folder)]) == 2
    assert "error: 7 of 12 documents" in capsys.readouterr().err
    assert command.main([str(folder), "--allow-removals"]) == 0


def test_a_first_ingest_of_an_empty_or_missing_folder_is_an_error_that_names_it(tmp_path: Path) -> None:
    place = Place(tmp_path / "documents", tmp_path / "data")
    for allowed in (False, True):
        with pytest.raises(ConfigError, match="does not exist"):
            place.ingest(allow_removals=allowed)
    place.documents.mkdir()
    place.write("picture.png", b"no document")
    for allowed in (False, True):
        with pytest.raises(ConfigError, match="holds no document") as error:
            place.ingest(allow_removals=allowed)
    assert str(place.documents) in str(error.value)
    place.write("a.md", a_text(["one"]))
    assert place.ingest().indexed == 1


@links
def test_a_link_or_another_spelling_of_the_folder_is_the_same_root(place: Place, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(place.documents, target_is_directory=True)
    up_and_down = place.documents / ".." / "documents"
    spellings: list[Path | str] = [link, f"{place.documents}{os.sep}", up_and_down, place.documents]
    for spelling in spellings:
        assert place.ingest(spelling).unchanged == 12


def test_a_folder_that_has_moved_costs_no_embedding_once_it_is_allowed(place: Place) -> None:
    moved = place.documents.with_name("moved")
    place.documents.rename(moved)
    with pytest.raises(RemovalRefusedError, match="another folder"):
        place.ingest(moved)
    report = place.ingest(moved, allow_removals=True)
    assert (report.unchanged, report.removed, report.embedded) == (12, 0, 0)
    assert place.ingest(moved).unchanged == 12


@pytest.mark.parametrize("data", ["data", "deep/below/data", "."])
def test_the_data_folder_is_never_ingested_wherever_it_lies(tmp_path: Path, data: str) -> None:
    place = Place(tmp_path / "documents", tmp_path / "documents" / data)
    place.write("a.md", a_text(["one"]))
    place.ingest()
    (place.folder / "generations" / "note.md").write_text("Not a document.", encoding="utf-8")
    (place.folder / "note.md").write_text("Not a document.", encoding="utf-8")
    if place.data != place.documents:
        (place.data / "note.md").write_text("Not a document.", encoding="utf-8")
    report = place.ingest()
    assert (report.unchanged, report.indexed, report.skipped) == (1, 0, 1)
    assert {source for source, _, _ in place.contents().values()} == {"a.md"}
    assert "keeps its data" in report.problems[0].reason


@pytest.mark.parametrize("data", ["data", "."])
def test_a_root_that_is_not_there_is_not_made_for_the_data_that_lies_in_it(tmp_path: Path, data: str) -> None:
    """On the bare mount point it would look as if the disk held nothing, and hide below it when it is back."""
    place = Place(tmp_path / "documents", tmp_path / "documents" / data)
    place.write("a.md", a_text(["one"]))
    place.ingest()
    away = place.documents.rename(tmp_path / "away")
    ways: list[dict[str, Any]] = [{}, {"allow_removals": True}, {"rebuild": True}, {"dry_run": True}]
    for how in ways:
        with pytest.raises(ConfigError, match="does not exist"):
            place.ingest(**how)
        assert not place.documents.exists()
    away.rename(place.documents)
    assert place.ingest().unchanged == 1


@pytest.mark.parametrize("data", ["data", "deep/below/data"])
def test_no_pattern_brings_the_data_folder_in(tmp_path: Path, data: str) -> None:
    place = Place(tmp_path / "documents", tmp_path / "documents" / data)
    place.write("a.md", a_text(["one"]))
    place.write(".kbignore", "*\n!*/\n!*.md\n")
    place.ingest()
    (place.data / "note.md").write_text("Not a document.", encoding="utf-8")
    included = {"loading": {"isolated": False, "include": ["*.md"]}}
    ways: list[dict[str, Any]] = [{"only": ["*.md", f"/{data}/"]}, {"options": included}]
    for how in ways:
        report = place.ingest(**how)
        assert (report.unchanged, report.indexed) == (1, 0)
        assert "keeps its data" in {problem.path: problem.reason for problem in report.problems}[data]


SLOW = """
import time
from pathlib import Path
from tests.end_to_end._bases import CountingEmbedder, Place

class Slow(CountingEmbedder):
    def embed_documents(self, texts):
        time.sleep(0.5)
        return super().embed_documents(texts)

place = Place(Path({documents!r}), Path({data!r}), embedder=Slow(batch_texts=2))
base = place.open(ingest={{"batch_chunks": 4}})
base._quiet = {quiet}
base.ingest()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals there")
@pytest.mark.parametrize(("terminal", "quiet"), [(True, False), (True, True), (False, False)])
def test_progress_is_shown_on_a_terminal_only_and_not_when_quiet(tmp_path: Path, terminal: bool, quiet: bool) -> None:
    import pty
    import termios

    place = Place(tmp_path / "documents", tmp_path / "data")
    for number in NUMBERS:
        place.write(f"{number}.md", a_text([number]))
    names = {"documents": str(place.documents), "data": str(place.data)}
    ours, theirs = pty.openpty() if terminal else os.pipe()
    if terminal:
        termios.tcsetwinsize(ours, (24, 120))
    try:
        subprocess.run(
            [sys.executable, "-c", SLOW.format(**names, quiet=quiet)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stderr=theirs,
            check=True,
            timeout=120,
        )
        shown = b""
        while select.select([ours], [], [], 0.2)[0]:
            shown += os.read(ours, 100_000)
    finally:
        os.close(ours)
        os.close(theirs)
    if terminal and not quiet:
        # Files, chunks, their rate, the time since the start and the time left; then the line is wiped out.
        assert re.search(rb" [1-9]/12 files, \d chunks, [\d.]+/s \[00:0\d<00:\d\d\]", shown)
        assert re.search(rb" 12/12 files, 1[02] chunks, [\d.]+/s \[00:0\d<00:00\]", shown)
        assert re.search(rb"\r +\r$", shown)
    else:
        assert shown == b""


def test_a_copy_of_data_and_documents_goes_on_elsewhere_once_it_is_allowed(place: Place, tmp_path: Path) -> None:
    copy = Place(tmp_path / "copy" / "documents", tmp_path / "copy" / "data")
    shutil.copytree(place.documents, copy.documents)
    shutil.copytree(place.data, copy.data)
    report = copy.ingest(allow_removals=True)
    assert (report.unchanged, report.embedded, report.chunks_total) == (12, 0, 12)
    assert copy.contents() == place.contents()
