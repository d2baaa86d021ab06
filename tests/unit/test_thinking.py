"""A model's thinking never reaches an answer, however a stream is cut."""

from __future__ import annotations

import doctest
import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kb.services import thinking
from kb.services.thinking import ThinkingFilter, without_thinking

CASES = [
    # a block at the beginning, whatever it is called
    ("<think>The user asks.</think>\n\nYes [1].", "Yes [1]."),
    ("\n <Think>\n用户问退款。\n</THINK>\n\n30 天 [1]。", "30 天 [1]。"),
    ("<thinking>返金について。</thinking>30日以内です。[1]", "30日以内です。[1]"),
    ("<reasoning>a < b, </ reasoning></reasoning>b", "b"),
    # several, and empty ones
    ("<think>\n\n</think>\n\nYes.", "Yes."),
    ("<think>a</think>\n<think>b</think> <reasoning>c</reasoning>Yes.", "Yes."),
    # another's closing mark closes nothing
    ("<think>say </thinking> now</think>Yes.", "Yes."),
    # no opening mark
    ("The user asks.\n</think>\n\nYes [1].", "Yes [1]."),
    ("用户问退款。</think>30 天 [1]。", "30 天 [1]。"),
    ("返金は。\n</thinking>\n30日です。", "30日です。"),
    ("</think>Yes.", "Yes."),
    ("Hm.</think><think>again</think>Yes.", "Yes."),
    # nothing but thinking
    ("<think>and so on", ""),
    ("<think>all</think>", ""),
    ("<think>all</think>\n \n", ""),
    # what is part of the answer stays
    ("Yes [1].", "Yes [1]."),
    ("  Yes.\n", "  Yes.\n"),
    ("A model writes <think>…</think> first [1].", "A model writes <think>…</think> first [1]."),
    ("Close it by `</think>` [1].", "Close it by `</think>` [1]."),
    ("```html\n</think>\n```\n是的 [1]。", "```html\n</think>\n```\n是的 [1]。"),
    ("<think>a</think>Write <think> and </think> here.", "Write <think> and </think> here."),
    ("<b>bold</b> </thin", "<b>bold</b> </thin"),
    ("<thinker>", "<thinker>"),
    ("<thin", "<thin"),
    ("", ""),
]

# "İ" is longer in lower case, and U+212A is a K that is none.
MARKS = ("<think>", "</think>", "<thinking>", "</thinking>", "</reasoning>", "<", "</", "think>", "`", "```")
WORDS = ("\n", " ", "Yes", "退款", "返金 [1]", "😀", "İ", "\u212a")
PIECES = st.lists(st.sampled_from([*MARKS, *WORDS]), max_size=12).map("".join)


def cut_up(text: str, cuts: list[int]) -> list[str]:
    places = sorted({cut % (len(text) + 1) for cut in cuts} | {0, len(text)})
    return [text[start:end] for start, end in itertools.pairwise(places)]


def streamed(pieces: list[str], *, held: bool) -> tuple[str, ThinkingFilter]:
    passing = ThinkingFilter(held=held)
    passed = "".join([passing.feed(piece) for piece in pieces])
    return passed + passing.finish(), passing


@pytest.mark.parametrize(("reply", "answer"), CASES)
def test_only_what_is_thought_before_the_answer_is_left_out(reply: str, answer: str) -> None:
    assert without_thinking(reply)[0] == answer
    for size in (1, 2, 3, 5):
        pieces = [reply[at : at + size] for at in range(0, len(reply), size)]
        assert streamed(pieces, held=True)[0] == answer
        text, passing = streamed(pieces, held=False)
        assert text == answer or passing.leaked


@given(PIECES, st.lists(st.integers(0, 200), max_size=8))
@example("a</think>b", [1])
@example("\n</think>", [3])
def test_a_stream_cut_anywhere_is_the_whole_reply(reply: str, cuts: list[int]) -> None:
    whole, unopened = without_thinking(reply)
    text, passing = streamed(cut_up(reply, cuts), held=True)
    assert (text, passing.unopened) == (whole, unopened)
    text, passing = streamed(cut_up(reply, cuts), held=False)
    assert passing.unopened == unopened
    assert passing.leaked or text == whole
    assert not passing.leaked or unopened


@given(st.text(alphabet="ab \n1[]。退", max_size=40), st.lists(st.integers(0, 50), max_size=6))
def test_a_reply_without_marks_passes_unchanged_and_at_once(reply: str, cuts: list[int]) -> None:
    passing = ThinkingFilter()
    passed = ""
    come = ""
    for piece in cut_up(reply, cuts):
        come += piece
        passed += passing.feed(piece)
        assert passed == (come if come.strip() else ""), "only blanks before the first word wait"
    assert passed + passing.finish() == reply


def test_thinking_that_is_passed_on_before_it_is_known_is_reported() -> None:
    passing = ThinkingFilter()
    assert passing.feed("The user asks. ") == "The user asks. "
    passing.feed("So.</think>Yes.")
    assert passing.leaked
    held = ThinkingFilter(held=True)
    assert held.feed("The user asks. ") == ""
    assert held.feed("So.</think>Yes.") == "Yes."
    assert held.feed(" No.") == " No."
    assert not held.leaked


def test_what_is_held_goes_on_when_the_service_sets_thinking_off_itself() -> None:
    passing = ThinkingFilter(held=True)
    assert passing.feed("Yes") == ""
    passing.live()
    assert passing.feed(" [1].") == "Yes [1]."


def test_a_reply_cut_off_within_thinking_that_nothing_marks_is_empty_where_that_is_known() -> None:
    assert without_thinking("The user asks whether", all_of_it=True) == ("", False)
    assert without_thinking("asks.</think>Yes [1", all_of_it=True) == ("Yes [1", True)
    assert without_thinking("<think>asks</think>Yes [1", all_of_it=True) == ("Yes [1", False)


def test_the_examples_in_its_docstrings_hold() -> None:
    assert doctest.testmod(thinking).failed == 0
    assert doctest.testmod(thinking).attempted >= 2
