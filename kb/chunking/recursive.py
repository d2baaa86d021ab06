"""Cut at natural boundaries: heading, blank line, line, sentence, clause, space, character.

A section (heading lines and what stands below them) is cut by itself, so that an edit moves
boundaries in its own section only; tiny neighbours are joined. Inside a section, text is taken
apart just as far as needed to fit, and cut at the best boundaries; which of equally good ones, the
text behind them decides, so that an edit moves boundaries near it only. Tables, code, lists and
formulas stay whole when they fit.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from pydantic import Field

from kb.chunking._counting import SpanCounts
from kb.chunking._packing import Packer, content_rank
from kb.chunking._spans import Budget, Span, build_chunks, counted_for, open_budget, trim
from kb.components import Parts
from kb.errors import ConfigError
from kb.records import Block, Chunk, Document
from kb.sentences import sentence_spans
from kb.settings import ComponentOptions

SECTION = "chunking.recursive"

# The level of text that goes on after a page's end: below every heading.
_PAGE_LEVEL = 99
_FINISHED = re.compile(r"[.!?…。！？｡؟।][\])）」』”’\"']*\s*$")
# A full stop, what closes behind it, and the white space up to the next page.
_FINISHED_CHARACTERS = 16


class Options(ComponentOptions):
    """How large chunks are, in tokens of the embedder."""

    size_tokens: int = Field(200, ge=16, le=8192)
    overlap_tokens: int = Field(0, ge=0)
    min_tokens: int = Field(48, ge=0)
    header_tokens: int = Field(64, ge=0)


class _Section(NamedTuple):
    """Heading lines and what stands below them, up to the next heading or finished page."""

    start: int
    end: int
    heading_end: int
    level: int
    tokens: int


class RecursiveChunker:
    """Packs natural pieces into chunks of at most `size_tokens` of the embedder's tokens."""

    def __init__(self, options: Options, budget: Budget, embedder: str) -> None:
        self._options = options
        self._budget = budget
        room = options.size_tokens - options.overlap_tokens
        self._packer = Packer(budget.count_tokens, options.size_tokens, room, options.min_tokens)
        self.fingerprint = (
            f"recursive/2 size={options.size_tokens} overlap={options.overlap_tokens} "
            f"min={options.min_tokens} header={options.header_tokens} for {embedder}"
        )

    def chunk(self, document: Document) -> tuple[Chunk, ...]:
        """Cut `document`; a blank document gives no chunk."""
        counts = SpanCounts(document.text, self._budget.count_tokens, self._budget.count_words)
        spans: list[Span] = []
        for part in self._joined(counts, list(self._sections(counts, document))):
            if part.tokens <= self._options.size_tokens:
                spans.append((part.start, part.end))
            else:
                spans += self._packer.pack(counts, part.start, part.heading_end, part.end, document.blocks)
        if self._options.overlap_tokens:
            spans = self._overlapped(document, spans)
        return build_chunks(document, spans, self._budget)

    def _sections(self, counts: SpanCounts, document: Document) -> Iterator[_Section]:
        """The sections that hold text, in order; together all of it."""
        text = document.text
        starts = [(0, 0, 0)]  # start, end of its heading lines, level
        for start, heading_end, level in _edges(document):
            first, open_end, upper = starts[-1]
            if text[open_end:start].strip():
                starts.append((start, heading_end, level))
            elif level != _PAGE_LEVEL:  # heading lines that follow each other belong to what follows them
                starts[-1] = first, heading_end, min(upper, level) or level
        ends = [start for start, _, _ in starts[1:]] + [len(text)]
        for (start, heading_end, level), end in zip(starts, ends, strict=True):
            left, right = trim(text, start, end)
            if left < right:
                heading_end = max(left, min(heading_end, right))
                yield _Section(left, right, heading_end, level, self._packer.tokens(counts, left, right))

    def _joined(self, counts: SpanCounts, sections: list[_Section]) -> list[_Section]:
        """Join a tiny section with the next one; where that doesn't go, with the one before.

        Of many tiny ones in a row a hash of their text decides which come together, so that an edit
        changes that near it only.
        """
        order = sorted(range(1, len(sections)), key=lambda at: content_rank(counts.text, sections[at].start))
        groups = dict(enumerate(sections))  # by the first section of each
        first, last = list(range(len(sections))), list(range(len(sections)))  # of the group that ends, begins there
        for tiny in (0, 1):
            for at in order:
                if at not in groups:
                    continue
                start, end = first[at - 1], last[at]
                pair = groups[start], groups[at]
                joined = self._join(counts, *pair) if pair[tiny].tokens < self._options.min_tokens else None
                if joined:
                    groups[start] = joined
                    first[end], last[start] = start, end
                    del groups[at]
        return list(groups.values())

    def _join(self, counts: SpanCounts, left: _Section, right: _Section) -> _Section | None:
        """Both as one when they fit and the second is not of a higher rank: its path would be wrong."""
        size = self._options.size_tokens
        if right.level < left.level or left.tokens + right.tokens > size:
            return None
        tokens = self._packer.tokens(counts, left.start, right.end)
        return left._replace(end=right.end, tokens=tokens) if tokens <= size else None

    def _overlapped(self, document: Document, spans: list[Span]) -> list[Span]:
        """Begin each chunk with the last sentences of the one before."""
        starts = [self._overlap_start(document, before, span) for before, span in pairwise(spans)]
        return spans[:1] + [(start, end) for start, (_, end) in zip(starts, spans[1:], strict=True)]

    def _overlap_start(self, document: Document, before: Span, span: Span) -> int:
        """Where up to `overlap_tokens` before `span` begin, at a sentence; its own start when there are none.

        Nothing is taken from above a heading, whose path would then be wrong, nor from or into a block.
        """
        text, count, start = document.text, self._budget.count_tokens, span[0]
        lowest = max(before[0] + 1, _last_obstacle(document, start))
        if lowest >= start:
            return start
        starts, tokens = [start], 0
        for left, right in reversed(sentence_spans(text[slice(*before)])):
            tokens += count(text[before[0] + left : before[0] + right])
            if tokens > self._options.overlap_tokens or before[0] + left < lowest:
                break
            starts.append(before[0] + left)
        while starts[-1] < start and (
            count(text[starts[-1] : start]) > self._options.overlap_tokens
            or count(text[starts[-1] : span[1]]) > self._options.size_tokens
        ):
            starts.pop()
        return starts[-1]


