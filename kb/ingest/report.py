"""What an ingest did, file by file where something went wrong."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from kb.ingest.batch import Tally
    from kb.ingest.paid_embedding import PaidEmbedding
    from kb.ingest.plan import Plan
    from kb.ingest.survey import Survey
    from kb.ledger.documents import SourceRow


@dataclass(frozen=True, slots=True)
class Problem:
    """A file that was skipped, failed, or was read with a loss."""

    path: str
    status: Literal["skipped", "failed", "warning"]
    reason: str


@dataclass(frozen=True, slots=True)
class IngestReport:
    """Counts of one run; indexed + unchanged + skipped + failed = files."""

    files: int
    """All that the walk met; a folder that was not entered counts as one, unless files of it are known."""
    indexed: int
    """Read, cut and stored: new, changed, or to be cut otherwise."""
    unchanged: int
    """The content is that of the last run, whatever the times of the file say."""
    removed: int
    """Documents that are gone; no part of `files`."""
    skipped: int
    failed: int
    """Could not be read, or not wholly; what was read of them before can still be found."""
    chunks_added: int
    """As all chunk counts: in the generation that was written, which a rebuild begins anew."""
    chunks_removed: int
    chunks_total: int
    embedded: int
    """Texts that were sent to the embedder; the rest had been paid for before."""
    embedding_calls: int
    """Requests to the service; of an embedder that has none, calls of it."""
    tokens: int
    """Of the embedded texts, without what the embedder adds to each."""
    seconds: float
    problems: tuple[Problem, ...]
    dry_run: bool = False
    """Nothing was done; all counts are what a run would have."""
    dollars: float | None = None
    """What the embedded texts cost by `[ingest.prices]`; 0 for a model that runs here, None when nobody knows."""
    expected_seconds: float | None = None
    """So long the service's rate makes a run take at least; None when no rate is set, and after the run."""

    def as_dict(self) -> dict[str, Any]:
        """The report as plain values, for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run has done, or a dry run has found that it would do."""

    plan: Plan
    """Of the generation that is written."""
    hidden: list[tuple[SourceRow, str]]
    """Sources that could not be looked at."""
    tally: Tally
    embedding: PaidEmbedding
    chunks_before: int
    chunks: int
    dollars: float | None
    expected_seconds: float | None = None


def make_report(found: Survey, done: Outcome, seconds: float, *, dry_run: bool = False) -> IngestReport:
    """Say what became of everything that the survey found."""
    tally = done.tally
    hidden = {source.path for source, _ in done.hidden}
    skipped = [Problem(path, "skipped", reason) for path, reason in found.skipped if path not in hidden]
    unchanged = len(done.plan.unchanged) + tally.unchanged
    return IngestReport(
        files=tally.indexed + unchanged + tally.failed + len(skipped),
        indexed=tally.indexed,
        unchanged=unchanged,
        removed=len(found.plan.removed),
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
        dry_run=dry_run,
        dollars=done.dollars,
        expected_seconds=done.expected_seconds,
    )
