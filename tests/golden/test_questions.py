"""The golden questions are sound: what they say of the documents is what the project reads there."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from kb.errors import ConfigError
from kb.evaluation.golden import KINDS, LANGUAGES, Evidence, GoldenQuestion, holds, load_questions, plain
from kb.loading import load_document
from kb.records import Document
from kb.words import content_terms, terms

BASE = Path(__file__).parents[2] / "knowledge_base"
FILE = Path(__file__).parent / "questions.toml"
QUESTIONS = load_questions(FILE)
ANSWERABLE = [question for question in QUESTIONS if question.answerable]
EVIDENCE = [(question, piece) for question in ANSWERABLE for piece in question.evidence]
NAMES = [f"{q.id}-{number}" for q in ANSWERABLE for number, _ in enumerate(q.evidence, start=1)]

LEAST_QUESTIONS = 90
LEAST_IN_A_LANGUAGE = 30
LEAST_UNANSWERABLE = 15
LEAST_LOW_OVERLAP = 1 / 3
"""Of a language's answerable questions; otherwise a search for the same words would look good enough."""
LOW_OVERLAP = 0.30


@cache
def read(source: str) -> Document:
    return load_document(BASE / source, source)


def sections(document: Document, heading: str) -> list[str]:
    """The texts directly below the headings of that name, each up to the next heading of any level."""
    ends = [*(following.start for following in document.headings[1:]), len(document.text)]
    return [
        document.text[found.end : end]
        for found, end in zip(document.headings, ends, strict=True)
        if plain(found.text) == plain(heading)
    ]


def places(piece: Evidence) -> list[str]:
    """The texts in which a piece of evidence says that its sentence stands."""
    document = read(piece.source)
    if piece.page is not None:
        return [document.text[page.start : page.end] for page in document.pages if page.number == piece.page]
    return [document.text] if piece.heading is None else sections(document, piece.heading)


def language_of(source: str) -> str:
    folder = source.split("/")[0]
    return folder if folder in LANGUAGES else "en"


def test_there_are_enough_questions_in_each_language() -> None:
    counts = Counter(question.language for question in QUESTIONS)
    assert len(QUESTIONS) >= LEAST_QUESTIONS
    assert {language: counts[language] for language in LANGUAGES if counts[language] < LEAST_IN_A_LANGUAGE} == {}


def test_every_kind_is_asked_in_every_language() -> None:
    assert {(q.language, q.kind) for q in QUESTIONS} == {(language, kind) for language in LANGUAGES for kind in KINDS}
    assert sum(not question.answerable for question in QUESTIONS) >= LEAST_UNANSWERABLE


def test_ids_are_unique_and_name_the_language() -> None:
    assert [i for i, count in Counter(question.id for question in QUESTIONS).items() if count > 1] == []
    assert [question.id for question in QUESTIONS if not question.id.startswith(f"{question.language}-")] == []
    assert [t for t, count in Counter(plain(question.question) for question in QUESTIONS).items() if count > 1] == []


def test_only_unanswerable_questions_lack_evidence() -> None:
    assert [q.id for q in QUESTIONS if q.answerable == (q.kind == "unanswerable")] == []


def test_two_documents_need_both_and_no_document_has_both_parts() -> None:
    two = [question for question in QUESTIONS if question.kind == "two_documents"]
    assert [q.id for q in QUESTIONS if len(q.parts) != {"two_documents": 2, "unanswerable": 0}.get(q.kind, 1)] == []
    assert [q.id for q in two if {e.source for e in q.parts[0]} & {e.source for e in q.parts[1]}] == []


def test_cross_language_evidence_is_in_other_languages_and_other_evidence_in_the_own() -> None:
    def in_own(question: GoldenQuestion) -> bool:
        return all(any(language_of(e.source) == question.language for e in part) for part in question.parts)

    crossing = [question for question in ANSWERABLE if question.kind == "cross_language"]
    assert [q.id for q in crossing if any(language_of(e.source) == q.language for e in q.evidence)] == []
    assert [q.id for q in ANSWERABLE if q.kind != "cross_language" and not in_own(q)] == []


@pytest.mark.parametrize(("question", "piece"), EVIDENCE, ids=NAMES)
def test_evidence_stands_where_it_is_said_to_stand(question: GoldenQuestion, piece: Evidence) -> None:
    found = places(piece)
    assert found, f"{question.id}: no such heading or page in {piece.source}: {piece.heading or piece.page}"
    assert any(plain(piece.sentence) in plain(text) for text in found), (
        f"{question.id}: not in {piece.source}: {piece.sentence}"
    )
    assert holds(piece.sentence, piece.phrase), f"{question.id}: {piece.phrase!r} is no part of its sentence"


def test_evidence_has_a_page_or_a_heading_as_its_format_does() -> None:
    has = {".pdf": (False, True), ".txt": (False, False)}
    assert [
        (question.id, piece.source)
        for question, piece in EVIDENCE
        if (piece.heading is not None, piece.page is not None) != has.get(Path(piece.source).suffix, (True, False))
    ] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_enough_questions_are_worded_otherwise_than_the_documents(language: str) -> None:
    asked = [question for question in ANSWERABLE if question.language == language]
    assert sum(question.low_overlap for question in asked) >= LEAST_LOW_OVERLAP * len(asked)


@pytest.mark.parametrize("question", [q for q in ANSWERABLE if q.low_overlap], ids=lambda question: question.id)
def test_low_overlap_is_low(question: GoldenQuestion) -> None:
    asked = set(content_terms(question.question))
    shares = {piece.sentence: len(asked & set(terms(piece.sentence))) / len(asked) for piece in question.evidence}
    assert {sentence: share for sentence, share in shares.items() if share > LOW_OVERLAP} == {}


def test_a_wrong_question_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "questions.toml"
    with pytest.raises(ConfigError, match=r"questions\.toml.*cannot be read"):
        load_questions(path)
    path.write_text('[[question]]\nid = "en-1"\nkind = "exact"\n', encoding="utf-8")
    with pytest.raises(ConfigError, match=r"questions\.toml: question 1: a field is missing"):
        load_questions(path)
    path.write_text("[[question]\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="no valid TOML"):
        load_questions(path)
