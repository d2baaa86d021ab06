"""Tables of a page: rows of cells where they hold data, text in reading order where they only arrange it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kb.loading._text_builder import TextBuilder

MAX_DEPTH = 8
"""Tables nested deeper only arrange; each level of rows copies the text of those below."""
MAX_PARAGRAPHS = 3
"""A cell with more is a column of a page; without a header cell nothing says that it is data."""
MAX_SPAN = 63
"""Columns and rows that one cell may cover, as in Word; more is damage, or means "all"."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of the page in reading order, or a group of them."""

    kind: str
    """`paragraph`, `heading`, `list`, `code`, `row`; groups: `group`, `table`, `menu`."""
    text: str = ""
    level: int = 0
    inner: list[Piece] = field(default_factory=list)


@dataclass(slots=True)
class _Cell:
    span: int
    rows: int
    pieces: list[Piece] = field(default_factory=list)


class Table:
    """Collects the cells of one table."""

    def __init__(self, *, depth: int, arranges: bool) -> None:
        """Begin a table; `arranges` is set when the page says that it holds no data."""
        self.caption: list[Piece] = []
        self._arranges = arranges or depth > MAX_DEPTH
        self._rows: list[list[_Cell]] = []
        self._has_header = False
        self._in_row = False

    def begin_row(self) -> None:
        """Begin a row."""
        self._rows.append([])
        self._in_row = True

    def end_row(self) -> None:
        """End the row; a cell that follows begins another."""
        self._in_row = False

    def cell(self, attributes: Mapping[str, str], *, header: bool) -> list[Piece]:
        """Begin a cell; gives the list for its pieces."""
        if not self._in_row:
            self.begin_row()
        self._has_header = self._has_header or header
        cell = _Cell(_span(attributes.get("colspan")), _span(attributes.get("rowspan")))
        self._rows[-1].append(cell)
        return cell.pieces

    def piece(self) -> Piece:
        """The whole table."""
        if self._is_data():
            table = Piece("table", inner=[Piece("row", line) for line in self._lines()])
            return Piece("group", inner=[*self.caption, table])
        cells = [Piece("group", inner=cell.pieces) for row in self._rows for cell in row]
        return Piece("group", inner=[*self.caption, *cells])

    def _is_data(self) -> bool:
        if self._arranges or all(len(row) <= 1 for row in self._rows):
            return False
        return self._has_header or not any(_is_column(cell.pieces) for row in self._rows for cell in row)

    def _lines(self) -> Iterable[str]:
        """The rows as text; a cell that covers others is written once, with empty ones after it."""
        covered: dict[int, int] = {}  # by column, the first row that is free again
        for number, row in enumerate(self._rows):
            texts: list[str] = []
            for cell in row:
                while covered.get(len(texts), 0) > number:
                    texts.append("")
                for column in range(len(texts), min(len(texts) + cell.span, MAX_SPAN)) if cell.rows > 1 else ():
                    covered[column] = number + cell.rows
                texts += [_words(cell.pieces), *[""] * (cell.span - 1)]
            while texts and not texts[-1]:
                texts.pop()
            yield " | ".join(texts)


def write(pieces: Iterable[Piece], out: TextBuilder, *, menus: bool) -> None:
    """Write pieces in order, those of menus too where `menus` is set."""
    waiting = [*pieces][::-1]
    while waiting:
        piece = waiting.pop()
        if piece.kind == "paragraph":
            out.paragraph(piece.text)
        elif piece.kind == "heading":
            out.heading(piece.text, piece.level, piece.text)
        elif piece.kind == "list":
            out.list_item(piece.text)
        elif piece.kind == "code":
            out.code(piece.text)
        elif piece.kind == "row":
            out.table_row(piece.text)
        elif piece.kind == "end":
            out.end_table()
        elif piece.kind == "table":
            out.end_table()
            waiting.append(Piece("end"))
            waiting += piece.inner[::-1]
        elif piece.kind == "group" or menus:
            waiting += piece.inner[::-1]


def _words(pieces: Iterable[Piece]) -> str:
    """All text of a cell on one line."""
    texts = []
    waiting = [*pieces][::-1]
    while waiting:
        piece = waiting.pop()
        texts.append(piece.text)
        waiting += piece.inner[::-1]
    return " ".join(" ".join(texts).split())


def _is_column(pieces: list[Piece]) -> bool:
    paragraphs = sum(1 for piece in pieces if piece.kind == "paragraph")
    return paragraphs > MAX_PARAGRAPHS or any(piece.kind in ("heading", "code", "group") for piece in pieces)


def _span(value: str | None) -> int:
    digits = (value or "").strip()
    return max(1, min(int(digits[:4]), MAX_SPAN)) if digits.isascii() and digits.isdigit() else 1
