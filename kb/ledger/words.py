"""Keyword search: an inverted index of the live chunks' words, in step with the ledger by its transactions.

SQLite's FTS5 keeps the index and ranks by BM25 (Robertson and Zaragoza 2009, doi:10.1561/1500000019;
k1 = 1.2, b = 0.75). What a word is, in every script, is decided by `kb.words`; FTS5 only splits at the
spaces that are put between them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from kb.ledger.connection import LedgerConnection
from kb.records import Chunk
from kb.words import content_terms, joined_terms, terms

# A question of many words is a pasted text: the rarer part of it would be enough, and this bounds the time.
_MOST_TERMS = 64


# A weight is never quite nothing: a word that stands in most chunks still counts among equals.
_LEAST_WEIGHT = 1e-6
_SATURATION = 2.2
"""BM25's k1 + 1: what a word's repetition can at most multiply its weight by."""


def most_score(weights: Mapping[str, float]) -> float:
    """The BM25 score that a chunk cannot reach: every word of the question, again and again."""
    return _SATURATION * sum(weights.values())


def _asked(question: str) -> list[str]:
    return list(dict.fromkeys(content_terms(question) or terms(question)))[:_MOST_TERMS]


def _inverse_frequency(documents: int, total: int) -> float:
    return max(_LEAST_WEIGHT, math.log((total - documents + 0.5) / (documents + 0.5)))


class Words(LedgerConnection):
    """The part of the ledger that finds chunks by their words."""

    def search_words(
        self, generation: int, question: str, limit: int, rows: bytes | None = None
    ) -> list[tuple[str, float]]:
        """The live chunks that share words with a question.

        Args:
            generation: Where they are found.
            question: In any language.
            limit: At most so many.
            rows: A byte for each row of the index, 1 for those that are looked at; None looks at all.

        Returns:
            At most `limit` pairs (chunk id, BM25 score), falling, ties by id; none when the question
            has no word that says anything.
        """
        asked = _asked(question)
        if not asked or limit < 1:
            return []
        query = " OR ".join('"' + term.replace('"', '""') + '"' for term in asked)
        # Of all that says which rows count, looking into a blob takes SQLite the least time.
        among, marks = ("", ()) if rows is None else ("AND substr(?, words.rowid, 1) = x'01' ", (rows,))
        with self.snapshot():
            found = self._rows(
                "SELECT r.chunk_id, -bm25(words) AS score FROM words JOIN word_rows r ON r.id = words.rowid "
                f"WHERE words MATCH ? {among}AND r.generation = ? ORDER BY score DESC, r.chunk_id LIMIT ?",
                (query, *marks, generation, limit),
            )
        return [(str(chunk_id), float(score)) for chunk_id, score in found]

    def word_weights(self, generation: int, question: str) -> dict[str, float]:
        """How much each word of a question says: its inverse document frequency, as BM25 uses it.

        A word that no chunk holds weighs most.
        """
        asked = _asked(question)
        with self.snapshot():
            ((total,),) = self._rows("SELECT COUNT(*) FROM word_rows WHERE generation = ?", (generation,))
            counts = dict(self._rows_of("SELECT term, doc FROM word_counts WHERE term IN (?)", (), asked))
        return {term: _inverse_frequency(min(counts.get(term, 0), total), total) for term in asked}

    def _index_words(self, generation: int, chunks: Iterable[Chunk]) -> None:
        """Add chunks; inside a transaction of the caller."""
        ((last,),) = self._rows("SELECT COALESCE(MAX(id), 0) FROM word_rows")
        rows = list(enumerate(chunks, last + 1))
        self._connection.executemany(
            "INSERT INTO word_rows (id, generation, chunk_id) VALUES (?, ?, ?)",
            [(row, generation, chunk.id) for row, chunk in rows],
        )
        self._connection.executemany(
            "INSERT INTO words (rowid, terms) VALUES (?, ?)",
            [(row, joined_terms(chunk.embedded_text)) for row, chunk in rows],
        )

    def _unindex_words(self, generation: int, chunk_ids: Sequence[str]) -> None:
        """Take chunks out; inside a transaction of the caller."""
        rows = self._rows_of(
            "SELECT id FROM word_rows WHERE generation = ? AND chunk_id IN (?)", (generation,), chunk_ids
        )
        for statement in ("DELETE FROM words WHERE rowid = ?", "DELETE FROM word_rows WHERE id = ?"):
            self._connection.executemany(statement, rows)
