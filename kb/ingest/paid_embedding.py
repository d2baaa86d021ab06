"""Vectors for texts: what was paid for comes from the ledger, only the rest from the embedder."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from kb.abilities import CountsRequests, CountsTokens, EmbedsInParts, KeepsTokenStates
from kb.errors import RefusedError
from kb.ledger.hashes import HashedChunk, text_hash

if TYPE_CHECKING:
    from kb.components import Embedder, FloatArray
    from kb.ledger.ledger import Ledger
    from kb.records import EmbeddedPart

_Item = TypeVar("_Item")
_EmbedParts: TypeAlias = "Callable[[Sequence[str]], Generator[EmbeddedPart, None, None]]"

# So many texts refused, and never one accepted: then it is the service that is set up wrongly, not the texts.
_REFUSED_BY_ALL = 3
_NOT_FOUND = 404


class PaidEmbedding:
    """Embeds texts that were never embedded, and counts what that took."""

    def __init__(self, ledger: Ledger, embedder: Embedder, generation: int, on_embedded: Callable[[int], None]) -> None:
        self._ledger = ledger
        self._embedder = embedder
        self._generation = generation
        self._on_embedded = on_embedded
        self._calls = 0
        self._requests_before = embedder.requests if isinstance(embedder, CountsRequests) else 0
        self.texts = 0
        self.tokens = 0
        self._fresh: dict[str, FloatArray] = {}
        """What the last call of `embed` has paid for, so that it need not be read back."""
        self.refused: dict[str, str] = {}
        """Texts that the service refused for good, by hash, with what it said."""

    @property
    def calls(self) -> int:
        """Requests to the service; of an embedder that has none, calls of it."""
        if isinstance(self._embedder, CountsRequests):
            return self._embedder.requests - self._requests_before
        return self._calls

    def embed(self, chunks: Iterable[HashedChunk]) -> None:
        """See to it that the ledger holds the vector of every chunk whose text is not `refused`.

        An embedder that is set to keep token vectors has them kept too, from the same pass.
        What a request (or a slice of `batch_texts`) gives is kept as soon as it is there, so an interruption costs
        at most what is under way.

        Raises:
            ServiceError: the service failed; what was embedded by then is kept.
        """
        self._fresh.clear()
        keeping = isinstance(self._embedder, KeepsTokenStates) and self._embedder.keep_token_vectors
        self._pay({one.text_hash: one.chunk.embedded_text for one in chunks}, keeping)

    def of_texts(self, texts: Sequence[str]) -> FloatArray:
        """Embed what a chunker compares: float32, shape (len(texts), dimension).

        Rows are of unit length; that of a text which is `refused` is zero.

        Raises:
            ServiceError: as `embed`.
        """
        import numpy as np

        keys = [text_hash(text) for text in texts]
        self._pay(dict(zip(keys, texts, strict=True)), keeping=False)
        known = self.vectors(keys)
        self._fresh.clear()
        rows = np.zeros((len(keys), self._embedder.dimension), np.float32)
        for row, key in zip(rows, keys, strict=True):
            if key in known:
                row[:] = known[key]
        return rows

    def vectors(self, text_hashes: Sequence[str]) -> dict[str, FloatArray]:
        """The vectors of texts that were embedded, by their hashes."""
        kept = [key for key in text_hashes if key not in self._fresh]
        found = self._ledger.known_vectors(self._embedder.fingerprint, kept) if kept else {}
        return found | {key: self._fresh[key] for key in text_hashes if key in self._fresh}

    def _pay(self, by_hash: Mapping[str, str], keeping: bool) -> None:
        """Embed what the ledger lacks, with token vectors where they are kept."""
        unknown = self._ledger.unknown_texts(self._embedder.fingerprint, list(by_hash), tokens=keeping)
        wanted = {key: by_hash[key] for key in unknown if key not in self.refused}
        if keeping and isinstance(self._embedder, KeepsTokenStates):
            self._embed_parts(wanted, self._embedder.embed_parts_with_states)
        elif isinstance(self._embedder, EmbedsInParts):
            self._embed_parts(wanted, self._embedder.embed_parts)
        else:
            for keys in batches(wanted, self._embedder.batch_texts):
                self._embed({key: by_hash[key] for key in keys})

    def _embed_parts(self, texts: Mapping[str, str], embed: _EmbedParts) -> None:
        """Keep what is done while the rest is under way; only what is refused is left out."""
        keys = list(texts)
        with closing(embed(list(texts.values()))) as parts:
            for part in parts:
                done = [keys[row] for row in part.rows]
                if part.vectors is not None:
                    self._calls += 1
                    self._keep(done, part.vectors, part.tokens, part.token_vectors)
                elif part.refused is not None:
                    self._set_aside(done[0], part.refused)

    def _embed(self, texts: Mapping[str, str]) -> None:
        try:
            self._calls += 1
            vectors = self._embedder.embed_documents(list(texts.values()))
        except RefusedError as error:
            self._find_refused(texts, error)
            return
        count = self._embedder.count_tokens if isinstance(self._embedder, CountsTokens) else None
        self._keep(list(texts), vectors, sum(map(count, texts.values())) if count else 0)

    def _keep(self, keys: Sequence[str], vectors: FloatArray, tokens: int, token_vectors: Sequence[bytes] = ()) -> None:
        with self._ledger.transaction():
            self._ledger.put_vectors(self._embedder.fingerprint, zip(keys, vectors, strict=True))
            if token_vectors:
                self._ledger.put_token_vectors(self._embedder.fingerprint, zip(keys, token_vectors, strict=True))
        self._fresh.update(zip(keys, vectors, strict=True))
        self.texts += len(keys)
        self.tokens += tokens
        self._on_embedded(len(keys))

    def _find_refused(self, texts: Mapping[str, str], error: RefusedError) -> None:
        """Halve a refused batch until the texts that it was refused for stand alone; the others are embedded."""
        if error.status == _NOT_FOUND:  # the address or the model, whatever the text
            raise error
        keys = list(texts)
        if len(keys) > 1:
            for half in (keys[: len(keys) // 2], keys[len(keys) // 2 :]):
                self._embed({key: texts[key] for key in half})
            return
        self._set_aside(keys[0], error)

    def _set_aside(self, key: str, error: RefusedError) -> None:
        self.refused[key] = str(error)
        if len(self.refused) >= _REFUSED_BY_ALL and not self._ledger.counts(self._generation).vectors:
            raise error


def batches(items: Iterable[_Item], size: int) -> Iterator[list[_Item]]:
    """Cut `items` into lists of at most `size`."""
    batch: list[_Item] = []
    for item in items:
        batch.append(item)
        if len(batch) >= size:
            yield batch
            batch = []
    if batch:
        yield batch
