"""Which questions lean on what was asked before, and which stand by themselves, in three languages."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.evaluation.golden import load_questions
from kb.leaning import Leaning, leaning

GOLDEN = Path(__file__).parents[1] / "golden"

# What each adds; "" where it asks something of its own.
LEANING = {
    "en": {
        "And in Japan?": "in Japan",
        "What about a service?": "a service",
        "How about part-timers?": "part-timers",
        "what about for the Scale plan": "for the Scale plan",
        "And for contractors who work from abroad?": "for contractors who work from abroad",
        "Or a scooter?": "a scooter",
        "OK, and on Saturdays?": "on Saturdays",
        "Is it the same for interns?": "for interns",
        "Same in Chengdu?": "in Chengdu",
        "In Osaka?": "in Osaka",
        "With a company card?": "with a company card",
        "Sick leave too?": "Sick leave",
        "And if the parcel is damaged?": "if the parcel is damaged",
        "How long?": "",
        "Why?": "",
        "Why not?": "",
        "How much does it cost?": "",
        "How long does it take?": "",
        "Who has to approve it?": "",
        "How do I request that?": "",
        "Does that include weekends?": "",
        "Can I carry them over to next year?": "",
        "When do they expire?": "",
        "What happens then?": "",
        "Is there a limit?": "",
        "Are there any exceptions?": "",
        "How does it work when I reset my password?": "",
        "What does its header look like?": "",
        "Who decides?": "",
        "Which one is cheaper?": "",
        "What else do I need?": "",
        "Does the same apply to Osaka?": "",
        "How long does the transfer take there?": "",
        "Is that also the case for returns?": "",
        "Since when?": "",
        "Can you explain that in more detail?": "",
        "What if I lose it?": "",
        "So how long do these stay valid?": "",
        "Does the manager need to approve it?": "",
        "And then?": "",
    },
    "zh": {
        "那大阪呢？": "大阪",
        "大阪呢？": "大阪",
        "那么兼职员工呢？": "兼职员工",
        "如果是退货呢？": "退货",
        "Scale 套餐呢？": "Scale 套餐",
        "周末呢": "周末",
        "那用信用卡付的呢？": "用信用卡付的",
        "试用期的员工呢？": "试用期的员工",
        "大阪也一样吗？": "大阪",
        "实习生也是这样吗？": "实习生",
        "那鹿特丹怎么样？": "鹿特丹",
        "换成川渡快运呢？": "川渡快运",
        "多久？": "",
        "为什么？": "",
        "那要多久？": "",
        "要多少钱？": "",
        "谁批准？": "",
        "怎么申请？": "",
        "有例外吗？": "",
        "最晚什么时候？": "",
        "它什么时候过期？": "",
        "这个要提前几天申请？": "",
        "那些文件放在哪里？": "",
        "如果超过了怎么办？": "",
        "这样可以报销吗？": "",
        "那边的上限是多少？": "",
        "其有效期是多久？": "",
        "能不能延长？": "",
        "需要什么材料？": "",
        "他们几点下班？": "",
        "上述规定适用于大阪吗？": "",
        "还有别的办法吗？": "",
        "具体流程是什么？": "",
        "丢了怎么办？": "",
        "前者要多少钱？": "",
    },
    "ja": {
        "大阪では？": "大阪",
        "大阪は？": "大阪",
        "じゃあ、成都は？": "成都",
        "パートタイムの場合は？": "パートタイム",
        "Scale プランは？": "Scale プラン",
        "では、週末はどうですか？": "週末",
        "土曜日はどうなりますか。": "土曜日",
        "試用期間中の人は？": "試用期間中の人",
        "成都も同じですか？": "成都",
        "アルバイトなら？": "アルバイト",
        "クレジットカードの場合はどうでしょうか。": "クレジットカード",
        "それでは、ロッテルダムでは？": "ロッテルダム",
        "なぜですか？": "",
        "いつまでですか？": "",
        "それはいつまでですか。": "",
        "どのくらいかかりますか？": "",
        "いくらですか": "",
        "誰が承認しますか？": "",
        "例外はありますか？": "",
        "どこで申請しますか？": "",
        "その期限はいつですか？": "",
        "そこには何が必要ですか？": "",
        "それを延長できますか？": "",
        "これは毎年ですか？": "",
        "どうやって申請すればいいですか？": "",
        "何日前までに必要ですか？": "",
        "そのときの手当はいくらですか？": "",
        "ほかに必要なものはありますか？": "",
        "もっと詳しく教えてください。": "",
        "承認には何日かかりますか？": "",
        "それらは翌年に繰り越せますか？": "",
        "上限はいくらですか？": "",
        "この手当は誰がもらえますか？": "",
        "その場合、診断書は必要ですか？": "",
    },
}

STANDING = {
    "en": [
        "How many days of annual leave do I get?",
        "What does a 429 mean?",
        "refund policy",
        "sick leave Rotterdam",
        "ERR_402_QUOTA",
        "Is it possible to cancel a label after it was scanned?",
        "How long does it take to get a refund?",
        "If a parcel is lost, who pays for it?",
        "How do I reset my password if I have forgotten it?",
        "Is there a Shopify plugin?",
        "Are there fees for bank transfers?",
        "Who can see their payslip?",
        "Can customers change their delivery address?",
        "What happens to parcels when nobody collects them?",
        "Which error says that the quota is used up?",
        "And how do I reset my password?",
        "Can someone else sign for my parcel?",
        "What is the deadline for expense reports this year?",
        "I lost my hardware key. How do I get a new one?",
        "Do I have to tell the people who work with me?",
        "Your API keeps refusing my script. How often should it repeat the call?",
        "Does the API limit its responses to 100 rows?",
        "On what date was version 1 switched off?",
        "Is it true that backups are kept for 35 days?",
        "For how many days are backups kept?",
        "In a SEV1, how quickly does the status page have to be updated?",
        "What are the core hours at Harborline?",
        "When I'm ill, who do I tell?",
        "Explain the retry policy of webhooks",
        "Thanks!",
        "Hello",
        "Who are you?",
        "Can I use the same password twice?",
        "After how many wrong passwords is an account locked?",
        "What is the weather like in Osaka?",
        "How does array[2] differ from `rows[1]`?",
    ],
    "zh": [
        "年假有几天？",
        "怎样重置密码？",
        "怎样重置密码呢？",
        "429 是什么意思？",
        "退款政策",
        "退款要多久才能到账？",
        "手机被偷了，它里面的验证器怎么停用？",
        "我收到 ERR_409_DUPLICATE，这个错误是什么意思？",
        "其他国家可以寄吗？",
        "除了信用卡以外，还能怎么付款？",
        "怎么申请退款？",
        "发票怎么开？",
        "那年假怎么申请？",
        "这个月的工资什么时候发？",
        "如果手机丢了怎么办？",
        "双流仓几点下班？",
        "极其易碎的货物怎么包装？",
        "尤其贵重的物品可以寄吗？",
        "客服电话是多少？",
        "病假需要医生证明吗？",
        "谁批准超过 500 欧元的退款？",
        "什么是 RAG？",
        "Team 套餐每分钟可以发多少次请求？",
        "接口限流的窗口有多长？",
        "谢谢",
        "你好",
        "有没有吉他课？",
        "丧假有几天？",
        "端午节公司放几天假？",
        "出差补贴",
    ],
    "ja": [
        "年次有給休暇は何日ですか？",
        "パスワードを再設定するにはどうすればいいですか？",
        "返金の期限は？",
        "年次有給休暇の日数は？",
        "荷物が届かなかった場合はどうなりますか？",
        "パスワードを忘れた場合は？",
        "領収書をなくしましたが、それがなくても精算できますか？",
        "クレジットカード以外の支払い方法は？",
        "返金ポリシー",
        "ERR_429 とは何ですか？",
        "その他の休暇には何がありますか？",
        "この会社の営業時間は何時からですか？",
        "ドライアイスを入れてもいいですか。",
        "誰が返金を承認しますか？",
        "Webhook の署名はどのヘッダーにありますか。",
        "病気で休むときは何時までに連絡しますか？",
        "在宅勤務の手当はいくらですか？",
        "りんごは送れますか？",
        "沖縄と離島は届くまで何日かかりますか？",
        "試用期間はどのくらいですか？",
        "API キーの有効期間はどのくらいですか？",
        "ありがとうございます",
        "こんにちは",
        "二要素認証を設定すると、復旧コードは何個もらえますか。",
        "それぞれのプランの料金はいくらですか？",
        "土曜の窓口は何時に閉まりますか？",
        "育児休業は何週間ですか？",
        "おむつは経費になりますか？",
    ],
}


@pytest.mark.parametrize(("question", "adds"), [pair for table in LEANING.values() for pair in table.items()])
def test_a_question_that_leans_is_told_with_what_it_adds(question: str, adds: str) -> None:
    assert leaning(question) == Leaning(adds)


@pytest.mark.parametrize("question", [question for table in STANDING.values() for question in table])
def test_a_question_that_stands_by_itself_is_left_alone(question: str) -> None:
    assert leaning(question) is None


@pytest.mark.parametrize("language", LEANING)
def test_the_tables_are_large_enough(language: str) -> None:
    assert len(LEANING[language]) >= 25
    assert len(STANDING[language]) >= 25


def test_hardly_a_question_that_was_written_to_stand_by_itself_leans() -> None:
    """The golden questions, which nobody wrote for this."""
    files = ("questions.toml", "development.toml", "off_topic.toml")
    questions = [one.question for name in files for one in load_questions(GOLDEN / name)]
    assert len(questions) > 250
    assert [question for question in questions if leaning(question)] == []


@given(st.text(max_size=400))
def test_any_text_is_told_at_once(text: str) -> None:
    found = leaning(text)
    assert found is None or len(found.adds) <= len(text) * 20
