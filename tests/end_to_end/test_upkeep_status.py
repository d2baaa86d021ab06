"""What `status` says is so: files, coverage, what was refused, unused vectors, who writes, how the last run ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from kb.errors import KbError, LockedError, NothingIngestedError, ServiceError
from kb.ingest.lock import lock_state, write_lock
from kb.maintenance import in_words
from kb.maintenance.prune import Pruned
from kb.maintenance.status import Status
from tests.commands import ROOT, run
from tests.end_to_end._bases import NUMBERS, UNREADABLE, CountingEmbedder, Place, a_text
from tests.end_to_end.test_ingest_interrupted import interrupted_at
from tests.lock_holder import another_process_holding

STATUS = "pipelines.status"


def a_collection(tmp_path: Path, embedder: CountingEmbedder | None = None) -> Place:
    place = Place(tmp_path / "documents", tmp_path / "data", embedder=embedder or CountingEmbedder())
    place.write("a.md", a_text(NUMBERS[:4]))
    place.write("b.md", a_text(["zebra"]))
    place.ingest()
    return place


def status_of(place: Place) -> Status:
    with place.open() as base:
        return base.status()


def prune(place: Place) -> Pruned | None:
    with place.open() as base:
        return base.upkeep.prune()


def kill_an_ingest(place: Place) -> int:
    """Leave the lock as an ingest leaves it that is killed; gives the process."""
    with another_process_holding(place.folder) as process:
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=10)
        return process.pid


# Files, chunks, coverage


def test_nothing_that_was_ingested_is_missing_from_the_status(tmp_path: Path) -> None:
    place = a_collection(tmp_path)
    status = status_of(place)
    assert (status.collection, status.folder, status.root) == ("knowledge_base", place.folder, place.documents)
    assert (status.files, status.documents, status.failed, status.failures) == (2, 2, 0, ())
    assert (status.chunks, status.with_vector, status.coverage, status.set_aside) == (5, 5, 1.0, ())
    assert (status.embedder, status.dimension, status.store, status.store_fault) == ("counting:64", 64, "memory", None)
    assert (status.vectors.vectors, status.vectors.bytes, status.vectors.unused) == (5, 5 * 64 * 4, 0)
    assert status.sizes.ledger == sum(file.stat().st_size for file in place.folder.glob("ledger.sqlite*"))
    assert status.sizes.store == sum(file.stat().st_size for file in (place.folder / "generations" / "1").iterdir())
    assert status.sizes.free > 0
    assert (status.lock.held, status.died, status.building) == (False, False, None)
    assert json.loads(json.dumps(status.as_dict()))["coverage"] == 1.0


def test_a_refused_passage_is_named_with_its_place_and_reason_and_lowers_the_coverage(tmp_path: Path) -> None:
    place = Place(tmp_path / "documents", tmp_path / "data", embedder=CountingEmbedder(refuses="giraffe"))
    text = a_text([*NUMBERS, "giraffe"])
    place.write("a.md", text)
    place.write("b.md", a_text(["zebra"]))
    place.ingest()
    status = status_of(place)
    (aside,) = status.set_aside
    assert (aside.path, aside.passage.reason) == ("a.md", "the service does not like it")
    assert "giraffe" in text[aside.passage.start : aside.passage.end]
    assert (status.chunks, status.with_vector, status.coverage) == (13, 13, 13 / 14)
    told = in_words.of_status(status)
    assert "chunks:      13 of 14 with a vector, 1 set aside: coverage 92.8 %\n" in told
    assert f"set aside:   a.md, characters {aside.passage.start}-{aside.passage.end}: the service does" in told
    (failure,) = status.failures
    assert (failure.path, failure.kept) == ("a.md", True)

    place.with_embedder(CountingEmbedder()).ingest()
    status = status_of(place)
    assert (status.coverage, status.set_aside, status.failures) == (1.0, (), ())

    place.write("c.md", a_text(["giraffe c"]))
    place.ingest()
    assert len(status_of(place).set_aside) == 1
    (place.documents / "c.md").unlink()
    place.ingest()
    assert status_of(place).set_aside == ()


def test_coverage_is_never_rounded_up_to_all() -> None:
    assert in_words.as_share(1.0) == "100 %"
    assert in_words.as_share(99_999 / 100_000) == "99.9 %"


def test_files_that_failed_are_named_with_the_reason_and_whether_they_can_still_be_found(tmp_path: Path) -> None:
    place = a_collection(tmp_path)
    place.write("b.md", UNREADABLE)
    place.write("c.md", UNREADABLE)
    place.write("d.unknown", "skipped")
    place.ingest()
    status = status_of(place)
    assert [(one.path, one.kept) for one in status.failures] == [("b.md", True), ("c.md", False)]
    assert all(one.reason for one in status.failures)
    assert "files:       3 known, 1 indexed, 2 failed, 1 skipped in the last run\n" in in_words.of_status(status)


def test_a_rebuild_that_was_interrupted_is_shown(tmp_path: Path) -> None:
    place = a_collection(tmp_path)
    with pytest.raises(ServiceError):
        place.with_embedder(CountingEmbedder(dimension=32, fails_after=0)).ingest(rebuild=True)
    building = status_of(place).building
    assert building is not None
    assert (building.number, building.embedder, building.chunks) == (2, "counting:32", 0)


# Runs and the lock


def test_the_last_run_is_kept_with_its_counts_however_it_ended(tmp_path: Path) -> None:
    place = a_collection(tmp_path)
    place.ingest()
    run = status_of(place).last_run
    assert run is not None
    assert (run.ended, run.error, run.counts["unchanged"], run.counts["embedded"]) == ("done", "", 2, 0)
    assert run.began.endswith("Z")

    place.write("c.md", a_text(["lion"]))
    with pytest.raises(ServiceError):
        place.with_embedder(CountingEmbedder(fails_after=0)).ingest()
    run = status_of(place).last_run
    assert run is not None
    assert (run.ended, run.error, run.counts) == ("failed", "the service is down", {})

    assert interrupted_at(5, place.ingest, r"apply\.py") == 5
    run = status_of(place).last_run
    assert run is not None
    assert run.ended == "interrupted"


def test_who_writes_is_shown_and_is_not_disturbed(tmp_path: Path) -> None:
    place = a_collection(tmp_path)
    with another_process_holding(place.folder) as process:
        for _ in range(3):
            lock = status_of(place).lock
            assert (lock.held, lock.work) == (True, "ingest")
            assert f"process {process.pid} on " in str(lock.holder)
        with place.open() as base, pytest.raises(LockedError, match=f"process {process.pid} "):
            base.upkeep.check()


def test_looking_at_the_lock_keeps_no_ingest_out(tmp_path: Path) -> None:
    with write_lock(tmp_path):
        pass
    (tmp_path / "lock.holder").write_text("{}")  # as a killed one leaves it, so that the lock itself is looked at
    looking = "from pathlib import Path; import sys; from kb.ingest.lock import lock_state\n"
    looking += "print(flush=True)\nwhile True: lock_state(Path(sys.argv[1]))"
    with subprocess.Popen([sys.executable, "-c", looking, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            for _ in range(100):
                with write_lock(tmp_path):
                    pass
        finally:
            process.kill()


def test_a_run_that_was_killed_is_shown_until_the_next_one_is_done(tmp_path: Path) -> None:
    place = a_collection(tmp_path)
    killed = kill_an_ingest(place)
    status = status_of(place)
    assert (status.died, status.lock.held) == (True, False)
    assert f"nobody; ingest died: process {killed} on " in in_words.of_status(status)
    with place.open() as base:
        assert base.upkeep.check().faults == ()
    run = status_of(place).last_run  # the check has taken the lock over, and yet nothing is forgotten
    assert run is not None
    assert (run.ended, f"process {killed} " in run.error) == ("died", True)
    place.ingest()
    run = status_of(place).last_run
    assert (status_of(place).died, run is not None and run.ended) == (False, "done")


# Unused vectors


def test_vectors_that_no_chunk_uses_are_counted_and_pruned_and_the_disk_gets_its_space_back(tmp_path: Path) -> None:
    place = Place(tmp_path / "documents", tmp_path / "data", embedder=CountingEmbedder(dimension=2048))
    place.write("a.md", a_text([f"{word} {number}" for word in NUMBERS for number in range(8)]))
    place.write("b.md", a_text(["zebra"]))
    place.ingest()
    (place.documents / "a.md").unlink()
    place.ingest(allow_removals=True)
    before, use = place.contents(), status_of(place).vectors
    assert (use.vectors, use.unused, use.unused_bytes) == (97, 96, 96 * 2048 * 4)
    size = status_of(place).sizes.ledger
    with place.open() as reader:
        assert len(reader.search("zebra", cutoff=0.3).hits) == 1
        pruned = prune(place)
        assert len(reader.search("zebra", cutoff=0.3).hits) == 1
    assert pruned is not None
    assert pruned.vectors == 96
    assert pruned.freed_bytes > 0.9 * use.unused_bytes
    assert status_of(place).sizes.ledger == pruned.kept_bytes == size - pruned.freed_bytes
    assert place.contents() == before
    assert len(place.found("zebra")) == 1
    assert place.ingest(rebuild=True).embedded == 0, "what is used is still paid for"
    again = prune(place)
    assert again is not None
    assert again.vectors == 0


def test_nothing_is_pruned_that_an_unfinished_ingest_has_paid_for(tmp_path: Path) -> None:
    place = a_collection(tmp_path)
    place.write("c.md", a_text([f"new {word}" for word in NUMBERS]))
    with pytest.raises(ServiceError):
        place.with_embedder(CountingEmbedder(fails_after=8)).ingest()
    assert status_of(place).vectors.unused == 8
    with pytest.raises(KbError, match=r"Finish it first: python -m pipelines\.ingest"):
        prune(place)
    place.ingest()
    kill_an_ingest(place)
    for _ in range(2):  # the first refusal has taken the lock over
        with pytest.raises(KbError, match="did not end"):
            prune(place)
    with pytest.raises(ServiceError):
        place.with_embedder(CountingEmbedder(dimension=32, fails_after=4)).ingest(rebuild=True)
    place.ingest()
    with pytest.raises(KbError, match=r"--rebuild$"):
        prune(place)


def test_a_prune_that_is_interrupted_anywhere_loses_nothing_that_is_used(tmp_path: Path) -> None:
    start = a_collection(tmp_path)
    start.write("a.md", a_text(NUMBERS[2:6]))
    start.ingest()
    expected = start.contents()
    line, lines = 0, 0
    while lines >= line:
        line += 2
        lines = interrupted_at(line, lambda: prune(start), r"prune\.py|upkeep\.py")
        assert start.contents() == expected
    assert line > 10
    assert status_of(start).vectors.unused == 0


# The command


def settings_file(folder: Path) -> Path:
    config = folder / "config.toml"
    config.write_text('documents_dir = "documents"\ndata_dir = "data"\n', encoding="utf-8")
    return config


def test_collections_of_any_name_are_shown_as_they_were_given_and_can_be_deleted(tmp_path: Path) -> None:
    settings_file(tmp_path)
    names = ["知识库", "ab", "N" * 80, "plain"]
    for name in names:
        place = Place(tmp_path / "documents", tmp_path / "data")
        place.write("a.md", a_text(["zebra"]))
        with place.open(collection=name) as base:
            base.ingest()
    listed = run(STATUS, "--all", "--json", cwd=tmp_path)
    assert listed.returncode == 0, listed.stderr
    found = json.loads(listed.stdout)["collections"]
    assert [one["collection"] for one in found] == sorted(names)
    folders = {Path(one["folder"]).name for one in found}
    assert all(folder.isascii() and 3 <= len(folder) <= 63 for folder in folders)
    assert len(folders) == len(names)
    shown = run(STATUS, "--collection", "知识库", cwd=tmp_path)
    assert shown.stdout.startswith("collection:  知识库 in ")
    gone = run(STATUS, "--delete", "N" * 80, "--yes", cwd=tmp_path)
    assert (gone.returncode, "N" * 80 in gone.stdout) == (0, True)
    left = run(STATUS, "--all", cwd=tmp_path)
    assert [line.split()[0] for line in left.stdout.splitlines()[1:]] == ["ab", "plain", "知识库"]


def test_one_collection_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    settings_file(tmp_path)
    place = a_collection(tmp_path)
    (tmp_path / "data" / "broken").mkdir()
    (tmp_path / "data" / "broken" / "ledger.sqlite").write_bytes(b"no database at all" * 100)
    done = run(STATUS, "--all", cwd=tmp_path)
    assert (done.returncode, "broken" in done.stderr) == (1, True)
    assert "knowledge_base" in done.stdout
    assert place.folder.exists()


def test_before_the_first_ingest_the_status_says_so(tmp_path: Path) -> None:
    done = run(STATUS, cwd=tmp_path)
    assert (done.returncode, "nothing has been ingested yet" in done.stdout) == (0, True)
    assert os.listdir(tmp_path) == [], "looking makes nothing"
    done = run(STATUS, "--repair", cwd=tmp_path)
    assert (done.returncode, "Ingest first" in done.stderr) == (2, True)
    with Place(tmp_path / "documents", tmp_path / "kb_data").open() as base:
        for work in (base.upkeep.check, base.upkeep.prune):
            with pytest.raises(NothingIngestedError):
                work()
    assert os.listdir(tmp_path) == []


def test_the_state_of_the_lock_is_free_where_nothing_is(tmp_path: Path) -> None:
    assert lock_state(tmp_path / "nowhere") == replace(lock_state(tmp_path), held=False)
