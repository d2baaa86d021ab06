"""A follow-up as a question of its own, without a model: what is carried over, and for how long."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.followups import Topic, begun, followed, subject
from kb.leaning import leaning


def standing(*questions: str) -> str:
    topic: Topic | None = None
    for question in questions:
        topic = followed(topic, question)
    assert topic is not None
    return topic.standing


@pytest.mark.parametrize(
    ("questions", "searched"),
    [
        # A phrase of the same kind is replaced.
        (
            ("How many days of leave do I get in Rotterdam?", "And in Osaka?"),
            "How many days of leave do I get in Osaka?",
        ),
        (("How many calls may a Scale plan make?", "What about Team?"), "How many calls may a Team plan make?"),
        (("What is the limit of the Scale plan?", "And the Team plan?"), "What is the limit of the Team plan?"),
        (("How fast is a SEV1 answered?", "And a SEV2?"), "How fast is a SEV2 answered?"),
        (("Team 套餐每分钟可以发多少次请求？", "Scale 呢？"), "Scale 套餐每分钟可以发多少次请求？"),
        (("Team プランの上限はいくつですか。", "Scale は？"), "Scale プランの上限はいくつですか。"),
        # Else what is added stands behind the question.
        (
            ("How do I start a program at boot?", "What about a service?"),
            "How do I start a program at boot? A service?",
        ),
        (("How many days of leave do I get?", "And in Japan?"), "How many days of leave do I get? In Japan?"),
        (("年假有几天？", "那大阪呢？"), "年假有几天？大阪"),
        (("有給休暇は何日ですか。", "大阪では？"), "有給休暇は何日ですか。大阪"),
        # A question of its own is followed by what the one before is about.
        (("How long is parental leave?", "Who approves it?"), "Who approves it? (parental leave)"),
        (("How many days of annual leave do I get?", "Why?"), "Why? (days of annual leave)"),
        (("没用过的面单能退款吗？", "多久？"), "多久？ (没用过的面单能退款)"),
        (("返金の期限はいつですか。", "なぜですか？"), "なぜですか？ (返金の期限)"),
        # In another language what was asked before stands behind it, so that the answer is in the language of the last.
        (("How many days of leave do I get?", "那大阪呢？"), "那大阪呢？ (days of leave)"),
        # A question that stands by itself begins anew.
        (("How long is parental leave?", "How do I reset my password?"), "How do I reset my password?"),
        (("年假有几天？", "那大阪呢？", "怎样重置密码？"), "怎样重置密码？"),
        (("年假有几天？", "怎样重置密码？", "要多久？"), "要多久？ (重置密码)"),
    ],
)
def test_what_is_missing_is_carried_over(questions: tuple[str, ...], searched: str) -> None:
    assert standing(*questions) == searched


def test_the_first_question_is_never_altered() -> None:
    assert standing("And in Japan?") == "And in Japan?"
    assert standing("为什么？") == "为什么？"


def test_a_further_change_takes_the_place_of_the_one_before() -> None:
    chain = ["How many days of leave do I get?", "And in Japan?", "And in China?"]
    assert standing(*chain) == "How many days of leave do I get? In China?"
    assert standing("年假有几天？", "那大阪呢？", "那成都呢？") == "年假有几天？成都"
    named = ["How long is leave in Rotterdam?", "And in Osaka?", "What about Chengdu?"]
    assert standing(*named) == "How long is leave in Chengdu?"


def test_a_question_after_a_change_is_about_both() -> None:
    chain = ["How many days of leave do I get?", "And in Japan?", "Who approves it?"]
    assert standing(*chain) == "Who approves it? (days of leave; in Japan)"


@pytest.mark.parametrize(
    "follow_ups",
    [
        ["And in Japan?", "Why?", "Who approves it?", "What about a scooter?", "How long does it take there?"],
        ["那大阪呢？", "为什么？", "它要多久？", "周末呢？", "谁批准？"],
        ["大阪では？", "なぜですか？", "それはいつまでですか？", "週末は？", "誰が承認しますか？"],
    ],
)
@pytest.mark.parametrize("first", ["How long is leave?", "年假有几天？", "休暇は何日ですか。", "word " * 1000 + "?"])
def test_a_chain_does_not_grow_and_ends_with_what_was_asked_last(first: str, follow_ups: list[str]) -> None:
    topic = begun(first)
    lengths = []
    for question in follow_ups * 10:
        topic = followed(topic, question)
        lengths.append(len(topic.standing))
    assert max(lengths) < 600
    assert max(lengths[-5:]) <= max(lengths[5:15])


@given(
    st.lists(
        st.sampled_from(["And in Japan?", "Why?", "那大阪呢？", "なぜですか？", "Is it free?", "x"]) | st.text(),
        max_size=8,
    )
)
def test_what_is_asked_is_always_in_what_is_searched(questions: list[str]) -> None:
    topic: Topic | None = None
    for question in questions:
        topic = followed(topic, question)
        found = leaning(question)
        asked = question.strip() if found is None or not found.adds else found.adds[:100]
        assert asked.casefold() in topic.standing.casefold() or found is not None
        if found is None:
            assert topic.standing == question.strip()


@pytest.mark.parametrize(
    ("question", "about"),
    [
        ("How many days of annual leave do I get in Rotterdam?", "days of annual leave, Rotterdam"),
        ("Who has to approve refunds over €500?", "approve refunds, €500"),
        ("What does ERR_429 mean?", "ERR_429"),
        ("怎样重置密码？", "重置密码"),
        ("", ""),
    ],
)
def test_the_subject_is_what_is_said_without_what_asks(question: str, about: str) -> None:
    assert subject(question) == about