def _edges(document: Document) -> list[tuple[int, int, int]]:
    """(start, end of the heading line, level) of headings and of pages that begin after a finished sentence."""
    text, blocks = document.text, document.blocks
    edges = [(heading.start, heading.end, heading.level) for heading in document.headings]
    for page in document.pages:
        if _FINISHED.search(text[max(0, page.start - _FINISHED_CHARACTERS) : page.start]):
            edges.append((page.start, page.start, _PAGE_LEVEL))
    edges.sort()
    return [edge for edge in edges if not _inside(blocks, edge[0])]


def _inside(blocks: tuple[Block, ...], offset: int) -> bool:
    """Whether `offset` would cut one of `blocks`."""
    at = bisect_left(blocks, offset, key=lambda block: block.start) - 1
    return at >= 0 and offset < blocks[at].end


def _last_obstacle(document: Document, offset: int) -> int:
    """The end of the last heading or block that begins at or before `offset`."""
    ends = [0]
    for marks in (document.headings, document.blocks):
        at = bisect_right(marks, offset, key=lambda mark: mark.start) - 1
        if at >= 0:
            ends.append(marks[at].end)
    return max(ends)


def build(options: Options, parts: Parts) -> RecursiveChunker:
    """Build the chunker for the embedder at hand.

    Raises:
        ConfigError: a chunk with its header would not fit the embedder, or the overlap is more than
            half a chunk.
    """
    budget = open_budget(SECTION, options.size_tokens, options.header_tokens, parts)
    if options.overlap_tokens * 2 > options.size_tokens:
        raise ConfigError(
            f"[{SECTION}] overlap_tokens = {options.overlap_tokens}; allowed: at most {options.size_tokens // 2}, "
            "half of size_tokens"
        )
    return RecursiveChunker(options, budget, counted_for(parts))
