"""The evaluation of retrieval: its measures on cases worked out by hand, and whole runs in three languages."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from kb.errors import ConfigError
from kb.evaluation._measures import interval, measures
from kb.evaluation.compare import changes, read
from kb.evaluation.retrieval import RetrievalResult, evaluate, load_data, take
from kb.knowledge_base import KnowledgeBase
from pipelines import evaluate as command

CONFIG = """
[embedding]
use = "hashing"
[store]
use = "memory"
[loading]
isolated = false
"""
CORPUS = [
    ("cats", "On cats", "Cats sleep beside quiet walls at night."),
    ("hens", "", "Hens walk about noisy barns in the morning."),
    ("鱼", "", "鱼喜欢在山边的河里睡觉。"),
    ("犬", "", "犬はいつも門のそばで眠る。"),
    ("owls", "", "Owls hunt above the roofs of towns."),
]
QUERIES = [
    ("q1", "Beside which walls do cats sleep?", {"cats": 1}),
    ("q2", "鱼在哪里睡觉？", {"鱼": 1}),
    ("q3", "犬はどこで眠る？", {"犬": 2, "cats": 0}),
    ("q4", "What do hens and owls do in barns and above roofs?", {"hens": 1, "owls": 1}),
]


def write_data(
    folder: Path,
    corpus: Sequence[tuple[str, str, str]] = CORPUS,
    queries: Sequence[tuple[str, str, Mapping[str, int]]] = QUERIES,
) -> Path:
    folder.mkdir(exist_ok=True)
    documents = [json.dumps({"_id": i, "title": title, "text": text}) for i, title, text in corpus]
    (folder / "corpus.jsonl").write_text("\n".join(documents), encoding="utf-8")
    asked = [json.dumps({"_id": i, "text": text}) for i, text, _ in [*queries, ("unjudged", "?", {})]]
    (folder / "queries.jsonl").write_text("\n".join(asked) + "\n", encoding="utf-8")
    judged = [f"{i}\t{document}\t{score}" for i, _, right in queries for document, score in right.items()]
    (folder / "qrels.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *judged]), encoding="utf-8")
    return folder


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_data(tmp_path / "small")


@pytest.fixture
def base(project: Callable[..., Path]) -> KnowledgeBase:
    return KnowledgeBase.open(project(CONFIG) / "config.toml")


# ── measures ──


def test_measures_are_those_of_the_textbook() -> None:
    right = {"one": {"a": 1}, "two": {"a": 1, "b": 1}, "late": {"z": 1}, "none": {"a": 1}}
    filler = [f"x{number}" for number in range(10)]
    found = measures({"one": ["b", "a"], "two": ["a", "c", "b"], "late": [*filler, "z"], "none": []}, right)
    assert found["one"] == pytest.approx(
        {
            "ndcg@10": 1 / math.log2(3),
            "recall@1": 0.0,
            "recall@5": 1.0,
            "recall@10": 1.0,
            "recall@100": 1.0,
            "mrr@10": 1 / 2,
        }
    )
    assert found["two"]["ndcg@10"] == pytest.approx((1 + 1 / 2) / (1 + 1 / math.log2(3)))
    assert (found["two"]["recall@1"], found["two"]["mrr@10"]) == (0.5, 1.0)
    assert (found["late"]["ndcg@10"], found["late"]["recall@10"]) == (0.0, 0.0)
    assert (found["late"]["recall@100"], found["late"]["mrr@10"]) == (1.0, 0.0)
    assert set(found["none"].values()) == {0.0}


def test_an_interval_holds_the_mean_and_narrows_with_more_questions() -> None:
    few, many = interval([0.0, 1.0] * 10), interval([0.0, 1.0] * 1000)
    assert few[0] < many[0] < 0.5 < many[1] < few[1]
    assert interval([0.7] * 5) == pytest.approx((0.7, 0.7))
    assert interval([0.0, 1.0] * 10) == few, "the same each time"


# ── data ──


def test_questions_without_a_right_document_are_left_out_and_halves_are_by_place(data: Path) -> None:
    loaded = load_data(data)
    assert list(loaded.queries) == ["q1", "q2", "q3", "q4"]
    assert loaded.relevant["q3"] == {"犬": 2}, "0 is not right"
    assert list(take(loaded, "odd").queries) == ["q1", "q3"]
    assert list(take(loaded, "even").queries) == ["q2", "q4"]
    assert take(loaded, "even").relevant.keys() == {"q2", "q4"}


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("corpus.jsonl", None, "corpus.jsonl cannot be read: No such file"),
        ("corpus.jsonl", b'{"_id": "a", "text": "b"}\n{"_id": ', "corpus.jsonl, line 2: it is no JSON"),
        ("corpus.jsonl", b'{"_id": "a"}', "line 1: an object with _id and text has to stand there"),
        ("queries.jsonl", b"[1]", "line 1: an object with _id and text has to stand there"),
        ("queries.jsonl", b"\xff\xfe", "queries.jsonl cannot be read: it is not UTF-8"),
        ("qrels.tsv", b"h\nq1\tcats\tx", "qrels.tsv, line 2: query-id, corpus-id and a whole number are wanted"),
        ("qrels.tsv", b"h\nq1\tnowhere\t1", "line 2: there is no question 'q1' or no document 'nowhere'"),
        ("qrels.tsv", b"h\nq1\tcats\t0", "qrels.tsv: no question has a right document"),
    ],
)
def test_what_is_wrong_with_the_data_is_said_with_file_and_line(
    data: Path, name: str, content: bytes | None, said: str
) -> None:
    (data / name).unlink()
    if content is not None:
        (data / name).write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_data(data)
    assert said in str(caught.value)


# ── whole runs ──


def test_the_right_documents_are_found_in_three_languages_and_each_stage_is_measured(
    base: KnowledgeBase, data: Path
) -> None:
    result = evaluate(base, load_data(data))
    assert [system.name for system in result.systems] == ["dense", "keyword", "fused"]
    fused = result.systems[-1]
    assert fused.each.keys() == {"q1", "q2", "q3", "q4"}
    assert fused.means == pytest.approx(dict.fromkeys(fused.means, 1.0) | {"recall@1": 7 / 8})
    assert (result.documents, result.chunks, result.embedded) == (5, 5, 5)
    told = result.as_dict()
    assert told["dataset"] == "small"
    for name in ("ndcg@10", "recall@1", "recall@5", "recall@10", "recall@100", "mrr@10", "queries", "seconds"):
        assert isinstance(told[name], float | int)
    assert told["configuration"]["embedding"] == "hashing"


def test_a_second_run_embeds_nothing_and_a_changed_corpus_only_what_changed(
    base: KnowledgeBase, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = evaluate(base, load_data(data))
    with monkeypatch.context() as patch:
        for name in ("embed_documents", "embed_queries"):
            patch.setattr(type(base.embedder), name, lambda *_: pytest.fail("everything is known"))
        again = evaluate(base, load_data(data))
    assert again.embedded == 0
    assert [one.each for one in again.systems] == [one.each for one in first.systems]
    write_data(data, [CORPUS[0], ("hens", "", "Hens sit on the roofs of barns."), *CORPUS[2:]])
    assert evaluate(base, load_data(data)).embedded == 1


def test_what_was_embedded_is_known_where_the_data_has_moved_to(project: Callable[..., Path], data: Path) -> None:
    folder = project(CONFIG)
    with KnowledgeBase.open(folder / "config.toml") as base:
        evaluate(base, load_data(data))
    (folder / "kb_data").rename(folder / "moved")
    with KnowledgeBase.open(folder / "config.toml", data_dir=folder / "moved") as base:
        assert evaluate(base, load_data(data)).embedded == 0


def test_a_long_document_counts_as_its_best_chunk(project: Callable[..., Path], data: Path) -> None:
    long = " ".join(f"Number {number} is about nothing at all." for number in range(60))
    write_data(data, [("cats", "", f"{long}\n\nCats sleep beside walls."), *CORPUS[1:]])
    config = project(CONFIG + "[chunking.recursive]\nsize_tokens = 32\n") / "config.toml"
    with KnowledgeBase.open(config) as base:
        result = evaluate(base, load_data(data), "odd")
    assert result.chunks > 10
    fused = result.systems[-1]
    assert fused.each.keys() == {"q1", "q3"}
    assert fused.each["q1"]["ndcg@10"] == 1.0


def test_the_configured_collection_is_neither_read_nor_changed(base: KnowledgeBase, data: Path) -> None:
    evaluate(base, load_data(data))
    assert not base.folder.exists()


def test_without_the_package_that_measures_the_line_for_pip_is_said(
    base: KnowledgeBase, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pytrec_eval", None)
    with pytest.raises(ConfigError, match=r"pip install 'kb\[evaluation\]'"):
        evaluate(base, load_data(data))
    assert not base.settings.data_dir.exists(), "told before anything is embedded"


# ── comparing ──


def test_changes_beyond_noise_are_told_from_noise(base: KnowledgeBase, data: Path) -> None:
    result: RetrievalResult = evaluate(base, load_data(data))
    now = [result.as_dict()]
    assert {change.verdict for change in changes(now, now)} == {"no more than noise"}
    worse = json.loads(json.dumps(now))
    worse[0]["systems"]["fused"]["ndcg@10_of_each"] = dict.fromkeys(("q1", "q2", "q3", "q4"), 0.25)
    assert {c.system: c.verdict for c in changes(worse, now)}["fused"] == "better"
    assert {c.system: c.verdict for c in changes(now, worse)}["fused"] == "worse"
    assert list(changes([{**now[0], "dataset": "another"}], now)) == []


def test_the_command_prints_a_table_writes_a_file_and_compares(
    project: Callable[..., Path], data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = project(CONFIG)
    out = folder / "before.json"
    assert command.main(["retrieval", str(data), "--out", str(out)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == ("small: 4 questions, 5 documents, 5 chunks, of which 5 were embedded; embedder hashing")
    assert [line.split()[0] for line in said[3:6]] == ["dense", "keyword", "fused"]
    assert "1.0000" in said[5]
    assert read(out)[0]["dataset"] == "small"
    assert command.main(["retrieval", str(data), "--half", "odd", "--compare", str(out)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert "2 questions at odd places" in said[0]
    assert said[-1].endswith("no more than noise")
    assert command.main(["retrieval", str(data), "--json", "--compare", str(out)]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert [one["dataset"] for one in told["results"]] == ["small"]
    assert {one["verdict"] for one in told["changes"]} == {"no more than noise"}


def test_a_file_that_cannot_be_compared_or_written_is_named(
    project: Callable[..., Path], data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = project(CONFIG)
    (folder / "other.json").write_text('[{"dataset": 1}]', encoding="utf-8")
    for name, said in (("none.json", "cannot be read: No such file"), ("other.json", "is no result of an evaluation")):
        assert command.main(["retrieval", str(data), "--compare", str(folder / name)]) == 2
        assert said in capsys.readouterr().err
    assert command.main(["retrieval", str(data), "--out", str(folder / "no" / "out.json")]) == 2
    assert "cannot be written: No such file" in capsys.readouterr().err
