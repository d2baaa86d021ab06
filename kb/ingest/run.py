"""One ingest from beginning to end, under the collection's lock."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Collection
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from kb.errors import IndexMismatchError, StoreError
from kb.ingest.apply import Applier, Tally
from kb.ingest.job import Job
from kb.ingest.lock import write_lock
from kb.ingest.paid_embedding import PaidEmbedding
from kb.ingest.plan import Plan, check_removals, check_root, make_plan
from kb.ingest.progress import Progress
from kb.ingest.report import IngestReport, Problem
from kb.ingest.synced_store import SyncedStore
from kb.ingest.walk import Walk, walk
from kb.ingest.watching import open_watched, say_finished, say_planned, say_started
from kb.ledger.ledger import Ledger

if TYPE_CHECKING:
    from kb.ledger.documents import SourceRow
    from kb.ledger.generations import Generation

__all__ = ["Job", "run"]


def run(job: Job) -> IngestReport:
    """Bring the collection in step with the folder.

    Raises:
        ConfigError: nothing was ingested before, and the folder is missing or holds no document.
        RemovalRefusedError: the folder is another one, missing or empty, or has lost much.
        IndexMismatchError: the collection was built with another embedder, and `rebuild` is not set.
        LockedError: another process is ingesting.
        KbError: a service, the store or the ledger failed; what was done by then is kept.
    """
    started = time.perf_counter()
    with write_lock(job.folder) as died, Ledger(job.folder) as ledger:
        say_started(job, died)
        current = ledger.current_generation()
        documents = ledger.document_ids(current.number) if current else set()
        if current is not None and documents and not job.rebuild and current.fingerprint != job.embedder.fingerprint:
            mend = job.store.ingest_command(ledger.root(), rebuild=True)
            raise IndexMismatchError(current.fingerprint, job.embedder.fingerprint, mend)
        check_root(job.root, ledger.root(), len(documents), allow_removals=job.allow_removals)
        found = _walk(job)
        known = make_plan(found, ledger.sources(current.number) if current else {}, job.pipelines)
        check_removals(job.root, found, known, documents, job.limits, allow_removals=job.allow_removals)
        target = _target(ledger, current, documents, job)
        plan = known
        if target.generation != current:
            plan = make_plan(found, ledger.sources(target.generation.number), job.pipelines)
        say_planned(found, plan, target.generation.number, rebuild=target.former is not None)
        done = _write(ledger, target, plan, known, job, after_crash=died is not None)
        _delete_left_over(ledger, job)
        report = _report(found, known, done, time.perf_counter() - started)
        say_finished(report)
        return report


@dataclass(frozen=True, slots=True)
class _Target:
    """Where a run writes."""

    generation: Generation
    former: Generation | None
    """What answers questions until `generation` is complete; None when that one does."""


@dataclass(frozen=True, slots=True)
class _Done:
    """What a run has done."""

    plan: Plan
    hidden: frozenset[str]
    """Paths of sources that could not be looked at."""
    tally: Tally
    embedding: PaidEmbedding
    chunks_before: int
    chunks: int


def _walk(job: Job) -> Walk:
    if not os.path.exists(job.root):  # allowed to be missing, so all of it has gone
        return Walk((), ())
    return walk(job.root, suffixes=frozenset(job.pipelines), exclude=(job.data_dir, job.folder))


def _target(ledger: Ledger, current: Generation | None, documents: Collection[str], job: Job) -> _Target:
    """The generation to write into: the current one, or a new one that is built beside it."""
    fingerprint = job.embedder.fingerprint
    if current is not None and not job.rebuild and current.fingerprint == fingerprint:
        _remember(ledger, job)
        return _Target(current, None)
    with ledger.transaction():
        generation = ledger.begin_generation(fingerprint, job.embedder.dimension)
        if documents:
            return _Target(generation, current)
        # Nothing to protect: questions may be asked while the first ingest goes on.
        ledger.complete_generation(generation.number)
        _remember(ledger, job)
    return _Target(generation, None)


def _remember(ledger: Ledger, job: Job) -> None:
    """Note root and name of the collection; a run that changes nothing writes nothing."""
    if ledger.root() != job.root:
        ledger.set_root(job.root)
    if ledger.collection_name() != job.collection:
        ledger.set_collection_name(job.collection)


def _write(ledger: Ledger, target: _Target, plan: Plan, known: Plan, job: Job, *, after_crash: bool) -> _Done:
    """Ingest into the target; one that is built beside the former takes its place when it is complete.

    Args:
        ledger: The ledger.
        target: Where to write.
        plan: What is to be done there.
        known: The same against what answers questions now.
        job: The job.
        after_crash: Whether the last ingest did not end.
    """
    generation, former = target.generation.number, target.former
    folder = ledger.generation_folder(target.generation)
    hidden = {source.document_id: (source, reason) for source, reason in (*plan.hidden, *known.hidden)}
    gone, perhaps_moved = _by_whether_moved(plan)
    chunks_before = ledger.counts(generation).chunks
    with Progress(len(plan.due) + len(hidden), quiet=job.quiet) as progress:
        embedding = PaidEmbedding(ledger, job.embedder, generation, progress.embedded)
        opener = partial(open_watched, job.store, target.generation, folder, job.root)
        synced = SyncedStore(ledger, generation, folder, job.store.name, opener, embedding, job.limits.batch_chunks)
        with closing(synced) as store, job.lent.bound(embedding):
            applier = Applier(job, ledger, target.generation, former, embedding, store, progress)
            store.restore(after_crash=after_crash)
            applier.remove(gone)
            applier.keep(hidden.values(), plan.sources)
            applier.add(plan.due, plan.sources)
            applier.remove(perhaps_moved)
    if former is not None:
        with ledger.transaction():
            ledger.complete_generation(generation)
            _remember(ledger, job)
    paths = frozenset(source.path for source, _ in hidden.values())
    return _Done(plan, paths, applier.tally, embedding, chunks_before, ledger.counts(generation).chunks)


def _by_whether_moved(plan: Plan) -> tuple[list[SourceRow], list[SourceRow]]:
    """Part the removed sources: those that are gone for good, and those that a new file of that size may continue.

    What is gone goes at once, whatever happens to the run later. What may have been renamed is taken
    out only when its successor can be found, so that no question misses it in between.
    """
    new_sizes = {file.size for file in plan.due if file.document_id not in plan.sources}
    gone = [source for source in plan.removed if source.size not in new_sizes]
    return gone, [source for source in plan.removed if source.size in new_sizes]


def _delete_left_over(ledger: Ledger, job: Job) -> None:
    """Delete the folders of generations that the ledger no longer knows, and what a server holds of them."""
    known = {ledger.generation_folder(generation).name for generation in ledger.generations()}
    generations = job.folder / "generations"
    for left_over in generations.iterdir() if generations.is_dir() else ():
        if left_over.name.isdecimal() and left_over.name not in known:
            try:
                job.store.drop(int(left_over.name), left_over)
            except StoreError:  # the folder stays, so that the next ingest tries again
                continue
            shutil.rmtree(left_over, ignore_errors=True)  # another process may still read it: next time


def _report(found: Walk, known: Plan, done: _Done, seconds: float) -> IngestReport:
    tally = done.tally
    skipped = [Problem(path, "skipped", reason) for path, reason in found.skipped if path not in done.hidden]
    unchanged = len(done.plan.unchanged) + tally.unchanged
    return IngestReport(
        files=tally.indexed + unchanged + tally.failed + len(skipped),
        indexed=tally.indexed,
        unchanged=unchanged,
        removed=len(known.removed),
        skipped=len(skipped),
        failed=tally.failed,
        chunks_added=done.chunks - done.chunks_before + tally.chunks_removed,
        chunks_removed=tally.chunks_removed,
        chunks_total=done.chunks,
        embedded=done.embedding.texts,
        embedding_calls=done.embedding.calls,
        tokens=done.embedding.tokens,
        seconds=round(seconds, 3),
        problems=tuple(sorted((*tally.problems, *skipped), key=lambda p: (p.path, p.status, p.reason))),
    )
