"""The token vectors that were kept beside vectors, each text's in the packed form of its embedder.

They can be computed again, so an export leaves them out; a prune takes them with the vectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kb.ledger.connection import LedgerConnection
from kb.ledger.hashes import text_hash


class TokenVectors(LedgerConnection):
    """The part of the ledger that keeps token vectors; they belong to no generation."""

    def known_token_vectors(self, fingerprint: str, texts: Sequence[str]) -> dict[str, bytes]:
        """What is kept of those texts, by text."""
        text_of = {text_hash(text): text for text in texts}
        with self.snapshot():
            rows = self._rows_of(
                "SELECT text_hash, states FROM token_vectors WHERE fingerprint = ? AND text_hash IN (?)",
                (fingerprint,),
                list(text_of),
            )
        return {text_of[key]: states for key, states in rows}

    def put_token_vectors(self, fingerprint: str, items: Iterable[tuple[str, bytes]]) -> None:
        """Keep (text hash, packed token vectors) pairs: all of them or, after an error, none."""
        rows = [(fingerprint, text, states) for text, states in items]
        with self.transaction():
            self._connection.executemany("INSERT OR REPLACE INTO token_vectors VALUES (?, ?, ?)", rows)
