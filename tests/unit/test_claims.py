"""The statements of an answer, and what each cites."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kb.claims import StatementReader, statements


def read(text: str) -> list[tuple[str, tuple[int, ...]]]:
    return [(statement.text, statement.numbers) for statement in statements(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Leave is 25 days. [1]", [("Leave is 25 days.", (1,))]),
        ("Leave is 25 days [1][2].", [("Leave is 25 days.", (1, 2))]),
        ("It takes 5 days [1], or 2 in Japan [2].", [("It takes 5 days", (1,)), ("or 2 in Japan.", (2,))]),
        ("Plans cost 5 euros [1] and are billed monthly.", [("Plans cost 5 euros and are billed monthly.", (1,))]),
        ("Parcels [1] are stored [2] for ten days [3].", [("Parcels are stored", (1, 2)), ("for ten days.", (3,))]),
        ("年假为25天。[1]病假需要证明。[2]", [("年假为25天。", (1,)), ("病假需要证明。", (2,))]),
        ("年次休暇は25日です。 [1] 病欠には診断書が必要です。[2]",
         [("年次休暇は25日です。", (1,)), ("病欠には診断書が必要です。", (2,))]),
    ],
)  # fmt: skip
def test_a_statement_is_what_stands_before_its_markers(text: str, expected: list[tuple[str, tuple[int, ...]]]) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The limit is 300. It resets every minute. [2]", [(2,), (2,)]),
        ("The limit is 300.\n\nIt resets every minute. [2]", [(), (2,)]),
        ("You can pay in these ways [1]:\n- by credit card\n- by bank transfer", [(1,), (1,), (1,)]),
        ("These ways are known [1]:\n- by credit card\n- by bank transfer [2]\n- by monthly invoice",
         [(1,), (1, 2), (2,), (1,)]),
        ("上限是每分钟300次。超过后返回429错误。[3]", [(3,), (3,)]),
        ("Nothing here cites a source.", [()]),
    ],
)  # fmt: skip
def test_a_sentence_without_a_marker_is_covered_by_the_next_one_or_by_its_list(
    text: str, expected: list[tuple[int, ...]]
) -> None:
    assert [statement.numbers for statement in statements(text)] == expected


@pytest.mark.parametrize(
    "text",
    [
        "# Refunds of orders\n\n**Refunds of orders**",
        "Here is what the documents say:",
        "Would you like to know more about refunds?",
        "还想了解退款政策的其他内容吗？",
        "```\nkey = load_key(path)\n\nprint(key[1])\n```",
        "| Plan name | Requests allowed |\n|---|---|",
        "OK.",
    ],
)
def test_headings_questions_introductions_and_code_state_nothing(text: str) -> None:
    assert statements(text) == []


def test_a_table_row_is_a_statement_and_its_head_is_none() -> None:
    assert read("| Plan name | Requests allowed |\n|---|---|\n| Team plan | 300 requests [2] |") == [
        ("| Team plan | 300 requests |", (2,))
    ]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("It says “Refunds take long. Shipping costs are kept.” [1]", 1),
        ('It says "Refunds take long. Shipping costs are kept" [1]. Leave is 25 days. [2]', 2),
        ("规定是「退款需要七天。运费一律不退」[1]。年假为25天。[2]", 2),
        ("It says “Refunds take long. Shipping costs are kept. [1]\n\nLeave is 25 days. [2]", 2),
    ],
)
def test_a_quotation_over_several_sentences_is_one_statement(text: str, count: int) -> None:
    assert len(statements(text)) == count


def test_words_too_few_to_compare_are_said_to_be() -> None:
    assert [(s.text, s.checkable) for s in statements("Yes. [1] Card payments are allowed. [1]")] == [
        ("Yes.", False),
        ("Card payments are allowed.", True),
    ]


PIECES = st.sampled_from([
    "The limit is 300", " requests", ". ", ".", "\n", "\n\n", " [1]", "[2][3]", ", ", "！", "年假25天。",
    "休暇は二日です", "。", "- by credit card", "1. Open settings", "Note: see v2.3.1", "```\n", "| a cell | b |\n",
    "?", ":", "# Head line", "“", "”", "「", "」", '"', "Dr. Ito", "(see page 3)", " ", "[",
    "e.g. cards", "**bold words**", "\n> ", "…",
])  # fmt: skip


@given(st.lists(PIECES, max_size=25).map("".join))
@example("a[1](x y. Zz yes no.\nNote: b [1]")
def test_a_text_that_comes_in_pieces_states_the_same(text: str) -> None:
    whole = statements(text)
    for size in (1, 2, 7, 40):
        reader = StatementReader()
        pieces = [reader.feed(text[at : at + size]) for at in range(0, len(text), size)]
        assert [s for piece in [*pieces, reader.finish()] for s in piece] == whole


@given(st.lists(PIECES, max_size=25).map("".join))
def test_statements_rise_and_hold_their_words(text: str) -> None:
    end = 0
    for statement in statements(text):
        assert end <= statement.start < statement.end <= len(text)
        assert statement.sentence[0] <= statement.start
        assert statement.end <= statement.sentence[1]
        end = statement.end


def test_a_statement_comes_as_soon_as_its_sentence_is_over() -> None:
    reader = StatementReader()
    assert reader.feed("Leave is 25 days. [1]") == []
    assert [statement.numbers for statement in reader.feed(" Sick leave needs")] == [(1,)]
    assert [statement.numbers for statement in reader.feed(" a note. [2]\n\n")] == [(2,)]


@pytest.mark.parametrize("unit", ["word [1] is here. ", "Para one [1].\n\n", "no end ", "```\n\n\n", "- an item\n"])
def test_the_time_grows_with_the_length_and_not_with_its_square(unit: str) -> None:
    text = unit * (40_000 // len(unit))
    reader = StatementReader()
    started = time.process_time()
    for at in range(0, len(text), 4):
        reader.feed(text[at : at + 4])
    reader.finish()
    assert time.process_time() - started < 20  # a square of this length would take many minutes
