"""How well what the documents don't answer is told from what they do.

The corpus becomes a collection of its own, and every question goes through the whole pipeline: search and
the configured generator. Measured is what the pipeline decides, and what each number that it has would be
worth for the decision, whatever threshold one chose: the area under the ROC curve.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kb.evaluation._abstain_data import AbstainData, Asked, load_data
from kb.evaluation._collection import corpus_collection, ingest
from kb.evaluation._measures import interval
from kb.evaluation._retrieval_data import Half
from kb.evaluation._roc import area, area_interval
from kb.evaluation._vectors import known_vectors
from kb.evaluation.golden import holds
from kb.evaluation.retrieval import configuration
from kb.ingest.paid_embedding import batches

if TYPE_CHECKING:
    from kb.answers import Answer
    from kb.knowledge_base import KnowledgeBase

__all__ = ["AbstainResult", "Outcome", "evaluate", "load_data"]

_FOLDER = "abstain"
_LOWEST = -1.0
"""A signal that there is none of; none of them is lower."""
_BATCH = 64
"""Questions that are embedded between two commits."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one question."""

    question: Asked
    answered: bool
    right: bool
    """Answered, and an answer stands in what is quoted."""
    signals: Mapping[str, float]
    """Every number that the pipeline has for the decision; higher is likelier to be answerable."""


@dataclass(frozen=True, slots=True)
class AbstainResult:
    """One data set, measured with one configuration."""

    dataset: str
    half: Half
    configuration: Mapping[str, Any]
    seconds: float
    outcomes: tuple[Outcome, ...]

    def areas(self) -> Iterator[tuple[str, float, tuple[float, float]]]:
        """Each signal's area under the ROC curve, with its interval."""
        answerable = [outcome.question.answerable for outcome in self.outcomes]
        for name in dict.fromkeys(name for outcome in self.outcomes for name in outcome.signals):
            values = [outcome.signals.get(name, _LOWEST) for outcome in self.outcomes]
            yield name, area(values, answerable), area_interval(values, answerable)

    def shares(self) -> Iterator[tuple[str, float, tuple[float, float]]]:
        """What was decided, as shares of the questions of a kind, with their intervals."""
        yes = [outcome for outcome in self.outcomes if outcome.question.answerable]
        no = [outcome for outcome in self.outcomes if not outcome.question.answerable]
        for name, found in (
            ("unanswerable_declined", [not outcome.answered for outcome in no]),
            ("answerable_declined", [not outcome.answered for outcome in yes]),
            ("answerable_right", [outcome.right for outcome in yes]),
        ):
            yield name, sum(found) / len(found), interval([float(one) for one in found])

    def as_dict(self) -> dict[str, Any]:
        """One object: the figures, then every question."""
        return {
            "dataset": self.dataset,
            "configuration": dict(self.configuration),
            "half": self.half,
            "queries": len(self.outcomes),
            "unanswerable": sum(not outcome.question.answerable for outcome in self.outcomes),
            "seconds": self.seconds,
            "auc": {name: {"value": value, "interval": list(ends)} for name, value, ends in self.areas()},
            **{name: {"value": value, "interval": list(ends)} for name, value, ends in self.shares()},
            "each": [
                {
                    "id": outcome.question.id,
                    "answerable": outcome.question.answerable,
                    "answered": outcome.answered,
                    "right": outcome.right,
                    **outcome.signals,
                }
                for outcome in self.outcomes
            ],
        }


def evaluate(base: KnowledgeBase, data: AbstainData, half: Half = "all") -> AbstainResult:
    """Ingest the corpus into a collection of its own, ask every question, and measure.

    The configured collection is neither read nor changed. What was embedded is kept below `data_dir`.

    Raises:
        KbError: a part cannot be built, or fails.
    """
    asked = data.take(half).questions
    with (
        known_vectors(base) as vectors,
        corpus_collection(base, (_FOLDER, data.name), data.corpus, vectors) as (own, _),
    ):
        ingest(own, data.name)
        for some in batches([question.text for question in asked], _BATCH):
            vectors.of_queries(some)
        started = time.perf_counter()
        outcomes = tuple(_outcome(question, own.ask(question.text)) for question in asked)
        seconds = round(time.perf_counter() - started, 3)
        made = {**configuration(base), "generation": base.settings.generation.model_dump(mode="json")}
    return AbstainResult(data.name, half, made, seconds, outcomes)


def _outcome(question: Asked, answer: Answer) -> Outcome:
    quotes = [citation.quote for citation in answer.citations]
    right = any(holds(quote, text) for quote in quotes for text in question.answers if text.strip())
    return Outcome(question, answer.answered, answer.answered and right, _signals(answer))


def _signals(answer: Answer) -> dict[str, float]:
    hits = [*answer.hits, *(dropped.hit for dropped in answer.dropped)]
    return {
        "similarity": _lowest_for_none(answer.best_score),
        "score": max((hit.score for hit in hits), default=_LOWEST),
        "coverage": max((_lowest_for_none(hit.coverage) for hit in answer.hits), default=_LOWEST),
        **answer.signals,
        "confidence": _lowest_for_none(answer.confidence),
    }


def _lowest_for_none(value: float | None) -> float:
    return _LOWEST if value is None else value
