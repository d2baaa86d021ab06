"""What an ingest needs to know, wired by the knowledge base."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kb.components import Chunker, Embedder
    from kb.ingest.walk import FoundFile
    from kb.opening import CollectionStore
    from kb.records import Document
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
    embedder: Embedder
    chunker: Chunker
    load: Callable[[FoundFile], Document]
    pipelines: Mapping[str, str]
    """The fingerprint of loader and chunker by suffix."""
    store: CollectionStore
    limits: IngestSection
    rebuild: bool = False
    allow_removals: bool = False
    quiet: bool = True
