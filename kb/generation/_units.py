"""What can be quoted from a chunk: sentences, list items, table rows, with the words that belong to them."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from kb.records import Hit
from kb.sentences import sentence_spans

_FENCE = re.compile(r"^[ \t]*(?:>[ \t]*)*(`{3,}|~{3,})", re.MULTILINE)
_HEADING = re.compile(r"^#{1,6}\s|^(?:=+|-+)$")
_RULE_ROW = re.compile(r"^[\s|:+\-=]+$")
_LIST_MARK = re.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)、．])\s+")
_FRAGMENT = re.compile(r"^[\W\d_]*$")

_CSV_SUFFIXES = (".csv", ".tsv")
_CSV_DELIMITERS = "\t;|,"
_CSV_LINE = re.compile(r"\S(?:.*\S)?")

_QUESTION = re.compile(r"[?？][\"'”’」』）)\]*_]*$")

# A sentence that begins so speaks of the one before it.
_LEANS_BACK = re.compile(
    r"^(?:it|this|that|these|those|they|he|she|such|otherwise|then|after that|in that case|both|either|neither)\b"
    r"|^(?:这|那|它|其|此|否则|此时|之后|然后)|^(?:これ|それ|この|その|また|ただし|その場合|なお)",
    re.IGNORECASE,
)

UnitKind = Literal["sentence", "item", "row"]


@dataclass(frozen=True, slots=True)
class Unit:
    """A span of one hit's chunk that can be quoted by itself."""

    number: int
    """The hit's number, from 1."""
    start: int
    end: int
    text: str
    kind: UnitKind
    context: str = ""
    """What is needed to understand it: the row's table head, the item's lead-in, the sentence before."""
    context_span: tuple[int, int] | None = None
    """Where the context stands in the chunk; None when it stands outside of it."""
    delimiter: str | None = None
    """What parts the cells of a CSV file's row, "" for a single column; None for rows of other tables."""

    @property
    def quotes(self) -> tuple[tuple[int, int, int], ...]:
        """(number, start, end) of all that is quoted when this unit is."""
        spans = [*([self.context_span] if self.context_span else []), (self.start, self.end)]
        return tuple((self.number, start, end) for start, end in spans)


def units(hits: Sequence[Hit]) -> list[Unit]:
    """All units of the hits in reading order, each text once."""
    found: list[Unit] = []
    seen: set[str] = set()
    for number, hit in enumerate(hits, start=1):
        for unit in _chunk_units(number, hit):
            key = " ".join(unit.text.split())
            if key not in seen:
                seen.add(key)
                found.append(unit)
    return found


def _chunk_units(number: int, hit: Hit) -> list[Unit]:
    table, rows = _csv_rows(number, hit) if hit.source.lower().endswith(_CSV_SUFFIXES) else (None, [])
    text = hit.chunk.text[:table]
    headings = set(hit.chunk.heading_path)
    fences = _fenced(text)
    result: list[Unit] = []
    nothing = _Context()
    lead_in, before, head = nothing, nothing, _Context(_continued_head(hit))
    asked: _Context | None = None
    for start, end in sentence_spans(text):
        part = text[start:end]
        here = _Context(part, (start, end))
        if part in headings or _HEADING.match(part) or any(a <= start < b for a, b in fences):
            lead_in = before = head = nothing
            asked = None
        elif _is_row(text, start, end):
            if not head.text:
                head = here
            elif not _RULE_ROW.match(part):
                result.append(Unit(number, start, end, part, "row", head.text, head.span))
        elif not _FRAGMENT.match(part):
            head = nothing
            kind: UnitKind = "item" if _LIST_MARK.match(part) else "sentence"
            if _QUESTION.search(part):  # it asks, as a FAQ does; what comes next answers
                asked = before = here
                continue
            needed = asked or (lead_in if kind == "item" else before if _LEANS_BACK.match(part) else nothing)
            result.append(Unit(number, start, end, part, kind, needed.text, needed.span))
            asked = None
            if kind == "sentence":
                lead_in = here if part.endswith((":", "：")) else nothing
            before = here
    return [*result, *rows]


@dataclass(frozen=True, slots=True)
class _Context:
    text: str = ""
    span: tuple[int, int] | None = None


def _fenced(text: str) -> list[tuple[int, int]]:
    """Spans of code fences; one that is never closed runs to the end."""
    spans, opened, mark = [], -1, ""
    for match in _FENCE.finditer(text):
        fence = match.group(1)
        if opened < 0:
            opened, mark = match.start(), fence
        elif fence[0] == mark[0] and len(fence) >= len(mark):
            spans.append((opened, match.end()))
            opened = -1
    return [*spans, (opened, len(text))] if opened >= 0 else spans


