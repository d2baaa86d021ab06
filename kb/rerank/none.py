"""No reranking: hits stay in retrieval's order."""

from __future__ import annotations

from collections.abc import Sequence

from kb.components import Parts
from kb.records import Hit, Reranked
from kb.settings import ComponentOptions


class Options(ComponentOptions):
    """`none` has no options."""


class NoReranker:
    """Keeps the order."""

    def rerank(self, question: str, hits: Sequence[Hit]) -> Reranked:
        """Give the hits as they came."""
        return Reranked(tuple(hits))


def build(options: Options, parts: Parts) -> NoReranker:
    """Build the reranker that does nothing."""
    return NoReranker()
