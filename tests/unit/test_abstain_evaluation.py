"""The evaluation of declining: its area on cases worked out by hand, and whole runs in three languages."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kb.errors import ConfigError
from kb.evaluation._roc import area, area_interval
from kb.evaluation.abstain import evaluate, load_data
from kb.knowledge_base import KnowledgeBase
from pipelines import evaluate as command

CONFIG = """
[embedding]
use = "hashing"
[store]
use = "memory"
[loading]
isolated = false
[generation.extractive]
min_score_chinese = 0.3
"""
CORPUS = [
    ("cats", "On cats", "Cats sleep beside quiet walls for nine hours."),
    ("鱼", "", "鱼喜欢在山边的河里睡觉。"),
    ("犬", "", "犬はいつも門のそばで眠る。"),
]
QUERIES: list[tuple[str, str, bool, list[str]]] = [
    ("q1", "Beside which walls do cats sleep?", True, ["Quiet walls"]),
    ("q2", "Which motorway leads to Zanzibar?", False, []),
    ("q3", "鱼在哪里睡觉？", True, ["山边的河里"]),
    ("q4", "犬はどこで眠る？", True, ["庭"]),
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "small"
    folder.mkdir()
    write(folder / "corpus.jsonl", [{"_id": i, "title": title, "text": text} for i, title, text in CORPUS])
    write(
        folder / "queries.jsonl",
        [{"_id": i, "text": text, "answerable": able, "answers": answers} for i, text, able, answers in QUERIES],
    )
    return folder


def write(file: Path, rows: list[dict[str, Any]]) -> None:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


# ── the area ──


def test_the_area_counts_pairs_in_order_and_ties_half() -> None:
    # Pairs of an answerable and another question: 0.9 over 0.6 and 0.1; 0.6 ties with 0.6 and is over 0.1.
    assert area([0.9, 0.6, 0.6, 0.1], [True, True, False, False]) == (2 + 0.5 + 1) / 4
    assert area([1.0, 2.0, 3.0], [True, False, False]) == 0.0
    assert area([5.0] * 7, [True] * 3 + [False] * 4) == 0.5
    assert area([math.inf, -math.inf], [True, False]) == 1.0
    assert math.isnan(area([1.0, 2.0], [True, True])), "without one of the kinds nothing is told apart"


def test_the_interval_of_an_area_holds_it_and_is_the_same_each_time() -> None:
    values, kinds = (
        [0.1, 0.4, 0.35, 0.8, 0.7, 0.2, 0.9, 0.5] * 20,
        [False, True, False, True, True, False, True, False] * 20,
    )
    low, high = area_interval(values, kinds)
    assert low < area(values, kinds) < high
    assert area_interval(values, kinds) == (low, high)
    assert area_interval([3.0, 1.0] * 5, [True, False] * 5) == (1.0, 1.0)


# ── data ──


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"_id": "a", "text": "b"}], "question 'a': answerable (true or false) and answers"),
        ([{"_id": "a", "text": "b", "answerable": True, "answers": []}], "at least one text when it is true"),
        ([{"_id": "a"}], "line 1: an object with _id and text has to stand there"),
    ],
)
def test_what_is_wrong_with_the_questions_is_said(data: Path, rows: list[dict[str, Any]], said: str) -> None:
    write(data / "queries.jsonl", rows)
    with pytest.raises(ConfigError) as caught:
        load_data(data)
    assert said in str(caught.value)
    assert "queries.jsonl" in str(caught.value)


def test_a_half_with_one_kind_of_questions_is_refused(data: Path) -> None:
    loaded = load_data(data)
    assert [question.id for question in loaded.take("even").questions] == ["q2", "q4"]
    with pytest.raises(ConfigError, match=r"small, odd questions: .* one kind is missing"):
        loaded.take("odd")


# ── whole runs ──


def test_declined_and_right_answers_are_counted_in_three_languages(project: Callable[..., Path], data: Path) -> None:
    with KnowledgeBase.open(project(CONFIG) / "config.toml") as base:
        result = evaluate(base, load_data(data))
        assert not base.folder.exists(), "the configured collection is neither read nor changed"
    assert [(one.question.id, one.answered, one.right) for one in result.outcomes] == [
        ("q1", True, True),
        ("q2", False, False),
        ("q3", True, True),
        ("q4", True, False),  # the answer that is wanted does not stand in what is quoted
    ]
    shares = {name: share for name, share, _ in result.shares()}
    assert shares == {"unanswerable_declined": 1.0, "answerable_declined": 0.0, "answerable_right": 2 / 3}
    areas = {name: (value, ends) for name, value, ends in result.areas()}
    assert set(areas) == {"similarity", "score", "coverage", "sentence", "confidence"}
    assert areas["similarity"] == (1.0, (1.0, 1.0))
    assert all(outcome.signals["similarity"] >= -1 for outcome in result.outcomes)


def test_the_confidence_of_an_answer_decides_whether_it_is_one(project: Callable[..., Path], data: Path) -> None:
    documents = project(CONFIG) / "documents"
    documents.mkdir()
    (documents / "cats.txt").write_text(CORPUS[0][2], encoding="utf-8")
    with KnowledgeBase.open("config.toml") as base:
        base.ingest(documents)
        for least, answered in ((0.1, True), (9.0, False)):
            strict = base.variant(
                generation=base.settings.generation.model_validate(
                    {"use": "extractive", "extractive": {"min_score": least}}
                )
            )
            with strict:
                answer = strict.ask("Beside which walls do cats sleep?")
            assert answer.answered is answered
            assert answer.confidence is not None
            assert (answer.confidence >= 1) is answered
            assert answer.signals["sentence"] == answer.confidence


def test_the_command_prints_figures_and_writes_a_file(
    project: Callable[..., Path], data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = project(CONFIG)
    out = folder / "result.json"
    assert command.main(["abstain", str(data), "--out", str(out)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "small: 4 questions, 1 without an answer; embedder hashing, generator extractive"
    assert said[3].split()[:3] == ["unanswerable,", "declined", "100.0%"]
    assert any(line.startswith("confidence ") for line in said)
    written = json.loads(out.read_text(encoding="utf-8"))
    assert written["unanswerable_declined"]["value"] == 1.0
    assert [one["id"] for one in written["each"]] == ["q1", "q2", "q3", "q4"]
    assert command.main(["abstain", str(data), "--half", "even", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["id"] for one in told["each"]] == ["q2", "q4"]
