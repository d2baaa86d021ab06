"""Embedders that only count and hash: real ones for a chunker, which needs an exact count and some vectors."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from kb.components import Parts

_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]{1,12}|[^\w\s]")

DIMENSION = 16
OVERHEAD = 3


def words(text: str) -> int:
    """One token for each Han or kana character, each sign, and each begun dozen letters of a word."""
    return len(_WORD.findall(text))


def utf8_thirds(text: str) -> int:
    """One token for each begun three bytes: white space counts, and an emoji is several tokens."""
    return -(-len(text.encode()) // 3)


COUNTERS: dict[str, Callable[[str], int]] = {"words": words, "utf8_thirds": utf8_thirds}


class CountingEmbedder:
    """Counts by one of `COUNTERS`, and hashes character pairs into a vector."""

    name = "counting"
    dimension = DIMENSION
    cutoff = 0.5
    token_overhead = OVERHEAD
    batch_texts = 32

    def __init__(self, counter: str, max_tokens: int) -> None:
        self.fingerprint = f"counting {counter} {max_tokens}"
        self.max_tokens = max_tokens
        self._count = COUNTERS[counter]

    def count_tokens(self, text: str) -> int:
        return self._count(text)

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        vectors = np.full((len(texts), DIMENSION), 1e-3, dtype=np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for at in range(len(text) - 1):
                row[zlib.crc32(text[at : at + 2].encode()) % DIMENSION] += 1
        unit: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self.embed_documents(texts)


def parts(counter: str, max_tokens: int = 512) -> Parts:
    """What a chunker is lent."""
    embedder = CountingEmbedder(counter, max_tokens)
    return Parts(embedder=embedder, count_tokens=embedder.count_tokens)
