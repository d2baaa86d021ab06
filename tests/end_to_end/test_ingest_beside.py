"""An ingest with much to write has the store open in a process of its own: nothing else may differ."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import kb.ingest.run
import kb.ingest.store_process
from kb.errors import ServiceError, StoreDiedError, StoreError
from kb.ingest.store_process import StoreProcess
from tests.commands import ROOT
from tests.end_to_end._bases import NUMBERS, CountingEmbedder, Place, a_text

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a process there cannot inherit the lock")

SMALL_BATCHES: dict[str, Any] = {"ingest": {"batch_chunks": 4}}
PATIENCE_SECONDS = 60.0


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> list[StoreProcess]:
    """Have it so however little there is to write; gives the processes that were started."""
    started: list[StoreProcess] = []
    original = StoreProcess.__init__

    def noted(self: StoreProcess, *arguments: Any) -> None:
        original(self, *arguments)
        started.append(self)

    monkeypatch.setattr(kb.ingest.run, "_BESIDE_FROM_BYTES", 0)
    monkeypatch.setattr(StoreProcess, "__init__", noted)
    return started


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path / "documents", tmp_path / "data", "chroma", CountingEmbedder())
    for name, word in (("a.md", "apple"), ("梅.md", "梅"), ("c.md", "cherry")):
        place.write(name, a_text([f"{word} {number}" for number in NUMBERS[:5]]))
    return place


def pid_of(process: StoreProcess) -> int:
    return process._process.pid


def waits_until(true: Callable[[], bool]) -> bool:
    until = time.monotonic() + PATIENCE_SECONDS
    while not true() and time.monotonic() < until:
        time.sleep(0.02)
    return true()


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def before(monkeypatch: pytest.MonkeyPatch, name: str, call: int, do: Callable[[StoreProcess], None]) -> None:
    """Do something before the `call`-th call of a method of StoreProcess."""
    original, calls = getattr(StoreProcess, name), iter(range(1, 1000))

    def changed(self: StoreProcess, *arguments: Any) -> Any:
        if next(calls) == call:
            do(self)
        return original(self, *arguments)

    monkeypatch.setattr(StoreProcess, name, changed)


@pytest.mark.parametrize("store", ["chroma", "faiss"])
def test_the_collection_is_the_same_as_without_and_so_it_is_after_edits(
    place: Place, store: str, processes: list[StoreProcess], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place = replace(place, store=store)
    alone = Place(place.documents, tmp_path / "alone", store, CountingEmbedder())
    with place.open(**SMALL_BATCHES) as base:
        report = base.ingest()
        assert (report.indexed, report.chunks_total, report.embedded) == (3, 15, 15)
        assert base.search("梅 three", cutoff=0.3).hits[0].source == "梅.md"
        place.write("c.md", a_text(["cherry one", "quince"]))
        place.write("d.md", a_text(["damson"]))
        (place.documents / "a.md").unlink()
        report = base.ingest()
        assert (report.indexed, report.removed, report.embedded, report.chunks_removed) == (2, 1, 2, 9)
        assert base.search("quince", cutoff=0.3).hits[0].source == "c.md"
        assert not any(hit.source == "a.md" for hit in base.search("apple one", cutoff=0.3).hits)
    assert len(processes) == 2
    assert all(is_gone(pid_of(process)) for process in processes)
    monkeypatch.setattr(kb.ingest.run, "_BESIDE_FROM_BYTES", 1 << 40)
    alone.ingest()
    assert len(processes) == 2, "there was little to write"
    assert place.contents() == alone.contents()


def test_what_the_embedding_fails_at_costs_only_its_own_batch(place: Place, processes: list[StoreProcess]) -> None:
    broken = place.with_embedder(CountingEmbedder(fails_after=12))
    with pytest.raises(ServiceError):
        broken.ingest(options=SMALL_BATCHES)
    assert {source for source, *_ in place.contents().values()} == {"a.md", "c.md"}, "two batches were written"
    assert place.ingest().unchanged == 2


@pytest.mark.parametrize(("name", "call"), [("begin_upsert", 2), ("_done", 2), ("close", 1)])
def test_a_process_that_is_killed_ends_the_ingest_and_the_next_one_goes_on(
    place: Place, processes: list[StoreProcess], monkeypatch: pytest.MonkeyPatch, name: str, call: int
) -> None:
    with monkeypatch.context() as patch:
        before(patch, name, call, lambda process: os.kill(pid_of(process), signal.SIGKILL))
        if name == "close":
            place.ingest(options=SMALL_BATCHES)  # all was done
        else:
            with pytest.raises(StoreDiedError, match=r"was killed \(SIGKILL\).*Start the ingest again"):
                place.ingest(options=SMALL_BATCHES)
    report = place.ingest(options=SMALL_BATCHES)
    assert (report.indexed + report.unchanged, report.failed) == (3, 0)
    assert len(place.contents()) == 15
    assert isinstance(place.embedder, CountingEmbedder)
    assert len(place.embedder.sent) == 15, "none was embedded twice"


def test_an_index_that_it_left_damaged_is_filled_again_by_the_next_ingest(
    place: Place, processes: list[StoreProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_and_kill(process: StoreProcess) -> None:
        os.kill(pid_of(process), signal.SIGKILL)
        process._process.wait()
        (database,) = place.folder.glob("generations/*/chroma.sqlite3")
        with database.open("r+b") as file:
            file.truncate(database.stat().st_size - 100)

    with monkeypatch.context() as patch:
        before(patch, "begin_upsert", 2, cut_and_kill)
        with pytest.raises(StoreDiedError):
            place.ingest(options=SMALL_BATCHES)
    assert place.ingest().failed == 0
    assert len(place.contents()) == 15


def test_errors_of_the_store_arrive_as_they_are(place: Place, processes: list[StoreProcess]) -> None:
    other = {"chroma": {"max_neighbors": 24}, "use": "chroma"}
    place.ingest()
    place.write("d.md", a_text(["damson"]))
    with pytest.raises(StoreError, match=r"was created with max_neighbors = 16, but .* says 24"):
        place.ingest(options={"store": other})
    assert is_gone(pid_of(processes[0]))


def test_where_no_process_can_be_started_this_one_writes(
    place: Place, processes: list[StoreProcess], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", str(tmp_path / "none"))
        assert place.ingest(options=SMALL_BATCHES).indexed == 3
    assert processes == []
    assert len(place.contents()) == 15


INGEST_AND_STOP = """
import os, signal, sys
from pathlib import Path
import kb.ingest.run
from kb.ingest.store_process import StoreProcess
from tests.end_to_end._bases import CountingEmbedder, Place

