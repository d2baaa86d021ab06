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

    def as_dict(self) -> dict[str, Any]:
        """The report as plain values, for JSON."""
        return asdict(self)
