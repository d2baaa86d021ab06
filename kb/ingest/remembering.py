"""The embedder as a chunker has it: during an ingest, what was paid for once is not embedded again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kb.abilities import CountsTokens, CountsWords, NamesVocabulary
from kb.components import Embedder
from kb.errors import ConfigError

if TYPE_CHECKING:
    from kb.components import FloatArray
    from kb.ingest.paid_embedding import PaidEmbedding


class RememberingEmbedder:
    """Embeds passages through the ledger while it is `bound` to one, and plainly otherwise.

    It has the abilities of the embedder that are looked for in what a chunker is lent.
    """

    counts_by: str

    def __init__(self, embedder: Embedder) -> None:
        """Wrap `embedder`.

        Raises:
            ConfigError: it can't count tokens.
        """
        if not isinstance(embedder, CountsTokens):
            raise ConfigError(f"the embedder {embedder.name} cannot count tokens, so chunks cannot be sized for it")
        self.embedder: Embedder = embedder
        self._paid: PaidEmbedding | None = None
        self.name = embedder.name
        self.max_tokens = embedder.max_tokens
        self.cutoff = embedder.cutoff
        self.batch_texts = embedder.batch_texts
        self.token_overhead = embedder.token_overhead
        self.count_tokens = embedder.count_tokens
        if isinstance(embedder, CountsWords):
            self.count_words = embedder.count_words
        if isinstance(embedder, NamesVocabulary):
            self.counts_by = embedder.counts_by

    @property
    def fingerprint(self) -> str:
        """The embedder's own; a service may have to be asked for it."""
        return self.embedder.fingerprint

    @property
    def dimension(self) -> int:
        """The embedder's own; a service may have to be asked for it."""
        return self.embedder.dimension

    @contextmanager
    def bound(self, paid: PaidEmbedding) -> Iterator[None]:
        """Look into the ledger of an ingest, and keep there what is new; the ingest's report counts it."""
        self._paid = paid
        try:
            yield
        finally:
            self._paid = None

    def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        """Embed passages as the embedder does.

        During an ingest, a text that a service refuses for good has a row of zeros: its neighbours are not lost for it.
        """
        return self.embedder.embed_documents(texts) if self._paid is None else self._paid.of_texts(texts)

    def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        """Embed questions; nothing is remembered."""
        return self.embedder.embed_queries(texts)
