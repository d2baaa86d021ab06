"""Which collection this is, and which of its generations answers questions.

A generation is all that was built with one embedder: a folder of the vector store and rows of the
ledger. A new one is built beside the old one and takes its place when it is complete.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from kb.errors import LedgerError
from kb.ledger.connection import LedgerConnection
from kb.ledger.postings import drop_postings

GENERATIONS_FOLDER = "generations"

_TABLES = ("sources", "documents", "chunks", "chunk_texts", "store_rows", "set_aside")
"""The tables whose rows belong to a generation. Vectors don't: they are shared."""


@dataclass(frozen=True, slots=True)
class Generation:
    """One build of the collection."""

    number: int
    fingerprint: str
    dimension: int
    state: Literal["building", "current"]
    created: str
    """UTC, ISO 8601."""

    @property
    def folder_name(self) -> str:
        """The name of its folder below `generations/`."""
        return str(self.number)


@dataclass(frozen=True, slots=True)
class Counts:
    """How much a generation holds."""

    documents: int
    chunks: int
    vectors: int
    """All vectors paid for with the generation's embedder, also those of texts no longer in use."""
    store_rows: int
    """Rows that the vector store has when nothing was interrupted; at other times it may have fewer."""
    sources: int
    """Documents, and files that could not be read."""


class Generations(LedgerConnection):
    """The part of the ledger that knows the collection and its generations."""

    def collection_name(self) -> str | None:
        """The collection's name as the user wrote it."""
        return self._meta("collection")

    def set_collection_name(self, name: str) -> None:
        """Remember the collection's name."""
        self._set_meta("collection", name)

    def root(self) -> Path | None:
        """The folder whose documents the collection holds, absolute; None before the first ingest."""
        root = self._meta("root")
        return None if root is None else Path(root)

    def set_root(self, root: Path) -> None:
        """Remember the folder whose documents the collection holds.

        Raises:
            LedgerError: the path holds bytes that are no text.
        """
        path = str(root.absolute())
        try:
            path.encode()
        except UnicodeEncodeError as error:
            raise LedgerError(f"the path of the folder {path!r} is no text in UTF-8; rename the folder") from error
        self._set_meta("root", path)

    def revision(self) -> int:
        """A number that rises whenever what can be found changes, in this process or another.

        What was derived from the ledger, or read from the store's files, is up to date while it stays.
        """
        return int(self._meta("revision") or 0)

    def generation_folder(self, generation: Generation) -> Path:
        """Where the generation's vector store lives."""
        return self.folder / GENERATIONS_FOLDER / generation.folder_name

    def generations(self) -> list[Generation]:
        """All generations by number; a folder of any other number is left over and can be deleted."""
        with self.snapshot():
            rows = self._rows("SELECT number, fingerprint, dimension, state, created FROM generations ORDER BY number")
        return [Generation(*row) for row in rows]

    def current_generation(self) -> Generation | None:
        """The generation that answers questions; None before the first one is complete."""
        return next((generation for generation in self.generations() if generation.state == "current"), None)

    def begin_generation(self, fingerprint: str, dimension: int) -> Generation:
        """Start a generation, or go on with the one that was being built with the same embedder.

        One that was being built with another embedder is dropped; its folder is then left over.
        """
        with self.transaction():
            for generation in self.generations():
                if generation.state != "building":
                    continue
                if (generation.fingerprint, generation.dimension) == (fingerprint, dimension):
                    return generation
                self._drop(generation.number)
            created = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            number = self._connection.execute(
                "INSERT INTO generations (fingerprint, dimension, state, created) VALUES (?, ?, 'building', ?)",
                (fingerprint, dimension, created),
            ).lastrowid
            assert number is not None  # an INSERT into a table with rowids always has one
            return Generation(number, fingerprint, dimension, "building", created)

    def complete_generation(self, number: int) -> str | None:
        """Make a generation the current one and drop the one before, all at once.

        Returns:
            The name of the former generation's folder, for the caller to delete; None if there was none.

        Raises:
            LedgerError: there is no such generation.
        """
        with self.transaction():
            known = {generation.number: generation for generation in self.generations()}
            if number not in known:
                raise LedgerError(f"generation {number} is not in the ledger {self._file}, which has {sorted(known)}")
            if known[number].state == "current":
                return None
            former = self.current_generation()
            if former is not None:
                self._drop(former.number)
            self._connection.execute("UPDATE generations SET state = 'current' WHERE number = ?", (number,))
            self._changed()
            return None if former is None else former.folder_name

    def counts(self, generation: int) -> Counts:
        """Count what a generation holds."""
        with self.snapshot():
            (documents,), (chunks,), (store_rows,), (sources,) = (
                self._rows(f"SELECT COUNT(*) FROM {table} WHERE generation = ?", (generation,))[0]
                for table in ("documents", "chunks", "store_rows", "sources")
            )
            ((vectors,),) = self._rows(
                "SELECT COUNT(*) FROM vectors "
                "WHERE fingerprint = (SELECT fingerprint FROM generations WHERE number = ?)",
                (generation,),
            )
        return Counts(documents, chunks, vectors, store_rows, sources)

    def _drop(self, number: int) -> None:
        drop_postings(self._connection, number)
        for table in _TABLES:
            self._connection.execute(f"DELETE FROM {table} WHERE generation = ?", (number,))
        self._connection.execute("DELETE FROM generations WHERE number = ?", (number,))

    def _meta(self, key: str) -> str | None:
        with self.snapshot():
            rows = self._rows("SELECT value FROM meta WHERE key = ?", (key,))
        return str(rows[0][0]) if rows else None

    def _set_meta(self, key: str, value: str) -> None:
        with self.transaction():
            self._connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))
