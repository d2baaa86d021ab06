"""Whether a source supports a claim, told without a model."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.sentences import sentence_spans
from kb.verdicts import NEAR, SUPPORTED, judge

HANDBOOK = (
    "Employees are entitled to 25 days of paid leave per calendar year. Unused days may be carried over until March 31 "
    "of the following year. Requests must be submitted at least two weeks in advance via the HR portal. Remote work is "
    "not permitted during the first three months of employment. The company reimburses up to $500 for home office "
    "equipment."
)
HANDBOOK_ZH = (
    "员工每年享有25天带薪年假。未使用的假期最多可结转5天，须在次年3月31日前用完。请假须至少提前两周通过人事系统提交。"
    "试用期前三个月内不允许远程办公。公司最多报销3500元的家庭办公设备费用。"
)
HANDBOOK_JA = (
    "従業員は年間25日の有給休暇を取得できます。未使用の休暇は翌年3月31日まで繰り越すことができます。"
    "申請は少なくとも2週間前までに人事ポータルから提出してください。入社後3か月間は在宅勤務は認められません。"
    "会社は自宅オフィス機器の費用を最大5万円まで負担します。"
)
SUPPORTED_CLAIMS = [
    (HANDBOOK, "You get twenty-five days of paid leave each year."),
    (HANDBOOK, "Employees have 25 paid leave days per year, and unused days can be carried over until 31 March."),
    (HANDBOOK, "According to the document, leave requests have to be submitted two weeks in advance in the HR portal."),
    (HANDBOOK, "During the first 3 months, remote work is not allowed."),
    (HANDBOOK, "- **Equipment:** the company pays up to 500 dollars for home office equipment."),
    (HANDBOOK, "1. Employees are entitled to 25 days of paid leave."),
    (HANDBOOK, "How many days of paid leave are there? 25."),
    (HANDBOOK_ZH, "员工每年有二十五天带薪年假。"),
    (HANDBOOK_ZH, "每年可享受25天带薪年假，未休完的假期最多可以结转五天。"),
    (HANDBOOK_ZH, "根据原文，请假需要提前至少两周在人事系统中提交。"),
    (HANDBOOK_ZH, "试用期的前3个月不能远程办公。"),
    (HANDBOOK_ZH, "公司最多报销3,500元家庭办公设备费用。"),
    (HANDBOOK_JA, "有給休暇は年間二十五日です。"),
    (HANDBOOK_JA, "未使用の休暇は翌年の3月31日まで繰り越せます。"),
    (HANDBOOK_JA, "申請は2週間前までに人事ポータルから行ってください。"),
    (HANDBOOK_JA, "入社後三か月間は在宅勤務ができません。"),
    (HANDBOOK_JA, "会社は最大50,000円まで自宅オフィス機器の費用を負担します。"),
]
OTHER_CLAIMS = [
    (HANDBOOK, "You get 30 days of paid leave each year.", "“30 days” is not in the source"),
    (HANDBOOK, "Unused days may be carried over until March 13.", "“March 13” is not in the source"),
    (HANDBOOK, "Requests must be submitted at least two days in advance.", "“two days” is not in the source"),
    (HANDBOOK, "The company reimburses up to €500 for home office equipment.", "“€500” is not in the source"),
    (HANDBOOK, "Requests must be submitted via the SAP portal.", "“SAP” is not in the source"),
    (HANDBOOK, "Remote work is permitted during the first three months.", "the other way round (not)"),
    (HANDBOOK, "Unused days may not be carried over.", "the other way round (not)"),
    (HANDBOOK, "Employees get free lunch every Friday.", "no sentence of the source was found"),
    (HANDBOOK, "How many days of paid leave are there? Unlimited.", "“Unlimited” is not in the source"),
    (HANDBOOK_ZH, "员工每年享有30天带薪年假。", "“30天” is not in the source"),
    (HANDBOOK_ZH, "假期须在次年6月30日前用完。", "“6月30日” is not in the source"),
    (HANDBOOK_ZH, "请假须至少提前两天通过人事系统提交。", "“两天” is not in the source"),
    (HANDBOOK_ZH, "公司最多报销3500美元的家庭办公设备费用。", "“3500美元” is not in the source"),
    (HANDBOOK_ZH, "请假须通过财务系统提交。", "the source says “人事” where this says “财务”"),
    (HANDBOOK_ZH, "试用期前三个月内允许远程办公。", "the other way round (不)"),
    (HANDBOOK_ZH, "未使用的假期不能结转。", "the other way round (不)"),
    (HANDBOOK_ZH, "公司提供免费午餐。", "no sentence of the source was found"),
    (HANDBOOK_JA, "従業員は年間30日の有給休暇を取得できます。", "“30” is not in the source"),
    (HANDBOOK_JA, "会社は最大5万ドルまで負担します。", "“5万ドル” is not in the source"),
    (HANDBOOK_JA, "申請は経理ポータルから提出してください。", "where this says “経理”"),
    (HANDBOOK_JA, "入社後3か月間は在宅勤務が認められます。", "the other way round (ません)"),
    (HANDBOOK_JA, "昼食は無料で提供されます。", "no sentence of the source was found"),
]


@pytest.mark.parametrize(("source", "claim"), SUPPORTED_CLAIMS)
def test_what_the_source_says_in_its_own_words_or_near_them_is_supported(source: str, claim: str) -> None:
    judged = judge(claim, ["Something else entirely.", source])
    assert (judged.verdict, judged.reasons) == ("supported", ())
    assert judged.score >= SUPPORTED
    assert judged.quotes[0][0] == 1


@pytest.mark.parametrize(("source", "claim", "reason"), OTHER_CLAIMS)
def test_what_it_says_otherwise_is_told_with_the_reason(source: str, claim: str, reason: str) -> None:
    judged = judge(claim, [source])
    assert judged.verdict != "supported"
    assert judged.score < SUPPORTED
    assert any(reason in one for one in judged.reasons), judged.reasons


def test_the_opposite_is_not_even_partly_supported() -> None:
    assert judge("Remote work is permitted during the first three months.", [HANDBOOK]).verdict == "unsupported"
    assert judge("You get 30 days of paid leave each year.", [HANDBOOK]).verdict == "partly"


def test_sources_support_a_claim_together() -> None:
    one, other = "The tower is 40 metres high.", "The tower was built in 1890 by Anna Berg."
    claim = "The tower, built by Anna Berg in 1890, is 40 metres high."
    judged = judge(claim, [one, other])
    assert judged.verdict == "supported"
    assert {index for index, _, _ in judged.quotes} == {0, 1}
    assert judge(claim, [one]).verdict != "supported"


def test_one_wrong_statement_of_several_makes_it_partly_supported() -> None:
    judged = judge("Requests must be submitted via the HR portal. Employees get 90 days of paid leave.", [HANDBOOK])
    assert judged.verdict == "partly"
    assert judged.reasons[0] == "“90 days” is not in the source"


# ── quotations (a made-up one, two real pieces joined, one of another source) ──


@pytest.mark.parametrize(
    "claim",
    [
        "The handbook says “remote work is generally possible” during the first three months.",
        "It says “Unused days may be carried over at least two weeks in advance” for requests.",
        "手册说「员工每年享有无限的带薪年假」。",
        "「従業員は無制限の有給休暇を取得できます」とある。",
    ],
)
def test_a_quotation_that_is_not_there_is_not_supported(claim: str) -> None:
    judged = judge(claim, [HANDBOOK, HANDBOOK_ZH, HANDBOOK_JA])
    assert judged.verdict != "supported"
    assert judged.reasons[0].startswith("the quotation “")


def test_a_quotation_counts_only_where_it_is_cited() -> None:
    claim = "It says “the tower is 40 metres high”."
    sources = ["The tower is 40 metres high.", "The tower was built in 1890 and is very high."]
    assert judge(claim, sources[:1]).verdict == "supported"
    judged = judge(claim, sources[1:])
    assert judged.verdict != "supported"
    assert "the quotation “the tower is 40 metres high” is not in the source" in judged.reasons


def test_pieces_with_an_ellipsis_have_to_stand_in_one_source_in_their_order() -> None:
    assert judge("It says “Employees are entitled … per calendar year”.", [HANDBOOK]).verdict == "supported"
    assert judge("It says “per calendar year … Employees are entitled”.", [HANDBOOK]).verdict != "supported"


# ── the embedder ──


class Near:
    """Similarities that are what they are told to be; it counts what it is asked."""

    def __init__(self, similarity: float) -> None:
        self.similarity = similarity
        self.asked: list[int] = []

    def __call__(self, claim: str, sentences: Sequence[str]) -> Sequence[float]:
        self.asked.append(len(sentences))
        return [self.similarity] * len(sentences)


@pytest.mark.parametrize(("source", "claim"), SUPPORTED_CLAIMS)
def test_the_embedder_is_not_asked_where_words_decide(source: str, claim: str) -> None:
    near = Near(0.0)
    assert judge(claim, [source], near).verdict == "supported"
    assert near.asked == []


def test_the_embedder_decides_on_a_claim_in_other_words() -> None:
    source = "The committee turned down the proposal for a new bridge across the river in spring."
    claim = "The committee rejected plans to build another new bridge."
    assert judge(claim, [source]).verdict == "partly"
    assert judge(claim, [source], Near(NEAR)).verdict == "supported"
    assert judge(claim, [source], Near(NEAR - 0.01)).verdict == "partly"


def test_a_claim_in_another_language_is_compared_by_numbers_and_the_embedder() -> None:
    claim = "Employees get 25 days of paid leave."
    judged = judge(claim, [HANDBOOK_ZH])
    assert (judged.verdict, judged.reasons) == (
        "partly",
        ("the source is in another language, so words say nothing of it",),
    )
    assert judge(claim, [HANDBOOK_ZH], Near(0.7)).verdict == "supported"
    assert judge(claim, [HANDBOOK_ZH], Near(0.4)).verdict == "partly"
    assert judge(claim, [HANDBOOK_ZH], Near(0.1)).verdict == "unsupported"
    other = judge("Employees get 26 days of paid leave.", [HANDBOOK_ZH], Near(0.9))
    assert (other.verdict, other.reasons) == ("partly", ("“26 days” is not in the source",))


def test_of_sources_in_several_languages_either_may_support_it() -> None:
    other = "The canteen opens at noon. Bicycles may be left in the yard."
    assert judge("员工每年有二十五天带薪年假。", [other, HANDBOOK_ZH]).verdict == "supported"
    assert judge("员工每年有二十五天带薪年假。", [HANDBOOK, "食堂中午开门。"], Near(0.7)).verdict == "supported"


# ── whatever it is given ──


@pytest.mark.parametrize(("claim", "sources"), [("", ["x"]), ("…", ["x"]), ("It is so.", []), ("It is so.", [" \n"])])
def test_nothing_to_compare_is_unsupported(claim: str, sources: list[str]) -> None:
    judged = judge(claim, sources)
    assert (judged.verdict, judged.score, judged.quotes) == ("unsupported", 0.0, ())
    assert len(judged.reasons) == 1


@pytest.mark.parametrize(
    "claim",
    [
        "It says “" + "the … " * 300 + "end of it all”.",
        "There are " + "one two " * 2_000,
        "It has " + "1,000" * 2_000 + "万" * 2_000,
        "不" * 5_000 + "是",
        "“" * 3_000 + "'" * 3_000,
        "Ann Berg " * 1_500,
        "十百千万" * 1_500,
        "1月" * 2_000,
    ],
    ids=lambda claim: claim[:12],
)
def test_a_claim_that_is_made_to_take_long_does_not(claim: str) -> None:
    source = "the man said that the end of it is one two three, 三十不是没有 1月. " * 20
    started = time.process_time()
    judge(claim, [source])
    assert time.process_time() - started < 2, "some hundredths of a second, and seconds to hours before"


TEXT = st.text(max_size=120) | st.text("ab cAB 12三十不是没有ないず,.。「」“”?!年月日%$\n", max_size=120)


@given(TEXT, st.lists(TEXT, max_size=4))
def test_any_texts_give_a_verdict_with_real_spans(claim: str, sources: list[str]) -> None:
    judged = judge(claim, sources)
    assert judged == judge(claim, sources)
    assert judged.verdict in ("supported", "partly", "unsupported")
    assert 0.0 <= judged.score <= 1.0
    assert (judged.verdict == "supported") == (not judged.reasons)
    for index, start, end in judged.quotes:
        assert (start, end) in sentence_spans(sources[index])


@given(st.sampled_from([HANDBOOK, HANDBOOK_ZH, HANDBOOK_JA]) | TEXT, st.randoms())
def test_a_sentence_of_the_source_is_always_supported(source: str, random: object) -> None:
    for start, end in sentence_spans(source):
        sentence = source[start:end]
        judged = judge(sentence, ["Something else.", source])
        if any(character.isalnum() for character in sentence) and len(sentence_spans(sentence)) == 1:
            assert judged.verdict == "supported", judged
            assert judged.score == 1.0
