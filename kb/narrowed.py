"""A collection narrowed to the chunks that a filter leaves, and searched as a store is.

Chroma's own filter takes tens of times as long as a search without one. So the ledger says which chunks
are left. When they are few they are all compared with the question. When they are many, mostly enough of
them are among the nearest of all. When they are not, as where a question is about something else than what
is left, all are compared after all, for an approximate index is bad at what is far: of 60 such neighbours
among 50,000 of 100,000 made-up vectors, fetching more and more of the nearest of all missed a third.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from kb.base import Ranking, as_one, nearest
from kb.filters import Where

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kb.base import Base, Part
    from kb.components import FloatArray
    from kb.records import SearchResult

_FEW = 10_000
"""So many are compared at once. A vector takes some 20 µs to be read, and is read for the first question only."""
_MOST_FETCHED = 2_000
"""So many of the nearest of all are fetched at most to find enough that pass."""
_MARGIN = 2
"""So many times what would be enough if those that pass were spread evenly."""
_MORE = 4
"""So many times as much is fetched then, where there are too many vectors to keep them."""
_NUMBERS_KEPT = 24 * 1024 * 1024
"""Vectors are kept for the next question when they are not more: 96 MB, 65,536 of 384 dimensions."""
_FILTERS_KEPT = 2
"""A conversation keeps to one filter, and who compares has two."""


class Narrowed:
    """The chunks of a base that a filter leaves."""

    def __init__(self, base: Base, where: Where) -> None:
        """Ask the ledger for them.

        Raises:
            ConfigError: the filter names a field that no document has.
        """
        self._base = base
        self.where = where
        self.chunk_ids = base.ledger.matching_chunks(base.generation, where)
        self._kept: Part | None = None

    def search(self, vectors: FloatArray, limit: int) -> list[Ranking]:
        """The nearest of the chunks to each row of `vectors` (m, dimension), `limit` where there are so many."""
        compared = self._kept is not None or len(self.chunk_ids) <= _FEW
        found: dict[int, Ranking] = {} if compared else self._fetched(vectors, limit)
        left = [row for row in range(len(vectors)) if row not in found]
        if left:
            found.update(zip(left, nearest(vectors[left], self._parts(vectors.shape[1]), limit), strict=True))
        return [found[row] for row in range(len(vectors))]

    @cached_property
    def word_rows(self) -> NDArray[np.int64]:
        """The rows of the chunks in the index of words."""
        return self._base.ledger.word_rows(self._base.generation, self.chunk_ids)

    def told(self, result: SearchResult) -> SearchResult:
        """A result with the filter, and a note when it left nothing to search."""
        none = () if self.chunk_ids else (f"no passage matches {self.where}",)
        return replace(result, where=self.where.written, notes=(*none, *result.notes))

    @cached_property
    def _passed(self) -> frozenset[str]:
        return frozenset(self.chunk_ids)

    @cached_property
    def _share(self) -> float:
        """Of all rows of the store; counting them takes longer than a search."""
        return len(self.chunk_ids) / max(self._base.store.count(), len(self.chunk_ids))

    def _can_be_kept(self, dimension: int) -> bool:
        return len(self.chunk_ids) * dimension <= _NUMBERS_KEPT

    def _fetched(self, vectors: FloatArray, limit: int) -> dict[int, Ranking]:
        """Those rows' nearest, by their numbers, of which enough are among the nearest of all."""
        found: dict[int, Ranking] = {}
        left = list(range(len(vectors)))
        asked = int(limit / self._share * _MARGIN)
        most = min(asked, _MOST_FETCHED) if self._can_be_kept(vectors.shape[1]) else _MOST_FETCHED
        while left and asked <= most:
            nearest = self._base.store.search(vectors[left], asked)
            for row, ranking in zip(list(left), nearest, strict=True):
                passed = [pair for pair in ranking if pair[0] in self._passed]
                if len(passed) >= limit:
                    found[row] = passed[:limit]
                    left.remove(row)
            asked *= _MORE
        return found

    def _parts(self, dimension: int) -> Iterable[Part]:
        """All vectors; they are kept when they are not too many."""
        if self._kept is not None:
            return [self._kept]
        base = self._base
        parts = base.ledger.vectors_of(base.generation, base.fingerprint, self.chunk_ids)
        if not self._can_be_kept(dimension):
            return parts
        self._kept = as_one(parts, len(self.chunk_ids))
        return [self._kept]


class Narrowing:
    """The filters that were used last on a base, each with what it leaves, as long as the ledger's revision stays."""

    def __init__(self, base: Base) -> None:
        self._base = base
        self._latest: OrderedDict[Where, Narrowed] = OrderedDict()

    def to(self, where: Where) -> Narrowed:
        """What a filter leaves.

        Raises:
            ConfigError: see `Narrowed`.
        """
        narrowed = self._latest.pop(where, None) or Narrowed(self._base, where)
        self._latest[where] = narrowed
        while len(self._latest) > _FILTERS_KEPT:
            self._latest.popitem(last=False)
        return narrowed
