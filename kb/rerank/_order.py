"""What rerankers make of scores, and of having none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kb.errors import ServiceError
from kb.records import Hit, Reranked, Scorer


def best_first(hits: Sequence[Hit], scores: Sequence[float], scored_by: Scorer) -> tuple[Hit, ...]:
    """The hits by falling score, equal ones in the order they came in; `scores[i]` is that of `hits[i]`."""
    scored = [replace(hit, score=score, scored_by=scored_by) for hit, score in zip(hits, scores, strict=True)]
    return tuple(sorted(scored, key=lambda hit: -hit.score))


def as_they_came(hits: Sequence[Hit], error: ServiceError) -> Reranked:
    """The hits in retrieval's order and with its scores, and a note of why."""
    return Reranked(tuple(hits), (f"the hits are not reranked, but in the order of the search: {error}",))
