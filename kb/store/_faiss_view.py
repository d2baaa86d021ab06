"""The FAISS store's rows at one moment: those of the mapped index, those of the tail beside it, and which are dead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kb.store._faiss_files import index_file, missing, tail_file
from kb.store._faiss_index import MappedIndex

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kb.components import FloatArray
    from kb.store._faiss_options import Options
    from kb.store._faiss_state import State

    Rows = NDArray[np.int64]

_EXACT_ROWS = 2_000
"""So few rows are compared one by one whatever index there is: 3 MB of 384 dimensions, a millisecond."""

_EXACT_SHARE = 10
"""So is a tenth of all rows: in a graph, a search among few of its rows misses most of what it should find."""

_MORE = 16
"""Rows asked for beyond the limit at first, for equal similarities at the limit; more where these are not enough."""

_AGAIN = 4
"""By how much more are asked for the next time."""

_NOISE = 4e-6
"""Similarities are rounded to six digits, and float32 products are off by about 1e-7, in sums of 3,000 by 1e-6."""

_QUESTIONS = 64
"""Questions compared at a time: with 100,000 rows of a tail their products are 26 MB."""

_MATRIX_FROM = 12
"""From so many questions on a product of matrices is faster. 8,192 rows took 0.7 ms a question one by one, and all at
a time 8 ms with one and 25 ms with 64: OpenBLAS copies what it multiplies."""

_BLOCK_ROWS = 8_192


@dataclass(frozen=True, slots=True)
class View:
    """Rows that can be read and compared; row numbers are those of the book."""

    state: State
    index: MappedIndex | None
    tail: FloatArray
    """Mapped; shape (tail rows, dimension)."""
    dead: Rows

    def vectors(self, rows: Rows) -> FloatArray:
        """The vectors of rows, bit for bit; shape (len(rows), dimension)."""
        found: FloatArray = np.empty((len(rows), self.state.dimension), dtype=np.float32)
        inside = rows < self.state.indexed
        if self.index is not None and inside.any():
            found[inside] = self.index.vectors(rows[inside])
        found[~inside] = self.tail[rows[~inside] - self.state.indexed]
        return found

    def candidates(self, queries: FloatArray, limit: int, among: Rows | None) -> list[Rows]:
        """For each question, rows with the `limit` nearest among them, and those that are as near as the last.

        Args:
            queries: Of unit length, shape (m, dimension).
            limit: At least 1.
            among: Only these rows, live and rising; None: all live ones.
        """
        found: list[Rows] = []
        for start in range(0, len(queries), _QUESTIONS):
            found += self._candidates(queries[start : start + _QUESTIONS], limit, among)
        return found

    def _candidates(self, queries: FloatArray, limit: int, among: Rows | None) -> list[Rows]:
        count, found = limit + _MORE, dict[int, "Rows"]()
        few = max(_EXACT_ROWS, self.state.rows // _EXACT_SHARE)
        while (among is None or len(among) > few) and count <= few and self.index is not None:
            waiting = [place for place in range(len(queries)) if place not in found]
            found.update(self._by_index(queries, waiting, limit, count, among))
            if len(found) == len(queries):
                return [found[place] for place in range(len(queries))]
            count *= _AGAIN
        rows = self._all_live() if among is None else among
        waiting = [place for place in range(len(queries)) if place not in found]
        products = self._products(queries[waiting], rows)
        found.update((place, self._nearest(rows, one, limit)) for place, one in zip(waiting, products, strict=True))
        return [found[place] for place in range(len(queries))]

    def _by_index(
        self, queries: FloatArray, waiting: Sequence[int], limit: int, count: int, among: Rows | None
    ) -> dict[int, Rows]:
        """Ask the index for `count` rows, and compare the tail; leaves out where more have to be asked for."""
        assert self.index is not None, "the caller looks"
        allowed = self._allowed(among)
        inside = None if allowed is None else allowed[: self.state.indexed]
        beside = np.arange(self.state.indexed, self.state.rows, dtype=np.int64)
        if allowed is not None:
            beside = beside[allowed[self.state.indexed :]]
        asked = queries[list(waiting)]
        of_tail = self._products(asked, beside)
        found = {}
        of_index = zip(*self.index.search(asked, count, inside), strict=True)
        for place, (products, rows), tail in zip(waiting, of_index, of_tail, strict=True):
            there = rows >= 0
            both = np.concatenate([rows[there], beside]), np.concatenate([products[there], tail])
            least = self._least(both[1], limit)
            # While the last one is near enough there may be more. An index that does not compare all gives its best.
            if self.index.exact and there.all() and products[-1] >= least:
                continue
            found[place] = both[0][both[1] >= least]
        return found

    def _products(self, queries: FloatArray, rows: Rows) -> FloatArray:
        """The inner products of questions and rows; shape (m, len(rows))."""
        found: FloatArray = np.empty((len(queries), len(rows)), dtype=np.float32)
        for start in range(0, len(rows), _BLOCK_ROWS):
            block = slice(start, start + _BLOCK_ROWS)
            vectors = self._some(rows[block])
            if len(queries) < _MATRIX_FROM:
                for place, query in enumerate(queries):
                    found[place, block] = vectors @ query
            else:
                found[:, block] = queries @ vectors.T
        return found

    def _some(self, rows: Rows) -> FloatArray:
        """As `vectors`, without a copy where rows of the tail follow on each other."""
        first = rows[0] - self.state.indexed
        if first >= 0 and rows[-1] - rows[0] == len(rows) - 1:
            return self.tail[first : first + len(rows)]
        return self.vectors(rows)

    def _nearest(self, rows: Rows, products: FloatArray, limit: int) -> Rows:
        return rows[products >= self._least(products, limit)]

    def _least(self, products: FloatArray, limit: int) -> float:
        """What a row's product has to be, so that the row may be one of the `limit` nearest by cosine.

        Lengths differ from 1 by at most `slack`, so a product differs from its cosine by no more.
        """
        if len(products) <= limit:
            return -np.inf
        last = np.partition(products, len(products) - limit)[len(products) - limit]
        return float(last) - 2 * self.state.slack - _NOISE

    def _allowed(self, among: Rows | None) -> NDArray[np.bool_] | None:
        """Which rows count, shape (rows,); None: all."""
        if among is None and not len(self.dead):
            return None
        allowed = np.full(self.state.rows, among is None)
        allowed[self.dead if among is None else among] = among is not None
        return allowed

    def _all_live(self) -> Rows:
        allowed = self._allowed(None)
        return np.arange(self.state.rows, dtype=np.int64) if allowed is None else np.flatnonzero(allowed)


def open_view(folder: Path, state: State, options: Options, dead: Rows, before: View | None) -> View:
    """Map the files that a state names.

    Args:
        folder: Where they are.
        state: What counts.
        options: Those the index was built with.
        dead: Rows that are left out.
        before: An earlier view, whose index is still mapped.

    Raises:
        OSError: a file is missing, cut off or cannot be read.
        ValueError: the index is not what was written.
        RuntimeError: FAISS cannot read it.
    """
    if (wrong := missing(folder, state)) is not None:
        raise FileNotFoundError(wrong)
    index = None
    if state.indexed:
        same = before is not None and before.state.serial == state.serial
        index = before.index if same and before is not None else None
        if index is None:
            index = MappedIndex(index_file(folder, state.serial), state, options)
    shape = (state.tail_rows, state.dimension)
    tail: FloatArray = (
        np.memmap(tail_file(folder, state.serial), dtype=np.float32, mode="r", shape=shape)
        if state.tail_rows
        else np.empty(shape, dtype=np.float32)
    )
    return View(state, index, tail, dead)
