"""`rag_query` and `KnowledgeBase`, as a notebook or a program uses them."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import kb
from kb import Answer, KbError, KnowledgeBase, asking, rag_query
from kb.answers import AnswerReady, HitsFound, TextPiece
from kb.errors import ConfigError, MissingKeyError, NothingIngestedError
from tests.commands import INGEST, ROOT, environment, run

QUESTION = "how many days of leave"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder with one document and the fast parts; nothing stays open for the next test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KB_EMBEDDING__USE", "hashing")
    monkeypatch.setenv("KB_STORE__USE", "memory")
    write("leave", "You get 25 days of leave a year.")
    yield tmp_path
    while asking._open:
        asking._open.popitem()[1].close()


def write(name: str, text: str, folder: str = "knowledge_base") -> None:
    Path(folder).mkdir(exist_ok=True)
    Path(folder, f"{name}.md").write_text(f"# {name.title()}\n\n{text}\n", encoding="utf-8")


def ingest(folder: str | None = None, **settings: Any) -> None:
    with KnowledgeBase.open(**settings) as base:
        base.ingest(folder)


# ------------------------------------------------------------------------------------------ rag_query


def test_an_answer_is_given_and_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    ingest()
    answer = rag_query(QUESTION)
    assert isinstance(answer, Answer)
    assert str(answer) == "You get 25 days of leave a year. [1]\n\nSources:\n  [1] leave.md › Leave"
    assert answer._repr_markdown_().startswith("You get 25 days of leave a year. [1]\n\n**[1]** leave.md › Leave\n\n> ")
    assert capfd.readouterr() == ("", "")


def test_it_works_where_an_event_loop_already_runs() -> None:
    ingest()

    async def cell() -> list[Answer]:
        direct = rag_query(QUESTION)
        return [direct, *await asyncio.gather(*(asyncio.to_thread(rag_query, QUESTION) for _ in range(4)))]

    assert {answer.text for answer in asyncio.run(cell())} == {"You get 25 days of leave a year. [1]"}


def test_arguments_win_over_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    write("pay", "Pay for days of leave comes on the 25th.")
    ingest()
    monkeypatch.setenv("KB_RETRIEVAL__TOP_K", "2")
    assert len(rag_query(QUESTION, cutoff=-1).hits) == 2
    assert len(rag_query(QUESTION, top_k=1, cutoff=-1).hits) == 1
    assert len(rag_query(QUESTION, retrieval={"top_k": 1, "cutoff": -1}).hits) == 1
    assert rag_query(QUESTION, cutoff=0.99).answered is False
    with pytest.raises(ConfigError, match="colection"):
        rag_query(QUESTION, colection="notes")
    with pytest.raises(ConfigError, match="top_k"):
        rag_query(QUESTION, top_k=0)


def test_collection_and_configuration_are_chosen_by_argument() -> None:
    write("notes", "My notes say: seven days of leave.", folder="notes")
    ingest()
    ingest("notes", collection="笔记")
    Path("other.toml").write_text('documents_dir = "notes"\ndata_dir = "elsewhere"\n')
    with KnowledgeBase.open("other.toml") as base:
        base.ingest()
    assert rag_query(QUESTION).citations[0].source == "leave.md"
    assert rag_query(QUESTION, collection="笔记").citations[0].source == "notes.md"
    assert rag_query(QUESTION, config=Path("other.toml")).citations[0].source == "notes.md"


def test_nothing_ingested_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(
        NothingIngestedError, match=r"collection 'knowledge_base' .* Ingest first: python -m pipelines\.ingest"
    ):
        rag_query(QUESTION)
    ingest()
    assert rag_query(QUESTION).answered  # the failure is not remembered


# ------------------------------------------------------------------------- what has changed since is seen


def new_ingest_in_another_process() -> None:
    write("sick", "Call before nine when you are sick.")
    assert run(INGEST, cwd=Path.cwd()).returncode == 0


def deleted_data_and_a_new_ingest_in_another_process() -> None:
    shutil.rmtree("kb_data")
    new_ingest_in_another_process()


def another_working_folder() -> None:
    Path("deeper").mkdir()
    os.chdir("deeper")
    write("sick", "Call before nine when you are sick.")
    ingest()


def a_new_configuration_file() -> None:
    write("sick", "Call before nine when you are sick.", folder="other")
    Path("config.toml").write_text('documents_dir = "other"\ndata_dir = "other_data"\n')
    ingest()


def a_new_env_file() -> None:
    write("sick", "Call before nine when you are sick.", folder="other")
    Path(".env").write_text("KB_DATA_DIR=other_data\n")
    ingest("other")


def a_new_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    write("sick", "Call before nine when you are sick.", folder="other")
    monkeypatch.setenv("KB_DATA_DIR", "other_data")
    ingest("other")


@pytest.mark.parametrize(
    "change",
    [
        new_ingest_in_another_process,
        deleted_data_and_a_new_ingest_in_another_process,
        another_working_folder,
        a_new_configuration_file,
        a_new_env_file,
    ],
)
def test_the_next_question_sees(change: Callable[[], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)  # so that it is undone
    ingest()
    assert rag_query(QUESTION).answered
    assert not rag_query("when to call sick").answered
    change()
    assert rag_query("when to call sick").citations[0].source == "sick.md"


def test_the_next_question_sees_a_new_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    ingest()
    assert not rag_query("when to call sick").answered
    a_new_variable(monkeypatch)
    assert rag_query("when to call sick").citations[0].source == "sick.md"


def test_a_key_that_is_set_after_it_was_missed_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    ingest()
    settings: dict[str, Any] = {
        "generation": {"use": "openai"},
        "chat": {"answer": {"base_url": "http://127.0.0.1:9/v1", "retries": 0}},
    }
    with pytest.raises(MissingKeyError):
        rag_query(QUESTION, **settings)
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    with pytest.raises(KbError, match=r"127\.0\.0\.1:9"):  # it was tried
        rag_query(QUESTION, **settings)


def test_what_loads_slowly_stays_loaded_for_the_next_question() -> None:
    ingest()
    rag_query(QUESTION)
    base = next(reversed(asking._open.values()))
    rag_query("and another", top_k=1)
    assert list(asking._open.values()) == [base]


def test_few_knowledge_bases_stay_open_and_the_rest_open_again() -> None:
    ingest()
    for candidates in (10, 20, 30, 40, 50, 10):
        assert rag_query(QUESTION, retrieval={"candidates": candidates}).answered
    assert len(asking._open) == asking._MOST_OPEN


def test_many_threads_ask_while_another_process_ingests() -> None:
    ingest()
    program = """
