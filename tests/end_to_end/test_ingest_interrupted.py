"""Whatever ends a run in the middle: the old state stays searchable, and the next run finishes the work."""

from __future__ import annotations

import gc
import os
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from kb.errors import RefusedError, ServiceError
from kb.ledger.ledger import Ledger
from tests.end_to_end._bases import NUMBERS, UNREADABLE, CountingEmbedder, Place, a_text

SMALL_BATCHES = {"ingest": {"batch_chunks": 4}}
both_stores = pytest.mark.parametrize("store", ["memory", "chroma", "faiss"])


def fresh(place: Place) -> Place:
    """The same documents, in a collection of their own that no run has died in."""
    other = Place(place.documents, place.data.with_name("fresh"), place.store, CountingEmbedder())
    other.ingest()
    return other


# The embedding service


@both_stores
def test_a_service_that_dies_keeps_the_old_version_searchable_and_what_was_paid_for(tmp_path: Path, store: str) -> None:
    place = Place(tmp_path / "documents", tmp_path / "data", store, CountingEmbedder())
    place.write("a.md", a_text(["old one", "old two", "old three"]))
    place.ingest()
    place.write("a.md", a_text([f"new {number}" for number in NUMBERS]))
    dying = CountingEmbedder(fails_after=9)
    with pytest.raises(ServiceError, match="the service is down"):
        place.with_embedder(dying).ingest()
    assert len(dying.sent) == 8, "two requests of four were answered"
    assert sorted(text.split()[-2] for text in place.found("old")) == ["one", "three", "two"]
    assert place.found("twelve") == []
    healthy = CountingEmbedder()
    report = place.with_embedder(healthy).ingest()
    assert (report.indexed, report.embedded, report.chunks_added, report.chunks_removed) == (1, 4, 12, 3)
    assert set(healthy.sent).isdisjoint(dying.sent)
    assert place.contents() == fresh(place).contents()


def test_documents_finished_before_the_service_died_are_there_and_deleted_ones_are_gone(tmp_path: Path) -> None:
    place = Place(tmp_path / "documents", tmp_path / "data", embedder=CountingEmbedder())
    place.write("gone.md", a_text(["zebra"]))
    place.write("kept.md", a_text(["kept"]))
    place.ingest()
    (place.documents / "gone.md").unlink()
    place.write("a.md", a_text(NUMBERS[:4]))
    place.write("b.md", a_text(["giraffe", *NUMBERS[6:10]]))
    with pytest.raises(ServiceError):
        place.with_embedder(CountingEmbedder(fails_after=4)).ingest(options=SMALL_BATCHES)
    assert place.found("zebra") == []
    assert place.found("giraffe") == []
    assert len(place.found("three")) == 1
    assert place.ingest().unchanged == 2


def test_a_renamed_document_is_not_missed_while_the_service_is_down(tmp_path: Path) -> None:
    place = Place(tmp_path / "documents", tmp_path / "data", embedder=CountingEmbedder())
    file = place.write("old.md", a_text(["zebra"]))
    place.ingest()
    file.rename(file.with_name("renamed.md"))
    place.write("a.md", a_text(NUMBERS[:4]))
    with pytest.raises(ServiceError):
        place.with_embedder(CountingEmbedder(fails_after=0)).ingest(options=SMALL_BATCHES)
    assert len(place.found("zebra")) == 1
    assert place.ingest().removed == 1


def test_a_service_that_refuses_everything_ends_the_run_instead_of_failing_each_text(tmp_path: Path) -> None:
    place = Place(tmp_path / "documents", tmp_path / "data")
    place.write("a.md", a_text(NUMBERS))
    with pytest.raises(RefusedError, match="does not like it"):
        place.with_embedder(CountingEmbedder(refuses="part")).ingest()
    assert place.with_embedder(CountingEmbedder()).ingest().embedded == 12
    place.write("b.md", a_text(["other"]))
    with pytest.raises(RefusedError, match="does not like it"):  # 404: no such model, whatever the text
        place.with_embedder(CountingEmbedder(refuses="part", status=404)).ingest()


def test_a_first_ingest_that_embedded_nothing_does_not_bind_the_collection_to_its_embedder(tmp_path: Path) -> None:
    place = Place(tmp_path / "documents", tmp_path / "data")
    place.write("a_bad.md", UNREADABLE)
    place.write("b.md", a_text(NUMBERS[:3]))
    with pytest.raises(ServiceError):
        place.with_embedder(CountingEmbedder(fails_after=0)).ingest(options={"ingest": {"batch_chunks": 1}})
    report = place.with_embedder(CountingEmbedder(dimension=32)).ingest()
    assert (report.indexed, report.failed, report.chunks_total) == (1, 1, 3)
    assert place.generation_folders == ["2"]
    with place.open() as base:
        assert base.status().failed == 1


