"""Take text apart just as far as needed, and pack the pieces into chunks at the best boundaries."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import NamedTuple

from kb.chunking._boundaries import (
    BLANK_LINE,
    CHARACTER,
    LINE,
    NEVER,
    SENTENCE,
    block_cuts,
    cluster_edge,
    cuts,
    table_head_rows,
)
from kb.chunking._spans import Span, trim
from kb.records import Block

# Running text has 1–5 characters a token. What is longer is not counted before it is taken apart;
# should it fit after all, its parts are packed together again.
_SURELY_TOO_LONG = 6
# A chunk that fills less than a quarter of its room is not closed when what follows can be cut,
# and what is cut for it must have a quarter of the room.
_SMALL_SHARE = 4
# Ways to even out the last two chunks that are tried, best first; each costs two counts.
_EVEN_OUT_TRIES = 3


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

    def tokens(self, text: str, start: int, end: int) -> int:
        """The exact count of `text[start:end]`, or any number over the size when it is certainly larger."""
        if end - start > self._size * _SURELY_TOO_LONG:
            return self._size + 1
        return self._count(text[start:end])

    def pack(self, text: str, start: int, heading_end: int, end: int, blocks: Sequence[Block]) -> list[Span]:
        """Cut `text[start:end]`, whose heading lines end at `heading_end`, into spans that fit.

        Args:
            text: The document's text.
            start: Where the section begins.
            heading_end: Where its heading lines end; `start` when it has none.
            end: Where it ends.
            blocks: All blocks of the document.
        """
        stack = self._section_units(text, start, heading_end, end, blocks)[::-1]
        chunks: list[list[Unit]] = []
        while stack:
            chunks.append(self._next_chunk(text, stack))
        self._even_out(text, chunks)
        return [(chunk[0].start, chunk[-1].end) for chunk in chunks]

    # Text → units

    def _section_units(self, text: str, start: int, heading_end: int, end: int, blocks: Sequence[Block]) -> list[Unit]:
        """The heading, then paragraphs and blocks; what follows the heading stays with it."""
        units = self._between(text, start, heading_end, [], BLANK_LINE, NEVER)
        has_heading = bool(units) and units[0].tokens * 2 <= self._room
        if units and not has_heading:  # a heading of more than half a chunk is text like any other
            units[0] = units[0]._replace(finer=LINE)
        at = heading_end
        for block in blocks[bisect_right(blocks, at, key=lambda b: b.end) :]:
            if block.start >= end:
                break
            units += self._paragraphs(text, at, block.start)
            # A list or table stays with the line that announces it, when there is a choice.
            announced = text[at : block.start].rstrip().endswith((":", "："))
            at = max(at, block.start)
            units += self._block(text, at, min(block.end, end), block, LINE if announced else BLANK_LINE)
            at = min(block.end, end)
        units += self._paragraphs(text, at, end)
        if has_heading and len(units) > 1:
            units[1] = units[1]._replace(boundary=NEVER)
        return units

    def _paragraphs(self, text: str, start: int, end: int) -> list[Unit]:
        return self._between(text, start, end, cuts(text, start, end, BLANK_LINE), BLANK_LINE, LINE)

    def _block(self, text: str, start: int, end: int, block: Block, boundary: int) -> list[Unit]:
        """A block whole, or its rows, items or lines when it is too large."""
        start, end = trim(text, start, end)
        if start == end:
            return []
        tokens = self._count(text[start:end])
        if tokens <= self._size:
            return [Unit(start, end, tokens, boundary, NEVER)]
        units = self._between(text, start, end, block_cuts(text, start, end, block.kind), LINE, LINE)
        units[0] = units[0]._replace(boundary=boundary)
        head_rows = table_head_rows(text[start:end]) if block.kind == "table" else 0
        for at in range(1, len(units)):
            if at <= head_rows:
                units[at] = units[at]._replace(boundary=NEVER)
            elif text.count("\n", units[at - 1].end, units[at].start) > 1:
                units[at] = units[at]._replace(boundary=BLANK_LINE)
        return units

    def _between(
        self, text: str, start: int, end: int, offsets: Sequence[int], boundary: int, finer: int
    ) -> list[Unit]:
        """What lies between `offsets`, trimmed, blank pieces left out: nothing else is lost."""
        units = []
        left = start
        for right in (*offsets, end):
            if left < right:
                first, last = trim(text, left, right)
                if first < last:
                    units.append(Unit(first, last, self.tokens(text, first, last), boundary, finer))
                left = right
        return units

    def _taken_apart(self, text: str, unit: Unit, limit: int, finest: int) -> list[Unit]:
        """The parts of `unit` at the best boundary it holds, down to `finest`; itself when it holds none."""
        for boundary in range(unit.finer, min(finest, CHARACTER - 1) + 1):
            offsets = cuts(text, unit.start, unit.end, boundary)
            parts = self._between(text, unit.start, unit.end, offsets, boundary, boundary + 1) if offsets else []
            if len(parts) > 1:
                parts[0] = parts[0]._replace(boundary=unit.boundary)
                return parts
        return self._hard_cut(text, unit, limit) if finest >= CHARACTER else [unit._replace(finer=finest + 1)]

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

    def _next_chunk(self, text: str, stack: list[Unit]) -> list[Unit]:
        """Take the units of one chunk off the stack; together they fit by an exact count."""
        limit, most = self._room, len(text)
        while True:
            taken = self._filled(text, stack, limit, most)
            if len(taken) == 1:
                return taken
            tokens = self._count(text[taken[0].start : taken[-1].end])
            if tokens <= self._room:
                return taken
            limit = max(taken[0].tokens, sum(_weights(taken)) * self._room // tokens)
            most = len(taken) - 1
            stack.extend(reversed(taken))

    def _filled(self, text: str, stack: list[Unit], limit: int, most: int) -> list[Unit]:
        """Take units while their counts add up to `limit`, then go back to the best boundary."""
        taken: list[Unit] = []
        tokens = 0
        while stack and len(taken) < most:
            unit = stack[-1]
            left = limit - tokens - (_gap(taken[-1], unit) if taken else 0)
            if unit.tokens <= left or (unit.finer == NEVER and not taken):
                taken.append(stack.pop())
                tokens = limit - left + unit.tokens
                continue
            finest = self._finest(unit, taken, tokens, left, limit)
            if unit.finer > finest:
                break
            stack.extend(reversed(self._taken_apart(text, stack.pop(), left, finest)))
        _go_back(taken, stack, limit)
        return taken

    def _finest(self, unit: Unit, taken: list[Unit], tokens: int, left: int, limit: int) -> int:
        """How finely `unit` may be taken apart to go on after `taken`; −1: not at all."""
        if not taken:
            return CHARACTER
        if left * _SMALL_SHARE < limit:
            return -1
        if unit.boundary == NEVER and all(before.boundary == NEVER for before in taken[1:]):
            return CHARACTER
        return SENTENCE if tokens < self._small else -1

    def _even_out(self, text: str, chunks: list[list[Unit]]) -> None:
        """Move the last boundary back when the last chunk is small."""
        if len(chunks) < 2 or sum(_weights(chunks[-1])) >= self._small:
            return
        units = chunks[-2] + chunks[-1]
        before = list(accumulate(_weights(units)))
        ways = sorted(
            (units[at].boundary, abs(before[-1] - 2 * before[at - 1]), at)
            for at in range(1, len(chunks[-2]))
            if units[at].boundary != NEVER and self._small <= before[at - 1] <= before[-1] - self._small
        )
        for _, _, at in ways[:_EVEN_OUT_TRIES]:
            parts = units[:at], units[at:]
            if all(self._count(text[part[0].start : part[-1].end]) <= self._room for part in parts):
                chunks[-2:] = parts
                return


def _go_back(taken: list[Unit], stack: list[Unit], limit: int) -> None:
    """Give back what is behind the best boundary in the second half, of equals the last one.

    Units that stay together are not parted while there is any other boundary.
    """
    if not stack:
        return
    best, at = stack[-1].boundary, len(taken)
    tokens = list(accumulate(_weights(taken)))
    for before in range(len(taken) - 1, 0, -1):
        if tokens[before - 1] * 2 < limit and best != NEVER:
            break
        if taken[before].boundary < best:
            best, at = taken[before].boundary, before
    stack.extend(reversed(taken[at:]))
    del taken[at:]


def _weights(units: list[Unit]) -> list[int]:
    """What each unit adds to a chunk's count."""
    return [unit.tokens + (_gap(units[at - 1], unit) if at else 0) for at, unit in enumerate(units)]


def _gap(before: Unit, after: Unit) -> int:
    """The tokens that the white space between two units may have: none for a space, one for a blank line."""
    return (after.start - before.end + 2) // 4
