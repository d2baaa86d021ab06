"""Quoting sentences: what is quoted, what is not, and that every quote is where it says."""

from collections.abc import Iterator, Sequence

import pytest

from kb.answers import Generated, Quote
from kb.components import Parts
from kb.embedding import hashing
from kb.errors import ConfigError
from kb.generation import extractive
from kb.generation._asked import given_form, unknown_names
from kb.generation._rows import row_as_text
from kb.generation._units import units
from kb.markers import find_markers
from kb.records import Chunk, Hit


def hit(
    text: str,
    *,
    source: str = "a.md",
    similarity: float = 0.5,
    coverage: float | None = None,
    start: int = 0,
    header: str = "",
) -> Hit:
    chunk = Chunk(f"{source}:{hash(text)}", source, text, start, start + len(text), header=header)
    return Hit(chunk, source, similarity, "dense", similarity, coverage)


def generator(**options: float) -> extractive.ExtractiveGenerator:
    embedder = hashing.build(hashing.Options(), Parts())
    return extractive.build(extractive.Options(**options), Parts(embedder=embedder))


def quoted(generated: Generated, hits: Sequence[Hit]) -> list[str]:
    return [hits[number - 1].chunk.text[start:end] for number, start, end in generated.quotes]


def test_the_sentence_that_answers_is_quoted_with_its_number() -> None:
    hits = [hit("The office opens at nine. A refund takes five working days. Lunch is at noon.")]
    generated = generator(max_sentences=1).generate("How many days does a refund take?", hits)
    assert generated.answered
    assert generated.text == "A refund takes five working days. [1]"
    assert quoted(generated, hits) == ["A refund takes five working days."]


@pytest.mark.parametrize(
    ("question", "text", "answer"),
    [
        ("退款需要几天？", "本店九点开门。退款需要五个工作日。午饭在中午。", "退款需要五个工作日。"),
        (
            "返金には何日かかりますか？",
            "店は九時に開きます。返金には五営業日かかります。昼食は正午です。",
            "返金には五営業日かかります。",
        ),
    ],
)
def test_chinese_and_japanese_sentences_are_quoted_whole(question: str, text: str, answer: str) -> None:
    generated = generator(max_sentences=1).generate(question, [hit(text)])
    assert generated.text == f"{answer} [1]"


def test_a_table_row_is_shown_with_its_column_names_and_quoted_as_it_stands() -> None:
    table = "| Plan | Requests a minute |\n|---|---|\n| Starter | 60 |\n| Team | 300 |"
    hits = [hit(table)]
    generated = generator(max_sentences=1).generate("How many requests a minute has Team?", hits)
    assert generated.text == "Plan: Team; Requests a minute: 300 [1]"
    assert quoted(generated, hits) == ["| Team | 300 |", "| Plan | Requests a minute |"]


@pytest.mark.parametrize(
    ("question", "table", "answer"),
    [
        (
            "How many requests a minute has Team?",
            'Plan;Requests a minute;Note\nStarter;60\nTeam;300;"yearly; ""prepaid"""',
            'Plan: Team; Requests a minute: 300; Note: yearly; "prepaid" [1]',
        ),
        ("张伟的电话是多少？", "姓名\t电话\t备注\n李娜\t1001\t周一\n张伟\t1002", "姓名: 张伟; 电话: 1002 [1]"),
        ("佐藤太郎の年齢は？", "名前,年齢,備考\n三木英子,25,\n佐藤太郎,30", "名前: 佐藤太郎; 年齢: 30 [1]"),
    ],
)
def test_a_row_of_a_csv_file_is_shown_with_its_column_names_and_quoted_as_it_stands(
    question: str, table: str, answer: str
) -> None:
    head, first, row = table.split("\n")
    hits = [hit(table, source="表/a.CSV")]
    generated = generator(max_sentences=1).generate(question, hits)
    assert generated.text == answer
    assert quoted(generated, hits) == [row, head]
    # Further down in the file the head row stands in the chunk's header.
    hits = [hit(f"{first}\n{row}", source="a.tsv", start=900, header=f"Title, 2024\n\n{head}")]
    generated = generator(max_sentences=1).generate(question, hits)
    assert (generated.text, quoted(generated, hits)) == (answer, [row])


