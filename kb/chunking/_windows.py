"""Windows over words or paragraphs: each as large as its size lets it be, none larger than the embedder takes."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import NamedTuple

from kb.chunking._counting import SpanCounts
from kb.chunking._packing import Packer
from kb.chunking._spans import Budget, Span
from kb.components import Parts
from kb.errors import ConfigError
from kb.sentences import CJK

# Between spaces; where Chinese and Japanese have none, two characters are a word. The same 240 paragraphs
# (XQuAD) have 29,727 such words in English and 26,943 in Chinese, with 1.47 and 1.52 tokens of e5 each; Japanese
# ones (JaQuAD) have 1.38. Signs stay with the word before them, so that no window begins with a full stop.
_WORD = re.compile(rf"[{CJK}]{{1,2}}[^\w\s{CJK}]*|[^\s{CJK}]+")

# More characters for each token than any running text has, wide tables included. What is longer is not
# counted, so that a window never costs more than a few windows' time, whatever stands behind it.
_SURELY_TOO_LONG = 32
# By the tokens that words had so far, the end of a window is found in about four counts; every fourth step
# halves what is left, so that it is never slow where words differ much.
_HALVE_EVERY = 4


class Units(NamedTuple):
    """Consecutive pieces of a text, whole wherever they fit; arrays, as a large file has millions of words."""

    starts: array[int]
    ends: array[int]


def words(text: str, start: int, end: int) -> Units:
    """The words of `text[start:end]`; together they hold every character that is not white space."""
    units = Units(array("q"), array("q"))
    for match in _WORD.finditer(text, start, end):
        units.starts.append(match.start())
        units.ends.append(match.end())
    return units


def open_note(key: str, size: int, budget: Budget, parts: Parts) -> str:
    """What the report says when the embedder's limit has ended a window of `size` early."""
    name = parts.embedder.name if parts.embedder is not None else "the embedder"
    return (
        f"some chunks end before {key} = {size}: {name} takes no more than {budget.text_tokens} tokens beside "
        f"the header ({budget.header_tokens})"
    )


def check_overlap(section: str, unit: str, size: int, overlap: int) -> None:
    """Refuse to repeat so much that most of a text would be embedded three times and more.

    Raises:
        ConfigError: the overlap is more than half a chunk.
    """
    if overlap * 2 > size:
        raise ConfigError(f"[{section}] overlap_{unit} = {overlap}; allowed: at most {size // 2}, half of size_{unit}")


def cut_word(text: str, span: Span, count: Callable[[str], int], limit: int) -> list[Span]:
    """Cut a word that is too large for a chunk, at signs or, at last, between characters."""
    start, end = span
    return Packer(count, limit, limit, 0).pack(text, start, start, end, ())


class Windows:
    """Slides windows over one text; the embedder's limit goes before their size."""

    def __init__(self, text: str, budget: Budget) -> None:
        self._counts = SpanCounts(text, budget.count_tokens, budget.count_words)
        self._limit = budget.text_tokens
        self._density = 0.0  # tokens of a unit, by the last count; 0: not known
        self.ended_early = False
        """Whether the limit has ended any window before its size."""

    def slide(
        self, units: Units, size: int, overlap: int, cut_unit: Callable[[Span], list[Span]], *, counted: bool
    ) -> list[Span]:
        """Cover `units` by windows of whole units; each reaches further than the one before.

        Args:
            units: Pieces of the text.
            size: The most that a window holds.
            overlap: What it repeats of the one before, at most half of `size`; of a window that ended
                early the same share.
            cut_unit: Cuts a unit that is too large for a window; its parts are windows of their own.
            counted: Sizes are numbers of units; otherwise of characters, with what stands between units.
        """
        number = len(units.starts)
        starts, ends = (range(number), range(1, number + 1)) if counted else units
        spans: list[Span] = []
        first = 0
        while first < number:
            last = bisect_right(ends, starts[first] + size, first)
            stop = self._stop(units, first, last)
            self.ended_early |= stop < last
            if stop == first:
                spans += cut_unit((units.starts[first], units.ends[first]))
                first += 1
                continue
            spans.append((units.starts[first], units.ends[stop - 1]))
            if stop == number:
                break
            repeated = overlap * (ends[stop - 1] - starts[first]) // size
            first = bisect_left(starts, ends[stop - 1] - repeated, first + 1, stop)
            # A window that could not take in the next unit would hold nothing new: it repeats less.
            while first < stop and not (ends[stop] - starts[first] <= size and self._fits(units, first, stop + 1)):
                first = (first + stop + 1) // 2
        return spans

    def _fits(self, units: Units, first: int, stop: int) -> bool:
        length = units.ends[stop - 1] - units.starts[first]
        return length <= self._limit * _SURELY_TOO_LONG and self._tokens(units, first, stop) <= self._limit

    def _stop(self, units: Units, first: int, last: int) -> int:
        """The end of the largest window from `first` up to `last` within the limit; `first` when there is none."""
        limit, tokens_low = self._limit, 0
        low, high = first, 1 + bisect_right(units.ends, units.starts[first] + limit * _SURELY_TOO_LONG, first, last)
        steps = 0
        while high - low > 1:
            steps += 1
            guess = (low + high) // 2
            if steps % _HALVE_EVERY:
                room = int((limit - tokens_low) / self._density) if self._density else last
                guess = min(max(low + room, low + 1), high - 1)
            tokens = self._tokens(units, first, guess)
            self._density = tokens / (guess - first)
            if tokens <= limit:
                low, tokens_low = guess, tokens
            else:
                high = guess
        return low

    def _tokens(self, units: Units, first: int, stop: int) -> int:
        return self._counts.tokens(units.starts[first], units.ends[stop - 1])
