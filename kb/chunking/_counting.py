"""How many tokens spans of one text have."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate

CountWords = Callable[[Sequence[str]], Sequence[int]]
"""See `CountsWords` in kb/abilities.py."""

_BLANKS = re.compile("([ \t\n\u3000]+)")
# About so much text is counted in one call: many words are faster than few, and a large file has millions.
_BATCH_CHARACTERS = 200_000


class SpanCounts:
    """Counts spans of `text`.

    Args:
        text: The text.
        count_tokens: The embedder's count.
        count_words: Its count by words, when its tokens never reach over white space. Each word is then
            counted once, whatever spans it is in; only what a span holds of a word that it cuts is
            counted again.
    """

    def __init__(self, text: str, count_tokens: Callable[[str], int], count_words: CountWords | None = None) -> None:
        self.text = text
        self.by_words = count_words is not None
        self._count = count_tokens
        self._starts, self._ends, self._before = array("q"), array("q"), array("q", [0])
        end = 0
        while count_words is not None and end < len(text):
            start, end = end, text.find("\n", end + _BATCH_CHARACTERS) + 1 or len(text)
            words_and_blanks = _BLANKS.split(text[start:end])  # in turn; the first and the last word may be empty
            edges = array("q", accumulate(map(len, words_and_blanks), initial=start))
            self._starts += edges[::2]
            self._ends += edges[1::2]
            counts = accumulate(count_words(words_and_blanks[::2]), initial=self._before.pop())
            self._before.extend(counts)

    def tokens(self, start: int, end: int) -> int:
        """The exact count of `text[start:end]`."""
        if not self.by_words:
            return self._count(self.text[start:end])
        first, last = bisect_left(self._starts, start), bisect_right(self._ends, end)
        if first > last:  # inside a word
            return self._count(self.text[start:end])
        tokens = self._before[last] - self._before[first]
        if first and self._ends[first - 1] > start:
            tokens += self._count(self.text[start : self._ends[first - 1]])
        if last < len(self._starts) and self._starts[last] < end:
            tokens += self._count(self.text[self._starts[last] : end])
        return tokens

    def blank_tokens(self, start: int, end: int) -> int:
        """The tokens that the white space `text[start:end]` may have between two texts: one for a blank line."""
        return 0 if self.by_words else (end - start + 2) // 4
