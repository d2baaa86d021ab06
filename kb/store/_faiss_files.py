"""The files of the FAISS store, and whether they are whole by their sizes; in a file of its own, which needs no FAISS.

`rows.sqlite`, the book, says which index file and which tail count, and how long they have to be. All of this
process's connections to it go through one SQLite, which keeps their locks when one of them is closed.
"""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from kb.store._faiss_state import State, read_state

BOOK = "rows.sqlite"

UNFINISHED = ".unfinished"

_OURS = re.compile(r"(index-\d+\.faiss|tail-\d+\.f32)(\.unfinished)?")

_BUSY_SECONDS = 10.0
"""How long to wait for another connection's lock: recovery after a crash takes a moment."""

_LOOKS = 5
"""An ingest in another process may replace a file between reading its name and looking at it."""


def index_file(folder: Path, serial: int) -> Path:
    """The index of a serial number."""
    return folder / f"index-{serial}.faiss"


def tail_file(folder: Path, serial: int) -> Path:
    """The rows that came after the index of a serial number, as float32, one after the other."""
    return folder / f"tail-{serial}.f32"


def connect(folder: Path, *, create: bool) -> sqlite3.Connection:
    """Connect to the book; transactions are opened by hand.

    Raises:
        sqlite3.Error: it cannot be opened.
    """
    mode = "rwc" if create else "rw"
    address = f"{(folder.resolve() / BOOK).as_uri()}?mode={mode}"
    return sqlite3.connect(address, uri=True, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)


def damage(folder: Path, *, filled: bool) -> str | None:
    """Say what is wrong with a generation's files; None when nothing is.

    Args:
        folder: The generation's folder.
        filled: Whether it was filled, so that there must be something.
    """
    book = folder / BOOK
    try:
        if not book.exists():
            return f"{BOOK} is missing" if filled or leftovers(folder, None) else None
        with closing(connect(folder, create=False)) as connection:
            return _damage(folder, connection, filled)
    except sqlite3.DatabaseError as error:
        return f"{BOOK} cannot be read: {error}"
    except OSError as error:
        return f"{error.filename or folder} cannot be read: {error.strerror}"


def _damage(folder: Path, connection: sqlite3.Connection, filled: bool) -> str | None:
    # SQLite notices when whole pages are missing, and not that the last one is cut off.
    ((page_bytes,),) = connection.execute("PRAGMA page_size")
    if (size := (folder / BOOK).stat().st_size) % page_bytes:
        return f"{BOOK} is cut off: it has {size:,} bytes"
    found = None
    seen: State | None = None
    for _ in range(_LOOKS):
        state = read_state(connection)
        if state is None:
            return f"{BOOK} holds nothing" if filled else None
        if state == seen:
            return found
        found, seen = missing(folder, state), state
        if found is None:
            return None
    return found


def missing(folder: Path, state: State) -> str | None:
    """Say which file that counts is missing or has not the length that the book says; None when all are whole."""
    files: list[tuple[Path, int, int | None]] = []
    if state.indexed:
        files.append((index_file(folder, state.serial), state.index_bytes, state.index_bytes))
    if state.tail_rows:
        # What an interrupted write left behind the rows that count is no fault.
        files.append((tail_file(folder, state.serial), state.tail_rows * state.row_bytes, None))
    for file, least, most in files:
        if not file.exists():
            return f"{file.name} is missing"
        size = file.stat().st_size
        if size < least:
            return f"{file.name} is cut off: it has {size:,} bytes of {least:,}"
        if most is not None and size > most:
            return f"{file.name} has {size:,} bytes, and {most:,} were written"
    return None


def leftovers(folder: Path, state: State | None) -> list[Path]:
    """Files of this store that do not count, as an interrupted run leaves them."""
    if not folder.is_dir():
        return []
    counts = {index_file(folder, state.serial), tail_file(folder, state.serial)} if state is not None else set()
    return [file for file in folder.iterdir() if _OURS.fullmatch(file.name) and file not in counts]


def remove(files: list[Path]) -> None:
    """Delete files; one that cannot be deleted now, as Windows keeps a mapped one, goes another time."""
    for file in files:
        with suppress(OSError):
            file.unlink()
