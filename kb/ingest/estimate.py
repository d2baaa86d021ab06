"""What a run would do and cost, found out without doing it.

The files are read and cut as in a run, by the same code, and their texts are compared with those that
were paid for. Nothing is embedded, and nothing is written.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kb.abilities import CountsRequests, CountsTokens, Metered
from kb.errors import CostRefusedError, NothingIngestedError
from kb.ingest.apply import Applier
from kb.ingest.batch import Batch
from kb.ingest.paid_embedding import PaidEmbedding, batches
from kb.ingest.plan import hidden_sources
from kb.ingest.progress import Progress
from kb.ingest.report import IngestReport, Outcome, Problem, make_report
from kb.ingest.survey import Survey, plan_for, survey
from kb.ingest.synced_store import SyncedStore
from kb.ledger.generations import Generation
from kb.ledger.ledger import EmptyLedger, Ledger

if TYPE_CHECKING:
    from kb.components import Embedder, FloatArray
    from kb.ingest.engine import Engine
    from kb.ingest.job import Job
    from kb.ledger.documents import SourceRow

_NOT_BEGUN = Generation(0, "", 0, "building", "")
"""The generation that a run would begin; the ledger holds nothing of it."""


def dry_run(job: Job) -> IngestReport:
    """Report what `run` would do now. It takes no lock, and a collection that is not there is not made.

    A service is asked nothing, unless the collection exists and only the service knows how long the
    model's vectors are: then for one, of a single word.

    Raises:
        KbError: what would keep `run` from doing anything, see `kb.ingest.survey`.
        CostRefusedError: the run would cost more than `max_cost`.
    """
    started = time.perf_counter()
    with _open_to_read(job.folder) as ledger:
        found = survey(ledger, job)
        done = rehearse(ledger, found, job)
        if job.max_cost is not None:
            check_cost(done, job, job.max_cost)
        return make_report(found, done, time.perf_counter() - started, dry_run=True)


def rehearse(ledger: Ledger, found: Survey, job: Job) -> Outcome:
    """Find out what a run would do after this survey; files are read, and nothing is changed."""
    generation, former = _target(ledger, found, job)
    plan = found.plan
    if generation != found.current:
        plan = plan_for(ledger, generation.number, found.found, found.selection, job)
    hidden = hidden_sources(plan, found.plan)
    chunks_before = ledger.counts(generation.number).chunks
    with job.open_engine(plan.due) as engine, Progress(len(plan.due) + len(hidden), quiet=job.quiet) as progress:
        embedding = _CountedEmbedding(ledger, job.embedder, generation.number, lambda texts: None)
        with job.lent.bound(embedding):
            applier = _Rehearsal(job, engine, ledger, generation, former, embedding, progress)
            applier.keep(hidden, plan.sources)
            applier.add(plan.due, plan.sources)
            applier.remove(plan.removed)
    if embedding.guessed:
        reason = "chunks end where sentences differ, and some were never embedded: what they give is estimated"
        applier.tally.problems.append(Problem(".", "warning", reason))
    return Outcome(
        plan,
        hidden,
        applier.tally,
        embedding,
        chunks_before,
        chunks_before + applier.more_chunks,
        dollars(embedding.tokens, job),
        _seconds_at_rate(embedding.tokens, embedding.calls, job),
    )


def dollars(tokens: int, job: Job) -> float | None:
    """What it costs to embed so many tokens; None when the price is not known."""
    embedder = job.embedder
    if not tokens or not isinstance(embedder, (Metered, CountsRequests)):
        return 0.0
    price = job.limits.prices.per_million_tokens(embedder.model) if isinstance(embedder, Metered) else None
    return None if price is None else round(tokens * price / 1_000_000, 9)


def check_cost(done: Outcome, job: Job, allowed: float) -> None:
    """Refuse what would cost more than `allowed` dollars.

    Raises:
        CostRefusedError: with the figures; or nobody knows the price.
    """
    texts = f"{done.embedding.texts:,} texts of {done.embedding.tokens:,} tokens"
    if done.dollars is None:
        model = job.embedder.model if isinstance(job.embedder, Metered) else job.embedder.name
        raise CostRefusedError(
            f"nobody knows what this run would cost: {texts} would be embedded by {model}, which has no price. Set it "
            f'below [ingest.prices], as "{model}" = 0.02 (dollars for a million tokens), or leave out --max-cost. '
            "Nothing was changed",
            dollars=None,
            allowed=allowed,
        )
    if not done.dollars <= allowed:  # of what is no number, too
        raise CostRefusedError(
            f"this run would cost ${done.dollars:.4f} ({texts}, at the price in [ingest.prices] as of "
            f"{job.limits.prices.as_of}), more than the ${allowed:.4f} of --max-cost. Nothing was changed",
            dollars=done.dollars,
            allowed=allowed,
        )


def _seconds_at_rate(tokens: int, requests: int, job: Job) -> float | None:
    """How long the rate that is set makes it take at least; None when none is."""
    embedder = job.embedder
    if not isinstance(embedder, Metered):
        return None
    rates = ((tokens, embedder.tokens_per_minute), (requests, embedder.requests_per_minute))
    minutes = [count / rate for count, rate in rates if rate]
    return round(max(minutes) * 60, 1) if minutes else None


def _open_to_read(folder: Path) -> Ledger:
    try:
        return Ledger(folder, read_only=True)
    except NothingIngestedError:
        return EmptyLedger(folder)


def _target(ledger: Ledger, found: Survey, job: Job) -> tuple[Generation, Generation | None]:
    """Where a run would write, and what would answer meanwhile when that is another one."""
    current = found.current
    if current is not None and not job.rebuild and current.fingerprint == job.embedder.fingerprint:
        return current, None
    begun = (generation for generation in ledger.generations() if generation.state == "building")
    same = (generation for generation in begun if generation.fingerprint == job.embedder.fingerprint)
    return next(same, _NOT_BEGUN), current if found.documents else None


class _CountedEmbedding(PaidEmbedding):
    """Counts what would be embedded. A text that never was has no vector, or one of zeros for a chunker."""

    guessed = False
    """Whether a chunker wanted vectors that are not there, so that it may have cut otherwise than a run will."""

    def __init__(self, ledger: Ledger, embedder: Embedder, generation: int, on_embedded: Callable[[int], None]) -> None:
        super().__init__(ledger, embedder, generation, on_embedded)
        self._counted: set[str] = set()

    @property
    def calls(self) -> int:
        """Slices of `batch_texts`; a service may be sent more when its texts are long."""
        return self._calls

    def of_texts(self, texts: Sequence[str]) -> FloatArray:
        """Count what a chunker compares, and give what is known of it."""
        before = self.texts
        found = super().of_texts(texts)
        self.guessed = self.guessed or self.texts > before
        return found

    def _pay(self, by_hash: Mapping[str, str], keeping: bool) -> None:
        unpaid: Iterable[str] = by_hash
        # Of a ledger of nothing the fingerprint, for which a service may have to be asked, is not needed.
        if not isinstance(self._ledger, EmptyLedger):
            unpaid = self._ledger.unknown_texts(self._embedder.fingerprint, list(by_hash), tokens=keeping)
        new = [key for key in unpaid if key not in self._counted]
        self._counted.update(new)
        self._calls += sum(1 for _ in batches(new, self._embedder.batch_texts))
        self.texts += len(new)
        if isinstance(self._embedder, CountsTokens):
            self.tokens += sum(self._embedder.count_tokens(by_hash[key]) for key in new)


class _Rehearsal(Applier):
    """Reads and cuts as an ingest does, and counts instead of writing."""

    def __init__(
        self,
        job: Job,
        engine: Engine,
        ledger: Ledger,
        generation: Generation,
        former: Generation | None,
        embedding: PaidEmbedding,
        progress: Progress,
    ) -> None:
        super().__init__(job, engine, ledger, generation, former, embedding, _NoStore(), progress)
        self.more_chunks = 0

    def remove(self, sources: Sequence[SourceRow]) -> None:
        """Count what would be taken out of the collection."""
        gone = self._ledger.chunk_ids(self._generation, [source.document_id for source in sources])
        self.tally.chunks_removed += len(gone)
        self.more_chunks -= len(gone)

    def _write(self) -> None:
        batch, self._batch = self._batch, Batch()
        self._embedding.embed(chunk for prepared in batch.prepared for chunk in prepared.chunks)
        for one in batch.prepared:
            former = set(self._ledger.chunk_ids(self._generation, [one.source.document_id]))
            now = {hashed.chunk.id for hashed in one.chunks}
            self.tally.chunks_removed += len(former - now)
            self.more_chunks += len(now) - len(former)
            self._count(one.source, one.notes)
        self.tally.unchanged += len(batch.touched)
        self._progress.done(batch.files)


class _NoStore(SyncedStore):
    """In place of the store; whatever would write to it fails."""

    def __init__(self) -> None:
        pass
