"""What an ingest did, file by file where something went wrong."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal


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
    indexed: int
    unchanged: int
    removed: int
    skipped: int
    failed: int
    chunks_added: int
    chunks_removed: int
    chunks_total: int
    embedded: int
    """Texts that were sent to the embedder; the rest had been paid for before."""
    embedding_calls: int
    tokens: int
    seconds: float
    problems: tuple[Problem, ...]

    def as_dict(self) -> dict[str, Any]:
        """The report as plain values, for JSON."""
        return asdict(self)
