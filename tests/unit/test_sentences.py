"""Sentences in three languages: what is cut, what is kept together, and that nothing is lost."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.sentences import sentence_spans

PIECES = st.sampled_from([
    "Mr. ", "3.5", "v2.3.1 ", "end. ", "Next ", "e.g. ", "です。", "」", "「", "\n", "\n\n", "- ", "| a | b |\n",
    "\t", "```\n", "。", "!?", "[1]", " ", "答：", "…", '"', "(", ")", "x", "http://a.b/c?d=e.f ", "😀", "\u3000",
    "# H\n", "1. ",
])  # fmt: skip


def sentences(text: str) -> list[str]:
    return [text[start:end] for start, end in sentence_spans(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Mr. Smith paid 3.5 dollars. He left.", ["Mr. Smith paid 3.5 dollars.", "He left."]),
        (
            "See https://a.example.com/x?y=1&z.html for v2.3.1. Use e.g. this.",
            ["See https://a.example.com/x?y=1&z.html for v2.3.1.", "Use e.g. this."],
        ),
        (
            "Fig. 3 shows it. The answer is no. Then we left.",
            ["Fig. 3 shows it.", "The answer is no.", "Then we left."],
        ),
        ('"Really?" he asked. He said "No." She left.', ['"Really?" he asked.', 'He said "No."', "She left."]),
        ("(It rained.) Then sun! What?! Yes... maybe.", ["(It rained.)", "Then sun!", "What?!", "Yes... maybe."]),
        ("J. R. R. Tolkien wrote it at 5 p.m. The end.", ["J. R. R. Tolkien wrote it at 5 p.m.", "The end."]),
        ("これは「はい。」と言った。次です。", ["これは「はい。」と言った。", "次です。"]),
        ("本当？うん…そう。（後述。）終わり！", ["本当？", "うん…", "そう。", "（後述。）", "終わり！"]),
        ("他说：“好。”然后走了。版本是v2.3.1。", ["他说：“好。”", "然后走了。", "版本是v2.3.1。"]),
        (
            "It is so.[1] And this. [3][4] More. [5](http://x)",
            ["It is so.[1]", "And this. [3][4]", "More.", "[5](http://x)"],
        ),
    ],
)
def test_a_sentence_ends_where_a_reader_sees_its_end(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


def test_a_wrapped_line_goes_on_and_a_blank_line_ends() -> None:
    assert sentences("one line\nwrapped here. Next\none\n\nlast") == ["one line\nwrapped here.", "Next\none", "last"]


def test_headings_rows_and_code_lines_are_whole_and_items_start_anew() -> None:
    text = "# A. B\ntext\n- one\n- two. Has\n  two\nplain\n| a. b | c |\n|---|---|\n1. First\n```\nx. y\nz\n```"
    assert sentences(text) == [
        *["# A. B", "text", "- one", "- two.", "Has\n  two", "plain", "| a. b | c |", "|---|---|", "1. First"],
        *["```", "x. y", "z", "```"],
    ]


def test_records_and_forms_are_one_statement_a_line() -> None:
    text = "■ 記録 J-0412\n業種：文具の通販\n現象：毎朝9時に失敗する。\nDate: 2025-01-01\nName: x"
    assert sentences(text) == text.split("\n")


@given(st.lists(PIECES, max_size=40).map("".join) | st.text(max_size=200))
def test_spans_rise_are_trimmed_and_hold_every_character(text: str) -> None:
    spans = sentence_spans(text)
    position = 0
    for start, end in spans:
        assert position <= start < end
        assert not text[position:start].strip()
        assert text[start:end].strip() == text[start:end]
        position = end
    assert not text[position:].strip()


@pytest.mark.parametrize(
    "unit", [".", "a.b", "[1]", ")", ". ", "Hello x. ", "\n", "- ", "。」", 'x."', "a. ((((", "    ", "1"]
)
def test_the_time_grows_with_the_length_and_not_with_its_square(unit: str) -> None:
    started = time.process_time()
    sentence_spans(unit * (300_000 // len(unit)))
    assert time.process_time() - started < 10  # a square of this length would take hours
