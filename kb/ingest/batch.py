"""Documents on their way through an ingest: begun, prepared, in a batch, under way into the store; and their counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kb.errors import LoadError
    from kb.ingest.engine import Cut
    from kb.ingest.report import Problem
    from kb.ledger.documents import SourceRow
    from kb.ledger.hashes import HashedChunk
    from kb.ledger.set_aside import Passage
    from kb.records import Document


@dataclass(slots=True)
class Tally:
    """Counts of a run, while it goes on."""

    indexed: int = 0
    unchanged: int = 0
    failed: int = 0
    chunks_removed: int = 0
    problems: list[Problem] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Begun:
    """A file that is being prepared."""

    row: SourceRow
    known: SourceRow | None
    cut: Callable[[], Cut] | LoadError | None
    """Waits for it; why it will not come; None when the content is the known one."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A document that has been read and cut, not yet written."""

    source: SourceRow
    document: Document
    chunks: tuple[HashedChunk, ...]
    notes: tuple[str, ...] = ()
    """What the chunker had to do otherwise than its options say, for the report."""
    set_aside: tuple[Passage, ...] = ()
    """What the embedding service refused for good."""
    seconds: float = 0.0
    """What it took to wait for it and to cut it."""


@dataclass(slots=True)
class Batch:
    """What is written together: one set of requests, one transaction."""

    prepared: list[Prepared] = field(default_factory=list)
    touched: list[SourceRow] = field(default_factory=list)
    """Only the file's times are new."""
    failures: list[SourceRow] = field(default_factory=list)
    files: int = 0
    size: int = 0
    """Chunks, and one for each file, so that files without chunks do not pile up."""


@dataclass(frozen=True, slots=True)
class UnderWay:
    """A batch that the store is taking."""

    batch: Batch
    written: Sequence[Prepared]
    wait: Callable[[], None]
