"""The evaluation of citations: what counts as evidence, F1, and the command on a small file of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from kb.errors import ConfigError
from kb.evaluation._evidence_data import load_data, place_of
from kb.evaluation._quotes import best_f1, is_evidence, touches
from kb.evaluation.citations import evaluate
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
min_score_chinese = 0  # a question so short scores low with hashing
"""
ROWS = [
    {
        "id": "en",
        "title": "Savery pump",
        "context": "The Savery pump dates from 1698. Papin made a piston. The pump was improved by Moura Portugal.",
        "question": "Who improved the Savery pump?",
        "answers": ["Moura Portugal", "Portugal"],
        "evidences": ["The pump was improved by Moura Portugal"],
    },
    {
        "id": "zh",
        "title": "王永吉",
        "context": "王永吉，字修之，明末清初官员。江南高邮人。追赠少保，谥号文通。",
        "question": "王永吉的谥号是什么？",
        "answers": ["文通"],
        "evidences": ["谥号文通。", "追赠少保，谥号文通。"],
    },
    {
        "id": "ja",
        "title": "大阪城",
        "context": "大阪城は大阪市にある城。桜の名所。天守の高さは55メートル。",
        "question": "大阪城の高さは何メートルですか？",
        "answers": ["55メートル"],
        "evidences": ["天守の高さは55メートル。"],
    },
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "asked.jsonl"
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS), encoding="utf-8")
    return path


def span(text: str, part: str) -> tuple[int, int]:
    return text.index(part), text.index(part) + len(part)


@pytest.mark.parametrize(
    ("quote", "evidence", "is_one", "touched"),
    [
        ("The cat sat.", "The cat sat.", True, True),
        ("The cat sat.", "The cat sat", True, True),
        ("The cat sat.", "The cat sat. It slept, and nobody said a word.", True, True),
        ("The cat sat. It slept, and nobody said a word.", "The cat sat.", False, True),
        ("It slept, and nobody said a word.", "nobody said a word", False, True),
        ("The cat sat.", "It slept, and nobody said a word.", False, False),
        # 24 letters of the quote are marked, of 27: 48 / 51; 15 would be 30 / 42.
        ("It slept, and nobody said a word.", "slept, and nobody said a word", True, True),
        ("猫坐着。", "猫坐着。它睡了。", True, True),
        ("猫坐着。它睡了。", "它睡了", False, True),
        ("它睡了。", "猫坐着。", False, False),
    ],
)
def test_what_counts_as_evidence(quote: str, evidence: str, is_one: bool, touched: bool) -> None:
    text = "The cat sat. It slept, and nobody said a word. 猫坐着。它睡了。"
    assert is_evidence(text, span(text, quote), [span(text, evidence)]) is is_one
    assert touches(text, span(text, quote), [span(text, evidence)]) is touched


def test_quoting_everything_is_no_evidence() -> None:
    text = ROWS[0]["context"]
    assert isinstance(text, str)
    assert not is_evidence(text, (0, len(text)), [span(text, "Papin made a piston.")])
    assert not is_evidence(text, (0, 0), [(0, 5)])
    assert not touches(text, (0, 0), [(0, 5)])


@pytest.mark.parametrize(
    ("text", "wanted", "found"),
    [
        ("He sat. “Well,” she said.", "well she SAID", "Well,” she said"),
        ("它  睡了，真的。", "睡了真的", "睡了，真的"),
        ("彼は寝た。", "寝た。", "寝た"),
        ("a", "b", None),
        ("a", "…", None),
    ],
)
def test_evidence_is_found_whatever_its_punctuation(text: str, wanted: str, found: str | None) -> None:
    place = place_of(text, wanted)
    assert (text[slice(*place)] if place else None) == found


@pytest.mark.parametrize(
    ("answer", "right", "expected"),
    [
        ("It was Moura Portugal. [1]", ["nobody", "Moura Portugal"], 2 * 2 / (4 + 2)),
        ("the pump [1][2]", ["A pump"], 1.0),
        ("谥号文通。[1]", ["文通"], 2 * 2 / (4 + 2)),
        ("高さは55メートル", ["55メートル"], 2 * 5 / (8 + 5)),
        ("", ["x"], 0.0),
        ("x", [], 0.0),
    ],
)
def test_f1_of_words_and_of_characters(answer: str, right: list[str], expected: float) -> None:
    assert best_f1(answer, right) == pytest.approx(expected)


def test_every_way_to_choose_is_measured_in_one_run(project: Callable[..., Path], file: Path) -> None:
    with KnowledgeBase.open(project(CONFIG) / "config.toml") as base:
        result = evaluate(base, load_data(file))
        assert not base.folder.exists(), "the configured collection is neither read nor changed"
        again = evaluate(base, load_data(file))
        even = evaluate(base, load_data(file), "even")
    of = {one.name: one for one in result.systems}
    assert list(of) == ["bm25", "dense", "extractive", "all passages"]
    assert [one.evidence for one in of["extractive"].each] == [1.0, 1.0, 1.0]
    assert of["bm25"].each[1].evidence == 0.0, "the sentence that names the matter shares most words"
    assert [one.passage for one in of["all passages"].each] == [1.0, 1.0, 1.0]
    shares = {name: value for name, value, _ in of["bm25"].shares()}
    assert set(shares) == {"evidence", "touches", "answered"}
    assert shares["evidence"] == sum(one.evidence for one in of["bm25"].each) / 3
    assert [one.each for one in again.systems] == [one.each for one in result.systems]
    assert even.ids == ("zh",)


def test_the_command_prints_and_writes_all_of_it(
    file: Path, project: Callable[..., Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    project(CONFIG)
    assert command.main(["citations", str(file), str(file), "--half", "odd"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("asked: 2 questions at odd places; embedder hashing, generator extractive") == 2
    out = tmp_path / "out.json"
    assert command.main(["citations", str(file), "--json", "--out", str(out)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == json.loads(out.read_text(encoding="utf-8"))
    (one,) = told["datasets"]
    assert one["queries"] == 3
    assert one["systems"]["extractive"]["evidence"]["value"] == 1.0
    assert set(one["systems"]["extractive"]["each"]) == {"en", "zh", "ja"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"evidences": ["It flew away."]}, "does not stand in the context"),
        ({"evidences": []}, "evidences has to be a list"),
        ({"answers": "Moura"}, "answers has to be a list"),
        ({"question": None}, "an object with id and title and context and question"),
    ],
)
def test_a_line_of_another_form_is_told(tmp_path: Path, change: dict[str, object], said: str) -> None:
    path = tmp_path / "asked.jsonl"
    path.write_text(json.dumps({**ROWS[0], **change}), encoding="utf-8")
    with pytest.raises(ConfigError, match=said):
        load_data(path)


def test_a_file_without_questions_is_told(tmp_path: Path, file: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.write_text("", encoding="utf-8")
    with pytest.raises(ConfigError, match="no question"):
        load_data(empty)
    empty.write_text(json.dumps(ROWS[0]), encoding="utf-8")
    with pytest.raises(ConfigError, match="even"):
        load_data(empty).take("even")
