"""Which cutoff, and which relative threshold, suit the documents and the embedder at hand.

Measured is the similarity of questions to the passages that answer them, and to passages of other documents.

With labelled questions the cutoff is the highest that keeps 98 % of the right passages: one that is lost is an
answer lost for good, while one too many is ranked below it and can still be declined. (The best F-measure would
depend on how many wrong passages happen to be compared.)

Without any, sentences of the base's own chunks are asked. A sentence is nearer to its own chunk than a question to
its answer, so what it keeps is optimistic. The cutoff is then chosen by what is beside the question, which it
shows well: the lowest that lets 5 % of the wrong passages through, as the embedder's own was chosen; but never one
that loses more than 2 % of the right ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from kb.errors import ConfigError
from kb.evaluation._labelled import Similarities, from_base, from_questions
from kb.evaluation._measures import INTERVAL, SEED
from kb.thresholds import relative

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kb.evaluation.golden import GoldenQuestion
    from kb.knowledge_base import KnowledgeBase
    from kb.records import Hit

KEPT = 0.98
"""Of the right passages."""
LET_THROUGH = 0.05
"""Of the wrong ones, when only sentences of the base are asked."""
FEW = 20
"""With fewer questions one of them decides, and another one would have decided otherwise."""
_RESAMPLES = 200
_HUNDREDTHS = 100
_CURVE_STEP = 0.05
_RELATIVE_STEPS = tuple(step / 20 for step in range(20))


@dataclass(frozen=True, slots=True)
class Point:
    """What a value would do: shares from 0 to 1."""

    value: float
    kept: float
    """Of the right passages."""
    let_through: float | None
    """Of the wrong ones; None when there are none."""


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
    choose = _by_right if questions is not None else _by_both
    wrong = np.concatenate([*found.wrong, np.empty(0, np.float32)])
    if questions is None and not len(wrong):
        raise ConfigError("the base has one chunk, so there is nothing to compare with: ingest more, or give questions")
    cutoff = choose(found.right, wrong)
    now = base.embedder.cutoff if base.settings.retrieval.cutoff == "auto" else base.settings.retrieval.cutoff
    notes = list(found.notes)
    between = _interval(found, choose)
    if found.questions < FEW:
        notes.append(
            f"only {found.questions} questions: the cutoff is uncertain, others would have given one between "
            f"{between[0]:.2f} and {between[1]:.2f}"
        )
    threshold: float | None = None
    relative_curve: tuple[Point, ...] = ()
    if questions is None:
        notes.append("a relative threshold needs labelled questions: a sentence stands out more than an answer does")
    elif base.settings.rerank.use != "none":
        notes.append(f"the relative threshold was not measured: it depends on the scores of {base.settings.rerank.use}")
    else:
        relative_curve = tuple(_relative_points(base, found, cutoff))
        threshold = max((point.value for point in relative_curve if point.kept >= KEPT), default=0.0)
    return Calibration(
        embedder=base.embedder.name,
        asked="sentences" if questions is None else "questions",
        questions=found.questions,
        unanswerable=found.unanswerable,
        not_found=found.not_found,
        cutoff_now=float(now),
        cutoff=cutoff,
        between=between,
        curve=tuple(_points(found.right, wrong, {cutoff, float(now)})),
        relative_now=base.settings.retrieval.relative_threshold,
        relative_threshold=threshold,
        relative_curve=relative_curve,
        notes=tuple(notes),
    )


# ── the cutoff ──

_Choose = Callable[["NDArray[np.float32]", "NDArray[np.float32]"], float]


def _by_right(right: NDArray[np.float32], wrong: NDArray[np.float32]) -> float:
    """The highest cutoff, in hundredths, that keeps `KEPT` of the right passages."""
    falling = np.sort(right)[::-1]
    lowest_kept = float(falling[int(np.ceil(KEPT * len(falling))) - 1])
    return float(np.floor(round(lowest_kept * _HUNDREDTHS, 4)) / _HUNDREDTHS)


def _by_both(right: NDArray[np.float32], wrong: NDArray[np.float32]) -> float:
    """The lowest cutoff that lets `LET_THROUGH` of the wrong passages through, if it keeps enough right ones."""
    rising = np.sort(wrong)
    highest_dropped = float(rising[int(np.ceil((1 - LET_THROUGH) * len(rising))) - 1])
    beside = (np.floor(round(highest_dropped * _HUNDREDTHS, 4)) + 1) / _HUNDREDTHS
    return min(float(beside), _by_right(right, wrong))


def _interval(found: Similarities, choose: _Choose) -> tuple[float, float]:
    """Where the choice lies, by resampling the questions (Efron 1979)."""
    picks = np.random.default_rng(SEED).integers(0, len(found.right), (_RESAMPLES, len(found.right)))
    wrong = [found.wrong[of] for of in found.question_of]  # what each right passage's question was compared with
    chosen = np.sort(
        [choose(found.right[pick], np.concatenate([wrong[i] for i in pick], dtype=np.float32)) for pick in picks]
    )
    outside = (1 - INTERVAL) / 2
    return float(np.quantile(chosen, outside)), float(np.quantile(chosen, 1 - outside))


def _points(right: NDArray[np.float32], wrong: NDArray[np.float32], marked: set[float]) -> Iterator[Point]:
    """From where nearly all wrong passages pass to where hardly a right one does, and the marked values."""
    low = float(np.quantile(wrong, 0.25)) if len(wrong) else float(right.min())
    high = float(np.quantile(right, 0.9))
    steps = range(round(min(low, *marked) / _CURVE_STEP), round(max(high, *marked) / _CURVE_STEP) + 1)
    for value in sorted({round(step * _CURVE_STEP, 2) for step in steps} | marked):
        passed = float((wrong >= value).mean()) if len(wrong) else None
        yield Point(value, float((right >= value).mean()), passed)


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
        if right.all:
            yield Point(step, right.kept / right.all, wrong.kept / wrong.all if wrong.all else None)


class _Count:
    def __init__(self) -> None:
        self.all = self.kept = 0

    def add(self, hit: Hit, kept: set[str]) -> None:
        self.all += 1
        self.kept += hit.chunk.id in kept
