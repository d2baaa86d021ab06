"""Take text apart just as far as needed, and cut it where its own words say.

Of equally good boundaries, a hash of the text behind each decides: those are cut first from which the
next one of lower hash is furthest, as long as parts are too large. So whether a boundary is cut
depends on little more than a chunk's length of text around it. Where chunks are filled one after the
other instead, each boundary depends on the one before, and an edit moves many.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from kb.chunking._boundaries import (
    BLANK_LINE,
    CHARACTER,
    LINE,
    NEVER,
    block_cuts,
    cluster_edge,
    cuts,
    table_head_rows,
)
from kb.chunking._counting import SpanCounts
from kb.chunking._spans import Span, trim
from kb.records import Block

# Running text has 1–5 characters a token. What is longer is not counted before it is taken apart;
# should it fit after all, its parts stay together.
_SURELY_TOO_LONG = 6
# What begins alike, as rows may, is cut where both sides have half of the room.
_EVEN_SHARE = 2
# A side of a quarter is never called small.
_SMALL_SHARE = 4
# So many characters behind a boundary are hashed, few, so that most edits are elsewhere; where those are the
# same, so many.
_HASHED_FIRST, _HASHED_THEN = 16, 64


class Unit(NamedTuple):
    """A trimmed piece of text that is kept whole while it fits."""

    start: int
    end: int
    tokens: int
    boundary: int
    """The kind of boundary that it begins at; NEVER: it stays with the unit before it."""
    finer: int
    """The boundary at which it is taken apart next; NEVER: it is whole."""


class Packer:
    """Cuts sections that are too large for one chunk.

    Args:
        count_tokens: The embedder's count.
        size: The most tokens of a chunk; a block up to this size stays whole.
        room: What of it is filled; the rest is kept for overlap.
        small: Chunks of fewer tokens are avoided.
    """

    def __init__(self, count_tokens: Callable[[str], int], size: int, room: int, small: int) -> None:
        self._count = count_tokens
        self._size = size
        self._room = room
        self._small = min(small, room // _SMALL_SHARE)

    def tokens(self, text: str | SpanCounts, start: int, end: int) -> int:
        """The exact count of `text[start:end]`, or any number over the size when it is certainly larger."""
        if end - start > self._size * _SURELY_TOO_LONG:
            return self._size + 1
        return self._count(text[start:end]) if isinstance(text, str) else text.tokens(start, end)

    def pack(
        self, text: str | SpanCounts, start: int, heading_end: int, end: int, blocks: Sequence[Block]
    ) -> list[Span]:
        """Cut `text[start:end]`, whose heading lines end at `heading_end`, into spans that fit.

        Args:
            text: The document's text, or the counts of its spans.
            start: Where the section begins.
            heading_end: Where its heading lines end; `start` when it has none.
            end: Where it ends.
            blocks: All blocks of the document.
        """
        counts = SpanCounts(text, self._count) if isinstance(text, str) else text
        stack = [self._section_units(counts, start, heading_end, end, blocks)]
        spans: list[Span] = []
        while stack:
            units = stack.pop()
            parts = self._parts(counts, units)
            if len(parts) == 1:
                spans.append((units[0].start, units[-1].end))
            else:
                stack.extend(reversed(parts))
        return spans

    # Text → units

    def _section_units(
        self, counts: SpanCounts, start: int, heading_end: int, end: int, blocks: Sequence[Block]
    ) -> list[Unit]:
        """The heading, then paragraphs and blocks; what follows the heading stays with it."""
        units = self._between(counts, start, heading_end, [], BLANK_LINE, NEVER)
        has_heading = bool(units) and units[0].tokens * 2 <= self._room
        if units and not has_heading:  # a heading of more than half a chunk is text like any other
            units[0] = units[0]._replace(finer=LINE)
        at = heading_end
        for block in blocks[bisect_right(blocks, at, key=lambda b: b.end) :]:
            if block.start >= end:
                break
            units += self._paragraphs(counts, at, block.start)
            # A list or table stays with the line that announces it, when there is a choice.
            announced = counts.text[at : block.start].rstrip().endswith((":", "："))
            at = max(at, block.start)
            units += self._block(counts, at, min(block.end, end), block, LINE if announced else BLANK_LINE)
            at = min(block.end, end)
        units += self._paragraphs(counts, at, end)
        if has_heading and len(units) > 1:
            units[1] = units[1]._replace(boundary=NEVER)
        return units

    def _paragraphs(self, counts: SpanCounts, start: int, end: int) -> list[Unit]:
        return self._between(counts, start, end, cuts(counts.text, start, end, BLANK_LINE), BLANK_LINE, LINE)

    def _block(self, counts: SpanCounts, start: int, end: int, block: Block, boundary: int) -> list[Unit]:
        """A block whole, or its rows, items or lines when it is too large."""
        text = counts.text
        start, end = trim(text, start, end)
        if start == end:
            return []
        tokens = counts.tokens(start, end)
        if tokens <= self._size:
            return [Unit(start, end, tokens, boundary, NEVER)]
        units = self._between(counts, start, end, block_cuts(text, start, end, block.kind), LINE, LINE)
        units[0] = units[0]._replace(boundary=boundary)
        head_rows = table_head_rows(text[start:end]) if block.kind == "table" else 0
        for at in range(1, len(units)):
            if at <= head_rows:
                units[at] = units[at]._replace(boundary=NEVER)
            elif text.count("\n", units[at - 1].end, units[at].start) > 1:
                units[at] = units[at]._replace(boundary=BLANK_LINE)
        return units

    def _between(
        self, counts: SpanCounts, start: int, end: int, offsets: Sequence[int], boundary: int, finer: int
    ) -> list[Unit]:
        """What lies between `offsets`, trimmed, blank pieces left out: nothing else is lost."""
        units = []
        left = start
        for right in (*offsets, end):
            if left < right:
                first, last = trim(counts.text, left, right)
                if first < last:
                    units.append(Unit(first, last, self.tokens(counts, first, last), boundary, finer))
                left = right
        return units

    def _taken_apart(self, counts: SpanCounts, unit: Unit, limit: int) -> list[Unit]:
        """The parts of `unit` at the best boundary it holds."""
        for boundary in range(unit.finer, CHARACTER):
            offsets = cuts(counts.text, unit.start, unit.end, boundary)
            parts = self._between(counts, unit.start, unit.end, offsets, boundary, boundary + 1) if offsets else []
            if len(parts) > 1:
                parts[0] = parts[0]._replace(boundary=unit.boundary)
                return parts
        return self._hard_cut(counts.text, unit, limit)

    def _hard_cut(self, text: str, unit: Unit, limit: int) -> list[Unit]:
        """Text without any boundary, cut by characters; a single character is never refused."""
        units: list[Unit] = []
        start, step = unit.start, limit
        while start < unit.end:
            stop = cluster_edge(text, start, min(unit.end, start + max(1, step)), unit.end)
            tokens = self._count(text[start:stop])
            while tokens > limit and stop - start > 1:
                shorter = max(1, min(stop - start - 1, (stop - start) * limit // tokens))
                stop = cluster_edge(text, start, start + shorter, unit.end)
                tokens = self._count(text[start:stop])
            units.append(Unit(start, stop, tokens, CHARACTER if units else unit.boundary, NEVER))
            # The next piece is probably as dense; never more than twice as long, so that a guess costs little.
            step = (stop - start) * min(2 * tokens, limit) // max(1, tokens)
            start = stop
        return units

    # Units → chunks

    def _parts(self, counts: SpanCounts, units: list[Unit]) -> list[list[Unit]]:
        """`units` as they are when they fit into a chunk; else parts of them, which may still be too large."""
        limit = self._limit(counts, units)
        while limit:
            before = _before(counts, units)
            edges = self._edges(counts.text, units, before, limit)
            if len(edges) > 2:
                return [units[left:right] for left, right in pairwise(edges)]
            at = max(range(len(units)), key=lambda at: (units[at].finer != NEVER, units[at].tokens))
            if units[at].finer != NEVER and (units[at].tokens > self._small or len(units) == 1):
                others = before[-1] - units[at].tokens
                units[at : at + 1] = self._taken_apart(counts, units[at], max(1, limit - others))
            elif len(units) == 1:
                break
            else:  # whatever is cut, something small or torn from its heading is left
                at = min(range(1, len(units)), key=lambda at: (units[at].boundary, abs(before[-1] - 2 * before[at])))
                return [units[:at], units[at:]]
        return [units]

    def _limit(self, counts: SpanCounts, units: list[Unit]) -> int:
        """How much of what the units count by themselves fits into a chunk; 0 when it is all of it."""
        total = _before(counts, units)[-1]
        if total > self._room:
            return self._room
        tokens = counts.tokens(units[0].start, units[-1].end) if len(units) > 1 else total
        return max(1, total * self._room // tokens) if tokens > self._room else 0

    def _edges(self, text: str, units: list[Unit], before: list[int], limit: int) -> list[int]:
        """Where parts begin, and the end: the best boundaries, as many as leave no more than `limit` between."""
        edges = [0, len(units)]
        small = max(1, self._small)
        for kind in sorted({unit.boundary for unit in units[1:]} - {NEVER}):
            places = [at for at in range(1, len(units)) if units[at].boundary == kind]
            ranks = {at: content_rank(text, units[at].start) for at in places}
            reaches = _reaches(places, ranks, before)
            order = sorted(places, key=lambda at: (-reaches[at], abs(before[-1] - 2 * before[at])))
            for far, least in ((small, small), (0, limit // _EVEN_SHARE), (0, small)):
                for at in order:
                    place = bisect_right(edges, at)
                    left, right = before[at] - before[edges[place - 1]], before[edges[place]] - before[at]
                    if reaches[at] >= far and left + right > limit and min(left, right) >= least > 0:
                        edges.insert(place, at)
        return edges


def _reaches(places: list[int], ranks: dict[int, tuple[int, int]], before: list[int]) -> dict[int, int]:
    """How many tokens away, on either side, the next one of no higher rank is, or the end."""
    reaches = {at: min(before[at], before[-1] - before[at]) for at in places}
    for order in (places, places[::-1]):
        lower: list[int] = []  # those that no later one is below
        for at in order:
            while lower and ranks[lower[-1]] > ranks[at]:
                lower.pop()
            if lower:
                reaches[at] = min(reaches[at], abs(before[at] - before[lower[-1]]))
            lower.append(at)
    return reaches


def content_rank(text: str, start: int) -> tuple[int, int]:
    """What the boundary at `start` is compared by: the same wherever the text behind it stands."""
    first, then = text[start : start + _HASHED_FIRST], text[start : start + _HASHED_THEN]
    return zlib.crc32(first.encode()), zlib.crc32(then.encode())


def _before(counts: SpanCounts, units: list[Unit]) -> list[int]:
    """How many tokens stand before each unit, and before the end, by what each counts alone."""
    gaps = [0, *(counts.blank_tokens(left.end, right.start) for left, right in pairwise(units))]
    return [0, *accumulate(gap + unit.tokens for gap, unit in zip(gaps, units, strict=True))]
