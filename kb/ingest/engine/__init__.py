"""Who prepares the documents of an ingest and embeds their texts: this machine, or many.

`[ingest] engine = "local"` is `kb/ingest/engine/local.py`. Such a file holds `open_engine(means, due)`, and only the
chosen one is imported. Whichever it is, the process that ingests decides what is done, keeps the ledger and writes the
store, and takes documents in the order of their files: so what comes out does not depend on who has prepared it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kb.abilities import NotesCuts
from kb.components import not_installed

if TYPE_CHECKING:
    from kb.components import Chunker, Embedder
    from kb.ingest.remembering import RememberingEmbedder
    from kb.ingest.walk import FoundFile
    from kb.records import Chunk, Document
    from kb.settings import Settings


@dataclass(frozen=True, slots=True)
class Cut:
    """A document and its chunks."""

    document: Document
    chunks: tuple[Chunk, ...]
    notes: tuple[str, ...] = ()
    """What the chunker had to do otherwise than its options say, for the report."""


class Preparing(Protocol):
    """Reads and cuts files ahead of who wants their documents."""

    @property
    def ahead(self) -> int:
        """So many files may be begun before the first one is asked for."""
        ...

    def begin(self, file: FoundFile, content_hash: str) -> Callable[[], Cut]:
        """Have a file read and cut; what is given waits for that.

        Args:
            file: The file.
            content_hash: SHA-256 of what it holds now, in hexadecimal.

        Raises (what is given does):
            LoadError: the file cannot be read.
            KbError: whatever ends the run.
        """
        ...


class Engine(Protocol):
    """Open for one ingest."""

    @property
    def embedder(self) -> Embedder:
        """What embeds the texts of this ingest; it gives the vectors of the configured one."""
        ...

    def preparing(self) -> AbstractContextManager[Preparing]:
        """Begin to prepare files; leaving it ends whatever is under way."""
        ...


@dataclass(frozen=True, slots=True)
class Means:
    """What an engine is made of."""

    settings: Settings
    lent: RememberingEmbedder
    """The embedder as the chunker has it."""
    chunker: Chunker
    pipelines: Mapping[str, str]
    """The fingerprint of loader and chunker by suffix."""


def open_engine(means: Means, due: Sequence[FoundFile]) -> AbstractContextManager[Engine]:
    """Open the engine that the settings name.

    Args:
        means: What it is made of.
        due: The files that will be prepared.

    Raises:
        ConfigError: its package is not installed, or its options do not fit.
        ServiceError: it needs other machines, and they do not answer.
    """
    name = means.settings.ingest.engine
    try:
        module = importlib.import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        raise not_installed(f'[ingest] engine = "{name}"', name, error) from error
    engine: AbstractContextManager[Engine] = module.open_engine(means, due)
    return engine


def cut(chunker: Chunker, document: Document) -> Cut:
    """Cut a document now."""
    if isinstance(chunker, NotesCuts):
        return Cut(document, *chunker.chunk_with_notes(document))
    return Cut(document, chunker.chunk(document))
