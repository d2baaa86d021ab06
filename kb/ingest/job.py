"""What an ingest needs to know, wired by the knowledge base."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kb.components import Chunker, Embedder
    from kb.ingest.engine import Engine
    from kb.ingest.remembering import RememberingEmbedder
    from kb.ingest.walk import FoundFile
    from kb.opening import CollectionStore
    from kb.settings import IngestSection


@dataclass(frozen=True, slots=True)
class Job:
    """One ingest: from which folder, into which collection, by which parts."""

    root: Path
    """The folder of documents; absolute."""
    data_dir: Path
    folder: Path
    """The collection's folder, with ledger, lock and generations."""
    collection: str
    lent: RememberingEmbedder
    """The embedder as the chunker has it."""
    chunker: Chunker
    open_engine: Callable[[Sequence[FoundFile]], AbstractContextManager[Engine]]
    """Opens what prepares these files, and embeds; see `kb.ingest.engine`."""
    pipelines: Mapping[str, str]
    """The fingerprint of loader and chunker by suffix."""
    store: CollectionStore
    limits: IngestSection
    include: Sequence[str] = ()
    """Patterns of what is read, and below of what is not; see `kb.ingest.ignore`."""
    exclude: Sequence[str] = ()
    only: Sequence[str] = ()
    """Patterns of what this run looks at; empty for all."""
    max_cost: float | None = None
    """Dollars that the run may cost; None for no limit."""
    rebuild: bool = False
    allow_removals: bool = False
    quiet: bool = True

    @property
    def embedder(self) -> Embedder:
        """The embedder itself."""
        return self.lent.embedder
