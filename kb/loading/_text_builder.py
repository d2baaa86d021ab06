"""Puts the text of a document together and remembers where its headings and blocks are."""

from __future__ import annotations

from typing import Literal

from kb.loading._clean import clean
from kb.records import Block, BlockKind, Heading

_Open = Literal["list", "table"]


class TextBuilder:
    """Collects paragraphs, list items and table rows; all text is cleaned on its way in."""

    def __init__(self) -> None:
        self.headings: list[Heading] = []
        self.blocks: list[Block] = []
        self._parts: list[str] = []
        self._length = 0
        self._open: tuple[BlockKind, int] | None = None

    def paragraph(self, text: str) -> None:
        """Add a paragraph; blank ones are left out."""
        self._close()
        self._add(text.strip(), "\n\n")

    def heading(self, text: str, level: int, words: str) -> None:
        """Add a heading line; `words` is what the heading path shows."""
        self._close()
        span = self._add(" ".join(text.split()), "\n\n")
        if span and words.strip():
            self.headings.append(Heading(level, clean(" ".join(words.split())), *span))

    def list_item(self, text: str) -> None:
        """Add an item with its marker and indent; items that follow each other are one block."""
        self._line("list", text.rstrip())

    def table_row(self, text: str) -> None:
        """Add a row; rows that follow each other are one block until `end_table`."""
        self._line("table", text.rstrip())

    def code(self, text: str) -> None:
        """Add lines whose breaks and indents have a meaning, as one block."""
        self._close()
        span = self._add(text.rstrip(), "\n\n")
        if span:
            self.blocks.append(Block("code", *span))

    def end_table(self) -> None:
        """Close the table, so that one that follows directly is a block of its own."""
        self._close()

    def text(self) -> str:
        """The whole text."""
        self._close()
        return "".join(self._parts)

    def _line(self, kind: _Open, text: str) -> None:
        if self._open and self._open[0] != kind:
            self._close()
        span = self._add(text, "\n" if self._open else "\n\n")
        if span and not self._open:
            self._open = (kind, span[0])

    def _close(self) -> None:
        if self._open:
            self.blocks.append(Block(self._open[0], self._open[1], self._length))
            self._open = None

    def _add(self, text: str, separator: str) -> tuple[int, int] | None:
        text = clean(text)
        if not text.strip():
            return None
        if self._length:
            self._parts.append(separator)
            self._length += len(separator)
        start = self._length
        self._parts.append(text)
        self._length += len(text)
        return start, self._length
