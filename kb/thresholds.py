"""Which candidates are near enough: the cutoff on similarity, and the relative threshold on relevance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from unicodedata import normalize

from kb.records import Dropped, Hit, Scale, Step
from kb.words import identifiers

# A best candidate that stands so far above the middle of all candidates was hardly found by chance.
_CLEARLY_ABOVE = 0.12
# A cutoff so far below the best candidate lets it in, and its near neighbours.
_BELOW_BEST = 0.05
# The middle of fewer candidates may itself be an answer, and says nothing of what has none.
_ENOUGH_CANDIDATES = 10


def cut(
    candidates: Sequence[Hit], cutoff: float, exempted: Sequence[str] = ()
) -> tuple[list[Hit], list[Dropped], tuple[str, ...]]:
    """Part candidates by similarity, the only scale that a cutoff applies to.

    Args:
        candidates: In any order, which is kept.
        cutoff: The least similarity; what is exactly on it is kept.
        exempted: Identifiers; a candidate that holds one is kept, however far its vector is.

    Returns:
        What is kept, what is not, and a note when nothing is left although one candidate stands out.
        A step `identifier` says that a hit is kept by exemption.
    """
    kept, dropped = [], []
    for rank, hit in enumerate(candidates, start=1):
        if hit.similarity >= cutoff:
            kept.append(hit)
        elif exempted and _holds_one_of(exempted, hit.chunk.embedded_text):
            kept.append(replace(hit, steps=(*hit.steps, Step("identifier", rank, hit.similarity))))
        else:
            dropped.append(Dropped(hit, f"similarity {hit.similarity:.3f} is below the cutoff {cutoff:.3f}"))
    notes = _emptied(candidates, cutoff) if candidates and not kept else ()
    return kept, dropped, notes


def _holds_one_of(exempted: Sequence[str], text: str) -> bool:
    # A look for the letters alone first: hardly any chunk holds them, and to find the words takes much longer.
    folded = text.casefold() if text.isascii() else normalize("NFKC", text).casefold()
    return any(one in folded for one in exempted) and not set(exempted).isdisjoint(identifiers(text))


def _emptied(candidates: Sequence[Hit], cutoff: float) -> tuple[str, ...]:
    """A note when the cutoff removed everything although one candidate stands out."""
    similarities = sorted((hit.similarity for hit in candidates), reverse=True)
    best, middle = similarities[0], similarities[len(similarities) // 2]
    if best - middle < _CLEARLY_ABOVE:
        return ()
    advice = f"try --cutoff {best - _BELOW_BEST:.2f}, or measure one: python -m pipelines.calibrate"
    return (f"the cutoff {cutoff:.2f} removed all; the best similarity was {best:.2f}: {advice}",)


def relative(
    ranked: Sequence[Hit], scale: Scale | None, threshold: float, candidates: Sequence[Hit]
) -> tuple[list[Hit], list[Dropped]]:
    """Part hits by their relevance against the best one's: `threshold` times as much is enough.

    What relevance is depends on the scale. A rating or a probability is one. A logit is one once it
    is turned into a probability. On other scales (cosines and what is made of them) there is no zero,
    so a ratio means nothing; there it is retrieval's own score above that of the middle candidate,
    as most candidates are beside the question.

    Args:
        ranked: Best first.
        scale: Of their scores; None when these are retrieval's.
        threshold: 0 keeps all.
        candidates: All that retrieval found, for what is beside the question.

    Returns:
        What is kept, in the same order, and what is not. The first is kept, whatever retrieval said of it.
        Too few candidates for a middle keep all.
    """
    relevance = _relevance(ranked, scale, candidates) if threshold and ranked else None
    if relevance is None:
        return list(ranked), []
    best = max(relevance)
    kept, dropped = [], []
    for hit, value in zip(ranked, relevance, strict=True):
        if value >= threshold * best or hit is ranked[0]:
            kept.append(hit)
        else:
            dropped.append(Dropped(hit, f"relevance {_share(value, best)} of the best, below {threshold:g}"))
    return kept, dropped


def _relevance(ranked: Sequence[Hit], scale: Scale | None, candidates: Sequence[Hit]) -> list[float] | None:
    if scale == "ratio":
        return [hit.score for hit in ranked]
    if scale == "logit":
        return [_sigmoid(hit.score) for hit in ranked]
    if len(candidates) < _ENOUGH_CANDIDATES:
        return None
    middle = median(hit.score for hit in candidates)
    retrieved = {hit.chunk.id: hit.score - middle for hit in candidates}
    return [retrieved[hit.chunk.id] for hit in ranked]


def _sigmoid(logit: float) -> float:
    return 1 / (1 + math.exp(-logit)) if logit >= 0 else math.exp(logit) / (1 + math.exp(logit))


def _share(value: float, best: float) -> str:
    return f"{value / best:.2f}" if best > 0 else "0"
