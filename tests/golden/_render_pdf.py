"""Render a source as a PDF: one A4 page for each of its pages, fonts embedded, the same bytes every time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import groupby, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

from _fonts import BOLD, LATIN, REGULAR, WIDE, Fonts, cut_fonts
from _line_breaking import Character, Line, break_lines, widest_piece
from _source import Block, Heading, Item, Paragraph, Run, Source, SourceError, Table
from fpdf import FPDF

# Points throughout; A4 is 595 by 842.
LEFT, RIGHT, TOP, BOTTOM = 62.0, 533.0, 56.0, 782.0
FOOTER_Y, FOOTER_SIZE = 808.0, 8.0
CELL_PADDING = 4.0
INDENT_EM = 1.7  # a level of lists
# Space before and after, in em; of two neighbours' the larger counts.
GAPS = {Heading: (1.25, 0.45), Paragraph: (0.7, 0.7), Item: (0.25, 0.25), Table: (0.7, 0.9)}
HEADING_SCALE = {1: 1.75, 2: 1.3, 3: 1.1}
GREY = 110
CREATED = datetime(2026, 1, 15, 9, 0, tzinfo=UTC)  # fixed, so that the bytes are


@dataclass(frozen=True, slots=True)
class Fit:
    """How tight the text is set: its size in points, and line height and gaps as multiples."""

    size: float
    leading: float
    gap: float


# The first that lets every page of a document fit is taken; Han and kana want more leading than Latin.
LATIN_FITS = (Fit(10.5, 1.42, 1.0), Fit(10.5, 1.36, 0.8), Fit(10, 1.36, 0.8), Fit(9.5, 1.34, 0.7), Fit(9, 1.3, 0.5))
WIDE_FITS = (Fit(10.5, 1.65, 1.0), Fit(10.5, 1.55, 0.8), Fit(10, 1.5, 0.8), Fit(9.5, 1.46, 0.7), Fit(9, 1.4, 0.5))


def render_pdf(source: Source, target: Path) -> Fit:
    """Write a source as a PDF, and say how tight it had to be set.

    Raises:
        SourceError: There are footnotes, or pages that don't fit in the tightest setting; the message names them.
        FontError: A font isn't installed, or lacks a character.
    """
    if source.notes:
        raise SourceError(f"{source.path}: footnotes are for DOCX only; write them as text")
    overfull: dict[int, float] = {}
    fits = LATIN_FITS if source.language == "en" else WIDE_FITS
    with TemporaryDirectory() as folder:
        fonts = cut_fonts(source.language, _characters(source), Path(folder))
        for fit in fits:
            pdf = _open_pdf(source, fonts)
            overfull = _write_pages(_Writer(pdf, fit, fonts.latin), source)
            if not overfull:
                target.write_bytes(bytes(pdf.output()))
                return fit
    pages = ", ".join(f"page {page} by {lines:.0f} lines" for page, lines in overfull.items())
    raise SourceError(f"{source.path}: too long at {fits[-1].size} pt: {pages}; move or shorten text there")


def _characters(source: Source) -> set[str]:
    text = "".join(run.text for run in source.runs())
    return set(f"{source.title}{text}0123456789 ./•") - {"\n"}


def _open_pdf(source: Source, fonts: Fonts) -> FPDF:
    pdf = FPDF(unit="pt", format="A4")
    pdf.set_auto_page_break(False)
    pdf.set_margin(0)
    pdf.set_title(source.title)
    pdf.set_author(source.author)
    pdf.set_lang(source.locale)
    pdf.set_creator("Harborline")
    pdf.set_producer("fpdf2")
    pdf.set_creation_date(CREATED)
    for (family, style), path in fonts.paths.items():
        pdf.add_font(family, style, path)
    return pdf


def _write_pages(writer: _Writer, source: Source) -> dict[int, float]:
    """Write every page; give the number of lines by which pages are too long, by page."""
    overfull = {}
    for number, page in enumerate(source.pages, start=1):
        writer.pdf.add_page()
        writer.y, writer.gap = TOP, 0.0
        for block in page:
            writer.write(block)
        writer.write_footer(source.title, f"{number} / {len(source.pages)}")
        if writer.y > BOTTOM:
            overfull[number] = max(1.0, (writer.y - BOTTOM) / (writer.fit.size * writer.fit.leading))
    return overfull


@dataclass(slots=True)
class _Writer:
    """Puts blocks on the open page from top to bottom; `gap` is the space owed before the next one."""

    pdf: FPDF
    fit: Fit
    latin: frozenset[str]
    y: float = TOP
    gap: float = 0.0
    widths: dict[Character, float] = field(default_factory=dict)  # at one point

    def write(self, block: Block) -> None:
        """Put one block below the last one, even where the page is full."""
        before, after = (gap * self.fit.gap * self.fit.size for gap in GAPS[type(block)])
        if self.y > TOP:
            self.y += max(before, self.gap)
        self.gap = after
        match block:
            case Heading():
                self._write_heading(block)
            case Item():
                self._write_item(block)
            case Table():
                self._write_table(block)
            case Paragraph():
                self._write_text(block.runs, LEFT, self.fit.size, self.fit.leading)

    def write_footer(self, title: str, folio: str) -> None:
        """Put title and page number below a thin rule at the foot of the page."""
        self._rule(LEFT, RIGHT, FOOTER_Y - 14, 0.4)
        self.pdf.set_text_color(GREY)
        self._draw((Run(title),), LEFT, FOOTER_Y, FOOTER_SIZE)
        self._draw((Run(folio),), RIGHT - self._width(folio, FOOTER_SIZE), FOOTER_Y, FOOTER_SIZE)
        self.pdf.set_text_color(0)

    def _write_heading(self, heading: Heading) -> None:
        text = "".join(run.text for run in heading.runs)
        self.pdf.start_section(text, level=heading.level - 1, strict=False)
        self._write_text((Run(text, bold=True),), LEFT, self.fit.size * HEADING_SCALE[heading.level], 1.3)

    def _write_item(self, item: Item) -> None:
        size, leading = self.fit.size, self.fit.leading
        x = LEFT + (item.depth + 1) * INDENT_EM * size
        marker = Run("•" if item.number is None else f"{item.number}.")
        self._draw((marker,), x - 1.2 * size, self.y + _ascent(size, leading), size)
        self._write_text(item.runs, x, size, leading)

    def _write_text(self, runs: tuple[Run, ...], x: float, size: float, leading: float) -> None:
        for line in self._lines(runs, RIGHT - x, size):
            self._draw(line, x, self.y + _ascent(size, leading), size)
            self.y += size * leading

    def _write_table(self, table: Table) -> None:
        """Put a table with a rule below every row; cell by cell, so that a cell's lines stay together in the file."""
        size, leading = self.fit.size * 0.94, self.fit.leading * 0.94
        header = tuple(tuple(replace(run, bold=True) for run in cell) for cell in table.rows[0])
        rows = (header, *table.rows[1:])
        edges = self._column_edges(rows, size)
        self._rule(LEFT, RIGHT, self.y, 0.9)
        for index, row in enumerate(rows):
            cells = [
                self._lines(cell, right - left - 2 * CELL_PADDING, size)
                for cell, (left, right) in zip(row, pairwise(edges), strict=True)
            ]
            height = max(map(len, cells)) * size * leading + CELL_PADDING
            if index == 0:
                self.pdf.set_fill_color(238)
                self.pdf.rect(LEFT, self.y, RIGHT - LEFT, height, style="F")
                self._rule(LEFT, RIGHT, self.y, 0.9)
            for left, lines in zip(edges, cells, strict=False):
                for i, line in enumerate(lines):
                    baseline = self.y + CELL_PADDING / 2 + i * size * leading + _ascent(size, leading)
                    self._draw(line, left + CELL_PADDING, baseline, size)
            self.y += height
            self._rule(LEFT, RIGHT, self.y, 0.9 if index in (0, len(rows) - 1) else 0.3)

    def _column_edges(self, rows: tuple[tuple[tuple[Run, ...], ...], ...], size: float) -> list[float]:
        """Share out the width: in proportion to the cells if they fit on one line each, else what is left over."""

        def measure(character: Character) -> float:
            return self._measure(character, size)

        least, liked = [], []
        for column in zip(*rows, strict=True):
            natural = [sum(self._width(run.text, size, bold=run.bold) for run in cell) for cell in column]
            liked.append(max(natural) + 2 * CELL_PADDING + 0.1)  # a hair more than the text, for rounding
            word = max(widest_piece(cell, measure) for cell in column)
            least.append(min(max(word, 5 * size), max(natural)) + 2 * CELL_PADDING)
        if sum(liked) <= RIGHT - LEFT:
            least = liked
        spare = RIGHT - LEFT - sum(least)
        wishes = liked if least is liked else [wish - floor for wish, floor in zip(liked, least, strict=True)]
        edges = [LEFT]
        for floor, wish in zip(least, wishes, strict=True):
            edges.append(edges[-1] + floor + spare * wish / sum(wishes))
        return edges

    def _lines(self, runs: tuple[Run, ...], width: float, size: float) -> list[Line]:
        return break_lines(runs, width, lambda character: self._measure(character, size))

    def _draw(self, line: Line, x: float, baseline: float, size: float) -> None:
        for run in line:
            for latin, text in self._stretches(run.text):
                self.pdf.set_font(LATIN if latin else WIDE, BOLD if run.bold else REGULAR, size)
                self.pdf.text(x, baseline, text)
                x += self._width(text, size, bold=run.bold)

    def _stretches(self, text: str) -> list[tuple[bool, str]]:
        """Cut a text where its font changes, and say which stretches are Latin; a space at the end never stands alone.

        PDFium leaves out what consists of spaces only, and with it the word boundary at the end of a line.
        """
        visible = text.rstrip(" ") or text
        stretches = [(latin, "".join(group)) for latin, group in groupby(visible, self.latin.__contains__)]
        if stretches:
            latin, last = stretches[-1]
            stretches[-1] = latin, last + text[len(visible) :]
        return stretches

    def _measure(self, character: Character, size: float) -> float:
        if character not in self.widths:
            text, bold = character
            self.pdf.set_font(LATIN if text in self.latin else WIDE, BOLD if bold else REGULAR, 1000)
            self.widths[character] = self.pdf.get_string_width(text) / 1000
        return self.widths[character] * size

    def _width(self, text: str, size: float, *, bold: bool = False) -> float:
        return sum(self._measure((character, bold), size) for character in text)

    def _rule(self, left: float, right: float, y: float, thickness: float) -> None:
        self.pdf.set_line_width(thickness)
        self.pdf.set_draw_color(GREY)
        self.pdf.line(left, y, right, y)


def _ascent(size: float, leading: float) -> float:
    """Give the distance from the top of a line to its baseline; Noto's em box reaches 0.88 above it."""
    return (size * leading - size) / 2 + 0.88 * size
