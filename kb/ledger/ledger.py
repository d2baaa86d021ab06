"""The ledger: the one truth about a collection, in one SQLite file beside it.

It knows every source, each document's text, each live chunk and every vector already paid for.
The vector store can be rebuilt from it without an embedding call and without the source files.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from kb.errors import KbError, NothingIngestedError
from kb.ledger.chunks import Chunks
from kb.ledger.copies import Copies
from kb.ledger.documents import Documents
from kb.ledger.filters import Filters
from kb.ledger.listing import Listing
from kb.ledger.runs import Runs
from kb.ledger.schema import LEDGER_FILE, open_empty
from kb.ledger.set_aside import SetAside
from kb.ledger.token_vectors import TokenVectors
from kb.ledger.upkeep import Upkeep
from kb.ledger.vectors import Vectors


class Ledger(Runs, Documents, Upkeep, Copies, Chunks, Vectors, TokenVectors, SetAside, Filters, Listing):
    """`Ledger(folder)` opens `folder/ledger.sqlite`, and creates or upgrades it.

    With `read_only=True` nothing is written, and a missing file is a NothingIngestedError. There may
    be one writer (see `kb.ingest.lock`) and any number of readers, in any number of processes; one
    object may be used from several threads.

    The order of writes that survives a crash anywhere:

        put_vectors → mark_dirty → store.upsert → replace_documents → store.delete → forget_rows
    """

    def __init__(self, folder: Path, *, read_only: bool = False) -> None:
        super().__init__(folder, read_only=read_only)
        if not read_only:
            try:
                self._index_what_is_not()
            except BaseException:
                self.close()
                raise


class EmptyLedger(Ledger):
    """The ledger of a collection that does not exist yet, to be read from; nothing is made on disk."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, read_only=True)

    def _connect(self) -> sqlite3.Connection:
        return open_empty()


def collection_names(data_dir: Path) -> list[str]:
    """The collections of a data folder, as they were named, sorted; one that cannot be read is left out."""
    names = []
    for file in data_dir.glob(f"*/{LEDGER_FILE}") if data_dir.is_dir() else ():
        try:
            with Ledger(file.parent, read_only=True) as ledger:
                names.append(ledger.collection_name() or file.parent.name)
        except KbError:  # damaged, or of another version: whoever asks for it is told so
            continue
    return sorted(names)


def file_identity(file: Path) -> tuple[int, int] | None:
    """What stays the same while a path leads to the same file; None when there is none."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def nothing_ingested(collection: str, data_dir: Path, command: str) -> NothingIngestedError:
    """Say that a collection is empty or not there, which command fills it, and which ones are there."""
    others = ", ".join(repr(name) for name in collection_names(data_dir) if name != collection)
    return NothingIngestedError(
        f"nothing has been ingested into the collection {collection!r} in {data_dir} yet. Ingest first: {command}"
        + (f"; or ask another collection that is there: {others}" if others else "")
    )
