"""Vectors for measuring: what was embedded for an earlier measurement is not embedded again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from kb.errors import KbError
from kb.ingest.paid_embedding import PaidEmbedding
from kb.ledger.connection import pages
from kb.ledger.hashes import text_hash
from kb.ledger.ledger import Ledger

if TYPE_CHECKING:
    from kb.components import Embedder, FloatArray
    from kb.knowledge_base import KnowledgeBase

EVALUATION_FOLDER = "_evaluation"
_FOLDERS = (EVALUATION_FOLDER, "vectors")
"""Below `data_dir`. No collection's folder begins with `_`, and a ledger so deep is not taken for one's."""
_NO_GENERATION = 0


class KnownVectors:
    """Embeds texts, and keeps the vectors in a ledger that belongs to no collection."""

    def __init__(self, ledger: Ledger, embedder: Embedder, paid: PaidEmbedding) -> None:
        self._ledger = ledger
        self._embedder = embedder
        self._paid = paid
        self._queries = 0

    @property
    def max_tokens(self) -> int:
        """The most tokens of one text."""
        return self._embedder.max_tokens

    @property
    def embedded(self) -> int:
        """Texts that were not known, those that a chunker compared among them."""
        return self._paid.texts + self._queries

    def of_documents(self, texts: Sequence[str]) -> FloatArray:
        """Passages: float32, shape (len(texts), dimension).

        Raises:
            KbError: see the embedder; what was embedded by then is kept. Or it refused a text for good.
        """
        vectors = self._paid.of_texts(texts)
        for text in texts:
            if (said := self._paid.refused.get(text_hash(text))) is not None:
                raise KbError(f"a chunk was refused, so nothing can be measured: {said} (the chunk: {text[:80]!r})")
        return vectors

    def of_queries(self, texts: Sequence[str]) -> FloatArray:
        """Questions; the same form."""
        fingerprint = f"{self._embedder.fingerprint} queries"  # a question's vector is another than a passage's
        by_hash = {text_hash(text): text for text in texts}
        for keys in pages(self._ledger.unknown_texts(fingerprint, list(by_hash)), self._embedder.batch_texts):
            vectors = self._embedder.embed_queries([by_hash[key] for key in keys])
            self._ledger.put_vectors(fingerprint, zip(keys, vectors, strict=True))
            self._queries += len(keys)
        known = self._ledger.known_vectors(fingerprint, list(by_hash))
        return np.stack([known[text_hash(text)] for text in texts])


@contextmanager
def known_vectors(base: KnowledgeBase) -> Iterator[KnownVectors]:
    """Open what earlier measurements left in `data_dir`; nothing is there at first. The chunker uses it as well.

    Raises:
        LedgerError: it cannot be opened.
    """
    with Ledger(base.settings.data_dir.joinpath(*_FOLDERS)) as ledger:
        paid = PaidEmbedding(ledger, base.embedder, _NO_GENERATION, lambda texts: None)
        with base.lent_embedder.bound(paid):
            yield KnownVectors(ledger, base.embedder, paid)
