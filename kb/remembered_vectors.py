"""Vectors of sentences that were compared before: questions about one matter meet the same ones."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from kb.components import Embedder, FloatArray

_MOST_BYTES = 16_000_000
"""Some 10,000 vectors of 384 dimensions."""


class RememberedVectors:
    """Embeds passages, and keeps those that were used last; for any number of threads."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._kept: dict[str, FloatArray] = {}
        self._lock = Lock()

    def of(self, texts: Sequence[str]) -> FloatArray:
        """The vectors of `texts`, of which there has to be one: shape (n, dimension)."""
        with self._lock:
            found = {text: self._kept.pop(text) for text in dict.fromkeys(texts) if text in self._kept}
            self._kept |= found  # behind the others: what was not used for long goes first
        missing = [text for text in dict.fromkeys(texts) if text not in found]
        if missing:
            fresh = dict(zip(missing, self._embedder.embed_documents(missing), strict=True))
            found |= fresh
            self._keep(fresh)
        return np.stack([found[text] for text in texts])

    def _keep(self, fresh: dict[str, FloatArray]) -> None:
        with self._lock:
            self._kept |= {text: vector.copy() for text, vector in fresh.items()}  # not the whole batch
            most = _MOST_BYTES // next(iter(fresh.values())).nbytes
            for text in list(self._kept)[: max(0, len(self._kept) - most)]:
                del self._kept[text]
