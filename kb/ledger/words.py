"""Keyword search: chunks by their words, best first by BM25, in step with the ledger by its transactions.

BM25: Robertson and Zaragoza 2009, doi:10.1561/1500000019; k1 = 0.6, b = 0.75. What a word is, in every
script, is decided by `kb.words`; the index is that of `kb.ledger.postings`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice
from operator import itemgetter
from typing import TYPE_CHECKING

from kb.ledger.postings import PostingLists
from kb.ledger.schema import unpack
from kb.records import Chunk, embedded_text
from kb.words import content_terms, terms

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kb.ledger.postings import Postings

# A question of many words is a pasted text: the rarer part of it would be enough, and this bounds the time.
_MOST_TERMS = 64


# A weight is never quite nothing: a word that stands in most chunks still counts among equals.
_LEAST_WEIGHT = 1e-6
_K1, _B = 0.6, 0.75
_BATCH = 5_000
"""Chunks that are indexed at once when all are."""


def _asked(question: str) -> list[str]:
    return list(dict.fromkeys(content_terms(question) or terms(question)))[:_MOST_TERMS]


def _inverse_frequency(documents: int, total: int) -> float:
    return max(_LEAST_WEIGHT, math.log((total - documents + 0.5) / (documents + 0.5)))


@dataclass(frozen=True, slots=True)
class WordsFound:
    """What the words of a question find."""

    ranking: list[tuple[str, float]] = field(default_factory=list)
    """(chunk id, BM25 score), falling, ties by id."""
    weights: dict[str, float] = field(default_factory=dict)
    """How much each word of the question says: its inverse document frequency, as BM25 uses it. A word that
    no chunk holds weighs most."""
    best: float = 0.0
    """The highest score of any live chunk, looked at or not."""

    @property
    def shares(self) -> dict[str, float]:
        """The scores as shares of what no chunk can reach: every word of the question, again and again."""
        return {chunk_id: score / self._most for chunk_id, score in self.ranking}

    @property
    def largest_share(self) -> float:
        """That of the highest score of any live chunk."""
        return self.best / self._most if self.best else 0.0

    @property
    def _most(self) -> float:
        return (_K1 + 1) * sum(self.weights.values())


class Words(PostingLists):
    """The part of the ledger that finds chunks by their words."""

    def find_words(
        self, generation: int, question: str, limit: int, rows: NDArray[np.int64] | None = None
    ) -> WordsFound:
        """The live chunks that share words with a question, and what each word weighs.

        Args:
            generation: Where they are found.
            question: In any language.
            limit: At most so many.
            rows: The rows of the index that are looked at, as `word_rows` gives them; None looks at all.
        """
        asked = _asked(question)
        with self.snapshot():
            total, length = self._extent(generation)
            lists = self._postings(generation, asked)
            weights = {term: _inverse_frequency(len(lists.get(term, ())), total) for term in asked}
            if not lists or limit < 1:
                return WordsFound([], weights)
            scores, first = _scores(lists, weights, length / total)
            best = _best(scores, first, limit, rows)
            marks = [str(row) for row in best]
            names = dict(self._rows_of("SELECT id, chunk_id FROM word_rows WHERE id IN (?)", (), marks))
        found = [(str(names[row]), score) for row, score in best.items()]
        ranking = sorted(found, key=lambda pair: (-pair[1], pair[0]))[:limit]
        return WordsFound(ranking, weights, float(scores.max()))

    def _index_words(self, generation: int, chunks: Sequence[Chunk]) -> None:
        """Add chunks; inside a transaction of the caller."""
        self._add_postings(generation, [(chunk.id, terms(chunk.embedded_text)) for chunk in chunks])

    def _index_what_is_not(self) -> None:
        """Fill the index of a ledger that has none yet, as an older version left it."""
        if not self._index_is_due():
            return
        with self.transaction():
            if not self._index_is_due():  # another process was faster
                return
            rows = self._connection.execute(
                "SELECT generation, chunk_id, header, text FROM chunks JOIN chunk_texts USING (generation, chunk_id) "
                "ORDER BY generation, document_id, position"
            )
            for generation, some in groupby(rows, key=itemgetter(0)):
                texts = ((chunk_id, terms(embedded_text(header, unpack(text)))) for _, chunk_id, header, text in some)
                while batch := list(islice(texts, _BATCH)):
                    self._add_postings(generation, batch)

    def _index_is_due(self) -> bool:
        with self.snapshot():
            ((due,),) = self._rows("SELECT EXISTS (SELECT 1 FROM chunks) AND NOT EXISTS (SELECT 1 FROM word_rows)")
        return bool(due)

    def _unindex_words(self, generation: int, chunk_ids: Sequence[str]) -> None:
        """Take chunks out; inside a transaction of the caller."""
        self._remove_postings(generation, chunk_ids)


def _scores(
    lists: Mapping[str, Postings], weights: Mapping[str, float], average: float
) -> tuple[NDArray[np.float64], int]:
    """BM25 of the rows from a first one on, shape (n,); 0 where none of the words is."""
    import numpy as np

    parts = []
    for term, postings in lists.items():
        count = postings["count"].astype(np.float64)
        norm = 1 - _B + _B / average * postings["length"]
        parts.append(weights[term] * (_K1 + 1) * count / (count + _K1 * norm))
    rows = np.concatenate([postings["row"] for postings in lists.values()])
    first = int(rows.min())
    return np.bincount(rows - first, weights=np.concatenate(parts)).astype(np.float64, copy=False), first


def _best(scores: NDArray[np.float64], first: int, limit: int, rows: NDArray[np.int64] | None) -> dict[int, float]:
    """The rows with the `limit` highest scores, and all that are as high as the last of them."""
    import numpy as np

    if rows is not None:
        places = rows[(rows >= first) & (rows < first + len(scores))] - first
        looked_at = np.zeros_like(scores)
        looked_at[places] = scores[places]
        scores = looked_at
    places = np.flatnonzero(scores > 0)
    if len(places) > limit:
        least = np.partition(scores[places], len(places) - limit)[len(places) - limit]
        places = places[scores[places] >= least]
    return {first + int(place): float(scores[place]) for place in places}
