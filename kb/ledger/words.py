"""Keyword search: an inverted index of the live chunks' words, in step with the ledger by its transactions.

SQLite's FTS5 keeps the index and ranks by BM25 (Robertson and Zaragoza 2009, doi:10.1561/1500000019;
k1 = 1.2, b = 0.75). What a word is, in every script, is decided by `kb.words`; FTS5 only splits at the
spaces that are put between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kb.ledger.connection import LedgerConnection
from kb.records import Chunk
from kb.words import content_terms, terms

# A question of many words is a pasted text: the rarer part of it would be enough, and this bounds the time.
_MOST_TERMS = 64


class Words(LedgerConnection):
    """The part of the ledger that finds chunks by their words."""

    def search_words(self, generation: int, question: str, limit: int) -> list[tuple[str, float]]:
        """The live chunks that share words with a question.

        Returns:
            At most `limit` pairs (chunk id, BM25 score), falling, ties by id; none when the question
            has no word that says anything.
        """
        asked = list(dict.fromkeys(content_terms(question) or terms(question)))[:_MOST_TERMS]
        if not asked or limit < 1:
            return []
        query = " OR ".join('"' + term.replace('"', '""') + '"' for term in asked)
        with self.snapshot():
            rows = self._rows(
                "SELECT r.chunk_id, -bm25(words) AS score FROM words JOIN word_rows r ON r.id = words.rowid "
                "WHERE words MATCH ? AND r.generation = ? ORDER BY score DESC, r.chunk_id LIMIT ?",
                (query, generation, limit),
            )
        return [(str(chunk_id), float(score)) for chunk_id, score in rows]

    def _index_words(self, generation: int, chunks: Iterable[Chunk]) -> None:
        """Add chunks; inside a transaction of the caller."""
        for chunk in chunks:
            row = self._connection.execute(
                "INSERT INTO word_rows (generation, chunk_id) VALUES (?, ?)", (generation, chunk.id)
            ).lastrowid
            self._connection.execute(
                "INSERT INTO words (rowid, terms) VALUES (?, ?)", (row, " ".join(terms(chunk.embedded_text)))
            )

    def _unindex_words(self, generation: int, chunk_ids: Sequence[str]) -> None:
        """Take chunks out; inside a transaction of the caller."""
        rows = self._rows_of(
            "SELECT id FROM word_rows WHERE generation = ? AND chunk_id IN (?)", (generation,), chunk_ids
        )
        for statement in ("DELETE FROM words WHERE rowid = ?", "DELETE FROM word_rows WHERE id = ?"):
            self._connection.executemany(statement, rows)
