"""The documents and questions of an evaluation of declining.

They are read from a folder in the form of SQuAD 2 (Rajpurkar et al. 2018, doi:10.18653/v1/P18-2124), reshaped:

    corpus.jsonl    a document a line: _id, title (may be empty), text
    queries.jsonl   a question a line: _id, text, answerable (true or false), answers (a list of texts)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from kb.errors import ConfigError
from kb.evaluation._retrieval_data import CORPUS, QUERIES, Half, Passage, load_corpus, objects


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, and every text that answers it."""

    id: str
    text: str
    answerable: bool
    answers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AbstainData:
    """A corpus, and questions that it answers or doesn't."""

    name: str
    corpus: Mapping[str, Passage]
    """By id."""
    questions: tuple[Asked, ...]

    def take(self, half: Half) -> AbstainData:
        """Keep the questions at odd or even places, counted from 1.

        Raises:
            ConfigError: all of them are of one kind.
        """
        kept = self if half == "all" else replace(self, questions=self.questions[half == "even" :: 2])
        if len({question.answerable for question in kept.questions}) < 2:
            raise ConfigError(
                f"{self.name}, {half} questions: some that are answerable and some that aren't are wanted, "
                "and one kind is missing"
            )
        return kept


def load_data(folder: Path) -> AbstainData:
    """Read a corpus and its questions.

    Raises:
        ConfigError: a file is missing, a line is not of the form above.
    """
    file = folder / QUERIES
    questions = tuple(_asked(row, file) for row in objects(file, "_id", "text"))
    return AbstainData(folder.resolve().name, load_corpus(folder / CORPUS), questions)


def _asked(row: Mapping[str, object], file: Path) -> Asked:
    answerable, answers = row.get("answerable"), row.get("answers")
    if not isinstance(answerable, bool) or not isinstance(answers, list) or bool(answers) < answerable:
        raise ConfigError(
            f"{file}, question {row['_id']!r}: answerable (true or false) and answers (a list, with at least one text "
            "when it is true) are wanted"
        )
    return Asked(str(row["_id"]), str(row["text"]), answerable, tuple(map(str, answers)))
