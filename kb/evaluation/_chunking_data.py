"""The texts and questions of a chunking evaluation.

They are read from a folder that holds

    questions.csv     columns question, corpus_id and references: JSON, [{"content": …, "start_index": …,
                      "end_index": …}, …], in characters of the corpus
    <corpus_id>.md    each corpus
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

from kb.errors import ConfigError
from kb.evaluation._intervals import Span
from kb.loading import load_document, readable_path
from kb.records import Document

QUESTIONS_FILE = "questions.csv"


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and where what answers it stands in its corpus."""

    text: str
    corpus: str
    references: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class ChunkingData:
    """The corpora, and the questions about them."""

    corpora: Mapping[str, Document]
    questions: tuple[Question, ...]
    """Those of which a reference was found."""
    unfound: tuple[str, ...]
    """References that do not stand in their corpus as it was read, as `corpus: content`; they count nowhere."""
    folder: Path
    """Where all of it was read from."""

    @staticmethod
    def file(corpus: str) -> str:
        """The file of a corpus, below the folder."""
        return readable_path(f"{corpus}.md")


class _Reference(NamedTuple):
    content: str
    start: int
    end: int


_Row: TypeAlias = tuple[str, str, list[_Reference]]
"""Question, corpus and references."""


def load_data(folder: Path) -> ChunkingData:
    """Read questions and corpora.

    Raises:
        ConfigError: there is no questions.csv of the form above, or nothing in it can be asked.
        LoadError: a corpus cannot be read.
    """
    file = folder / QUESTIONS_FILE
    corpora: dict[str, Document] = {}
    questions: list[Question] = []
    unfound: list[str] = []
    for asked, corpus, references in _rows(file):
        if corpus not in corpora:
            corpora[corpus] = load_document(folder / f"{corpus}.md", ChunkingData.file(corpus))
        places = {reference: _place(corpora[corpus].text, reference) for reference in references}
        unfound += [f"{corpus}: {reference.content}" for reference, place in places.items() if place is None]
        if spans := tuple(place for place in places.values() if place is not None):
            questions.append(Question(asked, corpus, spans))
    if not questions:
        raise ConfigError(f"{file}: it holds no question with a reference that stands in its corpus")
    return ChunkingData(corpora, tuple(questions), tuple(unfound), folder.absolute())


def _rows(file: Path) -> Iterator[_Row]:
    try:
        with file.open(encoding="utf-8-sig", newline="") as opened:
            reader = csv.DictReader(opened)
            try:
                yield from map(_row, reader)
            except (csv.Error, KeyError, TypeError, ValueError) as error:
                raise ConfigError(
                    f"{file}, line {reader.line_num}: no question can be read there ({type(error).__name__}: {error}); "
                    "the columns are question, corpus_id and references, a JSON list of objects with content, "
                    "start_index and end_index"
                ) from error
    except OSError as error:
        raise ConfigError(f"{file}: the questions cannot be read: {error.strerror}") from error


def _row(row: Mapping[str, str]) -> _Row:
    return row["question"], row["corpus_id"], [_reference(given) for given in json.loads(row["references"])]


def _reference(given: Mapping[str, str | int]) -> _Reference:
    return _Reference(str(given["content"]), int(given["start_index"]), int(given["end_index"]))


def _place(text: str, reference: _Reference) -> Span | None:
    """Where a reference stands: as given, or, when the loader has moved it, where its words do."""
    if not reference.content:
        return None
    if text[reference.start : reference.end] == reference.content:
        return reference.start, reference.end
    at = text.find(reference.content)
    return None if at < 0 else (at, at + len(reference.content))
