"""FAISS: an index in files of its own, mapped into memory, so that it opens in milliseconds.

Row i of the index is chunk i of the book (`rows.sqlite`), always: a row's number is given once, new rows come
after all others, first into a file beside the index (the tail), and replaced ones are dead until all rows are
numbered anew. What changes is written first, and counts when the book's transaction is committed; so whatever
dies in between, the next opening finds the state before or after. An index or tail that counts is never
changed where rows are that count: a reader in another process keeps what it has mapped, and sees what is new
with its next call.

Source of the flat index with inner products of unit vectors: J. Johnson, M. Douze and H. Jégou, Billion-scale
similarity search with GPUs, IEEE Transactions on Big Data 7 (2021), doi:10.1109/TBDATA.2019.2921572.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from kb.components import Parts, StorePlace, StoreRow
from kb.disk import trouble
from kb.errors import StoreError
from kb.payloads import StoredRow, storable, stored_row
from kb.store._faiss_book import Book
from kb.store._faiss_checks import changed_row, checksum, difference, unit_slack
from kb.store._faiss_files import BOOK, leftovers, remove
from kb.store._faiss_fold import Change, append, compacted, folded, worth_compacting
from kb.store._faiss_options import Options, shape
from kb.store._faiss_state import State
from kb.store._faiss_view import View, open_view
from kb.store._rows import (
    check_fingerprint,
    filters,
    last_of_each,
    nearest,
    place_of,
    query_matrix,
    row_matrix,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kb.components import FloatArray
    from kb.records import Scalar

    Rows = NDArray[np.int64]

__all__ = ["FaissStore", "Options", "build"]


def build(options: Options, parts: Parts) -> FaissStore:
    """Open the store, or create an empty one.

    Raises:
        IndexMismatchError: it holds vectors of another embedder.
        StoreError: its files cannot be read, are not what was written, or the index was built with other options.
    """
    return FaissStore(options, place_of("faiss", parts))


class FaissStore:
    """A book, an index and its tail."""

    def __init__(self, options: Options, place: StorePlace) -> None:
        self._options = options
        self._place = place
        self._what = f"the FAISS index of collection {place.collection!r} in {place.folder}"
        self._mend = f"mend it (nothing is embedded): {place.repair_command}"
        self._guard = threading.RLock()
        self._book: Book | None = None
        self._view: View | None = None
        self._tidy = False
        """Whether this writer has looked for files that an interrupted one left."""
        try:
            with self._errors("opened"):
                self._book = Book(place.folder, State(place.fingerprint, place.dimension, shape(options)))
            with self._reading() as (book, view):
                self._compare(book, view)
        except BaseException:
            self.close()
            raise

    def upsert(self, rows: Sequence[StoreRow]) -> None:
        """Add rows, or replace those of the same chunk id, payload and all; a vector that is the same stays.

        Raises:
            StoreError: a vector is not of unit length, or the disk is full; what was stored before is kept.
        """
        rows = last_of_each(rows)
        matrix = row_matrix(rows, self._place)
        slack = unit_slack(rows, matrix)
        ids = [row.chunk.id for row in rows]
        with self._writing() as (book, view):
            state, known = view.state, book.rows_of(ids)
            before = self._vectors(book, view, known)
            same = {i for i, vector in zip(ids, matrix, strict=True) if i in before and _equal(before[i], vector)}
            new = [place for place, i in enumerate(ids) if i not in same]
            append(self._place.folder, state, matrix[new])
            book.put(rows)
            book.bury(row for i, row in known.items() if i not in same)
            book.number([ids[place] for place in new], state.rows, [checksum(matrix[place]) for place in new])
            book.write_state(
                replace(
                    state,
                    shape=state.shape if state.indexed else shape(self._options),
                    revision=state.revision + 1,
                    rows=state.rows + len(new),
                    dead=state.dead + len(known) - len(same),
                    slack=max(state.slack, slack),
                )
            )
        self._settle()

    def delete(self, chunk_ids: Sequence[str]) -> None:
        """Remove chunks; unknown ids are ignored."""
        with self._writing() as (book, view):
            known = book.rows_of(chunk_ids)
            book.bury(known.values())
            book.forget(known)
            state = view.state
            book.write_state(replace(state, revision=state.revision + 1, dead=state.dead + len(known)))
        self._settle()

    def delete_document(self, document_id: str) -> None:
        """Remove all chunks of one document."""
        with self._guard:
            with self._reading() as (book, _):
                chunk_ids = book.of_document(storable(document_id))
            self.delete(chunk_ids)

    def search(
        self, vectors: FloatArray, limit: int, where: Mapping[str, Scalar] | None = None
    ) -> list[list[tuple[str, float]]]:
        """Find the nearest chunks of each row; equal similarities are ordered by id.

        With the flat index exactly, with the others exactly among the rows of the tail, and where a filter
        leaves few.
        """
        queries = query_matrix(vectors, self._place)
        conditions = filters(where)
        with self._reading() as (book, view):
            among = book.matching(conditions) if conditions else None
            limit = min(int(limit), view.state.live)
            if limit <= 0 or (among is not None and not len(among)):
                return [[] for _ in queries]
            lengths = np.linalg.norm(queries, axis=1, keepdims=True)
            unit = np.divide(queries, lengths, out=np.zeros_like(queries), where=lengths > 0)
            found = view.candidates(unit, limit, among)
            return [self._ranked(book, view, rows, query, limit) for rows, query in zip(found, queries, strict=True)]

    def vectors(self, chunk_ids: Sequence[str]) -> dict[str, FloatArray]:
        """The stored vectors of those ids that exist, bit for bit."""
        with self._reading() as (book, view):
            return self._vectors(book, view, book.rows_of(chunk_ids))

    def rows(self, chunk_ids: Sequence[str]) -> dict[str, StoredRow]:
        """What is stored of those ids that exist."""
        with self._reading() as (book, view):
            found = self._vectors(book, view, book.rows_of(chunk_ids))
            return {i: stored_row(kept, kept["text"], found[i]) for i, kept in book.payloads(found).items()}

    def chunk_ids(self) -> Iterator[str]:
        """All ids; they may be deleted while they are walked through, for all are read before."""
        with self._reading() as (book, _):
            return iter(book.chunk_ids())

    def count(self) -> int:
        """The number of rows."""
        with self._reading() as (_, view):
            return view.state.live

    def close(self) -> None:
        """Let go of the files; what was written is on the disk already."""
        with self._guard:
            book, self._book, self._view = self._book, None, None
            if book is not None:
                with self._errors("closed"):
                    book.close()

    @contextmanager
    def _reading(self) -> Iterator[tuple[Book, View]]:
        """The book and the rows as they are now, unchanged until the end."""
        with self._guard, self._errors("read"):
            book = self._opened()
            with ExitStack() as transaction:
                view = self._newest(book, transaction)
                yield book, view

    @contextmanager
    def _writing(self) -> Iterator[tuple[Book, View]]:
        """The same, to be changed; for one writer at a time, which the collection's lock sees to."""
        with self._guard, self._errors("written"):
            book = self._opened()
            with book.writing() as state:
                view = self._follow(book, state)
                if not self._tidy:
                    remove(leftovers(self._place.folder, state))
                    self._tidy = True
                yield book, view

    def _newest(self, book: Book, transaction: ExitStack) -> View:
        """Begin to read, and map what counts; again when another process replaces a file before it is mapped."""
        seen = -1
        while True:
            state = transaction.enter_context(book.reading())
            try:
                return self._follow(book, state)
            except OSError:
                if state.revision == seen:
                    raise
                seen = state.revision
                transaction.pop_all().close()

    def _follow(self, book: Book, state: State) -> View:
        if self._view is None or self._view.state != state:
            check_fingerprint(self._place, state.fingerprint, state.dimension)
            if state.indexed and state.shape != shape(self._options):
                raise StoreError(
                    f"{self._what} was built with {state.shape}, but [store.faiss] says {shape(self._options)}. Put "
                    "the first back, or build the collection anew (nothing is embedded twice): "
                    f"{self._place.rebuild_command}"
                )
            self._view = open_view(self._place.folder, state, self._options, book.dead(), self._view)
        return self._view

    def _settle(self) -> None:
        """Number the rows anew when many are dead, or put the tail into the index when it has grown."""
        folder, options = self._place.folder, self._options
        with self._guard:
            with self._reading() as (book, view):
                if worth_compacting(view.state, options):
                    change: Change | None = compacted(folder, view, options, book.matching({}))
                else:
                    change = folded(folder, view, options)
            if change is None:
                return
            with self._writing() as (book, now):
                if now.state != view.state:
                    raise StoreError(f"{self._what} is written by another process, too. {self._mend}")
                if change.anew:
                    book.number_anew()
                book.write_state(change.state)
            with self._reading() as (book, view):
                self._compare(book, view)
            remove(leftovers(folder, change.state))

    def _ranked(self, book: Book, view: View, rows: Rows, query: FloatArray, limit: int) -> list[tuple[str, float]]:
        """The exact `limit` nearest of these rows."""
        ids = book.ids_of(rows)
        order = sorted(ids, key=ids.__getitem__)
        matrix = self._sound(book, view, np.asarray(order, dtype=np.int64))
        return nearest([ids[row] for row in order], matrix, query, limit)

    def _vectors(self, book: Book, view: View, known: Mapping[str, int]) -> dict[str, FloatArray]:
        """The vectors of chunks, whose rows are known."""
        vectors = self._sound(book, view, np.fromiter(known.values(), dtype=np.int64))
        return {chunk_id: vector.copy() for chunk_id, vector in zip(known, vectors, strict=True)}

    def _sound(self, book: Book, view: View, rows: Rows) -> FloatArray:
        """The vectors of live rows, each compared with its checksum."""
        vectors = view.vectors(rows)
        if (row := changed_row(rows, vectors, book.checksums(rows))) is not None:
            raise StoreError(f"{self._what} is damaged: row {row} is not the vector that was stored. {self._mend}")
        return vectors

    def _compare(self, book: Book, view: View) -> None:
        if (wrong := difference(book, view)) is not None:
            raise StoreError(f"{self._what} is damaged: {wrong}. {self._mend}")

    def _opened(self) -> Book:
        if self._book is None:
            raise StoreError(f"the store of collection {self._place.collection!r} is closed")
        return self._book

    @contextmanager
    def _errors(self, done: str) -> Iterator[None]:
        """Turn what SQLite, FAISS and the system raise into a StoreError."""
        try:
            yield
        except (sqlite3.Error, OSError, ValueError, RuntimeError, MemoryError) as error:
            self._tidy = False  # it may have left a file that only takes room
            folder = self._place.folder
            advice = trouble(folder, folder / BOOK) or f"If it stays so, {self._mend}"
            raise StoreError(
                f"{self._what} could not be {done}: {str(error) or type(error).__name__}. {advice}"
            ) from error


def _equal(one: FloatArray, other: FloatArray) -> bool:
    return one.tobytes() == other.tobytes()  # bit for bit: 0.0 and -0.0 differ
