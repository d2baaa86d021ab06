"""Scoring of golden questions: what counts as found, right and declined."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from kb.answers import Answer, Citation
from kb.evaluation.golden import (
    Evidence,
    Figures,
    GoldenQuestion,
    GoldenResult,
    Outcome,
    holds,
    plain,
    score,
)
from kb.records import Chunk, Hit, SearchResult
from pipelines import _evaluate_golden as command

LIMIT = Evidence("limits.md", "| Team | 300 |", "300", heading="Limits")
LIMIT_ZH = Evidence("zh/限流.md", "| Team | 每分钟 300 次 |", "300 次", heading="上限")
QUOTA = Evidence("quota.md", "Team has 1,500 labels.", "1,500 labels", heading="Quota")

ONE = GoldenQuestion("en-1", "en", "exact", "How many requests?", False, (LIMIT, LIMIT_ZH))
TWO = GoldenQuestion("en-2", "en", "two_documents", "Requests and labels?", False, (LIMIT, replace(QUOTA, part=2)))
NONE = GoldenQuestion("en-3", "en", "unanswerable", "Who drew the logo?", False)


def outcome(
    question: GoldenQuestion, found: list[str], text: str | None = None, cited: tuple[str, ...] = ()
) -> Outcome:
    hits = tuple(Hit(Chunk(f"c{i}", "d", "text", 0, 4), s, 0.5, "dense", 0.5) for i, s in enumerate(found))
    citations = tuple(Citation(i, s, None, None, 0, 4, "text", "c") for i, s in enumerate(cited, start=1))
    answer = Answer(question.question, text is not None, text or "", citations, hits, 0.3, 0.5, "e5", "extractive", 0.1)
    return score(question, SearchResult(question.question, hits, (), -1.0, 0.5), answer)


def test_any_alternative_counts_as_found_and_only_the_first_hit_as_first() -> None:
    assert outcome(ONE, ["other.md", "zh/限流.md"]).found
    assert not outcome(ONE, ["other.md", "zh/限流.md"]).first
    assert outcome(ONE, ["zh/限流.md", "other.md"]).first


def test_a_sixth_hit_is_not_found() -> None:
    assert outcome(ONE, ["other.md"] * 4 + ["limits.md"]).found
    assert not outcome(ONE, ["other.md"] * 5 + ["limits.md"]).found


def test_two_documents_are_found_only_together_and_either_may_be_first() -> None:
    assert not outcome(TWO, ["quota.md", "other.md"]).found
    assert outcome(TWO, ["quota.md", "other.md"]).first
    assert outcome(TWO, ["quota.md", "limits.md"]).found


def test_an_answer_is_right_only_with_its_phrase_and_the_source_where_it_stands() -> None:
    assert outcome(ONE, [], "300 a minute [1].", ("limits.md",)).right
    assert not outcome(ONE, [], "300 a minute [1].", ("quota.md",)).right
    assert not outcome(ONE, [], "600 a minute [1].", ("limits.md",)).right


def test_a_phrase_of_one_alternative_needs_that_alternative_cited() -> None:
    assert outcome(ONE, [], "每分钟 300次 [1]。", ("zh/限流.md",)).right
    assert not outcome(ONE, [], "300 a minute [1].", ("zh/限流.md",)).right


def test_two_documents_need_both_phrases_with_both_sources() -> None:
    both = "300 requests [1] and 1,500 labels [2]."
    assert outcome(TWO, [], both, ("limits.md", "quota.md")).right
    assert not outcome(TWO, [], both, ("limits.md",)).right
    assert not outcome(TWO, [], "300 requests [1] and labels [2].", ("limits.md", "quota.md")).right


def test_an_unanswerable_question_is_never_found_or_right() -> None:
    given = outcome(NONE, ["limits.md"], "Somebody [1].", ("limits.md",))
    assert (given.found, given.first, given.right, given.answered) == (False, False, False, True)


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("Up to **300 requests**.", "300 requests"),
        ("the header `Harborline-Signature`.", "harborline-signature."),
        ("大阪 ｜ １６，０００円", "16,000円"),
        ("一次 最多\n100 张", "最多 100张"),
        ("| Team |   300 |", "Team 300"),
    ],
)
def test_spacing_width_case_and_markup_do_not_matter(text: str, phrase: str) -> None:
    assert holds(text, phrase)


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("15 days", "5 days"),
        ("1,300 a minute", "300"),
        ("300,000", "300"),
        ("12日", "2日"),
        ("10:30", "30"),
        ("3.5", "5"),
    ],
)
def test_a_number_is_not_part_of_a_longer_number(text: str, phrase: str) -> None:
    assert not holds(text, phrase)


def test_a_number_may_end_a_sentence() -> None:
    assert holds("The limit is 300.", "300")


def test_words_of_english_stay_apart() -> None:
    assert plain("no pro-rata  refund") == "no pro-rata refund"
    assert not holds("norefund", "no refund")


def test_shares_are_of_the_answerable_or_the_unanswerable() -> None:
    outcomes = (
        outcome(ONE, ["limits.md"], "300 [1].", ("limits.md",)),
        outcome(TWO, ["quota.md"]),
        outcome(NONE, []),
        outcome(replace(NONE, id="zh-3", language="zh"), [], "Somebody [1].", ("limits.md",)),
    )
    result = GoldenResult("e5", "extractive", outcomes)
    assert result.figures().shares == {
        "found": 1 / 2,
        "first": 2 / 2,
        "right": 1 / 2,
        "answerable_declined": 1 / 2,
        "unanswerable_declined": 1 / 2,
    }
    assert result.figures(language="zh") == Figures(0, 1, 0, 0, 0, 0, 0)
    assert result.figures(language="zh").shares["found"] is None
    assert [o.question.id for o in result.failures()] == ["en-2", "zh-3"]
    assert json.loads(json.dumps(result.as_dict()))["groups"]["en"]["shares"]["right"] == 1 / 2


def test_the_printed_table_has_every_group_and_the_failures_say_what_was_wanted() -> None:
    right = outcome(ONE, ["limits.md"], "300 [1].", ("limits.md",))
    wrong = outcome(TWO, ["quota.md"])
    unwanted = outcome(NONE, [], "Somebody [1].", ("limits.md",))
    result = GoldenResult("e5", "extractive", (right, wrong, unwanted))
    table = "\n".join(command.table(result))
    assert [name for name, _ in result.groups() if name not in table] == []
    assert "100.0%" in table
    assert "50.0%" in table
    lines = command.failure_lines(result.failures())
    assert "en-2 (two_documents): not found, declined" in lines
    assert "  wanted  quota.md: 1,500 labels" in lines
    assert "en-3 (unanswerable): there is no answer, answered otherwise" in lines
    assert not any("en-1" in line for line in lines)
