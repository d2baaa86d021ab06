"""Which cutoff, and which relative threshold, suit the documents and the embedder at hand.

Measured is the similarity of questions to the passages that answer them, and to passages of other documents.

The cutoff is the one where the share of right passages that it keeps exceeds the share of wrong ones that it lets
through by most, of equal ones the lowest (Youden 1950). Unlike the best F-measure this does not depend on how many
wrong passages happen to be compared, and unlike "keeps 98 % of the right ones" it cannot end where half of the
base passes and no question is off the matter any more; that more open value is told beside it.

Without labelled questions, sentences of the base's own chunks are asked. A sentence is nearer to its own chunk than
a question to its answer, so what it keeps is optimistic; what is beside the question it shows well.

The relative threshold is the highest that keeps 98 % of the right passages among the hits: it has the rest to trim.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from kb.errors import ConfigError
from kb.evaluation._labelled import Similarities, from_base, from_questions
from kb.evaluation._measures import INTERVAL, RESAMPLES, SEED
from kb.thresholds import relative

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kb.evaluation.golden import GoldenQuestion
    from kb.knowledge_base import KnowledgeBase
    from kb.records import Hit

KEPT = 0.98
"""Of the right passages, by the relative threshold and by the open cutoff."""
FEW = 20
"""With fewer questions one of them decides, and another one would have decided otherwise."""
_CUTOFFS = np.arange(-100, 101) / 100
_CURVE_STEP = 0.05
_RELATIVE_STEPS = tuple(step / 20 for step in range(20))


@dataclass(frozen=True, slots=True)
class Point:
    """What a value would do: shares from 0 to 1."""

    value: float
    kept: float
    """Of the right passages."""
    let_through: float
    """Of the wrong ones."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """What was measured, and what is recommended."""

    embedder: str
    asked: Literal["questions", "sentences"]
    """Labelled questions, or sentences of the base."""
    questions: int
    """Those with a right passage."""
    unanswerable: int
    """Those that have none; they are compared with what is wrong for them."""
    not_found: tuple[str, ...]
    """Ids of questions whose evidence stands nowhere in the base; they count nowhere."""
    cutoff_now: float
    cutoff: float
    between: tuple[float, float]
    """Where the recommended cutoff lies with a probability of 95 %, other questions being asked."""
    open_cutoff: float
    """The highest that keeps 98 % of the right passages."""
    curve: tuple[Point, ...]
    relative_now: float
    relative_threshold: float | None
    """None when it was not measured, for the reason in `notes`."""
    relative_curve: tuple[Point, ...]
    notes: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """One object with everything measured."""
        return asdict(self)


def calibrate(base: KnowledgeBase, questions: Sequence[GoldenQuestion] | None = None) -> Calibration:
    """Measure, and recommend; nothing is changed.

    Args:
        base: An ingested base.
        questions: With their evidence; None asks sentences of the base itself.

    Raises:
        NothingIngestedError: the documents were not ingested.
        ConfigError: no right passage is in the base, or nothing but right ones.
    """
    base.search_many([])  # says what is wrong with the collection
    found = from_base(base) if questions is None else from_questions(base, questions)
    if not len(found.right):
        raise ConfigError(
            "there is nothing to measure: "
            + (
                "no chunk holds a sentence"
                if questions is None
                else "no question has its evidence in the ingested documents"
            )
        )
    wrong = np.concatenate([*found.wrong, np.empty(0, np.float32)])
    if not len(wrong):
        raise ConfigError("the base holds nothing that is wrong for a question, so there is nothing to compare with")
    right_passing, wrong_passing = _passing(found.right), _passing(wrong)
    cutoff = _best(right_passing, wrong_passing)
    now = base.embedder.cutoff if base.settings.retrieval.cutoff == "auto" else base.settings.retrieval.cutoff
    notes = list(found.notes)
    between = _interval(found)
    if found.questions < FEW:
        notes.append(f"only {found.questions} questions were asked, so the cutoff is uncertain")
    threshold: float | None = None
    relative_curve: tuple[Point, ...] = ()
    if questions is None:
        notes.append("a relative threshold needs labelled questions: a sentence stands out more than an answer does")
    elif base.settings.rerank.use != "none":
        notes.append(f"the relative threshold was not measured: it depends on the scores of {base.settings.rerank.use}")
    else:
        relative_curve = tuple(_relative_points(base, found, cutoff))
        threshold = _highest(relative_curve)
        if threshold is None:
            notes.append("no relative threshold would drop a wrong hit: there are too few candidates, or hits")
    return Calibration(
        embedder=base.embedder.name,
        asked="sentences" if questions is None else "questions",
        questions=found.questions,
        unanswerable=found.unanswerable,
        not_found=found.not_found,
        cutoff_now=float(now),
        cutoff=cutoff,
        between=between,
        open_cutoff=float(_CUTOFFS[np.flatnonzero(right_passing >= KEPT * len(found.right))[-1]]),
        curve=tuple(_points(found.right, wrong, {cutoff, float(now)})),
        relative_now=base.settings.retrieval.relative_threshold,
        relative_threshold=threshold,
        relative_curve=relative_curve,
        notes=tuple(notes),
    )


# ── the cutoff ──


def _passing(values: NDArray[np.float32]) -> NDArray[np.int64]:
    """How many of the values each of `_CUTOFFS` lets through."""
    return len(values) - np.searchsorted(np.sort(values), _CUTOFFS.astype(np.float32), side="left")


def _best(right: NDArray[np.int64], wrong: NDArray[np.int64]) -> float:
    """The cutoff that parts them best, of what passes; the first cutoff lets all through."""
    return float(_CUTOFFS[np.argmax(right / right[0] - wrong / wrong[0])])


def _interval(found: Similarities) -> tuple[float, float]:
    """Where the best cutoff lies, by resampling the questions (Efron 1979)."""
    right = np.stack([_passing(found.right[place : place + 1]) for place in range(len(found.right))])
    of_questions = [_passing(values) for values in found.wrong]
    wrong = np.stack([of_questions[place] for place in found.question_of])
    picks = np.random.default_rng(SEED).integers(0, len(right), (RESAMPLES, len(right)))
    chosen = [_best(right[pick].sum(axis=0), wrong[pick].sum(axis=0)) for pick in picks]
    outside = (1 - INTERVAL) / 2
    return float(np.quantile(chosen, outside)), float(np.quantile(chosen, 1 - outside))


def _points(right: NDArray[np.float32], wrong: NDArray[np.float32], marked: set[float]) -> Iterator[Point]:
    """From where nearly all wrong passages pass to where hardly a right one does, and the marked values."""
    low = float(np.quantile(wrong, 0.25))
    high = float(np.quantile(right, 0.9))
    steps = range(round(min(low, *marked) / _CURVE_STEP), round(max(high, *marked) / _CURVE_STEP) + 1)
    for value in sorted({round(step * _CURVE_STEP, 2) for step in steps} | marked):
        yield Point(value, float((right >= value).mean()), float((wrong >= value).mean()))


# ── the relative threshold ──


def _relative_points(base: KnowledgeBase, found: Similarities, cutoff: float) -> Iterator[Point]:
    """Of what a search would return with the cutoff, the shares that each relative threshold keeps."""
    retrieval = base.settings.retrieval
    with base.variant(retrieval=retrieval.model_copy(update={"relative_threshold": 0.0})) as plain:
        results = plain.search_many([text for text, _ in found.asked], cutoff=cutoff)
    looked_at = []
    for (_, is_right), result in zip(found.asked, results, strict=True):
        candidates = [*result.hits, *(dropped.hit for dropped in result.dropped)]
        looked_at.append((result.hits, candidates, is_right))
    for step in _RELATIVE_STEPS:
        right, wrong = _Count(), _Count()
        for hits, candidates, is_right in looked_at:
            kept = {hit.chunk.id for hit in relative(hits, None, step, candidates)[0]}
            for hit in hits:
                verdict = is_right(hit)
                if verdict is not None:
                    (right if verdict else wrong).add(hit, kept)
        if right.all and wrong.all:
            yield Point(step, right.kept / right.all, wrong.kept / wrong.all)


def _highest(curve: Sequence[Point]) -> float | None:
    """The highest threshold that keeps enough; None when none drops anything that is wrong."""
    if all(point.let_through == 1 for point in curve):
        return None
    return max(point.value for point in curve if point.kept >= KEPT)


class _Count:
    def __init__(self) -> None:
        self.all = self.kept = 0

    def add(self, hit: Hit, kept: set[str]) -> None:
        self.all += 1
        self.kept += hit.chunk.id in kept
