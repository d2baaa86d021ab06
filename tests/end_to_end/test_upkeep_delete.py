"""A collection is deleted when that is meant, wholly, and again after whatever stopped it halfway."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from kb.errors import KbError, LockedError
from kb.ingest.lock import write_lock
from kb.ledger.ledger import collection_names
from tests.commands import on_terminal, run
from tests.end_to_end._bases import CountingEmbedder, Place, a_text
from tests.end_to_end.test_ingest_interrupted import interrupted_at

STATUS = "pipelines.status"


def a_collection(tmp_path: Path) -> Place:
    place = Place(tmp_path / "documents", tmp_path / "data", embedder=CountingEmbedder())
    place.write("a.md", a_text(["zebra"]))
    place.ingest()
    return place


def delete(place: Place) -> None:
    with place.open() as base:
        base.upkeep.delete()


def test_nothing_is_deleted_without_an_answer_on_a_terminal(tmp_path: Path) -> None:
    place = a_collection(tmp_path)
    variables = {"KB_DATA_DIR": str(place.data)}
    done = run(STATUS, "--delete", "knowledge_base", cwd=tmp_path, stdin="y\n", env=variables)
    assert (done.returncode, "say --yes" in done.stderr) == (2, True)
    assert len(place.contents()) == 1
    for answer, status in (("n", 1), ("", 1), ("y", 0)):
        screen = on_terminal(STATUS, "--delete", "knowledge_base", cwd=tmp_path, columns=80, **variables)
        screen.wait_for("[y/N] ")
        screen.type(f"{answer}\n")
        ended, told = screen.end()
        assert ended == status, told
        assert place.folder.exists() == (status == 1)
    assert (place.documents / "a.md").exists()


def test_a_name_that_is_not_there_is_told_with_those_that_are(tmp_path: Path) -> None:
    place = a_collection(tmp_path)
    with place.open(collection="other") as base, pytest.raises(KbError, match="there are: 'knowledge_base'"):
        base.upkeep.delete()
    with write_lock(place.folder), pytest.raises(LockedError):
        delete(place)
    assert len(place.contents()) == 1


def test_a_deletion_that_is_stopped_anywhere_can_be_given_again(tmp_path: Path) -> None:
    start = a_collection(tmp_path)
    line, lines = 0, 0
    while lines >= line:
        line += 3
        place = replace(start, data=tmp_path / f"stopped{line}")
        shutil.copytree(start.data, place.data)
        lines = interrupted_at(line, lambda: delete(place), r"maintenance.delete\.py")  # noqa: B023  called at once
        if place.folder.exists():
            delete(place)
        assert collection_names(place.data) == []
        assert not place.folder.exists()
        place.ingest()
        assert len(place.contents()) == 1, f"line {line}"
    assert line > 9


def test_an_open_reader_is_told_that_its_collection_has_gone(tmp_path: Path) -> None:
    place = a_collection(tmp_path)
    with place.open() as reader:
        assert len(reader.search("zebra", cutoff=0.3).hits) == 1
        delete(place)
        with pytest.raises(KbError, match="nothing has been ingested"):
            reader.search("zebra")
