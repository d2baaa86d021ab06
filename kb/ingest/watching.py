"""What an ingest puts into the log beside single files: its beginning, its plan, each write to the store, its end."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kb.ingest.store_process import StoreProcess
from kb.logs import event, note

if TYPE_CHECKING:
    from kb.components import Store, StoreRow
    from kb.ingest.job import Job
    from kb.ingest.lock import LockState
    from kb.ingest.plan import Plan
    from kb.ingest.report import IngestReport
    from kb.ingest.walk import Walk
    from kb.ledger.generations import Generation
    from kb.opening import CollectionStore


def say_started(job: Job, died: LockState) -> None:
    """Record what begins, and, for the person too, that the last ingest did not end."""
    event(
        "started",
        pid=os.getpid(),
        collection=job.collection,
        folder=str(job.root),
        data=str(job.folder),
        embedder=job.embedder.name,
        store=job.store.name,
        rebuild=job.rebuild,
    )
    if died.holder is not None:
        message = f"the last {died.work} ({died.holder}) was killed before its end; this one goes on from there"
        note("went on", message, holder=died.holder)


def say_planned(found: Walk, plan: Plan, generation: int, *, rebuild: bool) -> None:
    """Record what is to be done, and each file that is passed over."""
    for path, reason in found.skipped:
        event("file", path=path, outcome="skipped", reason=reason)
    event(
        "planned",
        files=len(found.files),
        skipped=len(found.skipped),
        due=len(plan.due),
        unchanged=len(plan.unchanged),
        removed=len(plan.removed),
        generation=generation,
        rebuild=rebuild,
    )


def say_finished(report: IngestReport) -> None:
    """Record the report, without its problems, which were recorded one by one."""
    counts = {name: value for name, value in report.as_dict().items() if name != "problems"}
    seconds = max(report.seconds, 0.001)
    event("finished", **counts, texts_per_second=round(report.embedded / seconds, 1))


class WatchedStore:
    """A store whose writes are recorded."""

    def __init__(
        self, opener: CollectionStore, generation: Generation, folder: Path, root: Path, beside: int | None
    ) -> None:
        """Open it.

        Args:
            opener: The collection's store.
            generation: The generation to write to.
            folder: Its folder.
            root: The folder of the collection's documents, for messages.
            beside: The descriptor of the collection's lock, to open it in a process of its own; None for this one.

        Raises:
            KbError: see `CollectionStore.open`.
        """
        self._store: Store | StoreProcess
        with _timed("store opened", store=opener.name, generation=generation.number):
            self._store = _open(opener, generation, folder, root, beside)
        self.beside = isinstance(self._store, StoreProcess)
        """Whether what `begin_upsert` begins goes on while this process does other things."""
        self.chunk_ids = self._store.chunk_ids
        self.count = self._store.count
        self.close = self._store.close

    def begin_upsert(self, rows: Sequence[StoreRow]) -> Callable[[], None]:
        """Begin to upsert; what is given waits until it is done."""
        if not isinstance(self._store, StoreProcess):
            self.upsert(rows)
            return _nothing
        started, wait = time.perf_counter(), self._store.begin_upsert(rows)

        def finish() -> None:
            wait()
            _written(len(rows), started)

        return finish

    def upsert(self, rows: Sequence[StoreRow]) -> None:
        """As `Store`."""
        started = time.perf_counter()
        self._store.upsert(rows)
        _written(len(rows), started)

    def delete(self, chunk_ids: Sequence[str]) -> None:
        """As `Store`."""
        with _timed("store rows deleted", rows=len(chunk_ids)):
            self._store.delete(chunk_ids)


def _open(
    opener: CollectionStore, generation: Generation, folder: Path, root: Path, beside: int | None
) -> Store | StoreProcess:
    if beside is not None:
        opener.check_files(folder)
        section = opener.settings.store
        place = opener.place(generation, folder, root)
        try:
            return StoreProcess(section.use, section.options(section.use), place, beside)
        except OSError as error:  # slower without
            event("store process not started", reason=str(error.strerror))
    return opener.open(generation, folder, root)


def _nothing() -> None:
    return


def _written(rows: int, started: float) -> None:
    event("store written", rows=rows, seconds=round(time.perf_counter() - started, 3))


@contextmanager
def _timed(name: str, **fields: object) -> Iterator[None]:
    """Record what was done inside, with the seconds it took."""
    started = time.perf_counter()
    yield
    event(name, **fields, seconds=round(time.perf_counter() - started, 3))
