"""CSV and TSV: each row one line as the file has it, the head row first.

Rows are parsed here, not by Python's csv, whose limit on a field's length belongs to the whole
process, and for which a quote that is never closed swallows the rest of the file.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, islice
from pathlib import Path

from kb.components import Parts
from kb.loading._clean import clean
from kb.loading._decode import decode
from kb.loading._files import document_id, read_bytes
from kb.loading._titles import sensible_title
from kb.records import Block, Document
from kb.settings import ComponentOptions

SUFFIXES = (".csv", ".tsv")
VERSION = 1
"""Raised by every change that could give another text, so that the next ingest reads files anew."""
PACKAGES = ("charset-normalizer",)
"""Packages on which the text depends."""

DELIMITERS = "\t;|,"
"""Of equal evidence the first: commas also stand in prose and in decimal numbers, the others seldom do."""
SAMPLE_CHARACTERS = 64 * 1024
SAMPLE_ROWS = 200
"""So much of a file shows its delimiter; a field of the size of the whole sample is no reason to read on."""
HEAD_EVIDENCE = 0.5
"""What a first row of several cells adds to the share of rows of equal length, which is 1 at most."""
MIN_EVIDENCE = 0.5
"""Below this the rows are prose with commas in it, and stay as they are."""
MAX_ROWS_ABOVE = 10
"""Titles and notes of a report stand in the first lines; further down a row of one cell is one of the table's."""

_SEPARATOR_LINE = re.compile(r'"?sep=([\t !#-/:;?@\[-`{-~])"?(?:\n|\Z)', re.IGNORECASE)
"""What Excel writes, and reads, as the first line of a file; letters, quotes and `<=>` part no cells."""
_ODD_LINE_ENDS = re.compile("[\x0b\x0c\x85\u2028\u2029]")
"""They end a line for `clean`, but no row."""


class Options(ComponentOptions):
    """CSV has no options."""


class CsvLoader:
    """Reads tables of text; the delimiter stays in it, since a quote must be found in the file."""

    def load(self, path: Path, relative: str) -> Document:
        """Read one CSV or TSV file.

        Raises:
            LoadError: the file is binary, of no known encoding, or cannot be opened.
        """
        decoded = decode(read_bytes(path, relative), relative)
        raw = clean(_ODD_LINE_ENDS.sub(" ", decoded.text))
        declared = _SEPARATOR_LINE.match(raw)
        raw = raw[declared.end() :] if declared else raw
        delimiter = declared[1] if declared else find_delimiter(raw)
        rows = read_rows(raw, delimiter, partial(_as_written, delimiter=delimiter))
        above, table = _parted(filter(None, map(_without_empty_end, rows)), delimiter)
        text = "\n\n".join(filter(None, (*above, table)))
        warnings = [decoded.warning] if decoded.warning else []
        if not text:
            warnings.append("no text in it")
        return Document(
            id=document_id(relative),
            path=relative,
            text=text,
            title=sensible_title(above[0].strip('"')) if above else "",
            kind="csv",
            blocks=(Block("table", sum(len(line) + 2 for line in above), len(text)),) if table else (),
            warnings=tuple(warnings),
        )


def build(options: Options, parts: Parts) -> CsvLoader:
    """Build the loader."""
    return CsvLoader()


def find_delimiter(text: str) -> str:
    r"""Tell what parts the cells, by how many rows it parts into equally many; "" for a single column.

    A quoted field that doesn't end where a cell ends speaks against a delimiter. `a;1,5` in each
    row could be either: then the order of `DELIMITERS` decides.
    """
    best, delimiter = 0.0, ""
    for candidate in DELIMITERS:
        sample = [row for row in islice(read_rows(text[:SAMPLE_CHARACTERS], candidate), SAMPLE_ROWS) if row != [""]]
        if len(text) > SAMPLE_CHARACTERS and 1 < len(sample) < SAMPLE_ROWS:
            sample.pop()  # it may have been cut off
        widths = [0 if any(cell.lstrip(" ").startswith('"') for cell in row) else len(row) for row in sample]
        several = Counter(width for width in widths if width > 1)
        if several:
            share = several.most_common(1)[0][1] / len(widths)
            evidence = round(share, 1) + (HEAD_EVIDENCE if widths[0] > 1 else 0)
            if evidence > best and evidence >= MIN_EVIDENCE:
                best, delimiter = evidence, candidate
    return delimiter


def read_rows(text: str, delimiter: str, shown: Callable[[str], str] = str) -> Iterator[list[str]]:
    r"""Part a text with `\n` line ends into rows of cells; delimiters and line ends in quoted cells don't count.

    A quote is one where it opens a cell and is closed at a cell's end; any other is a letter of the
    text. Without a delimiter each row is one cell. Quoted cells are given as `shown` makes them.
    """
    plain_end = re.compile(f"[{re.escape(delimiter)}\n]")
    at = 0
    while at < len(text):
        end = text.find("\n", at)
        line = text[at : end if end >= 0 else len(text)]
        if '"' not in line:
            yield line.split(delimiter) if delimiter else [line]
            at += len(line) + 1
            continue
        row: list[str] = []
        while True:
            cell, at = _quoted_cell(text, at, delimiter)
            if cell is None:
                found = plain_end.search(text, at)
                end = found.start() if found else len(text)
                row.append(text[at:end])
                at = end
            else:
                row.append(shown(cell))
            at += 1
            if at > len(text) or text[at - 1] == "\n":
                break
        yield row


def _quoted_cell(text: str, start: int, delimiter: str) -> tuple[str | None, int]:
    """A quoted cell and where it ends; None and `start` when none begins there or it isn't closed."""
    # Each search ends at the next quote that isn't doubled, and one that fails leaves all others
    # before it to cells of their own: together they are linear.
    at = start
    while text.startswith(" ", at):
        at += 1
    if not text.startswith('"', at):
        return None, start
    opened = end = at + 1
    while (end := text.find('"', end)) >= 0 and text.startswith('"', end + 1):
        end += 2
    if end < 0:
        return None, start
    after = end + 1
    while text.startswith(" ", after):
        after += 1
    if after < len(text) and text[after] != "\n" and text[after] != delimiter:
        return None, start
    return text[opened:end].replace('""', '"'), after


def _as_written(cell: str, delimiter: str) -> str:
    """A quoted cell on one line, in quotes only where the row could not be read without them."""
    if "\n" in cell:
        cell = " ".join(filter(None, map(str.strip, cell.split("\n"))))
    if delimiter and (delimiter in cell or '"' in cell):
        return '"' + cell.replace('"', '""') + '"'
    return cell


def _without_empty_end(row: list[str]) -> list[str]:
    while row and not row[-1].strip():
        row.pop()
    return row


def _parted(rows: Iterator[list[str]], delimiter: str) -> tuple[list[str], str]:
    """The lines above the table, such as a report's title, and the table."""
    first = list(islice(rows, MAX_ROWS_ABOVE))
    head = next((number for number, row in enumerate(first) if sum(bool(cell.strip()) for cell in row) > 1), 0)
    above = ["".join(row).strip() for row in first[:head]]
    return above, "\n".join(_line(row, delimiter) for row in chain(first[head:], rows))


def _line(row: list[str], delimiter: str) -> str:
    """A row; white space that parts cells would be lost at its beginning, where a chunk may begin."""
    marked = '""' if delimiter.isspace() and not row[0].strip() else ""
    return marked + delimiter.join(row)
