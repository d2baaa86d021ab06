"""Paragraphs between blank lines: short ones joined up to a size, long ones cut by a sliding window.

Sizes are characters, so they hold for every script. Windows end between words, and early where the
embedder's limit would be passed; the report says so.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left

from pydantic import Field

from kb.chunking._boundaries import BLANK_LINE, cuts
from kb.chunking._spans import Budget, Span, build_chunks, counted_for, open_budget, trim
from kb.chunking._windows import Units, Windows, check_overlap, cut_word, open_note, words
from kb.components import Parts
from kb.records import Chunk, Document
from kb.settings import ComponentOptions

SECTION = "chunking.paragraph"


class Options(ComponentOptions):
    """How large chunks are, in characters."""

    size_characters: int = Field(500, ge=1, le=32768)
    overlap_characters: int = Field(50, ge=0)
    header_tokens: int = Field(64, ge=0)


class ParagraphChunker:
    """Joins paragraphs up to `size_characters`, and cuts longer ones; see `Chunker` and `NotesCuts`."""

    def __init__(self, options: Options, budget: Budget, embedder: str, note: str) -> None:
        self._options = options
        self._budget = budget
        self._note = note
        self.fingerprint = (
            f"paragraph/1 size={options.size_characters} overlap={options.overlap_characters} "
            f"header={options.header_tokens} limit={budget.text_tokens} for {embedder}"
        )

    def chunk(self, document: Document) -> tuple[Chunk, ...]:
        """Cut `document`; a blank document gives no chunk."""
        return self.chunk_with_notes(document)[0]

    def chunk_with_notes(self, document: Document) -> tuple[tuple[Chunk, ...], tuple[str, ...]]:
        """Cut `document`, and say whether chunks had to end before their size."""
        text, size, overlap = document.text, self._options.size_characters, self._options.overlap_characters
        windows = Windows(text, self._budget)

        def cut_paragraph(paragraph: Span) -> list[Span]:
            return windows.slide(words(text, *paragraph), size, overlap, cut_long_word, counted=False)

        def cut_long_word(word: Span) -> list[Span]:
            return cut_word(text, word, self._share_filled, size)

        spans = windows.slide(_paragraphs(document), size, 0, cut_paragraph, counted=False)
        return build_chunks(document, spans, self._budget), (self._note,) if windows.ended_early else ()

    def _share_filled(self, text: str) -> int:
        """How full `text` makes a chunk, by characters or tokens, whichever is more; `size_characters` is full."""
        tokens = self._budget.count_tokens(text)
        return max(len(text), -(-tokens * self._options.size_characters // self._budget.text_tokens))


def _paragraphs(document: Document) -> Units:
    """What stands between blank lines; a heading belongs to the paragraph below it."""
    text, headings = document.text, document.headings
    units = Units(array("q"), array("q"))
    left = 0
    start: int | None = None
    for edge in (*cuts(text, 0, len(text), BLANK_LINE), len(text)):
        first, right = trim(text, left, edge)
        left = edge
        if first == right:
            continue
        start = first if start is None else start
        above = bisect_left(headings, right, key=lambda heading: heading.start) - 1
        if edge == len(text) or above < 0 or headings[above].end < right:
            units.starts.append(start)
            units.ends.append(right)
            start = None
    return units


def build(options: Options, parts: Parts) -> ParagraphChunker:
    """Build the chunker for the embedder at hand.

    Raises:
        ConfigError: the header leaves no room for text, or the overlap is more than half a chunk.
    """
    budget = open_budget(SECTION, None, options.header_tokens, parts)
    check_overlap(SECTION, "characters", options.size_characters, options.overlap_characters)
    note = open_note("size_characters", options.size_characters, budget, parts)
    return ParagraphChunker(options, budget, counted_for(parts), note)
