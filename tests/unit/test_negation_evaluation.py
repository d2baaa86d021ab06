"""The evaluation of negation: pairs of documents, ranked by each stage and by a reranker."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from kb.errors import ConfigError
from kb.evaluation.negation import evaluate, load_data
from kb.knowledge_base import KnowledgeBase
from kb.records import Hit, Reranked, Scale
from kb.settings import component_names
from pipelines import evaluate as command

CONFIG = """
[embedding]
use = "hashing"
[store]
use = "memory"
[loading]
isolated = false
"""
PAIRS = [
    ("Who sleeps at noon?", "Who never does so at noon?", "The cat sleeps at noon.", "The owl never does so at noon."),
    ("谁喜欢雨？", "谁讨厌雨天？", "青蛙喜欢雨。", "猫讨厌雨天。"),
    ("Which tea is hot?", "Which tea is not hot?", "The same text about tea.", "The same text about tea."),
]


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    file = tmp_path / "pairs.jsonl"
    rows = [dict(zip(("q1", "q2", "doc1", "doc2"), pair, strict=True)) for pair in PAIRS]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return file


@pytest.fixture
def base(project: Callable[..., Path]) -> KnowledgeBase:
    return KnowledgeBase.open(project(CONFIG) / "config.toml")


class Reader:
    """A reranker that knows which document belongs to which question; what it doesn't know ties."""

    def __init__(self, scale: Scale | None) -> None:
        self._scale = scale

    def rerank(self, question: str, hits: Sequence[Hit]) -> Reranked:
        if self._scale is None:
            return Reranked(tuple(hits), ("the service\x1b[31m did not answer",))
        right = [pair[2 + pair.index(question)] for pair in PAIRS if question in pair[:2]]
        rated = [replace(hit, score=float(hit.chunk.text in right), scored_by="judge") for hit in hits]
        return Reranked(tuple(sorted(rated, key=lambda hit: -hit.score)), (), self._scale)


@pytest.fixture(params=["ratio"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Adds a component `reader`, as a file of that name in kb/rerank would be."""
    module = ModuleType("kb.rerank.reader")
    module.build = lambda options, parts: Reader(request.param)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr("kb.components.component_names", lambda kind: (*component_names(kind), "reader"))


def test_each_stage_is_measured_and_a_tie_is_wrong(base: KnowledgeBase, pairs: Path) -> None:
    with base:
        result = evaluate(base, load_data(pairs))
        assert not base.folder.exists(), "the configured collection is neither read nor changed"
    of = {one.name: one.right for one in result.systems}
    assert list(of) == ["dense", "keyword", "fused"]
    assert of["keyword"][:2] == (True, True), "each question shares more or rarer words with its own document"
    assert not any(right[2] for right in of.values()), "equal documents tie"
    keyword = result.systems[1]
    assert keyword.accuracy == sum(keyword.right) / 3
    assert keyword.between[0] <= keyword.accuracy <= keyword.between[1]


@pytest.mark.usefixtures("reader")
def test_a_reranker_decides_and_what_it_gives_the_same_score_is_wrong(base: KnowledgeBase, pairs: Path) -> None:
    with base:
        result = evaluate(base, load_data(pairs), ["reader", "reader"])
    assert [one.name for one in result.systems] == ["dense", "keyword", "fused", "reader"]
    assert result.systems[-1].right == (True, True, False)


@pytest.mark.parametrize("reader", [None], indirect=True)
@pytest.mark.usefixtures("reader")
def test_a_reranker_that_fails_is_right_on_nothing_and_says_so(
    pairs: Path, project: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    project(CONFIG)
    assert command.main(["negation", str(pairs), "--rerank", "reader"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "pairs: 3 pairs; embedder hashing; by chance 25 %"
    assert next(line for line in said if line.startswith("reader ")).split()[1] == "0.0%"
    assert said[-1].startswith("reader: the service")
    assert "\x1b" not in said[-1]


def test_a_limit_asks_only_the_first_pairs(
    pairs: Path, project: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    project(CONFIG)
    assert command.main(["negation", str(pairs), "--limit", "1", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["pairs"] == 1
    assert told["systems"]["keyword"]["accuracy"] == 1.0
    assert command.main(["negation", str(pairs), "--limit", "0"]) == 2
    assert "allowed: a number from 1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "there is no pair in it"),
        ('{"q1": "a", "q2": "b", "doc1": "c"}', "an object with q1 and q2 and doc1 and doc2"),
    ],
)
def test_what_is_wrong_with_the_file_is_said(pairs: Path, content: str, said: str) -> None:
    pairs.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=said):
        load_data(pairs)


def test_a_reranker_that_there_is_not_is_refused_before_anything_is_embedded(base: KnowledgeBase, pairs: Path) -> None:
    with base, pytest.raises(ConfigError, match="'oracle': there is no such component; allowed: "):
        evaluate(base, load_data(pairs), ["oracle"])
    assert list(base.settings.data_dir.rglob("negation/*/data")) == []
