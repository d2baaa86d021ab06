"""One connection to the ledger, with transactions and snapshots that nest."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from kb.disk import trouble
from kb.errors import LedgerError
from kb.ledger.schema import LEDGER_FILE, open_connection

_PAGE = 900
"""Ids in one `IN (…)`: older SQLite takes 999 variables in a statement."""

_STEPS_BETWEEN_SIGNALS = 50_000
"""Steps of SQLite's machine, some milliseconds' work."""

_Item = TypeVar("_Item")


class LedgerConnection:
    """The connection that the ledger's parts share; safe to use from several threads."""

    def __init__(self, folder: Path, *, read_only: bool = False) -> None:
        self.folder = folder
        self.read_only = read_only
        self._file = folder / LEDGER_FILE
        self._guard = threading.RLock()
        self._open: Literal["", "read", "write"] = ""
        self._depth = 0
        self._connection = self._connect()
        # Else a Ctrl-C waits for the end of a statement: some seconds where a hundred thousand chunks are removed.
        self._connection.set_progress_handler(_let_signals_in, _STEPS_BETWEEN_SIGNALS)

    def _connect(self) -> sqlite3.Connection:
        return open_connection(self._file, read_only=self.read_only)

    def close(self) -> None:
        """Close the file; further calls are errors."""
        with self._guard:
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Everything written inside becomes visible at once at the end, or, after an error, not at all.

        A transaction inside another one may fail and be undone alone; it is committed with the outer one.
        """
        with self._guard, self._translated():
            if self.read_only or self._open == "read":
                raise LedgerError(f"the ledger {self._file} is open for reading only")
            if self._open == "write":
                with self._savepoint():
                    yield
                return
            self._connection.execute("BEGIN IMMEDIATE")
            self._open = "write"
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                self._undo()
                raise
            finally:
                self._open = ""

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Everything read inside is of one moment, whatever other processes commit meanwhile."""
        with self._guard, self._translated():
            if self._open:
                yield
                return
            self._connection.execute("BEGIN")
            self._open = "read"
            try:
                yield
            finally:
                self._open = ""
                self._undo()  # nothing was written, so this only lets go of the snapshot

    def _undo(self) -> None:
        # SQLite has rolled back by itself after some errors, a full disk among them.
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    @contextmanager
    def _savepoint(self) -> Iterator[None]:
        self._depth += 1
        name = f"depth_{self._depth}"
        try:
            self._connection.execute(f"SAVEPOINT {name}")
            try:
                yield
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute(f"ROLLBACK TO {name}")
                    self._connection.execute(f"RELEASE {name}")
                raise
            self._connection.execute(f"RELEASE {name}")
        finally:
            self._depth -= 1

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_INTERRUPT:
                raise KeyboardInterrupt from error  # SQLite has swallowed the one that was raised
            mend = trouble(self.folder, self._file) or "What was committed before is safe; mend the cause and run again"
            raise LedgerError(f"the ledger {self._file} could not be read or written: {error}. {mend}") from error

    def _rows(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        return self._connection.execute(statement, values).fetchall()

    def _rows_of(self, statement: str, values: Sequence[Any], ids: Sequence[str]) -> list[Any]:
        """Run `statement`, whose last condition is `IN (?)`, page by page over the distinct `ids`."""
        rows: list[Any] = []
        for page in pages(list(dict.fromkeys(ids)), _PAGE):
            marks = ",".join("?" * len(page))
            rows += self._rows(statement.replace("IN (?)", f"IN ({marks})"), [*values, *page])
        return rows

    def _changed(self) -> None:
        """Count a change of what can be found; see `revision`."""
        self._connection.execute("UPDATE meta SET value = CAST(value AS INTEGER) + 1 WHERE key = 'revision'")


def _let_signals_in() -> int:
    """Do nothing, in Python: before it goes on, Python calls the handlers of signals that have come."""
    return 0


def pages(items: Sequence[_Item], size: int) -> Iterator[Sequence[_Item]]:
    """Cut `items` into runs of at most `size`."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