import pathlib
from kb import KnowledgeBase
for number in range(6):
    file = pathlib.Path("knowledge_base", f"{number}.md")
    file.write_text(f"# Number {number}\\n\\nThe text number {number}.\\n")
    with KnowledgeBase.open() as base:
        base.ingest()
"""
    writer = subprocess.Popen([sys.executable, "-c", program], env=environment(PYTHONPATH=str(ROOT)))
    with ThreadPoolExecutor(6) as pool:
        texts = set()
        while writer.poll() is None:
            texts |= {answer.text for answer in pool.map(rag_query, [QUESTION] * 12)}
    assert writer.returncode == 0
    assert texts == {"You get 25 days of leave a year. [1]"}
    assert rag_query("The text number 5").citations[0].source == "5.md"


# ---------------------------------------------------------------------------------------- KnowledgeBase


def test_a_knowledge_base_does_all_that_a_program_needs() -> None:
    with KnowledgeBase.open() as base:
        assert (base.status().root, base.status().documents) == (None, 0)
        report = base.ingest()
        assert (report.indexed, report.chunks_total) == (1, 1)
        status = base.status()
        assert (status.documents, status.chunks, status.failed) == (1, 1, 0)
        assert status.root == Path.cwd() / "knowledge_base"
        found = base.search(QUESTION, top_k=1)
        assert [hit.source for hit in found.hits] == ["leave.md"]
        many = base.search_many([QUESTION, "quantum chromodynamics", QUESTION])
        assert [len(result.hits) for result in many] == [1, 0, 1]
        answer = base.ask(QUESTION)
        events = list(base.stream(QUESTION))
        assert isinstance(events[0], HitsFound)
        assert isinstance(events[-1], AnswerReady)
        assert "".join(event.text for event in events if isinstance(event, TextPiece)) == answer.text
        assert events[-1].answer.citations == answer.citations
    assert base.ask(QUESTION).text == answer.text  # opens again
    base.close()


def test_a_document_is_no_markup_in_a_notebook() -> None:
    write(
        "evil", "The evil days of leave <script>alert(1)</script> ![x](http://evil.example/x.png) <img src=x> $a$ end."
    )
    ingest()
    shown = rag_query("evil days of leave script", top_k=1)._repr_markdown_()
    assert "evil days of leave" in shown
    assert not [markup for markup in ("<script", "<img", "![", "](", "$", "http://") if markup in shown]


def test_every_public_name_can_be_imported_by_a_star() -> None:
    names: dict[str, object] = {}
    exec("from kb import *", names)
    assert set(kb.__all__) <= set(names)
