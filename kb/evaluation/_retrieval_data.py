"""The documents and questions of a retrieval evaluation.

They are read from a folder in the form of BEIR (Thakur et al. 2021, arXiv:2104.08663):

    corpus.jsonl    a document a line: _id, title (may be empty), text
    queries.jsonl   a question a line: _id, text
    qrels.tsv       under a line of headings, tab between them: query-id, corpus-id, score
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from kb.errors import ConfigError

CORPUS, QUERIES, JUDGEMENTS = "corpus.jsonl", "queries.jsonl", "qrels.tsv"

Half: TypeAlias = Literal["all", "odd", "even"]
"""Questions at which places, counted from 1."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A document of the corpus."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class RetrievalData:
    """A corpus, and questions with the documents that are right for them."""

    name: str
    corpus: Mapping[str, Passage]
    """By id."""
    queries: Mapping[str, str]
    """Those with a right document, in the order of the file."""
    relevant: Mapping[str, Mapping[str, int]]
    """By question, how right each document is; others are wrong."""


def load_data(folder: Path) -> RetrievalData:
    """Read a corpus, its questions and its judgements.

    Raises:
        ConfigError: a file is missing, or a line is not of the form above.
    """
    corpus = load_corpus(folder / CORPUS)
    asked = {str(row["_id"]): str(row["text"]) for row in objects(folder / QUERIES, "_id", "text")}
    relevant: dict[str, dict[str, int]] = {}
    for number, (query, document, score) in _judgements(folder / JUDGEMENTS):
        if query not in asked or document not in corpus:
            raise ConfigError(
                f"{folder / JUDGEMENTS}, line {number}: there is no question {query!r} or no document {document!r}"
            )
        if score > 0:
            relevant.setdefault(query, {})[document] = score
    queries = {query: text for query, text in asked.items() if query in relevant}
    if not queries:
        raise ConfigError(f"{folder / JUDGEMENTS}: no question has a right document")
    return RetrievalData(folder.resolve().name, corpus, queries, relevant)


def load_corpus(file: Path) -> dict[str, Passage]:
    """Read the documents by id. Raises ConfigError."""
    return {
        str(row["_id"]): Passage(str(row.get("title") or ""), str(row["text"])) for row in objects(file, "_id", "text")
    }


def objects(file: Path, *names: str) -> Iterator[Mapping[str, object]]:
    """Read a JSON object a line, each with texts or whole numbers of those names. Raises ConfigError."""
    for number, line in _lines(file):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise ConfigError(f"{file}, line {number}: it is no JSON ({error})") from error
        if not isinstance(row, dict) or not all(isinstance(row.get(name), str | int) for name in names):
            raise ConfigError(f"{file}, line {number}: an object with {' and '.join(names)} has to stand there")
        yield row


def _judgements(file: Path) -> Iterator[tuple[int, tuple[str, str, int]]]:
    for number, line in _lines(file):
        if number == 1:  # headings
            continue
        try:
            query, document, score = line.split("\t")
            yield number, (query, document, int(score))
        except ValueError as error:
            raise ConfigError(f"{file}, line {number}: query-id, corpus-id and a whole number are wanted") from error


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    try:
        with file.open(encoding="utf-8-sig") as opened:
            for number, line in enumerate(opened, start=1):
                if line.strip():
                    yield number, line.rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"{file} cannot be read: {reason}") from error