def stop(self):
    # Whoever dies now leaves a process that has just been given rows.
    os.kill(self._process.pid, signal.SIGSTOP)
    print(self._process.pid, flush=True)
    sys.stdin.read()

kb.ingest.run._BESIDE_FROM_BYTES = 0
StoreProcess._done = stop
Place(Path(sys.argv[1]), Path(sys.argv[2]), "chroma", CountingEmbedder()).ingest()
"""


@pytest.fixture
def stopped(place: Place) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """An ingest in a process of its own, waiting for its store's process, which stands still."""
    process = subprocess.Popen(
        [sys.executable, "-c", INGEST_AND_STOP, str(place.documents), str(place.data)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        try:
            yield process, int(process.stdout.readline())
        finally:
            process.kill()


def test_after_a_kill_no_process_is_left_and_the_next_ingest_goes_on(
    place: Place, stopped: tuple[subprocess.Popen[str], int]
) -> None:
    process, store_pid = stopped
    process.kill()
    process.wait()
    # On Linux the kernel ends it with its parent; elsewhere it ends after its call, which here it never does.
    if sys.platform != "linux":
        os.kill(store_pid, signal.SIGKILL)
    report = place.ingest()
    assert waits_until(lambda: is_gone(store_pid))
    assert (report.indexed, report.embedded, len(place.contents())) == (3, 0, 15)


def test_ctrl_c_does_not_wait_for_a_write(place: Place, stopped: tuple[subprocess.Popen[str], int]) -> None:
    process, store_pid = stopped
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=PATIENCE_SECONDS)
    assert time.monotonic() - began < 2.0
    assert said.endswith("KeyboardInterrupt\n"), said
    assert is_gone(store_pid)
    report = place.ingest()
    assert (report.indexed, report.embedded, len(place.contents())) == (3, 0, 15)