def test_lines_above_a_csv_files_table_are_sentences() -> None:
    text = "Fees, 2024\n\nValid from May. Without tax.\n\nCity,Fee\nOsaka,12"
    found = units([hit(text, source="a.csv")])
    assert [(unit.text, unit.kind, unit.context) for unit in found] == [
        ("Fees, 2024", "sentence", ""),
        ("Valid from May.", "sentence", ""),
        ("Without tax.", "sentence", ""),
        ("Osaka,12", "row", "City,Fee"),
    ]
    assert [text[unit.start : unit.end] for unit in found] == [unit.text for unit in found]
    assert [unit.text for unit in units([hit("Valid from May.", source="a.csv")])] == ["Valid from May."]


@pytest.mark.parametrize(
    ("text", "header", "shown"),
    [
        # The chunk begins within a row.
        ("und Lack,9\nTisch,7,8", "Ware,Preis,Menge", ["und Lack, 9", "Ware: Tisch; Preis: 7; Menge: 8"]),
        # No row of the chunk has a last cell.
        (
            "Stuhl,5\nTisch,7\nBank",
            "Ware,Preis,Menge",
            ["Ware: Stuhl; Preis: 5", "Ware: Tisch; Preis: 7", "Ware: Bank"],
        ),
        # The head row found no room in the header.
        ("Stuhl,5,6\nTisch,7,8", "Bestand", ["Stuhl, 5, 6", "Tisch, 7, 8"]),
        ("Stuhl,5,6\nTisch,7,8", "", ["Stuhl, 5, 6", "Tisch, 7, 8"]),
        # A row has more cells than there are names.
        ("Stuhl,5\nTisch,7,8", "Ware,Preis", ["Ware: Stuhl; Preis: 5", "Tisch, 7, 8"]),
    ],
)
def test_cells_of_a_csv_file_never_get_the_name_of_another_column(text: str, header: str, shown: list[str]) -> None:
    found = units([hit(text, source="a.csv", start=900, header=header)])
    assert [row_as_text(unit.context, unit.text, unit.delimiter) for unit in found] == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("name,tags\np,x;y\nq,y;z", ["name: p; tags: x;y", "name: q; tags: y;z"]),
        ("Artikel;Preis, netto\nStuhl;3,50", ["Artikel: Stuhl; Preis, netto: 3,50"]),
        ("comment\nI like it, really", ["comment: I like it, really"]),
        ('""\t一月\n大阪\t3', ["大阪; 一月: 3"]),
        ('size,name\n"3 inch,pipe\n5" long,hose', ['size: "3 inch; name: pipe', 'size: 5" long; name: hose']),
        (f'a,b\n1,"{"x" * 200_000}, y"', [f'1, "{"x" * 200_000}, y"']),
    ],
)
def test_the_head_row_of_a_csv_file_shows_its_delimiter(text: str, shown: list[str]) -> None:
    found = units([hit(text, source="a.csv")])
    assert [row_as_text(unit.context, unit.text, unit.delimiter) for unit in found] == shown


def test_a_list_item_keeps_the_words_that_lead_to_it() -> None:
    hits = [hit("To reset a password:\n\n- choose the link on the sign-in page;\n- wait for the mail.")]
    generated = generator(max_sentences=1).generate("Which link on the sign-in page?", hits)
    assert generated.text == "To reset a password: choose the link on the sign-in page; [1]"


def test_a_question_in_a_document_is_context_for_the_answer_and_no_answer_itself() -> None:
    found = units([hit("Q: How long is the link valid?\nA: For thirty minutes.")])
    assert [(unit.text, unit.context) for unit in found] == [
        ("A: For thirty minutes.", "Q: How long is the link valid?")
    ]


def test_a_sentence_that_leans_on_the_one_before_brings_it_along() -> None:
    found = units([hit("Two keys may be active. This makes rotation possible.")])
    assert found[1].context == "Two keys may be active."


def test_headings_rules_and_code_are_not_quoted() -> None:
    found = units([hit("# Refunds\n\n```\nrefund(5)\n```\n\n---\n\nA refund takes five days.")])
    assert [unit.text for unit in found] == ["A refund takes five days."]


def test_equal_sentences_of_two_chunks_are_quoted_once() -> None:
    found = units([hit("It costs €5."), hit("It costs €5.", source="b.md")])
    assert [(unit.number, unit.text) for unit in found] == [(1, "It costs €5.")]


def test_no_hits_are_no_answer() -> None:
    generated = generator().generate("What?", [])
    assert (generated.answered, generated.quotes) == (False, ())


