"""Counting a text once by words gives for every span what counting the span gives."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from kb.chunking._counting import SpanCounts

PIECE = re.compile("[a-z]{1,3}|[^a-z ]")
texts = st.text(st.sampled_from("abc中の。, \n\t\u3000\u00a0"), max_size=60)


def count(text: str) -> int:
    """One for each begun three letters of a word and each other sign, so that a word's parts count for more."""
    return sum(len(PIECE.findall(word)) for word in re.split("[ \t\n\u3000]", text))


def count_words(words: Sequence[str]) -> list[int]:
    assert not any(re.search("[ \t\n\u3000]", word) for word in words)
    return list(map(count, words))


@given(texts, st.data())
def test_a_span_has_as_many_tokens_as_its_text(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    assert SpanCounts(text, count, count_words).tokens(start, end) == count(text[start:end])
    assert SpanCounts(text, count).tokens(start, end) == count(text[start:end])


def test_words_are_counted_once_and_those_that_a_span_cuts_again() -> None:
    counted: list[str] = []

    def recorded(text: str) -> int:
        counted.append(text)
        return count(text)

    counts = SpanCounts("One word 多くの字。と two", recorded, count_words)
    assert [counts.tokens(0, 8), counts.tokens(0, 20)] == [count("One word"), count("One word 多くの字。と two")]
    assert counted == []
    assert counts.tokens(4, 14) == count("word 多くの字。")
    assert counted == ["多くの字。"]


def test_a_long_text_is_counted_in_batches_that_leave_nothing_out() -> None:
    line = "ab 中の。 c\n"
    counts = SpanCounts(line * 100_000, count, count_words)
    assert counts.tokens(0, len(line) * 100_000) == 100_000 * count(line)
    for start in range(0, len(line) * 99_000, len(line) * 997 + 3):
        part = (line * 2)[start % len(line) :][: len(line)]
        assert counts.tokens(start, start + len(line)) == count(part)
