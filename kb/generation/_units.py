"""What can be quoted from a chunk: sentences, list items, table rows, with the words that belong to them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from kb.answers import Quote
from kb.generation._rows import cells_of, csv_delimiter, row_spans
from kb.marker_grammar import BARE_NUMBERS
from kb.markers import find_markers
from kb.records import Hit
from kb.sentences import fenced_spans, sentence_spans

_HEADING = re.compile(r"^#{1,6}\s|^(?:=+|-+)$")
_RULE_ROW = re.compile(r"^[\s|:+\-=]+$")
_LIST_MARK = re.compile(r"^\s*(?:[-*+•‣▪]\s+|[・●]\s*|\d{1,3}(?:[.)]\s+|[、．]\s*)|[(（]\d{1,2}[)）]\s*|[①-⑳]\s*)")
_NUMBER_MARK = re.compile(r"^\s*[(（]?(?:\d{1,3}|[①-⑳])")
_FRAGMENT = re.compile(r"^[\W\d_]*$")

_CSV_SUFFIXES = (".csv", ".tsv")
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

    list: int | None = None
    """Which list of the chunk it is an item of, counted from 0; its items follow each other."""
    numbered: bool = False
    """Whether its list is one of numbered steps."""

    @property
    def alone(self) -> str:
        """The words that it is judged by. A table's head, a list's lead-in or a FAQ's question says what it is about.

        The sentence before does not: with its words, one that answers nothing would look as good as that one.
        """
        before = self.kind == "sentence" and not _QUESTION.search(self.context)
        return self.text if before else f"{self.context} {self.text}".strip()

    @property
    def quotes(self) -> tuple[Quote, ...]:
        """All that is quoted when this unit is: its own place, then its context's."""
        spans = [(self.start, self.end), *([self.context_span] if self.context_span else [])]
        return tuple(Quote(self.number, start, end) for start, end in spans)


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
    fences = fenced_spans(text)
    result: list[Unit] = []
    nothing = _Context()
    lead_in, before, head = nothing, nothing, _Context(_continued_head(hit))
    asked: _Context | None = None
    lists = 0
    for start, end, is_row in row_spans(text, sentence_spans(text), paged=hit.chunk.page is not None):
        part = text[start:end]
        here = _Context(part, (start, end))
        if part in headings or _HEADING.match(part) or any(a <= start < b for a, b in fences):
            lead_in = before = head = nothing
            asked = None
        elif is_row:
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
            unit = Unit(number, start, end, part, kind, needed.text, needed.span)
            if kind == "item":
                unit = replace(unit, list=lists, numbered=_NUMBER_MARK.match(part) is not None)
            result.append(unit)
            asked = None
            if kind == "sentence":
                lists += 1
                lead_in = here if part.endswith((":", "：")) else nothing
            before = here
    return [*result, *rows]


@dataclass(frozen=True, slots=True)
class _Context:
    text: str = ""
    span: tuple[int, int] | None = None


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
    delimiter = csv_delimiter(texts)
    # A chunk may begin within a row, what is left of whose cells would get the wrong names. Empty last cells are no
    # sign of that where all rows but the last, which may be cut off as well, have as many.
    widths = [len(cells_of(line.text, delimiter)) for line in lines]
    torn = not begins and widths[0] != len(cells_of(head.text, delimiter)) and {*widths[1:-1]} != {widths[0]}
    rows = []
    for line in lines:
        needed = _Context() if torn and line is lines[0] else head
        start, end = line.span or (0, 0)
        rows.append(Unit(number, start, end, line.text, "row", needed.text, needed.span, delimiter))
    return above, rows


def _continued_csv_head(hit: Hit) -> str:
    """As `_continued_head`; a line that shows no cells is the title, and the head row found no room."""
    last = hit.chunk.header.rsplit("\n", 1)[-1]
    return last if csv_delimiter([last]) else ""


_LINK = re.compile(r"!?\[([^\]\n]*)\]\([^)\n]*\)")
_EMPHASIS = re.compile(r"(\*\*|__|(?<![\w*])\*(?=\S)|(?<=\S)\*(?![\w*])|`)")


def list_mark(item: str) -> str:
    """What an item of a list begins with: `2.` of a numbered one, else a dash."""
    found = _LIST_MARK.match(item)
    return found.group().strip() if found and _NUMBER_MARK.match(item) else "-"


def plain(text: str) -> str:
    """Markdown's marks taken off, lines joined: the words as they read."""
    text = _LIST_MARK.sub("", text)
    text = _without_markers(_EMPHASIS.sub("", _LINK.sub(r"\1", text)))
    text = re.sub(
        r"(?<=[\u3000-\u30ff\u3400-\u9fff\uff00-\uffef])\s*\n\s*(?=[\u3000-\u30ff\u3400-\u9fff\uff00-\uffef])", "", text
    )
    return " ".join(text.split())


def _without_markers(text: str) -> str:
    """A document's own `[7]` or `(source 3)` in other brackets, as it would read as a citation of ours."""
    parts: list[str] = []
    at = 0
    for marker in find_markers(text):
        inside = text[marker.start + 1 : marker.end - 1].strip("[]")
        opening, closing = "()" if BARE_NUMBERS.fullmatch(inside) else "‹›"
        parts.append(f"{text[at : marker.start]}{opening}{inside}{closing}")
        at = marker.end
    return "".join([*parts, text[at:]])
