"""What the FAISS store's book says of its files: one row of SQLite, whose change makes new files count."""

from __future__ import annotations

import sqlite3
from dataclasses import astuple, dataclass, fields


@dataclass(frozen=True, slots=True)
class State:
    """What counts, at one moment."""

    fingerprint: str
    """The embedder's."""
    dimension: int
    shape: str
    """What the index was built with, see `_faiss_options.shape`."""
    revision: int = 0
    """Rises with every change."""
    serial: int = 1
    """In the names of the files that count."""
    rows: int = 0
    """Row numbers given, from 0 on; none is given twice until all are given anew."""
    dead: int = 0
    """Of those, the rows that were replaced or deleted."""
    indexed: int = 0
    """Rows [0, indexed) are in the index file, the others in the tail."""
    index_bytes: int = 0
    """The length of the index file."""
    head_bytes: int = 0
    """What in the index file comes before the vectors."""
    head_crc: int = 0
    slack: float = 0.0
    """The most by which the length of a row's vector differs from 1."""

    @property
    def row_bytes(self) -> int:
        """Bytes of one row of the tail."""
        return 4 * self.dimension

    @property
    def tail_rows(self) -> int:
        """Rows of the tail."""
        return self.rows - self.indexed

    @property
    def live(self) -> int:
        """Rows that are there."""
        return self.rows - self.dead


_COLUMNS = [field.name for field in fields(State)]

SCHEMA = (
    f"CREATE TABLE IF NOT EXISTS state (one INTEGER PRIMARY KEY CHECK (one = 1), {', '.join(_COLUMNS)})",
    # Apart from their texts, so that numbering all rows anew rewrites a few bytes for each.
    "CREATE TABLE IF NOT EXISTS rows (row INTEGER PRIMARY KEY, chunk INTEGER NOT NULL UNIQUE, crc INTEGER NOT NULL)",
    """CREATE TABLE IF NOT EXISTS chunks (
        chunk INTEGER PRIMARY KEY,
        chunk_id TEXT NOT NULL UNIQUE,
        source TEXT NOT NULL,
        document_id TEXT NOT NULL,
        page INTEGER,
        heading TEXT,
        start INTEGER NOT NULL,
        "end" INTEGER NOT NULL,
        header TEXT,
        text TEXT NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS chunks_of_document ON chunks (document_id)",
    "CREATE INDEX IF NOT EXISTS chunks_of_source ON chunks (source)",
    "CREATE INDEX IF NOT EXISTS chunks_of_page ON chunks (page)",
    "CREATE TABLE IF NOT EXISTS dead (row INTEGER PRIMARY KEY)",
)


def read_state(connection: sqlite3.Connection) -> State | None:
    """Read the state; None when the book was only begun."""
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'state'").fetchone() is None:
        return None
    found = connection.execute(f"SELECT {', '.join(_COLUMNS)} FROM state").fetchone()
    return None if found is None else State(*found)


def write_state(connection: sqlite3.Connection, state: State) -> None:
    """Replace the state."""
    marks = ", ".join("?" * len(_COLUMNS))
    connection.execute(f"INSERT OR REPLACE INTO state VALUES (1, {marks})", astuple(state))
