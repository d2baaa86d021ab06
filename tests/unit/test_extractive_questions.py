"""What is quoted for each type of question: the best first, what belongs together whole, nothing twice."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kb.answering import Answerer
from kb.answers import Answer, AnswerReady, TextPiece
from kb.components import Parts
from kb.embedding import hashing
from kb.generation import extractive
from kb.generation._asked import definition
from kb.generation._rows import row_spans
from kb.generation._sides import sides
from kb.generation._topic import without_topic
from kb.generation._units import units
from kb.records import Chunk, Hit, SearchResult
from kb.sentences import sentence_spans


def hit(text: str, source: str = "a.md", *, page: int | None = None, header: str = "", similarity: float = 0.5) -> Hit:
    chunk = Chunk(f"{source}:{hash(text)}", source, text, 0, len(text), page, header=header)
    return Hit(chunk, source, similarity, "dense", similarity)


def ask(question: str, *hits: Hit, **options: float) -> Answer:
    """The answer as people get it; it is checked to be the same when streamed, and that its citations resolve."""
    embedder = hashing.build(hashing.Options(), Parts())
    generator = extractive.build(extractive.Options(**options), Parts(embedder=embedder))
    answerer = Answerer(generator, lambda document_id: None, embedder.name, 5)
    events = list(answerer.stream(SearchResult(question, hits, (), 0.0, 0.5), 0.0))
    (answer,) = (event.answer for event in events if isinstance(event, AnswerReady))
    assert "".join(event.text for event in events if isinstance(event, TextPiece)) == answer.text
    for citation in answer.citations:
        assert hits[citation.number - 1].chunk.text[citation.start : citation.end] == citation.quote
    assert len({(c.number, c.start, c.end) for c in answer.citations}) == len(answer.citations), "nothing twice"
    return answer


def first(answer: Answer) -> str:
    return answer.text.split(" [")[0]


# ── what is left of a question ──


@pytest.mark.parametrize(
    ("question", "beginning", "left"),
    [
        ("Who improved the Savery water pump?", "The Savery water pump dates from 1698.", "Who improved ?"),
        ("王永吉的谥号是什么？", "王永吉，字修之。", "的谥号是什么？"),
        ("大阪城の高さは何メートルですか？", "大阪城は大阪市にある城。", "の高さは何メートルですか？"),
        ("Who wrote it?", "The Savery water pump.", None),
        ("Savery water pump", "The Savery water pump.", None),
        ("谁？", "谁都可以。", None),
        ("What is a webhook?", "A webhook is a request.", None),
        ("", "", None),
    ],
)
def test_what_the_passage_is_about_is_taken_off_the_question(question: str, beginning: str, left: str | None) -> None:
    assert without_topic(question, (beginning, "")) == left


@pytest.mark.parametrize(
    ("question", "text", "answer"),
    [
        (
            "Which honour was Wang Yongji given?",
            "Wang Yongji, called Xiuzhi, was an official. He came from Gaoyou. The honour given to him was Wentong.",
            "The honour given to him was Wentong.",
        ),
        (
            "王永吉的谥号是什么？",
            "王永吉，字修之，号铁山，明末清初官员。江南高邮人。追赠少保，谥号文通。",
            "追赠少保，谥号文通。",
        ),
        (
            "大阪城の高さは何メートルですか？",
            "大阪城は大阪市にある城。桜の名所。天守の高さは55メートル。",
            "天守の高さは55メートル。",
        ),
    ],
)
def test_the_sentence_that_only_names_the_matter_is_not_the_answer(question: str, text: str, answer: str) -> None:
    assert first(ask(question, hit(text))) == answer


# ── best first ──


@pytest.mark.parametrize(
    ("question", "text", "answer"),
    [
        (
            "When is the refund for labels paid?",
            "A refund needs a receipt. Labels are cheap. The refund for labels is paid on 5 May.",
            "The refund for labels is paid on 5 May.",
        ),
        ("面单退款哪一天支付？", "退款需要收据。面单便宜。面单退款5月3日支付。", "面单退款5月3日支付。"),
        (
            "送り状の返金は何月何日ですか？",
            "返金には領収書が要ります。送り状は安い。送り状の返金は5月3日です。",
            "送り状の返金は5月3日です。",
        ),
    ],
)
def test_the_best_sentence_is_quoted_and_cited_first_wherever_it_stands(question: str, text: str, answer: str) -> None:
    given = ask(question, hit(text), closeness=0.1, max_sentences=3)
    assert first(given) == given.citations[0].quote == answer
    assert len(given.citations) > 1


@pytest.mark.parametrize(
    ("question", "text"),
    [
        (
            "Until what date does the import accept semicolons?",
            "Ask the team. The import accepts semicolons. Please use commas; the old form works until 30 June 2026.",
        ),
        ("导入接受分号到哪一天？", "请问团队。导入接受分号。请改用逗号，旧格式有效到6月30日。"),
        (
            "インポートのセミコロンは何月何日まで使えますか？",
            "担当に聞く。インポートのセミコロンはまだ使えます。旧形式の期限は6月30日。",
        ),
    ],
)
def test_a_date_in_the_next_sentence_comes_with_the_sentence_before(question: str, text: str) -> None:
    spans = sentence_spans(text)
    answer = ask(question, hit(text), max_sentences=1)
    assert [citation.quote for citation in answer.citations] == [text[slice(*spans[2])], text[slice(*spans[1])]]


@pytest.mark.parametrize(
    ("question", "text", "answer"),
    [
        (
            "What is a webhook?",
            "Every webhook has an address. A webhook (hook) is a request that we send. A webhook costs nothing.",
            "A webhook (hook) is a request that we send.",
        ),
        (
            "什么是限流？",
            "遇到限流请等待。限流是指限制每分钟的请求数。三种做法都不同。",
            "限流是指限制每分钟的请求数。",
        ),
        (
            "代引きとは何ですか？",
            "代引きは便利です。代引きとは配達時に代金を払う方法です。代引きの手数料。",
            "代引きとは配達時に代金を払う方法です。",
        ),
    ],
)
def test_what_a_thing_is_is_said_by_the_sentence_that_defines_it(question: str, text: str, answer: str) -> None:
    defines = definition(question)
    assert defines is not None
    assert defines.match(answer)
    assert ask(question, hit(text), max_sentences=1).text == f"{answer} [1]"


@pytest.mark.parametrize("question", ["How long is it valid?", "谁付款？", "いくらですか？", ""])
def test_other_questions_ask_for_no_definition(question: str) -> None:
    assert definition(question) is None


# ── lists ──

STEPS = {
    "How do I reset a password?": (
        "Passwords are long.\n\nTo reset a password:\n\n1. Open the profile.\n2. Choose reset.\n3. Wait for the mail."
        "\n\nLunch is at noon."
    ),
    "如何重置密码？": "密码要长。\n\n重置密码的步骤：\n\n1. 打开个人资料。\n2. 选择重置。\n3. 等待邮件。\n\n中午吃饭。",
    "パスワードを再設定するにはどうすればいいですか？": (
        "長くする。\n\n"
        "パスワードを再設定する手順：\n\n1. プロフィールを開く。\n2. 再設定を選ぶ。\n3. メールを待つ。\n\n昼食は正午。"
    ),
}


@pytest.mark.parametrize("question", STEPS)
def test_how_to_do_it_is_answered_by_all_steps_in_order(question: str) -> None:
    text = STEPS[question]
    answer = ask(question, hit(text), max_sentences=1)
    steps = [unit.text for unit in units([hit(text)]) if unit.kind == "item"]
    assert len(steps) == 3
    assert [c.quote for c in answer.citations if c.quote in steps] == steps
    shown = [answer.text.index(step.split(maxsplit=1)[1]) for step in steps]
    assert shown == sorted(shown)
    lead_in = next(unit.context for unit in units([hit(text)]) if unit.kind == "item")
    assert answer.text.count(lead_in) == 1, "the line above the list is said once"


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("What documents are needed?", "The documents needed are these:\n\n- a receipt\n- a passport"),
        ("需要哪些文件？", "需要以下文件：\n\n- 收据\n- 护照"),
        ("必要な書類はどんなものですか？", "必要な書類は次のとおり：\n\n- 領収書\n- 旅券"),
    ],
)
def test_a_line_that_leads_to_a_list_is_never_quoted_without_it(question: str, text: str) -> None:
    answer = ask(question, hit(text), max_sentences=1)
    assert [line for line in text.split("\n") if line.startswith("- ")] == [
        c.quote for c in answer.citations if c.quote.startswith("- ")
    ]


def test_an_item_alone_answers_a_question_about_one_thing() -> None:
    text = "Fees:\n\n- Deltaline: 3 euros a visit\n- Shuling: 15 yuan a visit"
    answer = ask("How much does Deltaline charge a visit?", hit(text), max_sentences=1)
    assert answer.text == "Fees: Deltaline: 3 euros a visit [1]"


def test_a_list_that_nobody_would_read_is_not_quoted_whole() -> None:
    text = "To move:\n\n" + "\n".join(f"{n}. Move box {n} to the door." for n in range(1, 40))
    assert len(ask("How do I move box 7?", hit(text), max_sentences=1).citations) == 2


# ── two sides ──


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What is the difference between Team and Scale?", ("Team", "Scale")),
        ("How does polling differ from a webhook?", ("polling", "a webhook")),
        ("年假和病假有什么区别？", ("年假", "病假")),
        ("有給休暇と病気休暇の違いは何ですか？", ("有給休暇", "病気休暇")),
        ("How long is it valid, and who gets it?", ("How long is it valid", "who gets it?")),
        ("年假有几天，找谁申请？", ("年假有几天", "找谁申请？")),
        ("研修は何日ですか。モニターはどこで頼みますか？", ("研修は何日ですか", "モニターはどこで頼みますか？")),
        ("If it rains, what do I do?", ()),
        ("When the link has expired, who helps?", ()),
        ("How long is the link valid?", ()),
        ("", ()),
    ],
)
def test_the_sides_of_a_question(question: str, expected: tuple[str, ...]) -> None:
    assert sides(question) == expected


@pytest.mark.parametrize(
    ("question", "one", "other"),
    [
        (
            "What is the difference between sick leave and annual leave?",
            "Sick leave needs a note from a doctor.",
            "Annual leave is 26 days.",
        ),
        ("年假和病假有什么区别？", "年假每年十二天。", "病假需要医生证明。"),
        ("有給休暇と病気休暇の違いは何ですか？", "有給休暇は年に二十日です。", "病気休暇には診断書が要ります。"),
    ],
)
def test_what_is_compared_is_quoted_from_both_documents(question: str, one: str, other: str) -> None:
    hits = [hit(f"{one} Lunch is at noon.", "one.md"), hit(f"{other} The office is blue.", "other.md")]
    answer = ask(question, *hits, max_sentences=2)
    assert {citation.source for citation in answer.citations} == {"one.md", "other.md"}
    assert {one, other} <= {citation.quote for citation in answer.citations}


# ── tables ──


def rows(text: str, *, paged: bool) -> list[tuple[str, bool]]:
    return [(text[a:b], row) for a, b, row in row_spans(text, sentence_spans(text), paged=paged)]


@pytest.mark.parametrize(
    ("question", "table", "page", "answer"),
    [
        (
            "What is the hotel limit in Osaka?",
            "Place | Hotel limit\nRotterdam | €160\nOsaka | ¥16,000",
            None,
            "Place: Osaka; Hotel limit: ¥16,000 [1]",
        ),
        (
            "成都的住宿上限是多少？",
            "出差地 | 住宿上限\n鹿特丹 | €160\n成都 | ¥450",
            None,
            "出差地: 成都; 住宿上限: ¥450 [1]",
        ),
        (
            "土曜の受付時間は何時ですか？",
            "曜日 受付時間\n月〜金 10:00〜18:30\n土曜 10:00〜14:00\n"
            "年末年始の12月30日から1月3日までの間は、窓口も電話も休業します。",
            3,
            "曜日 受付時間: 土曜 10:00〜14:00 [1]",
        ),
    ],
)
def test_a_row_of_a_word_or_pdf_table_is_quoted_by_itself_with_the_head(
    question: str, table: str, page: int | None, answer: str
) -> None:
    assert ask(question, hit(table, page=page), max_sentences=1).text == answer


def test_a_pdf_table_whose_cells_are_wrapped_and_prose_stay_as_they_are() -> None:
    wrapped = "Carrier Home region Services\nDeltaline Netherlands, Belgium\nGermany\nVeloway Cities By cargo bike"
    assert rows(wrapped, paged=True) == [(wrapped, False)]
    prose = "The team locks the device from\nafar within a quarter of an hour\nof your call, on any day\nat any hour."
    assert rows(prose, paged=True) == [(prose, False)]
    assert rows("a b\nc d\ne f", paged=False) == [("a b\nc d\ne f", False)]
    assert rows("We open at 9 | we close at 5.", paged=False) == [("We open at 9 | we close at 5.", True)]


# ── no repetition ──


@pytest.mark.parametrize(
    ("question", "one", "again"),
    [
        (
            "How long is the account locked after wrong tries?",
            "After 5 wrong tries the account is locked for 15 minutes.",
            "The account is locked for 15 minutes after 5 wrong tries.",
        ),
        ("密码输错后账号锁定多久？", "密码输错五次后账号锁定十五分钟。", "密码输错五次后，账号锁定十五分钟。"),
        (
            "パスワードを間違えるとアカウントは何分ロックされますか？",
            "パスワードを間違えるとアカウントは十五分ロックされます。",
            "パスワードを間違えると、アカウントは十五分ロックされます。",
        ),
    ],
)
def test_what_another_document_says_again_is_not_quoted_again(question: str, one: str, again: str) -> None:
    assert ask(question, hit(one), hit(again, "b.md"), closeness=0.1).text.count("[") == 1


def test_another_number_is_not_the_same() -> None:
    text = "After 5 wrong tries the account is locked for 15 minutes."
    answer = ask("How long is the account locked?", hit(text), hit(text.replace("15", "30"), "b.md"), closeness=0.1)
    assert answer.text.count("[") == 2


def test_a_sentence_that_leans_on_a_quoted_one_follows_it_and_repeats_nothing() -> None:
    text = "The account is locked for 15 minutes. It opens again by itself after these minutes."
    answer = ask("How long is the account locked?", hit(text), closeness=0.05)
    assert answer.text == (
        "The account is locked for 15 minutes. [1] It opens again by itself after these minutes. [1]"
    )


def test_nothing_is_lost_when_there_is_only_one_thing_to_quote() -> None:
    hits: Sequence[Hit] = [hit("Open.")]
    assert ask("Is it open, and when does it close?", *hits).text == "Open. [1]"
