"""What a question excludes, and what is an ordinary question: precise rather than complete."""

from __future__ import annotations

import time
import unicodedata

import pytest

from kb.exclusions import exclusions, without_exclusions

ENGLISH = {
    "How do I deploy without staging?": ["staging"],
    "How can I log in without having to use a password?": ["password"],
    "Which plans except Enterprise have SSO?": ["Enterprise"],
    "Everything except for a guitar and the car": ["guitar", "car"],
    "Which payment methods other than credit card are there?": ["credit card"],
    "Apart from Pro and Team, which plans have a trial?": ["Pro", "Team"],
    "Besides Enterprise, which plans include support?": ["Enterprise"],
    "What does it cost excluding tax?": ["tax"],
    "What are the delivery times not including weekends?": ["weekends"],
    "All plans with the exception of Basic": ["Basic"],
    "Which countries are in Europe but not in the EU?": ["EU"],
    "Is there any plan that is not Enterprise?": ["Enterprise"],
    "Is there a method which isn't a bank transfer?": ["bank transfer"],
    "Where can I deploy WITHOUT Staging": ["Staging"],
    "How do I call it without ERR_429?": ["ERR_429"],
}
CHINESE = {
    "除了信用卡以外，还能怎么付款？": ["信用卡"],
    "除了企业版之外的套餐有哪些？": ["企业版"],
    "除企业版外，哪些套餐有试用期？": ["企业版"],
    "除了支付宝和微信，还有哪些支付方式？": ["支付宝", "微信"],
    "除了现金、支付宝和微信以外，还有什么支付方式？": ["现金", "支付宝", "微信"],
    "不包括运费的价格是多少？": ["运费"],
    "不含税的价格是多少？": ["税"],
    "价格是多少，不包括运费？": ["运费"],
    "不需要信用卡的支付方式有哪些？": ["信用卡"],
    "不使用预发布环境怎么部署？": ["预发布环境"],
    "不经过预发布环境如何部署？": ["预发布环境"],
    "在没有预发布环境的情况下如何部署？": ["预发布环境"],
    "没有年费的信用卡有哪些？": ["年费"],
    "企业版除外的套餐有哪些？": ["企业版"],
    "周末以外的工作时间是什么？": ["周末"],
}
JAPANESE = {
    "クレジットカード以外の支払い方法は？": ["クレジットカード"],
    "クレジットカード以外に何が使えますか？": ["クレジットカード"],
    "土曜と日曜以外の営業時間は？": ["土曜", "日曜"],
    "土日を除く営業時間は？": ["土日"],
    "エンタープライズプランを除いて、SSOが使えるプランは？": ["エンタープライズプラン"],
    "祝日を除き、何時まで開いていますか？": ["祝日"],
    "ステージングを使わずにデプロイする方法は？": ["ステージング"],
    "ステージングなしでデプロイできますか？": ["ステージング"],
    "パスワード無しでログインするには？": ["パスワード"],
    "年会費のないカードはどれですか？": ["年会費"],
    "エンタープライズではないプランはどれ？": ["エンタープライズ"],
    "卵抜きの料理はありますか？": ["卵"],
}
ORDINARY = """
Why does it not start?
What happens if there is no network?
What happens without a network?
Why can't I log in without a password?
Isn't it free?
Don't I need a passport?
Is it safe without a doubt?
Does it work without fail?
Which plans do not include support?
Who is not allowed to enter?
Which files are not read?
Which fees are not refundable?
Is it none other than the owner?
What sets it apart from the others?
When is it free, except when it rains?
Is it started but not completed?
After how many days without a scan is a parcel lost?
Which rules include, but are not limited to, safety?
What about without it?
为什么不能启动？
不可以退款吗？
为什么没有收到邮件？
没有网络时怎么办？
没有网络怎么办？
没有网络的情况下怎么办？
有没有年费的信用卡？
为什么不使用预发布环境？
除了信用卡，还可以用现金吗？
除了经理以外，员工也需要审批吗？
除非取消，否则会续费吗？
除夕放假吗？
如何删除外部账号？
五公里以外的配送收费吗？
非会员可以退款吗？
此外还有什么费用？
なぜ起動しないのか
ネットワークがないとどうなりますか
ログインできない場合はどうすればよいですか
返金できないのはどんなときですか
なぜステージングを使わずにデプロイできないのですか
クレジットカード以外にも、現金は使えますか
問題のない場合はどうなりますか
税抜きの価格はいくらですか
どんな物を除いたすべてが燃えましたか
必要ではないですか
不純物を除くには
"""


@pytest.mark.parametrize(("question", "excluded"), (ENGLISH | CHINESE | JAPANESE).items())
def test_what_a_question_excludes_is_told_in_three_languages(question: str, excluded: list[str]) -> None:
    assert exclusions(question) == tuple(excluded)


@pytest.mark.parametrize("question", ORDINARY.strip().splitlines())
def test_a_question_that_only_negates_or_asks_about_a_case_excludes_nothing(question: str) -> None:
    assert exclusions(question) == ()
    assert without_exclusions(question) == unicodedata.normalize("NFKC", question)


@pytest.mark.parametrize(
    ("question", "rest"),
    [
        ("How do I deploy without staging?", "How do I deploy ?"),
        ("Apart from Pro and Team, which plans have a trial?", ", which plans have a trial?"),
        ("不使用预发布环境怎么部署?", "怎么部署?"),
        ("土日を除く営業時間は?", "営業時間は?"),
    ],
)
def test_the_rest_of_a_question_is_free_of_what_it_excludes(question: str, rest: str) -> None:
    assert without_exclusions(question) == rest


@pytest.mark.parametrize(
    "question", ["", " ", "without", "except", "除了", "以外", "without \ud800", "other than\n\nx?"]
)
def test_any_text_is_read(question: str) -> None:
    assert exclusions(question) in ((), ("x",))


@pytest.mark.parametrize("word", ["without ", "除了", "カ以外の", "に", "山しき", "A", "カと", "not including a "])
def test_a_long_text_takes_no_long_time_and_a_pasted_one_excludes_nothing(word: str) -> None:
    started = time.perf_counter()
    exclusions((word * 1000)[:1000])
    assert time.perf_counter() - started < 1
    assert exclusions("How do I deploy without staging? " + word * 1000) == ()
