"""Refusals in a model's own words: told from answers, in three languages, and never too early in a stream."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.declined import MOST_CHARACTERS, declines, may_decline
from kb.refusal_openings import may_open_refusal

REFUSALS = [
    # English
    "The documents do not contain any information about parental leave.",
    "The provided documents do not mention parental leave.",
    "The context does not provide information on the CEO's salary.",
    "The provided context doesn't include any details about refunds for gift cards.",
    "I cannot find information about parental leave in the provided context.",
    "I could not find any mention of a mobile app in the documents.",
    "I couldn't find anything on this in the provided sources.",
    "I'm sorry, but the provided documents do not mention this topic.",
    "I'm sorry, but I cannot answer this question based on the provided contexts.",
    "Sorry, the documents don't say how long delivery to Norway takes.",
    "Unfortunately, the provided context does not specify the price of the Team plan.",
    "Unfortunately, there is no information about opening hours in the documents provided.",
    "Based on the provided context, I cannot determine the warranty period.",
    "Based on the documents provided, there is no mention of a student discount.",
    "According to the provided documents, there is no information on this.",
    "There is no information about that in the given context.",
    "There is no mention of pets in the provided documents.",
    "No information about refunds for shipping was found in the documents.",
    "No relevant information was found.",
    "None of the provided documents mention the founding year.",
    "None of the contexts contain information about visas.",
    "Nothing in the documents mentions a dress code.",
    "The answer is not found in the provided context.",
    "The answer cannot be determined from the given documents.",
    "This information is not available in the provided context.",
    "This question cannot be answered based on the provided documents.",
    "It cannot be determined from the provided context.",
    "The name of the CEO is not mentioned in the provided documents.",
    "Parental leave is not covered by the documents.",
    "退款 is not mentioned in the provided documents.",
    "I don't have enough information to answer this question.",
    "I do not have sufficient information to answer that.",
    "I'm unable to find information on this in the supplied sources.",
    "I am unable to answer this question.",
    "The sources don't specify the exact date. Please contact the support team for details.",
    "The documents do not address this. If you have more documents, please share them.",
    "The information provided does not answer your question.",
    "The available information does not specify who signs the contract.",
    "The provided excerpts have no information on fees.",
    # Chinese
    "资料中没有提到育儿假。",
    "提供的资料中没有关于育儿假的信息。",
    "根据提供的资料，无法回答这个问题。",
    "根据现有资料无法确定退款的具体时间。",
    "抱歉，文档中没有找到相关信息。",
    "很抱歉，我无法从提供的资料中找到答案。",
    "很遗憾，所给的参考资料并未说明价格。",
    "参考资料未提及该政策。",
    "文档未涉及这一问题。",
    "上下文中没有足够的信息来回答该问题。",
    "上下文不包含相关内容。",
    "我无法根据这些文档回答您的问题。",
    "没有找到与该问题相关的资料。",
    "未能在文档中找到有关签证的说明。",
    "对不起，提供的文件中没有任何关于年假的规定。",
    "关于学生折扣，资料中没有提及。",
    "学生折扣在文档中没有提及。",
    "資料中沒有提到這項政策。",
    "根據提供的文件，無法回答此問題。",
    "资料中没有提到运费。建议您联系客服了解详情。",
    "现有资料不足以回答这个问题。",
    "抱歉，我无法回答这个问题。",
    # Japanese
    "資料には記載がありません。",
    "提供された資料には、育児休業に関する記載がありません。",
    "文書の中に該当する情報は見つかりませんでした。",
    "申し訳ありませんが、資料には価格に関する情報がありません。",
    "申し訳ございませんが、提供された文書からは判断できません。",
    "資料からは分かりません。",
    "与えられたコンテキストにはこの質問に対する答えがありません。",
    "この質問には、資料の情報だけではお答えできません。",
    "ご質問にはお答えできません。",
    "残念ながら、資料の中に関連する情報は見当たりませんでした。",
    "育児休業については、資料に記載がありません。",
    "学割に関する記述は資料にありません。",
    "該当する情報が見つかりませんでした。",
    "ドキュメントには、その手順についての説明は含まれていません。",
    "提供された情報からは回答できません。",
    "資料には送料についての記載がありません。詳細はサポートまでお問い合わせください。",
    "資料では、その点について言及されていません。",
    "すみませんが、示された資料では確認できませんでした。",
]

ANSWERS = [
    # English
    "Refunds are not available for sale items [1].",
    "Refunds are not available for sale items.",
    "The documents do not mention refunds for gift cards [1].",
    "No, refunds are not offered [2].",
    "No.",
    "There is no fee for cancelling within 14 days [1].",
    "There is no limit on uploads.",
    "You cannot return opened software.",
    "I cannot stress enough that the receipt is needed.",
    "The documents state that refunds take 30 days.",
    "The documents do not mention sale items, but refunds take 30 days.",
    "The documents don't say how long it takes; however, a receipt is needed [1].",
    "The documents do not state the fee. Refunds take 30 days.",
    "The documents do not settle all of it. A receipt is needed [1]. The fee isn't given.",
    "Shipping is not included in the price.",
    "The warranty is not covered by the insurer.",
    "VAT is not included in the listed prices [3].",
    "Not every document must be signed.",
    "Documents that are not signed are returned.",
    "The document must not contain personal data.",
    "The form does not need a signature.",
    "The contract does not provide for early termination.",
    "According to the documents, no refund is paid after 30 days [1].",
    "Based on the provided context, refunds are not possible after 30 days.",
    "According to the handbook, parental leave is not paid.",
    "Your documents were not found, error 404 means.",
    "It is not possible to change the plan within a month.",
    "Sorry, the shop is closed on Sundays.",
    "Unfortunately, refunds are not possible after 30 days.",
    "None of the plans includes phone support.",
    "Nothing needs to be paid in advance.",
    "Please contact support within 14 days.",
    "If you have a receipt, the refund takes 30 days.",
    "30 days.",
    "The source code does not include tests.",
    "No personal data may be stored in documents.",
    "No information may be copied from the documents.",
    "There is no limit on the number of pages in the documents.",
    "Nothing is charged for copies of the documents.",
    "The log does not contain passwords.",
    "Error 404 means that the page could not be found.",
    "The API returns NOT_FOUND when no record matches.",
    # Chinese
    "特价商品不支持退款。",
    "特价商品不支持退款[1]。",
    "资料中没有提到礼品卡的退款[1]。",
    "资料显示，该产品不提供退款。",
    "根据资料，退款需要七个工作日。",
    "根据公司规定，试用期员工没有年假。",
    "没有手续费。",
    "不可以。",
    "文件不得包含个人信息。",
    "未签名的文件会被退回。",
    "资料中没有提到特价商品，但退款需要七个工作日。",
    "资料中没有说明费用。退款需要七个工作日。",
    "如果没有收据，则无法退款。",
    "请在七天内联系客服。",
    "运费不退。",
    "系统无法找到该文件时会返回404。",
    "提交的材料不全时，申请会被退回。",
    "合同未规定违约金的，按法律执行。",
    "年假不能折算成工资。",
    # Japanese
    "セール品は返品できません。",
    "セール品は返品できません[1]。",
    "資料には贈答品の返金についての記載がありません[1]。",
    "資料によると、返金は受け付けていません。",
    "手数料はかかりません。",
    "いいえ、できません。",
    "資料にはセール品についての記載がありませんが、返金には30日かかります。",
    "資料には手数料の記載がありません。返金は30日以内です。",
    "領収書がない場合は返金できません。",
    "署名のない文書は返却されます。",
    "個人情報を文書に記載してはいけません。",
    "14日以内にサポートまでご連絡ください。",
    "送料は返金されません。",
    "ファイルが見つからない場合は404が返ります。",
    "休暇は買い取れません。",
    "資料の提出は必要ありません。",
    "情報の持ち出しは認められていません。",
    "説明会への参加は義務ではありません。",
]


def test_there_are_enough_of_both() -> None:
    assert len(set(REFUSALS)) >= 60
    assert len(set(ANSWERS)) >= 60


@pytest.mark.parametrize("text", REFUSALS)
def test_a_refusal_is_told(text: str) -> None:
    assert declines(text)
    assert declines(f"\n**{text}**\n".replace("**", "") + " ")
    assert all(may_decline(text[:at]) for at in range(len(text) + 1))  # a stream has held it back until its end


@pytest.mark.parametrize("text", ANSWERS)
def test_an_answer_is_none(text: str) -> None:
    assert not declines(text)


@pytest.mark.parametrize("refusal", REFUSALS[::9])
@pytest.mark.parametrize("answer", ANSWERS[::9])
def test_an_answer_before_or_behind_a_refusal_is_an_answer(refusal: str, answer: str) -> None:
    if not answer.startswith(("Please", "If you", "请", "如果", "14日以内に")):
        assert not declines(f"{refusal} {answer}")
        assert not declines(f"{answer} {refusal}")
        assert not declines(f"{refusal}\n\n- {answer}")


LIKE_ANSWERS = {
    "The name of the CEO is not mentioned in the provided documents.",
    "Parental leave is not covered by the documents.",
    "退款 is not mentioned in the provided documents.",
}
"""Refusals whose first words could be those of an answer."""


def test_refusals_begin_in_known_ways() -> None:
    unknown = {text for text in REFUSALS if not all(may_open_refusal(text[:at]) for at in range(len(text) + 1))}
    assert {text for text in unknown if text.isascii()} <= LIKE_ANSWERS
    assert len(unknown) <= len(REFUSALS) / 8, unknown


@pytest.mark.parametrize(
    "text",
    ["A 429", "Refunds", "The limit", "Yes", "退款", "年假", "返金", "You can", "1.", "**Refunds", "[1]", "每分钟"],
)
def test_an_answer_is_shown_from_its_first_words_on(text: str) -> None:
    assert not may_open_refusal(text)


def test_an_answer_is_let_go_early() -> None:
    answer = "Refunds are paid within 30 days of the purchase, to the card that was used for it, and in full."
    assert not may_decline(answer)
    assert not may_decline("Refunds take 30 days [1]")
    assert not may_decline("Refunds take 30 days. T")
    assert not may_decline("退款需要七个工作日。需")
    assert not may_decline("返金は30日以内に行われます。領")
    assert not may_decline(("The documents do not mention it. " * 40)[: MOST_CHARACTERS + 1])


SENTENCES = st.lists(st.sampled_from([*REFUSALS, *ANSWERS, "\n", " ", "Dr. X", "3.5", "[1]"]), max_size=4).map(" ".join)


@given(SENTENCES | st.text(max_size=100))
def test_what_declines_was_never_let_go_before(text: str) -> None:
    if declines(text):
        assert all(may_decline(text[:at]) for at in range(len(text) + 1))


@pytest.mark.parametrize(
    "unit", ["the documents do not ", "no information ", "资料中", "没有", "資料には、記載", "I cannot find ", "not "]
)
def test_no_text_takes_long_to_judge(unit: str) -> None:
    started = time.process_time()
    declines((unit * 400)[:MOST_CHARACTERS])
    assert time.process_time() - started < 2