def _is_row(text: str, start: int, end: int) -> bool:
    """Whether a span is a whole table row: `| a | b |`, or `a | b` as Word tables are read."""
    line = text[text.rfind("\n", 0, start) + 1 :].split("\n", 1)[0].strip()
    return line == text[start:end].strip() and (line.startswith("|") or " | " in line)


def _continued_head(hit: Hit) -> str:
    """The head row of a table whose later rows begin this chunk (the chunker puts it into the header)."""
    last = hit.chunk.header.rsplit("\n", 1)[-1]
    return last if "|" in last else ""


def _csv_rows(number: int, hit: Hit) -> tuple[int | None, list[Unit]]:
    """Where a CSV file's table begins in the chunk, and a unit for each of its lines but the head row."""
    chunk = hit.chunk
    above = chunk.text.rfind("\n\n") + 1  # a blank line stands below a title and notes, and nowhere else
    begins = chunk.start == 0 or above > 0
    lines = [_Context(line[0], line.span()) for line in _CSV_LINE.finditer(chunk.text, above)]
    head = lines.pop(0) if begins and lines else _Context(_continued_csv_head(hit))
    if not lines:
        return None, []
    texts = [line.text for line in (head, *lines) if line.text]
    delimiter = _csv_delimiter(texts)
    # A chunk may begin within a row, what is left of whose cells would get the wrong names. Empty last cells are no
    # sign of that where all rows but the last, which may be cut off as well, have as many.
    widths = [len(_cells(line.text, delimiter)) for line in lines]
    torn = not begins and widths[0] != len(_cells(head.text, delimiter)) and {*widths[1:-1]} != {widths[0]}
    rows = []
    for line in lines:
        needed = _Context() if torn and line is lines[0] else head
        start, end = line.span or (0, 0)
        rows.append(Unit(number, start, end, line.text, "row", needed.text, needed.span, delimiter))
    return above, rows


def _continued_csv_head(hit: Hit) -> str:
    """As `_continued_head`; a line that shows no cells is the title, and the head row found no room."""
    last = hit.chunk.header.rsplit("\n", 1)[-1]
    return last if _csv_delimiter([last]) else ""


def _csv_delimiter(lines: Sequence[str]) -> str:
    """What parts the first line into cells, and most others into as many; "" for a single column."""
    most, delimiter = 0, ""
    for candidate in _CSV_DELIMITERS:
        widths = [len(_cells(line, candidate)) for line in lines]
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
    names, cells = _cells(head, delimiter), _cells(row, delimiter)
    # In a CSV file a row with fewer cells is one whose last cells are empty.
    if len(cells) > len(names) or (delimiter is None and len(cells) < len(names)):
        return ", ".join(cell for cell in cells if cell)
    return "; ".join(f"{name}: {cell}" if name else cell for name, cell in zip(names, cells, strict=False) if cell)


def _cells(row: str, delimiter: str | None) -> list[str]:
    if delimiter is None:
        return [cell.strip() for cell in re.split(r"(?<!\\)\|", row.strip().strip("|"))]
    if not delimiter:
        return [row]
    try:
        cells = next(csv.reader([row], delimiter=delimiter, skipinitialspace=True, strict=True))
    except csv.Error:  # a quote that is a letter of the text, or a cell longer than Python allows
        cells = row.split(delimiter)
    return [cell.strip() for cell in cells]


_LINK = re.compile(r"!?\[([^\]\n]*)\]\([^)\n]*\)")
# A document's own [7] would read as a citation of ours.
_BRACKETED = re.compile(r"[\[【［](\d[\d\s,，、–-]*)[\]】］]")
_EMPHASIS = re.compile(r"(\*\*|__|(?<![\w*])\*(?=\S)|(?<=\S)\*(?![\w*])|`)")


def plain(text: str) -> str:
    """Markdown's marks taken off, lines joined: the words as they read."""
    text = _LIST_MARK.sub("", text)
    text = _BRACKETED.sub(r"(\1)", _EMPHASIS.sub("", _LINK.sub(r"\1", text)))
    text = re.sub(
        r"(?<=[\u3000-\u30ff\u3400-\u9fff\uff00-\uffef])\s*\n\s*(?=[\u3000-\u30ff\u3400-\u9fff\uff00-\uffef])", "", text
    )
    return " ".join(text.split())
