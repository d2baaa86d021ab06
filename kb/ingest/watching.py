"""What an ingest puts into the log beside single files: its beginning, its plan, each write to the store, its end."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

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


def open_watched(opener: CollectionStore, generation: Generation, folder: Path, root: Path) -> Store:
    """Open a store whose writes are recorded."""
    with _timed("store opened", store=opener.name, generation=generation.number):
        return _WatchedStore(opener.open(generation, folder, root))


class _WatchedStore:
    """A store; see `Store` in kb/components.py."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.delete_document = store.delete_document
        self.search = store.search
        self.vectors = store.vectors
        self.chunk_ids = store.chunk_ids
        self.count = store.count
        self.close = store.close

    def upsert(self, rows: Sequence[StoreRow]) -> None:
        with _timed("store written", rows=len(rows)):
            self._store.upsert(rows)

    def delete(self, chunk_ids: Sequence[str]) -> None:
        with _timed("store rows deleted", rows=len(chunk_ids)):
            self._store.delete(chunk_ids)


@contextmanager
def _timed(name: str, **fields: object) -> Iterator[None]:
    """Record what was done inside, with the seconds it took."""
    started = time.perf_counter()
    yield
    event(name, **fields, seconds=round(time.perf_counter() - started, 3))
