"""The golden questions, asked of the sample documents with the embedded default: floors and citations."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from kb.answers import Citation
from kb.evaluation.golden import LANGUAGES, GoldenResult, evaluate, load_questions
from kb.knowledge_base import KnowledgeBase
from kb.loading import load_document
from kb.records import Document
from pipelines import evaluate as command
from tests.end_to_end._sample import DOCUMENTS

ROOT = Path(__file__).parents[2]
FILE = ROOT / "tests" / "golden" / "questions.toml"
OFF_TOPIC = FILE.with_name("off_topic.toml")
QUESTIONS = load_questions(FILE)

# Floors: what no change may fall below. Behind each stands what we aim for.
LEAST_FOUND = 0.94  # 0.97
LEAST_FIRST = 0.80  # 0.90
LEAST_RIGHT = 0.63  # 0.80, in every language; another processor rounds otherwise, which moves a question or two
# Found and right by kind; one question below what is reached.
LEAST_OF_KIND = {
    "exact": (0.98, 0.94),
    "paraphrase": (0.98, 0.59),
    "table": (0.96, 0.78),
    "two_documents": (0.93, 0.53),
    "cross_language": (0.60, 0.46),
}
# A floor at what is reached. 0.60 is wanted first, 0.80 aimed for: docs/decisions/0006 says what was tried and why the
# embedded model's similarities don't give it.
LEAST_UNANSWERABLE_DECLINED = 0.45
MOST_ANSWERABLE_DECLINED = 0.10  # 0.05
LEAST_OFF_TOPIC_DECLINED = 0.90


@pytest.fixture(scope="module")
def base(sample_data: Path) -> Iterator[KnowledgeBase]:
    """The sample documents; no config.toml, .env or KB_ variable changes the default."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(sample_data)
        forget_variables(patch)
        base = KnowledgeBase.open(documents_dir=DOCUMENTS, data_dir=sample_data)
    with base:
        yield base


@pytest.fixture(scope="module")
def result(base: KnowledgeBase) -> GoldenResult:
    """All questions asked once."""
    return evaluate(base, QUESTIONS)


def forget_variables(patch: pytest.MonkeyPatch) -> None:
    for variable in [name for name in os.environ if name.startswith("KB_")]:
        patch.delenv(variable)


@cache
def read(source: str) -> Document:
    return load_document(DOCUMENTS / source, source)


def open_headings(document: Document, position: int) -> list[str]:
    """The headings above a position, outermost first; one closes those of its level and below."""
    found: list[tuple[int, str]] = []
    for heading in document.headings:
        if heading.start > position:
            break
        found = [*(above for above in found if above[0] < heading.level), (heading.level, heading.text)]
    return [text for _, text in found]


def faults(citation: Citation) -> list[str]:
    """What a reader who follows a citation would not find as it says."""
    document = read(citation.source)
    wrong = []
    if not citation.quote.strip() or document.text[citation.start : citation.end] != citation.quote:
        wrong.append("the quote does not stand at its span")
    pages = [p.number for p in document.pages if p.start <= citation.start and citation.end <= p.end]
    if document.pages and pages != [citation.page]:
        wrong.append(f"the span is on {pages}, not on page {citation.page}")
    if not document.pages and citation.page is not None:
        wrong.append(f"page {citation.page} of a document without pages")
    path = open_headings(document, citation.start)
    if citation.heading is None and path:
        wrong.append(f"no heading is given, but the span stands under {path}")
    if citation.heading is not None and citation.heading not in [*path, " › ".join(path)]:
        wrong.append(f"the heading is {citation.heading!r}, the span stands under {path}")
    return [f"{citation.source} [{citation.start}:{citation.end}]: {fault}" for fault in wrong]


@pytest.mark.parametrize("language", LANGUAGES)
def test_sources_are_found_and_mostly_first(result: GoldenResult, language: str) -> None:
    shares = result.figures(language=language).shares
    assert (shares["found"] or 0) >= LEAST_FOUND
    assert (shares["first"] or 0) >= LEAST_FIRST


@pytest.mark.parametrize("language", LANGUAGES)
def test_answers_hold_what_answers_and_cite_where_it_stands(result: GoldenResult, language: str) -> None:
    assert (result.figures(language=language).shares["right"] or 0) >= LEAST_RIGHT


@pytest.mark.parametrize("kind", LEAST_OF_KIND)
def test_no_kind_of_question_gets_worse(result: GoldenResult, kind: str) -> None:
    shares = result.figures(kind=kind).shares
    assert (shares["found"] or 0) >= LEAST_OF_KIND[kind][0]
    assert (shares["right"] or 0) >= LEAST_OF_KIND[kind][1]


def test_questions_without_an_answer_are_declined_and_others_are_not(result: GoldenResult) -> None:
    shares = result.figures().shares
    assert (shares["unanswerable_declined"] or 0) >= LEAST_UNANSWERABLE_DECLINED
    assert (1 if shares["answerable_declined"] is None else shares["answerable_declined"]) <= MOST_ANSWERABLE_DECLINED


def test_questions_on_other_matters_are_declined(base: KnowledgeBase) -> None:
    shares = evaluate(base, load_questions(OFF_TOPIC)).figures().shares
    assert (shares["unanswerable_declined"] or 0) >= LEAST_OFF_TOPIC_DECLINED


def test_every_citation_leads_to_its_quote_on_its_page_and_under_its_heading(result: GoldenResult) -> None:
    citations = [citation for outcome in result.outcomes for citation in outcome.citations]
    assert citations
    assert [fault for citation in citations for fault in faults(citation)] == []


def test_every_answer_has_a_citation_and_nothing_else_has(result: GoldenResult) -> None:
    assert [o.question.id for o in result.outcomes if o.answered != bool(o.citations)] == []


def test_the_command_gives_the_same_figures(
    result: GoldenResult,
    sample_data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    forget_variables(monkeypatch)
    few = 4
    questions, config = tmp_path / "questions.toml", tmp_path / "config.toml"
    questions.write_text(
        "".join(f"[[question]]{table}" for table in FILE.read_text("utf-8").split("[[question]]")[1 : few + 1]), "utf-8"
    )
    config.write_text(
        f"documents_dir = {json.dumps(str(DOCUMENTS))}\ndata_dir = {json.dumps(str(sample_data))}\n", "utf-8"
    )
    options = ["golden", "--config", str(config), "--questions", str(questions)]
    expected = replace(result, outcomes=result.outcomes[: len(load_questions(questions))])
    assert command.main([*options, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["groups"] == expected.as_dict()["groups"]


def test_the_command_names_a_question_file_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["golden", "--questions", "nowhere.toml"]) == 2
    assert "error: nowhere.toml: the question file cannot be read" in capsys.readouterr().err
