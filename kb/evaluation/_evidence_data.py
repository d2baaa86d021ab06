"""Questions with the sentences that prove their answers, as people marked them.

The file is in the form of ExpMRC (Cui et al. 2022, doi:10.1016/j.heliyon.2022.e09290), reshaped: an object a line with

    id, title, context, question    texts
    answers, evidences              lists of at least one text; an evidence stands in the context but for spacing,
                                    punctuation and case
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from kb.errors import ConfigError
from kb.evaluation._retrieval_data import Half, objects
from kb.sentences import Span


@dataclass(frozen=True, slots=True)
class Proved:
    """A question, the passage that answers it, and what in the passage proves the answer."""

    id: str
    title: str
    context: str
    question: str
    answers: tuple[str, ...]
    """Every text that answers."""
    evidences: tuple[Span, ...]
    """What people marked, as spans of `context`, one for each person."""


@dataclass(frozen=True, slots=True)
class EvidenceData:
    """The questions of a file."""

    name: str
    questions: tuple[Proved, ...]

    def take(self, half: Half) -> EvidenceData:
        """Keep the questions at odd or even places, counted from 1. Raises ConfigError when none is left."""
        kept = self if half == "all" else replace(self, questions=self.questions[half == "even" :: 2])
        if not kept.questions:
            raise ConfigError(f"{self.name}: there is no question at {half} places")
        return kept


@dataclass(frozen=True, slots=True)
class Proven:
    """The same as it stands in the file: with what people marked as texts."""

    id: str
    title: str
    context: str
    question: str
    answers: tuple[str, ...]
    evidences: tuple[str, ...]


def load_proven(file: Path) -> list[Proven]:
    """Read the questions of a file in their order.

    Raises:
        ConfigError: the file is missing, or a line is not of the form above.
    """
    found = []
    for row in objects(file, "id", "title", "context", "question"):
        where = f"{file}, question {row['id']!r}"
        texts = _texts(row, "answers", where), _texts(row, "evidences", where)
        found.append(Proven(str(row["id"]), str(row["title"]), str(row["context"]), str(row["question"]), *texts))
    return found


def load_data(file: Path) -> EvidenceData:
    """Read the questions with the places of what people marked.

    Raises:
        ConfigError: the file is missing or empty, or a line is not of the form above.
    """
    questions = tuple(_proved(proven, file) for proven in load_proven(file))
    if not questions:
        raise ConfigError(f"{file}: there is no question in it")
    return EvidenceData(file.resolve().stem, questions)


def place_of(text: str, wanted: str) -> Span | None:
    """Where the letters and digits of `wanted` stand in `text` in one run, whatever stands between them.

    >>> place_of("He sat. “Well,” she said.", "well she SAID")
    (9, 24)
    """
    letters = [(at, folded) for at, letter in enumerate(text) if letter.isalnum() for folded in letter.casefold()]
    sought = "".join(letter for letter in wanted if letter.isalnum()).casefold()
    found = "".join(folded for _, folded in letters).find(sought)
    if found < 0 or not sought:
        return None
    return letters[found][0], letters[found + len(sought) - 1][0] + 1


def _proved(proven: Proven, file: Path) -> Proved:
    spans = []
    for evidence in proven.evidences:
        span = place_of(proven.context, evidence)
        if span is None:
            raise ConfigError(
                f"{file}, question {proven.id!r}: an evidence does not stand in the context: {evidence[:80]!r}"
            )
        spans.append(span)
    return Proved(proven.id, proven.title, proven.context, proven.question, proven.answers, tuple(spans))


def _texts(row: Mapping[str, object], name: str, where: str) -> tuple[str, ...]:
    given = row.get(name)
    if not isinstance(given, list) or not given or not all(isinstance(one, str) and one.strip() for one in given):
        raise ConfigError(f"{where}: {name} has to be a list of at least one text")
    return tuple(dict.fromkeys(given))
