"""Spans of one text, half open, and the share of one set that another one covers.

The measures are those of B. Smith and A. Troynikov, Evaluating Chunking Strategies for Retrieval,
Chroma, 2024, https://research.trychroma.com/evaluating-chunking, with characters for tokens, as its
published code counts them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

Span: TypeAlias = tuple[int, int]


class Shares(NamedTuple):
    """How well what was retrieved for a question covers what answers it; each from 0 to 1."""

    recall: float
    precision: float
    iou: float
    """Intersection over union; what is retrieved twice counts twice in the union."""


def shares(references: Sequence[Span], chunks: Sequence[Span], elsewhere: int = 0) -> Shares:
    """Compare the retrieved chunks of a text with the references, at least one, in the same text.

    A character of a reference counts once as found, however many chunks hold it. What was
    retrieved counts each time: chunks that overlap, or are there twice, make both denominators larger.

        recall    = found / references
        precision = found / retrieved
        iou       = found / (retrieved + references not found)

    Half of ten characters found, by two chunks of ten each:

        >>> shares([(0, 10)], [(5, 15), (5, 15)])
        Shares(recall=0.5, precision=0.25, iou=0.2)

    Args:
        references: What answers the question.
        chunks: What was retrieved of the same text.
        elsewhere: The characters of what was retrieved of other texts.
    """
    covered = union(chunks)
    found = overlap(covered, union(references))
    retrieved = length(chunks) + elsewhere
    missed = sum(length([reference]) - overlap(covered, [reference]) for reference in references)
    return Shares(
        recall=found / length(references),
        precision=found / retrieved if retrieved else 0.0,
        iou=found / (retrieved + missed),
    )


def length(spans: Iterable[Span]) -> int:
    """The characters of all spans, those of each counted."""
    return sum(end - start for start, end in spans)


def union(spans: Iterable[Span]) -> list[Span]:
    """The same characters as rising spans that neither overlap nor touch."""
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((start, end))
    return joined


def overlap(some: Iterable[Span], others: Sequence[Span]) -> int:
    """The characters that both hold; neither has spans that overlap among themselves."""
    return sum(max(0, min(end, last) - max(start, first)) for start, end in some for first, last in others)
