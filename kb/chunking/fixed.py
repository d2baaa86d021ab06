"""Windows of words, whatever stands in them: the plainest way to cut, and the one to compare others with.

A window ends early where the embedder's limit would be passed; the report says so. Where Chinese and
Japanese have no spaces, two characters count as a word.
"""

from __future__ import annotations

from pydantic import Field

from kb.chunking._spans import Budget, Span, build_chunks, counted_for, open_budget
from kb.chunking._windows import Windows, check_overlap, cut_word, open_note, words
from kb.components import Parts
from kb.records import Chunk, Document
from kb.settings import ComponentOptions

SECTION = "chunking.fixed"


class Options(ComponentOptions):
    """How large windows are, in words."""

    size_words: int = Field(500, ge=1, le=8192)
    overlap_words: int = Field(100, ge=0)
    header_tokens: int = Field(64, ge=0)


class FixedChunker:
    """Slides a window of `size_words` over the words of a document; see `Chunker` and `NotesCuts`."""

    def __init__(self, options: Options, budget: Budget, embedder: str, note: str) -> None:
        self._options = options
        self._budget = budget
        self._note = note
        self.fingerprint = (
            f"fixed/1 size={options.size_words} overlap={options.overlap_words} header={options.header_tokens} "
            f"limit={budget.text_tokens} for {embedder}"
        )

    def chunk(self, document: Document) -> tuple[Chunk, ...]:
        """Cut `document`; a blank document gives no chunk."""
        return self.chunk_with_notes(document)[0]

    def chunk_with_notes(self, document: Document) -> tuple[tuple[Chunk, ...], tuple[str, ...]]:
        """Cut `document`, and say whether windows had to end before their size."""
        text, options, budget = document.text, self._options, self._budget

        def cut(word: Span) -> list[Span]:
            return cut_word(text, word, budget.count_tokens, budget.text_tokens)

        windows = Windows(text, budget)
        found = words(text, 0, len(text))
        spans = windows.slide(found, options.size_words, options.overlap_words, cut, counted=True)
        return build_chunks(document, spans, budget), (self._note,) if windows.ended_early else ()


def build(options: Options, parts: Parts) -> FixedChunker:
    """Build the chunker for the embedder at hand.

    Raises:
        ConfigError: the header leaves no room for text, or the overlap is more than half a window.
    """
    budget = open_budget(SECTION, None, options.header_tokens, parts)
    check_overlap(SECTION, "words", options.size_words, options.overlap_words)
    note = open_note("size_words", options.size_words, budget, parts)
    return FixedChunker(options, budget, counted_for(parts), note)
