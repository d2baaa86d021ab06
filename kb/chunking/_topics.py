"""Join sentences and blocks into chunks, given how like each is to what stands before it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from kb.chunking._counting import SpanCounts
from kb.chunking._spans import Span

TOGETHER = 1.0
"""The similarity where text stays together when there is a choice; no cosine is higher."""
_APART = -2.0
"""That of a place where a heading begins; no cosine is lower."""


class Unit(NamedTuple):
    """What is not cut: a sentence or a block that fits, with the heading lines above it."""

    start: int
    end: int
    tokens: int
    level: int
    """Of the heading that it stands below; 0 before the first one."""
    opens: bool
    """It begins with that heading."""
    tied: bool
    """It belongs to the unit before it, like a table to the line that announces it."""


class TopicCutter:
    """Cuts one document's units.

    Args:
        counts: Of its text.
        units: All of the text, in order.
        similarities: Of each unit to what stands before it; the first one counts for nothing.
        changes: The units, by number, that begin another topic.
        size: The most tokens of a chunk.
        small: Chunks of fewer tokens are avoided.
    """

    def __init__(
        self,
        counts: SpanCounts,
        units: Sequence[Unit],
        similarities: Sequence[float],
        changes: Collection[int],
        size: int,
        small: int,
    ) -> None:
        self._counts = counts
        self._units = units
        self._similarities = [
            _APART if unit.opens else similarity for unit, similarity in zip(units, similarities, strict=True)
        ]
        self._changes = changes
        self._size = size
        self._small = small
        self._left = self._left_in_section()

    def spans(self) -> list[Span]:
        """The chunks, in order."""
        chunks: list[tuple[int, int]] = []
        first = 0
        while first < len(self._units):
            stop = self._that_fits(first, self._stop(first))
            if chunks and self._joins_back(chunks[-1][0], first, stop):
                chunks[-1] = chunks[-1][0], stop
            else:
                chunks.append((first, stop))
            first = stop
        return [(self._units[first].start, self._units[stop - 1].end) for first, stop in chunks]

    def _left_in_section(self) -> list[int]:
        """The tokens from each unit to the end of its section."""
        left = [0] * (len(self._units) + 1)
        for at in range(len(self._units) - 1, -1, -1):
            ends = at + 1 == len(self._units) or self._units[at + 1].opens
            left[at] = self._weight(at) + (0 if ends else left[at + 1])
        return left

    def _weight(self, at: int) -> int:
        """What a unit adds to a chunk: its tokens, and those that the white space before it may have."""
        gap = self._counts.blank_tokens(self._units[at - 1].end, self._units[at].start) if at else 0
        return self._units[at].tokens + gap

    def _stop(self, first: int) -> int:
        """Behind the last unit of the chunk that begins with `first`, by the sum of its units."""
        tokens = self._units[first].tokens
        before = [tokens]
        for at in range(first + 1, len(self._units)):
            if self._ends_before(first, at, tokens):
                return at
            tokens += self._weight(at)
            if tokens > self._size:
                return self._weakest(first, at, before)
            before.append(tokens)
        return len(self._units)

    def _ends_before(self, first: int, at: int, tokens: int) -> bool:
        """Whether a chunk of `tokens` is complete before the unit `at`."""
        unit, begin = self._units[at], self._units[first]
        if unit.opens:
            # A tiny section goes with the next one, if that is not of a higher rank: its path would be wrong.
            alone = first > 0 and not begin.opens
            return alone or tokens >= self._small or unit.level < begin.level or tokens + self._left[at] > self._size
        return at in self._changes and tokens >= self._small and self._left[at] >= self._small

    def _weakest(self, first: int, last: int, before: Sequence[int]) -> int:
        """Where a chunk that can't hold the unit `last` is cut: where both sides are least alike, of equals the last.

        It fills at least half of its size, and leaves enough behind, when there is such a place.

        Args:
            first: The chunk's first unit.
            last: The first one that doesn't fit.
            before: The tokens up to the end of each unit from `first` to the one before `last`.
        """
        return min(
            range(last, first, -1),
            key=lambda at: (
                before[at - first - 1] * 2 < self._size,
                self._left[at] < self._small,
                self._similarities[at],
            ),
        )

    def _that_fits(self, first: int, stop: int) -> int:
        """Take units off the end until the rest fits by an exact count."""
        while stop - first > 1 and (tokens := self._tokens(first, stop)) > self._size:
            stop = max(first + 1, min(stop - 1, first + (stop - first) * self._size // tokens))
        return stop

    def _joins_back(self, before: int, first: int, stop: int) -> bool:
        """Whether the chunk `first` to `stop` is tiny and goes with the one that begins with `before`."""
        if self._units[first].level < self._units[before].level:
            return False
        return self._tokens(first, stop) < self._small and self._tokens(before, stop) <= self._size

    def _tokens(self, first: int, stop: int) -> int:
        return self._counts.tokens(self._units[first].start, self._units[stop - 1].end)