# Ctrl-C


def a_collection_before(place: Place) -> None:
    place.write("a.md", a_text(NUMBERS[:10]))
    place.write("b.md", a_text(["zebra", "giraffe"], title="b"))
    place.write("c.md", a_text(["lion"], title="c"))
    place.write("d.md", a_text(["tiger", "panther"], title="d"))
    place.ingest()


def a_folder_after(place: Place) -> None:
    place.write("a.md", a_text([*NUMBERS[:4], "inserted"]))
    (place.documents / "b.md").unlink()
    os.utime(place.documents / "c.md", ns=(1, 1))
    place.write("d.md", UNREADABLE)
    place.write("e.md", a_text([*NUMBERS[:6], "elephant"], title="e"))


def interrupted_at(line: int, work: Callable[[], Any], within: str = r"[/\\]kb[/\\](ingest|ledger)[/\\]") -> int:
    """Run `work` and raise KeyboardInterrupt at one line of files called so; gives the lines that were run."""
    lines = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal lines
        if not re.search(within, frame.f_code.co_filename):
            return None
        if event == "line":
            lines += 1
            if lines == line:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    return lines


# A file that was opened just when the interrupt came is closed by Python, with a warning.
@pytest.mark.filterwarnings(r"ignore:Exception ignored in. <_io\.FileIO:pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_at_any_line_leaves_each_document_whole_and_the_next_run_ends_the_same(tmp_path: Path) -> None:
    start = Place(tmp_path / "documents", tmp_path / "before", embedder=CountingEmbedder())
    a_collection_before(start)
    before = {source: start.sections(source) for source in ("a.md", "b.md", "c.md", "d.md", "e.md")}
    a_folder_after(start)

    def in_data(name: str) -> Place:
        shutil.copytree(start.data, tmp_path / name)
        return Place(start.documents, tmp_path / name, embedder=CountingEmbedder())

    whole = in_data("whole")
    lines = interrupted_at(0, lambda: whole.ingest(options=SMALL_BATCHES))
    assert lines > 500
    expected = whole.contents()
    after = {source: whole.sections(source) for source in before}
    assert after["a.md"] != before["a.md"]
    assert after["d.md"] == before["d.md"], "it can no longer be read, so it stays"
    step = lines // 40
    for number, line in enumerate(range(1, lines, step)):
        place = in_data(f"interrupted{number}")
        assert interrupted_at(line, lambda: place.ingest(options=SMALL_BATCHES)) >= line  # noqa: B023  called at once
        with Ledger(place.folder, read_only=True) as ledger:
            generation = ledger.current_generation()
            assert generation is not None
            now: dict[str, list[str]] = {source: [] for source in before}
            for found in ledger.all_chunks(generation.number):
                now[found.source].append(found.chunk.text)
        for source, sections in now.items():
            assert sections in (before[source], after[source]), f"line {line}: {source} is neither old nor new"
        assert "lion" in place.found("lion")[0]
        report = place.ingest()
        assert (report.failed, report.chunks_total) == (1, len(expected)), f"line {line}"
        assert place.contents() == expected, f"line {line}"
        assert isinstance(place.embedder, CountingEmbedder)
        twice = len(place.embedder.sent) - len(set(place.embedder.sent))
        assert twice <= place.embedder.batch_texts, f"line {line}: at most what was on its way is lost"
    gc.collect()  # so that the warning above comes here, not in the next test


def test_after_an_interrupt_at_the_store_a_run_forward_and_one_back_leave_nothing_behind(tmp_path: Path) -> None:
    start = Place(tmp_path / "documents", tmp_path / "start", embedder=CountingEmbedder())
    a_collection_before(start)
    before = start.contents()
    shutil.copytree(start.documents, tmp_path / "before")
    a_folder_after(start)
    shutil.copytree(start.documents, tmp_path / "after")
    line, lines, after = 0, 0, None
    while lines >= line:
        line += 1
        forward = replace(start, data=tmp_path / f"forward{line}")
        back = replace(start, data=tmp_path / f"back{line}")
        shutil.copytree(start.data, forward.data)
        lines = interrupted_at(line, forward.ingest, "synced_store")
        shutil.copytree(forward.data, back.data)
        forward.ingest()
        after = after or forward.contents()
        assert forward.contents() == after, f"line {line}"
        shutil.rmtree(start.documents)
        shutil.copytree(tmp_path / "before", start.documents)
        back.ingest()
        assert back.contents() == before, f"line {line}"
        shutil.rmtree(start.documents)
        shutil.copytree(tmp_path / "after", start.documents)
    assert line > 20, "the store was hardly used"
