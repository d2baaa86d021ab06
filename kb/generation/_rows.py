"""Table rows: which lines are some, and how one reads by itself."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence

from kb.sentences import Span

_CSV_DELIMITERS = "\t;|,"
_LEAST_LINES = 3
"""Of a table in a PDF file: a head row and two more. Fewer lines are as likely a wrapped sentence."""
_WIDEST = 0.85
"""Of the chunk's widest line: prose fills its lines up to a word, a table's rows seldom do."""
_STOPPED = re.compile(r"[.。！？!?:：;；,，、][\"'”’」』）)]*$")


def row_spans(text: str, spans: Iterable[Span], *, paged: bool) -> Iterator[tuple[int, int, bool]]:
    """Take spans that are tables without marks apart into their lines.

    A Word table is read as lines `a | b`; one of a PDF file as lines of words, which only their number, length and want
    of full stops tell from prose. Where a cell is wrapped, rows cannot be told; such a table stays one span.

    Args:
        text: The chunk's.
        spans: Its sentences.
        paged: Whether it is of a file with pages, as PDF files are.

    Yields:
        Start, end, and whether it is a row.
    """
    widest = max(map(len, text.split("\n")), default=0) if paged else 0
    for start, end in spans:
        lines = _lines(text, start, end)
        rows = _piped(text, lines) or (_plain_rows(text, lines, widest) if paged else 0)
        yield from ((*line, True) for line in lines[:rows])
        if rows < len(lines):
            first = lines[rows][0]
            yield first, end, rows == 0 and _is_marked_row(text, first, end)


def _lines(text: str, start: int, end: int) -> list[Span]:
    return [found.span() for found in re.compile(r"\S(?:[^\n]*\S)?").finditer(text, start, end)]


def _piped(text: str, lines: Sequence[Span]) -> int:
    """How many lines from the first on are rows `a | b`; one alone is none."""
    rows = 0
    while rows < len(lines) and " | " in text[slice(*lines[rows])]:
        rows += 1
    return rows if rows > 1 else 0


def _plain_rows(text: str, lines: Sequence[Span], widest: int) -> int:
    """How many lines from the first on are rows of a PDF table."""
    rows = 0
    for start, end in lines:
        line = text[start:end]
        if _STOPPED.search(line) or end - start > _WIDEST * widest:
            break
        if len(line.split()) < 2:
            return 0  # a piece of a wrapped cell
        rows += 1
    return rows if rows >= _LEAST_LINES else 0


def _is_marked_row(text: str, start: int, end: int) -> bool:
    """Whether a span is a whole table row: `| a | b |`, or a single `a | b` as Word tables are read."""
    line = text[text.rfind("\n", 0, start) + 1 :].split("\n", 1)[0].strip()
    return line == text[start:end].strip() and (line.startswith("|") or " | " in line)


def csv_delimiter(lines: Sequence[str]) -> str:
    """What parts the first line into cells, and most others into as many; "" for a single column."""
    most, delimiter = 0, ""
    for candidate in _CSV_DELIMITERS:
        widths = [len(cells_of(line, candidate)) for line in lines]
        alike = widths.count(widths[0]) if widths[0] > 1 else 0
        if alike > most:
            most, delimiter = alike, candidate
    return delimiter


def row_as_text(head: str, row: str, delimiter: str | None = None) -> str:
    """A table row that reads by itself: `Plan: Team; Requests a minute: 300`.

    Args:
        head: The head row; "" when it isn't known.
        row: The row.
        delimiter: As `Unit.delimiter`.
    """
    names, cells = cells_of(head, delimiter), cells_of(row, delimiter)
    # In a CSV file a row with fewer cells is one whose last cells are empty.
    if len(cells) > len(names) or (delimiter is None and len(cells) < len(names)):
        return ", ".join(cell for cell in cells if cell)
    return "; ".join(f"{name}: {cell}" if name else cell for name, cell in zip(names, cells, strict=False) if cell)


def cells_of(row: str, delimiter: str | None) -> list[str]:
    """The cells of a row."""
    if delimiter is None:
        return [cell.strip() for cell in re.split(r"(?<!\\)\|", row.strip().strip("|"))]
    if not delimiter:
        return [row]
    try:
        cells = next(csv.reader([row], delimiter=delimiter, skipinitialspace=True, strict=True))
    except csv.Error:  # a quote that is a letter of the text, or a cell longer than Python allows
        cells = row.split(delimiter)
    return [cell.strip() for cell in cells]
