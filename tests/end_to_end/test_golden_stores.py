"""The golden questions find and answer the same, whichever store holds the vectors."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from kb.components import Embedder, Parts, build_component
from kb.evaluation.golden import NO_CUTOFF, TOP_K, load_questions
from kb.knowledge_base import KnowledgeBase
from tests.contracts._stores import ALL, Variant
from tests.end_to_end._sample import DOCUMENTS

if TYPE_CHECKING:
    from kb.components import FloatArray

ROOT = Path(__file__).parents[2]
QUESTIONS = [question.question for question in load_questions(ROOT / "tests" / "golden" / "questions.toml")]
REFERENCE = "memory"
MOST_OTHER = 0.02
"""Of the questions may have other hits among the first five where a store searches approximately."""
EACH = 6
"""One question in so many is also answered: an answer follows from its hits."""

Found = list[list[str]]
"""The ids of the first five hits of each question."""


class Remembering:
    """The embedder, which embeds each text once for all stores."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._known: dict[tuple[str, str], FloatArray] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._embedder, name)

    def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        return self._remembered("query", texts, self._embedder.embed_queries)

    def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        return self._remembered("passage", texts, self._embedder.embed_documents)

    def _remembered(self, kind: str, texts: Sequence[str], embed: Callable[[list[str]], FloatArray]) -> FloatArray:
        if missing := [text for text in dict.fromkeys(texts) if (kind, text) not in self._known]:
            self._known.update(zip([(kind, text) for text in missing], embed(missing), strict=True))
        return np.array([self._known[kind, text] for text in texts], np.float32).reshape(-1, self._embedder.dimension)


@cache
def embedder() -> Embedder:
    return Remembering(build_component("embedding", "e5", {}, Parts()))


def open_base(data_dir: Path, store: str, options: Mapping[str, Any]) -> KnowledgeBase:
    """The sample documents with the embedded default, every search asking the store."""
    base = KnowledgeBase.open(
        None,
        documents_dir=DOCUMENTS,
        data_dir=data_dir,
        store={"use": store, store: dict(options)},
        retrieval={"exact_up_to": 0},
    )
    base.embedder = embedder()
    return base


def found_in(base: KnowledgeBase) -> Found:
    results = base.search_many(QUESTIONS, top_k=TOP_K, cutoff=NO_CUTOFF)
    return [[hit.chunk.id for hit in result.hits] for result in results]


def answers_of(base: KnowledgeBase) -> list[str]:
    return [base.ask(question).text for question in QUESTIONS[::EACH]]


@pytest.fixture(scope="module")
def reference(sample_data: Path) -> tuple[Path, Found, list[str]]:
    """A collection in the exact store, with what it finds and answers."""
    with open_base(sample_data, REFERENCE, {}) as base:
        report = base.ingest()
        assert (report.embedded, report.failed) == (0, 0), "it is filled from the ledger"
        return sample_data, found_in(base), answers_of(base)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[[Variant], dict[str, str]]]:
    with ExitStack() as servers:

        def start(variant: Variant) -> dict[str, str]:
            return {"url": servers.enter_context(variant.server(tmp_path / "server"))} if variant.server else {}

        yield start


@pytest.mark.parametrize("name", [name for name in ALL if name != REFERENCE])
def test_golden_questions_find_and_answer_the_same_in_every_store(
    name: str,
    reference: tuple[Path, Found, list[str]],
    serve: Callable[[Variant], dict[str, str]],
    tmp_path: Path,
) -> None:
    variant = ALL[name]
    if reason := variant.missing():
        pytest.skip(reason)
    origin, expected, answers = reference
    data_dir = tmp_path / "data"
    shutil.copytree(origin, data_dir)
    with open_base(data_dir, variant.component, {**variant.options, **serve(variant)}) as base:
        report = base.ingest()
        assert (report.embedded, report.failed) == (0, 0), "it is filled from the ledger"
        found = found_in(base)
        given = answers_of(base)
    if variant.exact:
        assert found == expected
        assert given == answers
        return
    others = [i for i, (one, other) in enumerate(zip(found, expected, strict=True)) if one != other]
    assert len(others) <= MOST_OTHER * len(QUESTIONS), [QUESTIONS[i] for i in others]
    asked = range(0, len(QUESTIONS), EACH)
    assert [given[i // EACH] for i in asked if i not in others] == [
        answers[i // EACH] for i in asked if i not in others
    ]
