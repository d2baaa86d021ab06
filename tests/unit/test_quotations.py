"""What is put in quotation marks, and where it stands."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.quotations import find_quotation, missing_quotations, quotations

SOURCE = (
    "The plan is free of charge for students. It is remark-\nably simple, said the “Board” of 2020 - "
    "and nobody objected.\n\n该方案对学生免费，\n但须提前申请。申請は人事部に提出してください。"
)


@pytest.mark.parametrize(
    "quotation",
    [
        "free of charge for students",
        "Free of charge for students.",
        "the plan is  free\nof charge",
        "It is remarkably simple",
        'said the "Board" of 2020',
        "of 2020 – and nobody objected",
        "The plan is free … remarkably simple",
        "The plan is free [...] nobody objected",
        "该方案对学生免费，但须提前申请",
        "该方案对学生免费……须提前申请",
        "申請は人事部に提出してください。",
    ],
)
def test_printing_changes_nothing(quotation: str) -> None:
    span = find_quotation(quotation, SOURCE)
    assert span is not None
    assert SOURCE[span[0] : span[1]].strip()


@pytest.mark.parametrize(
    "quotation",
    [
        "free of charge for teachers",
        "nobody objected … The plan is free",  # the other way round
        "free of charge for students nobody objected",  # two real pieces joined
        "ree of charge for students",
        "free of charge for stud",
        "该方案对教师免费",
        "申請は経理部に提出してください",
        "…",
    ],
)
def test_what_does_not_stand_there_is_not_found(quotation: str) -> None:
    assert find_quotation(quotation, SOURCE) is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("He says “free of charge for all”.", ["free of charge for all"]),
        ('He says "free of charge for all".', ["free of charge for all"]),
        ("He says ‘free of charge for all’.", ["free of charge for all"]),
        ("It's the users' own; that's it, isn't it, users' own?", []),
        ("他说「该方案对学生免费」。", ["该方案对学生免费"]),
        ("彼は『学生には無料です』と言う。", ["学生には無料です"]),
        ("the “Board” met", []),
        ("„frei für alle Schüler“", ["frei für alle Schüler"]),
    ],
)
def test_what_is_a_quotation(text: str, found: list[str]) -> None:
    assert quotations(text) == found


def test_a_quotation_has_to_stand_in_one_source() -> None:
    claim = "It says “the plan is free … nobody objected to it”."
    assert missing_quotations(claim, ["The plan is free.", "Nobody objected to it."]) == [
        "the plan is free … nobody objected to it"
    ]
    assert missing_quotations(claim, ["The plan is free, and nobody objected to it."]) == []


@given(st.text(min_size=1, max_size=60), st.text(max_size=60))
def test_any_text_is_looked_for_without_a_crash(quotation: str, source: str) -> None:
    span = find_quotation(quotation, f"{source}\n{quotation}")
    assert span is None or 0 <= span[0] <= span[1]