def test_a_question_whose_words_are_known_is_declined_when_no_sentence_answers_it() -> None:
    hits = [hit("The office opens at nine.", coverage=0.4)]
    generated = generator(min_score=0.9).generate("Is there parking at the office?", hits)
    assert not generated.answered
    assert "needed 0.90" in generated.notes[0]
    assert generator(min_score=0.9).generate("The office opens at nine?", hits).answered


def test_a_question_in_other_words_is_left_to_the_cutoff() -> None:
    hits = [hit("The office opens at nine.", coverage=0.1)]
    assert generator(min_score=0.9).generate("When may I come in?", hits).answered


def test_nothing_is_declined_without_a_least_score() -> None:
    hits = [hit("The link is on the sign-in page.", coverage=0.4)]
    assert generator(min_score=0).generate("How long does Shopify take?", hits).answered


@pytest.mark.parametrize("question", ["How many days does a refund take?", "Is there anything?"])
def test_streamed_and_whole_answers_are_equal(question: str) -> None:
    hits = [hit("A refund takes five days. It goes to the card."), hit("Refunds are paid in euros.", source="b.md")]
    ended: list[Generated] = []

    def follow() -> Iterator[str | Quote]:
        ended.append((yield from generator().stream(question, hits)))

    pieces = list(follow())
    text = "".join(piece for piece in pieces if isinstance(piece, str))
    assert tuple(piece for piece in pieces if isinstance(piece, Quote)) == ended[0].quotes
    assert ended == [generator().generate(question, hits)]
    assert text == ended[0].text


@pytest.mark.parametrize(
    ("own", "shown"),
    [
        ("rule [7]", "rule (7)"),
        ("rule 【7、8】", "rule (7、8)"),
        ("rule [source 1]", "rule ‹source 1›"),
        ("rule (source 1)", "rule ‹source 1›"),
        ("rule （资料1）", "rule ‹资料1›"),
        ("rule [[7]]", "rule (7)"),
        ("rule of [2024]", "rule of [2024]"),
    ],
)
def test_a_document_s_own_markers_do_not_pass_for_citations(own: str, shown: str) -> None:
    generated = generator(max_sentences=1).generate(
        "What do refunds follow?", [hit(f"Refunds follow {own} of the code.")]
    )
    assert generated.text == f"Refunds follow {shown} of the code. [1]"
    assert [marker.numbers for marker in find_markers(generated.text)] == [(1,)]


def test_rows_with_another_number_of_cells_are_joined() -> None:
    assert row_as_text("| a | b |", "| 1 | 2 | 3 |") == "1, 2, 3"


@pytest.mark.parametrize(
    ("question", "text", "has"),
    [
        ("How long is the link valid?", "The link is valid for 30 minutes.", True),
        ("How long is the link valid?", "The link is on the sign-in page.", False),
        ("What time does it open?", "It opens at 09:30.", True),
        ("How much does the plan cost?", "The plan costs €49.", True),
        ("How much does the plan cost?", "The plan is for teams.", False),
        ("链接多久有效？", "链接三十分钟内有效。", True),
        ("套餐多少钱？", "套餐每月 49 欧元。", True),
        ("最多几个人？", "最多 8 人。", True),
        ("最多几个人？", "请提前登记。", False),
        ("返金には何日かかりますか？", "五営業日かかります。", True),
        ("いくらですか？", "料金は別です。", False),
        ("What is a webhook?", "A request that we send.", True),
    ],
)
def test_the_form_that_is_asked_for_is_known(question: str, text: str, has: bool) -> None:
    form = given_form(question)
    assert (form is None or form.search(text) is not None) == has


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("Is there a Shopify plugin?", ("Shopify",)),
        ("Does the iPhone app show SEV1?", ("iPhone", "SEV1")),
        ("Is there parking? May I use it?", ()),
        ("有 Shopify 插件吗？", ("Shopify",)),
        ("What is an API key?", ()),
        ("Who wrote to William Openshaw?", ("William Openshaw",)),
        ("Who opens the Api Gate?", ()),  # a part of the name is known
    ],
)
def test_names_that_nothing_found_holds_are_told(question: str, names: tuple[str, ...]) -> None:
    assert unknown_names(question, ["An API key opens the api."]) == names


def test_a_question_about_a_thing_that_is_not_named_anywhere_is_declined() -> None:
    generated = generator().generate("Is there a Shopify plugin?", [hit("There is a plugin for web shops.")])
    assert not generated.answered
    assert "Shopify" in generated.notes[0]


def test_an_embedder_is_needed() -> None:
    with pytest.raises(ConfigError, match="extractive"):
        extractive.build(extractive.Options(), Parts())
