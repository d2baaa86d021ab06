"""One generation of a collection, opened for questions: what is nearest to a vector, and what is live."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from kb.background import SAMPLE_CHUNKS, Background

if TYPE_CHECKING:
    from kb.components import FloatArray, Store
    from kb.ledger.hashes import HashedChunk
    from kb.ledger.ledger import Ledger

    Part: TypeAlias = tuple[list[str], FloatArray]
    """Ids, and a matrix with a row for each, (n, dimension)."""

Ranking: TypeAlias = list[tuple[str, float]]
"""(chunk id, similarity), falling, equal ones by id."""

_KEPT_CHUNKS = 4_000
"""Chunks that are kept when they have been read: some ten megabytes."""
_DIGITS = 6
"""As the stores round: a float32 product is off by about 1e-7."""
_EQUAL = 2e-6
"""More than two similarities can differ by that are equal when they are rounded."""


class Base:
    """One generation as it was at a revision of the ledger; of another revision another is made.

    So what is read can be kept. One question at a time.
    """

    has_words = True
    """Whether chunks can be found by their words."""

    def __init__(self, store: Store, ledger: Ledger, generation: int, fingerprint: str, exact_up_to: int = 0) -> None:
        """Read nothing yet.

        Args:
            store: That holds it.
            ledger: That lists it.
            generation: Its number.
            fingerprint: The embedder's.
            exact_up_to: So many vectors are all compared with a question; of more, the store says which are near.
        """
        self.store = store
        self.ledger = ledger
        self.generation = generation
        self.fingerprint = fingerprint
        self._exact_up_to = exact_up_to
        self._chunks: dict[str, HashedChunk] = {}
        self.beside = ThreadPoolExecutor(1, thread_name_prefix="kb-words")
        """A thread, once it is asked, for what can be done while the embedder is at work."""

    def close(self) -> None:
        """Release the store."""
        self.beside.shutdown()
        self.store.close()

    @cached_property
    def background(self) -> Background:
        """What the chunks of each script have in common."""
        return Background(self.ledger.script_samples(self.generation, self.fingerprint, SAMPLE_CHUNKS))

    def search(self, vectors: FloatArray, limit: int) -> list[Ranking]:
        """The `limit` chunks nearest to each row of `vectors` (m, dimension).

        Of many chunks approximately, and some may have been replaced meanwhile.
        """
        return self.store.search(vectors, limit) if self._all is None else nearest(vectors, [self._all], limit)

    def live_chunks(self, chunk_ids: Iterable[str]) -> dict[str, HashedChunk]:
        """Those of the chunks that are live."""
        asked = list(dict.fromkeys(chunk_ids))
        if len(asked) + len(self._chunks) > _KEPT_CHUNKS:
            self._chunks.clear()
        unread = [chunk_id for chunk_id in asked if chunk_id not in self._chunks]
        self._chunks.update(self.ledger.live_chunks(self.generation, unread) if unread else {})
        return {chunk_id: self._chunks[chunk_id] for chunk_id in asked if chunk_id in self._chunks}

    def vectors(self, chunks: Mapping[str, HashedChunk]) -> Part:
        """The vectors of chunks, by their ids; a chunk that an ingest has added or replaced meanwhile may have none."""
        import numpy as np

        if self._all is not None:
            there = [chunk_id for chunk_id in chunks if chunk_id in self._places]
            return there, self._all[1][[self._places[chunk_id] for chunk_id in there]]
        known = self.ledger.known_vectors(self.fingerprint, [one.text_hash for one in chunks.values()])
        found = {chunk_id: known[one.text_hash] for chunk_id, one in chunks.items() if one.text_hash in known}
        return list(found), np.stack(list(found.values())) if found else np.empty((0, 0), dtype=np.float32)

    @cached_property
    def _all(self) -> Part | None:
        """All vectors, when they are few."""
        ids = self.ledger.few_ids(self.generation, self._exact_up_to) if self._exact_up_to else None
        if ids is None:
            return None
        return as_one(self.ledger.vectors_of(self.generation, self.fingerprint, ids), len(ids))

    @cached_property
    def _places(self) -> dict[str, int]:
        """The row of each chunk among all vectors."""
        return {chunk_id: row for row, chunk_id in enumerate(self._all[0])} if self._all else {}


def similarities(vector: FloatArray, others: Part) -> dict[str, float]:
    """The cosine of a vector with each of the others, by their ids."""
    ids, matrix = others
    return dict(zip(ids, _rounded(matrix @ vector), strict=True)) if ids else {}


def as_one(parts: Iterable[Part], most: int) -> Part:
    """Several parts as one, of at most so many rows; no row is laid out twice."""
    import numpy as np

    ids: list[str] = []
    whole: FloatArray = np.empty((0, 0), dtype=np.float32)
    for some, matrix in parts:
        if not ids:
            whole = np.empty((most, matrix.shape[1]), dtype=np.float32)
        whole[len(ids) : len(ids) + len(some)] = matrix
        ids += some
    return ids, whole[: len(ids)]


def nearest(vectors: FloatArray, parts: Iterable[Part], limit: int) -> list[Ranking]:
    """The `limit` nearest of all rows to each of `vectors` (m, dimension), exactly; all vectors of unit length."""
    import numpy as np

    best: list[Ranking] = [[] for _ in vectors]
    for ids, matrix in parts:
        if not ids:
            continue
        for ranking, row in zip(best, vectors @ matrix.T, strict=True):
            # Only what may be among the nearest is rounded; those that are equal then are ordered by id.
            least = np.partition(row, len(row) - limit)[len(row) - limit] - _EQUAL if limit < len(row) else -np.inf
            places = np.flatnonzero(row >= least)
            ranking += zip((ids[place] for place in places.tolist()), _rounded(row[places]), strict=True)
    return [sorted(ranking, key=lambda pair: (-pair[1], pair[0]))[:limit] for ranking in best]


def _rounded(cosines: FloatArray) -> list[float]:
    import numpy as np

    rounded: list[float] = np.clip(np.round(cosines.astype(np.float64), _DIGITS), -1.0, 1.0).tolist()
    return rounded
