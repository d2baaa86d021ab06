"""Calibration: what is recommended on a small base, and that one line of config.toml is all that is ever changed."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kb.errors import ConfigError, NothingIngestedError
from kb.evaluation._one_setting import write_setting
from kb.evaluation.calibration import FEW, calibrate
from kb.evaluation.golden import load_questions
from kb.knowledge_base import KnowledgeBase
from pipelines import calibrate as command

CONFIG = """
[embedding]
use = "hashing"
[store]
use = "memory"
[loading]
isolated = false
[retrieval]
cutoff = 0.9  # mine
"""
DOCUMENTS = {
    "cats.txt": "Cats sleep beside quiet walls for nine hours.",
    "鱼.txt": "鱼喜欢在山边的河里睡觉，每天七个小时。",
    "犬.txt": "犬はいつも赤い門のそばで八時間眠る。",
    "гуси.txt": "Гуси летят осенью через старую мельницу.",
}
QUESTIONS = [
    ("en", "Beside which quiet walls do cats sleep?", "cats.txt", DOCUMENTS["cats.txt"], "quiet walls"),
    ("zh", "鱼喜欢在哪里的河里睡觉？", "鱼.txt", DOCUMENTS["鱼.txt"], "山边的河里"),
    ("ja", "犬はいつも門のそばで何時間眠る？", "犬.txt", DOCUMENTS["犬.txt"], "八時間"),
    ("ru", "Через какую старую мельницу летят гуси?", "гуси.txt", DOCUMENTS["гуси.txt"], "мельницу"),
    ("en", "Which motorway leads to Zanzibar?", "", "", ""),
    ("en", "Where is the lost page?", "gone.txt", "It is lost.", "lost"),
]


def write_questions(file: Path) -> Path:
    tables = []
    for number, (language, text, source, sentence, phrase) in enumerate(QUESTIONS):
        kind = "exact" if source else "unanswerable"
        head = {"id": f"q{number}", "language": language, "kind": kind, "question": text}
        lines = ["[[question]]", *(f"{k} = {json.dumps(v, ensure_ascii=False)}" for k, v in head.items())]
        lines += ["low_overlap = false"]
        if source:
            piece = {"source": source, "sentence": sentence, "phrase": phrase}
            lines += [
                "[[question.evidence]]",
                *(f"{k} = {json.dumps(v, ensure_ascii=False)}" for k, v in piece.items()),
            ]
        tables += lines
    file.write_text("\n".join(tables), encoding="utf-8")
    return file


@pytest.fixture
def folder(project: Callable[..., Path]) -> Path:
    folder = project(CONFIG)
    documents = folder / "knowledge_base"
    documents.mkdir()
    for name, text in DOCUMENTS.items():
        (documents / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def base(folder: Path) -> Iterator[KnowledgeBase]:
    with KnowledgeBase.open("config.toml") as base:
        base.ingest()
        yield base


def test_the_cutoff_parts_what_answers_from_other_documents_in_every_language(
    base: KnowledgeBase, folder: Path
) -> None:
    found = calibrate(base, load_questions(write_questions(folder / "q.toml"), any_language=True))
    assert (found.questions, found.unanswerable, found.not_found) == (4, 1, ("q5",))
    (at,) = [point for point in found.curve if point.value == found.cutoff]
    assert (at.kept, at.let_through) == (1.0, 0.0)
    right = [base.search(text, cutoff=-1).hits[0].similarity for _, text, *_ in QUESTIONS[:4]]
    assert found.cutoff <= found.open_cutoff <= min(right) < found.open_cutoff + 0.01
    assert found.between[0] <= found.cutoff <= found.between[1]
    assert found.cutoff_now == 0.9
    assert any("only 4 questions" in note for note in found.notes), f"fewer than {FEW}"
    assert any("1 questions whose evidence is not in the base" in note for note in found.notes)
    with base.variant(retrieval=base.settings.retrieval.model_copy(update={"cutoff": found.cutoff})) as chosen:
        for _, text, source, *_ in QUESTIONS[:5]:
            assert [hit.source for hit in chosen.search(text).hits] == ([source] if source else [])


def test_shares_fall_as_the_cutoff_rises(base: KnowledgeBase, folder: Path) -> None:
    curve = calibrate(base, load_questions(write_questions(folder / "q.toml"), any_language=True)).curve
    assert [p.value for p in curve] == sorted({p.value for p in curve})
    assert [p.kept for p in curve] == sorted((p.kept for p in curve), reverse=True)
    assert [p.let_through for p in curve] == sorted((p.let_through for p in curve), reverse=True)
    assert curve[-1].kept < 1, "the plot shows where right passages are lost"


def test_without_questions_sentences_of_the_base_are_asked(base: KnowledgeBase) -> None:
    found = calibrate(base)
    assert (found.asked, found.questions, found.relative_threshold) == ("sentences", 4, None)
    assert found.cutoff < 0.9
    assert any("optimistic" in note for note in found.notes)
    assert calibrate(base) == found, "the same each time"


def test_a_base_of_one_document_is_compared_with_its_other_chunks(folder: Path) -> None:
    for file in (folder / "knowledge_base").iterdir():
        file.unlink()
    document = folder / "knowledge_base" / "one.md"
    parts = [
        f"# Part {n}\n\n" + " ".join(f"Word{n}{i} stands in place {n * 100 + i}." for i in range(30)) for n in range(3)
    ]
    document.write_text("\n\n".join(parts), encoding="utf-8")
    with KnowledgeBase.open("config.toml", chunking={"recursive": {"size_tokens": 100}}) as base:
        base.ingest()
        found = calibrate(base)
        assert found.questions > 3
    document.write_text("Cats sleep beside quiet old walls.", encoding="utf-8")
    with KnowledgeBase.open("config.toml") as base:
        base.ingest()
        with pytest.raises(ConfigError, match="nothing to compare with"):
            calibrate(base)


def test_a_relative_threshold_keeps_what_is_right_and_drops_what_is_beside_it(folder: Path) -> None:
    for number in range(12):
        text = f"Cats sleep beside walls in house number {number}."
        (folder / "knowledge_base" / f"other{number}.txt").write_text(text, encoding="utf-8")
    questions = load_questions(write_questions(folder / "q.toml"), any_language=True)
    with KnowledgeBase.open("config.toml", retrieval={"cutoff": -1.0}) as base:
        base.ingest()
        found = calibrate(base, questions[:4])
    assert found.relative_threshold is not None
    chosen = next(p for p in found.relative_curve if p.value == found.relative_threshold)
    assert chosen.kept == 1.0
    assert chosen.let_through < 1.0


def test_what_cannot_be_measured_is_said(folder: Path) -> None:
    questions = load_questions(write_questions(folder / "q.toml"), any_language=True)
    with KnowledgeBase.open("config.toml") as base:
        with pytest.raises(NothingIngestedError):
            calibrate(base, questions)
        base.ingest()
        with pytest.raises(ConfigError, match="no question has its evidence in the ingested documents"):
            calibrate(base, questions[4:])


def test_the_command_writes_only_when_told_and_only_the_cutoff(
    base: KnowledgeBase, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    questions, config = str(write_questions(folder / "q.toml")), folder / "config.toml"
    assert command.main([questions]) == 0
    said = capsys.readouterr().out
    assert config.read_text(encoding="utf-8") == CONFIG
    assert all(len(line) <= 80 for line in said.splitlines() if "#" in line)
    assert "recommended" in said
    assert command.main([questions, "--write", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert config.read_text(encoding="utf-8") == CONFIG.replace("0.9  # mine", f"{told['cutoff']:g}  # mine")
    config.unlink()
    (folder / "elsewhere.toml").write_text(CONFIG, encoding="utf-8")
    assert command.main([questions, "--config", "elsewhere.toml", "--write"]) == 0
    assert "elsewhere.toml: [retrieval] cutoff =" in capsys.readouterr().err
    monkeypatch.setenv("KB_EMBEDDING__USE", "hashing")
    monkeypatch.setenv("KB_STORE__USE", "memory")
    assert command.main([questions, "--write"]) == 2
    told = capsys.readouterr()
    assert "recommended" in told.out, "what was measured is shown all the same"
    assert "config.toml is not there, so nothing was written" in told.err


# ── the one key ──


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('[retrieval]\ncutoff = "auto" # why\ntop_k = 3\n', "[retrieval]\ncutoff = 0.25 # why\ntop_k = 3\n"),
        ("[store]\nuse = 'x'\n", "[store]\nuse = 'x'\n\n[retrieval]\ncutoff = 0.25\n"),
        (
            "# cutoff = 1\n[retrieval] # ja: 検索\n# cutoff = 2\n",
            "# cutoff = 1\n[retrieval] # ja: 検索\ncutoff = 0.25\n# cutoff = 2\n",
        ),
        (
            "[embedding.openai]\r\ncutoff = 0.4\r\n[retrieval]\r\ntop_k = 3",
            "[embedding.openai]\r\ncutoff = 0.4\r\n[retrieval]\r\ncutoff = 0.25\r\ntop_k = 3",
        ),
        ("[retrieval]", "[retrieval]\ncutoff = 0.25\n"),
        ("", "[retrieval]\ncutoff = 0.25\n"),
    ],
)
def test_one_key_is_set_and_all_else_stays(tmp_path: Path, before: str, after: str) -> None:
    file = tmp_path / "config.toml"
    file.write_bytes(before.encode())
    file.chmod(0o640)
    write_setting(file, "retrieval", "cutoff", 0.25)
    assert file.read_bytes().decode() == after
    assert tomllib.loads(after)["retrieval"]["cutoff"] == 0.25
    assert file.stat().st_mode & 0o777 == 0o640
    assert [one.name for one in tmp_path.iterdir()] == ["config.toml"], "nothing is left beside it"


@pytest.mark.parametrize(
    "text", ["retrieval = {cutoff = 0.3}\n", "retrieval.cutoff = 0.3\n", '[a]\nb = """\n[retrieval]\n"""\n']
)
def test_a_form_that_no_line_changes_is_refused_and_left_alone(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"nothing was written; set cutoff = 0\.25 below \[retrieval\] by hand"):
        write_setting(file, "retrieval", "cutoff", 0.25)
    assert file.read_text(encoding="utf-8") == text


def test_a_file_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"is not there, so nothing was written; make it, or set cutoff"):
        write_setting(tmp_path / "config.toml", "retrieval", "cutoff", 0.25)
    assert list(tmp_path.iterdir()) == []
