"""Keyword search: chunks by their words, best first by BM25, in step with the ledger by its transactions.

What a word is, in every script, is decided by `kb.words`; the index is that of `kb.ledger.postings`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice
from operator import itemgetter
from typing import TYPE_CHECKING

from kb.ledger.bm25 import highest, inverse_frequency, unreachable
from kb.ledger.postings import PostingList, PostingLists
from kb.ledger.schema import unpack
from kb.records import Chunk, embedded_text
from kb.words import content_terms, terms

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# A question of many words is a pasted text: the rarer part of it would be enough, and this bounds the time.
_MOST_TERMS = 64
_BATCH = 5_000
"""Chunks that are indexed at once when all are."""


def _asked(question: str) -> list[str]:
    return list(dict.fromkeys(content_terms(question) or terms(question)))[:_MOST_TERMS]


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
    lists: dict[str, PostingList] = field(default_factory=dict, repr=False)
    """Who holds each word, in rows of the index."""
    rows: dict[str, int] = field(default_factory=dict, repr=False)
    """The rows of those that were found, by chunk id."""

    @property
    def shares(self) -> dict[str, float]:
        """The scores as shares of what no chunk can reach: every word of the question, again and again."""
        most = self._most
        return {chunk_id: score / most for chunk_id, score in self.ranking}

    @property
    def largest_share(self) -> float:
        """That of the highest score of any live chunk."""
        return self.best / self._most if self.best else 0.0

    @property
    def _most(self) -> float:
        return unreachable(sum(self.weights.values()))


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
            gone = self._gone(generation)
            documents = {term: len(held) - held.how_many_of(gone) for term, held in lists.items()}
            weights = {term: inverse_frequency(documents.get(term, 0), total) for term in asked}
            scored = [(weights[term], held) for term, held in lists.items() if documents[term]]
            if not scored or limit < 1:
                return WordsFound([], weights, lists=lists)
            best, highest_of_all = highest(scored, length / total, limit, gone, rows)
            marks = [str(row) for row in best]
            names = dict(self._rows_of("SELECT id, chunk_id FROM word_rows WHERE id IN (?)", (), marks))
        found = [(str(names[row]), score) for row, score in best.items()]
        ranking = sorted(found, key=lambda pair: (-pair[1], pair[0]))[:limit]
        return WordsFound(ranking, weights, highest_of_all, lists, {name: row for row, name in names.items()})

    def held_shares(self, generation: int, found: WordsFound, chunk_ids: Sequence[str]) -> dict[str, float]:
        """The share of the weight of a question's words that each of the chunks holds; a chunk that has gone has none.

        Args:
            generation: Where they are.
            found: What the words found, in the same state of the ledger.
            chunk_ids: Any chunks.
        """
        import numpy as np

        total = sum(found.weights.values())
        if not total:
            return {}
        row_of = {chunk_id: found.rows[chunk_id] for chunk_id in chunk_ids if chunk_id in found.rows}
        if others := [chunk_id for chunk_id in chunk_ids if chunk_id not in row_of]:
            statement = "SELECT chunk_id, id FROM word_rows WHERE generation = ? AND chunk_id IN (?)"
            with self.snapshot():
                row_of |= dict(self._rows_of(statement, (generation,), others))
        rows = np.array(list(row_of.values()), dtype=np.int64)
        held = np.zeros(len(rows))
        for term, postings in found.lists.items():
            held += found.weights[term] * postings.places_of(rows)[1]
        return dict(zip(row_of, (held / total).tolist(), strict=True))

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
