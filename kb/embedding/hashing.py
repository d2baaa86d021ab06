"""Feature hashing: words and pairs of Chinese or Japanese characters, counted into a vector. For tests.

Costs nothing, needs nothing, gives the same vectors everywhere, and finds texts that share words; it
knows nothing of meaning.

Weinberger et al., Feature Hashing for Large Scale Multitask Learning, 2009, arXiv:0902.2206.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from operator import add
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from kb.errors import KbError
from kb.settings import ComponentOptions

if TYPE_CHECKING:
    from kb.components import FloatArray, Parts

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_IS_CJK = re.compile(rf"[{_CJK}]")
_RUNS = re.compile(rf"[{_CJK}]+|[^\W{_CJK}]+")
_TOKENS = re.compile(rf"[{_CJK}]|[^\W{_CJK}]+|[^\w\s]")
CUTOFF = 0.15
"""A question of six words that shares two with a passage of thirty has about 2/√(6 · 30) = 0.15."""
BATCH_TEXTS = 1024


class Options(ComponentOptions):
    """Settings of `[embedding.hashing]`."""

    dimension: int = Field(256, ge=8, le=65536)
    max_tokens: int = Field(512, ge=1)


def build(options: Options, parts: Parts) -> HashingEmbedder:
    """Make the embedder; it needs no parts."""
    del parts
    return HashingEmbedder(options.dimension, options.max_tokens)


class HashingEmbedder:
    """Embeds questions and passages alike."""

    name = "hashing"
    token_overhead = 0
    cutoff = CUTOFF
    batch_texts = BATCH_TEXTS

    def __init__(self, dimension: int, max_tokens: int) -> None:
        self.dimension = dimension
        self.max_tokens = max_tokens
        self.fingerprint = f"hashing:{dimension}"

    def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        """Embed passages: float32 (len(texts), dimension), unit rows; `[]` gives (0, dimension).

        Raises:
            KbError: a text has more than `max_tokens` tokens.
        """
        for text in texts:
            count = self.count_tokens(text)
            if count > self.max_tokens:
                raise KbError(
                    f"a text of {count} tokens was to be embedded, but [embedding.hashing] max_tokens is "
                    f"{self.max_tokens}: cut it into smaller chunks"
                )
        return self.embed_queries(texts)

    def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        """Embed questions of any length; the same form as `embed_documents`."""
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        for vector, text in zip(vectors, texts, strict=True):
            codes = np.array([_code(feature) for feature in _features(text)], np.int64)
            # The top bit is the sign, so that features which meet in one place cancel out on average.
            vector += np.bincount(codes % self.dimension, np.where(codes < 1 << 31, 1.0, -1.0), self.dimension)
            if not vector.any():
                vector[0] = 1  # nothing to count, or all cancelled
            vector /= np.linalg.norm(vector)
        return vectors

    def count_tokens(self, text: str) -> int:
        """Count words, single CJK characters and signs."""
        return len(_TOKENS.findall(text))


def _features(text: str) -> Iterator[str]:
    for run in _RUNS.findall(text.casefold()):
        if len(run) > 1 and not run.isascii() and _IS_CJK.match(run):
            yield from map(add, run, run[1:])
        else:
            yield run


@lru_cache(maxsize=100_000)
def _code(feature: str) -> int:
    return zlib.crc32(feature.encode("utf-8", "replace"))
