"""One ingest from beginning to end, under the collection's lock."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kb.errors import IndexMismatchError
from kb.ingest.apply import Applier
from kb.ingest.lock import write_lock
from kb.ingest.plan import Plan, check_removals, check_root, make_plan
from kb.ingest.report import IngestReport, Problem
from kb.ingest.walk import FoundFile, Walk, walk
from kb.ledger.ledger import Ledger

if TYPE_CHECKING:
    from kb.components import Chunker, Embedder, Store
    from kb.ledger.generations import Generation
    from kb.records import Document
    from kb.settings import IngestSection

# A bar appears only when there is something to wait for.
_BAR_DELAY_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Job:
    """What an ingest needs to know, wired by the knowledge base."""

    root: Path
    data_dir: Path
    folder: Path
    """The collection's folder, with ledger, lock and generations."""
    collection: str
    embedder: Embedder
    chunker: Chunker
    load: Callable[[FoundFile], Document]
    pipelines: Mapping[str, str]
    """The fingerprint of loader and chunker by suffix."""
    open_store: Callable[[Generation, Path], Store]
    limits: IngestSection
    rebuild: bool = False
    allow_removals: bool = False
    quiet: bool = True


def run(job: Job) -> IngestReport:
    """Bring the collection in step with the folder.

    Raises:
        RemovalRefusedError: the folder is another one, empty, or has lost much.
        IndexMismatchError: the collection was built with another embedder, and `rebuild` is not set.
        LockedError: another process is ingesting.
        KbError: a service, the store or the ledger failed; what was done by then is kept.
    """
    started = time.perf_counter()
    with write_lock(job.folder), Ledger(job.folder) as ledger:
        current = ledger.current_generation()
        documents = len(ledger.document_ids(current.number)) if current else 0
        if not job.allow_removals or not job.root.is_dir():
            check_root(job.root, ledger.root(), documents)
        found = walk(job.root, suffixes=frozenset(job.pipelines), exclude=(job.data_dir,))
        if current and not job.allow_removals:
            known = make_plan(found, ledger.sources(current.number), job.pipelines)
            check_removals(job.root, found, known, documents, job.limits)
        elif not current:
            check_removals(job.root, found, Plan((), (), (), ()), 0, job.limits)
        generation = _target(ledger, current, job)
        ledger.set_root(job.root)
        ledger.set_collection_name(job.collection)
        return _into(ledger, generation, current, found, job, started)


def _target(ledger: Ledger, current: Generation | None, job: Job) -> Generation:
    """The generation to write into: the current one, or a new one beside it for a rebuild."""
    fingerprint = job.embedder.fingerprint
    if current is not None and not job.rebuild:
        if current.fingerprint != fingerprint:
            raise IndexMismatchError(current.fingerprint, fingerprint)
        return current
    generation = ledger.begin_generation(fingerprint, job.embedder.dimension)
    if current is None:  # nothing to protect: questions may be asked while the first ingest goes on
        ledger.complete_generation(generation.number)
    return generation


def _into(
    ledger: Ledger, generation: Generation, current: Generation | None, found: Walk, job: Job, started: float
) -> IngestReport:
    """Ingest into `generation`; a rebuilt one takes its place when it is complete."""
    sources = ledger.sources(generation.number)
    plan = make_plan(found, sources, job.pipelines)
    store = _LazyStore(lambda: job.open_store(generation, ledger.generation_folder(generation)))
    if not ledger.generation_folder(generation).exists():
        ledger.forget_all_rows(generation.number)
    former = current.number if current is not None and current.number != generation.number else None
    try:
        with _Bar(len(plan.due), job.quiet) as bar:
            applier = Applier(
                ledger=ledger,
                generation=generation.number,
                former_generation=former,
                open_store=store.open,
                embedder=job.embedder,
                chunker=job.chunker,
                load=job.load,
                pipelines=job.pipelines,
                limits=job.limits,
                embedded=bar.embedded,
            )
            applier.reconcile()
            applier.remove(plan.removed)
            for source, reason in plan.hidden:
                applier.fail(source, reason)
            applier.add(plan.due, sources, bar.file_done)
        if former is not None:
            ledger.complete_generation(generation.number)
    finally:
        store.close()
    _delete_left_over(ledger, job.folder)
    return _report(ledger, generation, found, plan, applier, time.perf_counter() - started)


def _report(
    ledger: Ledger, generation: Generation, found: Walk, plan: Plan, applier: Applier, seconds: float
) -> IngestReport:
    tally = applier.tally
    hidden = {source.path for source, _ in plan.hidden}
    skipped = [Problem(path, "skipped", reason) for path, reason in found.skipped if path not in hidden]
    unchanged = len(plan.unchanged) + tally.unchanged
    return IngestReport(
        files=tally.indexed + unchanged + tally.failed + len(skipped),
        indexed=tally.indexed,
        unchanged=unchanged,
        removed=len(plan.removed),
        skipped=len(skipped),
        failed=tally.failed,
        chunks_added=tally.chunks_added,
        chunks_removed=tally.chunks_removed,
        chunks_total=ledger.counts(generation.number).chunks,
        embedded=tally.embedded,
        embedding_calls=tally.embedding_calls,
        tokens=tally.tokens,
        seconds=round(seconds, 3),
        problems=tuple(sorted((*applier.problems, *skipped), key=lambda p: (p.path, p.status, p.reason))),
    )


def _delete_left_over(ledger: Ledger, folder: Path) -> None:
    """Delete the folders of generations that the ledger no longer knows."""
    known = {ledger.generation_folder(generation).name for generation in ledger.generations()}
    generations = folder / "generations"
    for left_over in generations.iterdir() if generations.is_dir() else ():
        if left_over.name not in known:
            shutil.rmtree(left_over, ignore_errors=True)  # another process may still read it: next time


class _LazyStore:
    """Opens the store when it is first needed, so that a run without changes never does."""

    def __init__(self, opener: Callable[[], Store]) -> None:
        self._opener = opener
        self._store: Store | None = None

    def open(self) -> Store:
        """The store, opened once."""
        if self._store is None:
            self._store = self._opener()
        return self._store

    def close(self) -> None:
        """Close it when it was opened."""
        if self._store is not None:
            self._store.close()


class _Bar:
    """Progress on stderr for runs over two seconds; nothing when quiet or not a terminal."""

    def __init__(self, files: int, quiet: bool) -> None:
        self._texts = 0
        self._bar = None
        if files and not quiet and sys.stderr.isatty():
            from tqdm import tqdm

            self._bar = tqdm(total=files, unit=" files", delay=_BAR_DELAY_SECONDS, dynamic_ncols=True, file=sys.stderr)

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def embedded(self, texts: int) -> None:
        """Count embedded texts."""
        self._texts += texts
        if self._bar is not None:
            self._bar.set_postfix_str(f"{self._texts} chunks embedded")

    def file_done(self) -> None:
        """Count a file."""
        if self._bar is not None:
            self._bar.update(1)
