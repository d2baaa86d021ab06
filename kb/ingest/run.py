"""One ingest from beginning to end, under the collection's lock."""

from __future__ import annotations

import time
from collections.abc import Set
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from kb.ingest.apply import Applier
from kb.ingest.estimate import check_cost, dollars, rehearse
from kb.ingest.job import Job
from kb.ingest.last_run import kept_as_last
from kb.ingest.left_over import clear_damaged, delete_left_over
from kb.ingest.lock import HeldLock, write_lock
from kb.ingest.paid_embedding import PaidEmbedding
from kb.ingest.plan import Plan, hidden_sources
from kb.ingest.progress import Progress
from kb.ingest.report import IngestReport, Outcome, make_report
from kb.ingest.store_process import AVAILABLE
from kb.ingest.survey import check_data_folder, plan_for, survey
from kb.ingest.synced_store import SyncedStore
from kb.ingest.watching import WatchedStore, say_finished, say_planned, say_started
from kb.ledger.ledger import Ledger
from kb.logs import note

if TYPE_CHECKING:
    from kb.ledger.documents import SourceRow
    from kb.ledger.generations import Generation

__all__ = ["Job", "run"]

_BESIDE_FROM_BYTES = 4_000_000
"""Of documents: some 4,000 chunks of plain text, which Chroma takes 6 seconds to write."""


def run(job: Job) -> IngestReport:
    """Bring the collection in step with the folder.

    Raises:
        ConfigError, RemovalRefusedError, IndexMismatchError: see `kb.ingest.survey`; nothing was changed.
        CostRefusedError: it would cost more than `max_cost`; nothing was embedded.
        LockedError: another process is ingesting.
        KbError: a service, the store or the ledger failed; what was done by then is kept.
    """
    started = time.perf_counter()
    check_data_folder(job)
    with write_lock(job.folder) as lock, Ledger(job.folder) as ledger, kept_as_last(ledger) as done_with:
        say_started(job, lock.died)
        _go_over_to_copy(ledger, job)
        found = survey(ledger, job)
        if job.max_cost is not None:
            check_cost(rehearse(ledger, found, job), job, job.max_cost)
        target = _target(ledger, found.current, found.documents, job)
        plan = found.plan
        if target.generation != found.current:
            plan = plan_for(ledger, target.generation.number, found.found, found.selection, job)
        say_planned(found.found, plan, target.generation.number, rebuild=target.former is not None)
        clear_damaged(ledger, target.generation, job.store, lock.died)
        done = _write(ledger, target, plan, found.plan, job, lock)
        delete_left_over(ledger, job.store)
        report = done_with(make_report(found, done, time.perf_counter() - started))
        say_finished(report)
        return report


def _go_over_to_copy(ledger: Ledger, job: Job) -> None:
    """Take a copy for the collection if its store is the configured one by now; the former is left over then."""
    current = ledger.current_generation()
    if current is not None and (held := job.store.held(ledger, current)) != current:
        ledger.renumber_generation(current.number, held.number)
        note("store changed", f"the collection is in the store {job.store.name!r} from now on", store=job.store.name)


@dataclass(frozen=True, slots=True)
class _Target:
    """Where a run writes."""

    generation: Generation
    former: Generation | None
    """What answers questions until `generation` is complete; None when that one does."""


def _target(ledger: Ledger, current: Generation | None, documents: Set[str], job: Job) -> _Target:
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


def _write(ledger: Ledger, target: _Target, plan: Plan, known: Plan, job: Job, lock: HeldLock) -> Outcome:
    """Ingest into the target; one that is built beside the former takes its place when it is complete.

    Args:
        ledger: The ledger.
        target: Where to write.
        plan: What is to be done there.
        known: The same against what answers questions now.
        job: The job.
        lock: The collection's.
    """
    generation, former = target.generation.number, target.former
    folder = ledger.generation_folder(target.generation)
    hidden = hidden_sources(plan, known)
    gone, perhaps_moved = _by_whether_moved(plan)
    chunks_before = ledger.counts(generation).chunks
    with job.open_engine(plan.due) as engine, Progress(len(plan.due) + len(hidden), quiet=job.quiet) as progress:
        embedding = PaidEmbedding(ledger, engine.embedder, generation, progress.embedded)
        beside = lock.file if _takes_long(plan, job) else None
        opener = partial(WatchedStore, job.store, target.generation, folder, job.root, beside)
        synced = SyncedStore(ledger, generation, folder, job.store.name, opener, embedding, job.limits.batch_chunks)
        with closing(synced) as store, job.lent.bound(embedding):
            applier = Applier(job, engine, ledger, target.generation, former, embedding, store, progress)
            store.restore(after_crash=lock.died.holder is not None)
            applier.remove(gone)
            applier.keep(hidden, plan.sources)
            applier.add(plan.due, plan.sources)
            applier.remove(perhaps_moved)
    if former is not None:
        with ledger.transaction():
            ledger.complete_generation(generation)
            _remember(ledger, job)
    chunks = ledger.counts(generation).chunks
    return Outcome(plan, hidden, applier.tally, embedding, chunks_before, chunks, dollars(embedding.tokens, job))


def _takes_long(plan: Plan, job: Job) -> bool:
    """Whether writing the store is worth a process of its own, which takes a second of a processor to start."""
    return AVAILABLE and job.store.in_files and sum(file.size for file in plan.due) >= _BESIDE_FROM_BYTES


def _by_whether_moved(plan: Plan) -> tuple[list[SourceRow], list[SourceRow]]:
    """Part the removed sources: those that are gone for good, and those that a new file of that size may continue.

    What is gone goes at once, whatever happens to the run later. What may have been renamed is taken
    out only when its successor can be found, so that no question misses it in between.
    """
    new_sizes = {file.size for file in plan.due if file.document_id not in plan.sources}
    gone = [source for source in plan.removed if source.size not in new_sizes]
    return gone, [source for source in plan.removed if source.size in new_sizes]
