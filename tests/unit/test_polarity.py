"""Whether one sentence says what another one denies."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.alignment import align
from kb.polarity import negations, turned_around

OPPOSITE = [
    ("The plan is not free.", "The plan is free."),
    ("He never won the cup.", "He won the cup in 1990."),
    ("He did not win the cup.", "He won the cup."),
    ("The plan isn't free", "The plan is free"),
    ("It works without a network.", "It works with a network."),
    ("No licence is needed.", "A licence is needed."),
    ("Sales decreased in 2020.", "Sales increased in 2020."),
    ("He was unable to walk.", "He was able to walk."),
    ("That is impossible to prove.", "That is possible to prove."),
    ("The drug inhibits growth.", "The drug promotes growth."),
    ("他不是中国足球运动员", "他是中国足球运动员"),
    ("该线未开通", "该线于2010年开通"),
    ("他没有参加比赛", "他参加比赛"),
    ("假期不能结转", "假期最多可结转5天"),
    ("销量减少", "销量增加"),
    ("试用期内允许远程办公", "试用期内不允许远程办公"),
    ("彼は参加しなかった。", "彼は参加した。"),
    ("この機能は使用できません。", "この機能は使用できる。"),
    ("売上は減少した。", "売上は増加した。"),
    ("東京は首都ではない。", "東京は首都である。"),
]
ALIKE = [
    ("The plan is free.", "The plan is free."),
    ("Not only cats but dogs sleep.", "Cats and dogs sleep."),
    ("He had no money.", "He did not have money."),
    ("Remote work is not allowed.", "Remote work is not permitted at first."),
    ("He was not able to walk.", "He was unable to walk."),
    ("There is no doubt that it works.", "It works."),
    ("Days expire.", "Unused days expire."),
    ("No. 5 is the best.", "Number 5 is the best."),
    ("不但参加比赛", "参加比赛"),
    ("他不得不参加比赛", "他参加比赛"),
    ("非常重要", "重要"),
    ("无线网络已开通", "网络已开通"),
    ("假期须用完", "未使用的假期须用完"),
    ("彼は参加しなければならない。", "彼は参加する必要がある。"),
    ("必ず参加する。", "参加する。"),
    ("猫だけでなく犬も寝る。", "猫も犬も寝る。"),
    ("彼の娘メアリーである。", "彼の娘メアリー(1719年没)である。"),
]


def _turned(claim: str, sentence: str) -> str | None:
    return turned_around(claim, sentence, align(claim, sentence).gaps)


@pytest.mark.parametrize(("one", "other"), OPPOSITE)
def test_the_opposite_is_told_in_both_directions(one: str, other: str) -> None:
    assert _turned(one, other)
    assert _turned(other, one)


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_what_denies_nothing_is_none(one: str, other: str) -> None:
    assert _turned(one, other) is None
    assert _turned(other, one) is None


@pytest.mark.parametrize("text", ["Is it not free?", "他不是医生吗？", "参加しませんか？", "他是否参加"])
def test_a_question_denies_nothing(text: str) -> None:
    assert negations(text) == ()


def test_a_word_that_is_denied_once_and_said_once_decides_nothing() -> None:
    source = "The upper jaw has teeth, and the lower jaw has no teeth."
    assert _turned("The upper jaw has teeth.", source) is None


@given(st.text(max_size=80), st.text(max_size=80))
def test_any_texts_are_compared_without_a_crash(one: str, other: str) -> None:
    _turned(one, other)
    assert _turned(one, one) is None, "nothing says the opposite of itself"
