"""Walks a Word document's XML in reading order.

python-docx's `paragraphs` gives three quarters of the words of real files: what stands in content
controls, tracked insertions, text boxes, tables, notes and headers is elsewhere in the tree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kb.loading._docx_package import Package, child_value
from kb.loading._docx_styles import Numbering, Style, heading_level, read_styles
from kb.loading._docx_symbols import symbol
from kb.loading._text_builder import TextBuilder
from kb.loading._zip_package import attribute, child, local_name

_SKIPPED = frozenset(
    # deletions; field codes; properties; the reading aid above a Japanese word (its word is the base)
    (
        "del",
        "moveFrom",
        "delText",
        "delInstrText",
        "instrText",
        "pPr",
        "rPr",
        "sdtPr",
        "sdtEndPr",
        "rt",
        "tblPr",
        "tblGrid",
    )
)
_LITERALS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-", "ptab": "\t"}
_NOTES = {"footnoteReference": "footnotes", "endnoteReference": "endnotes"}
_NOTE_PREFIX = {"footnotes": "", "endnotes": "e"}
_NOTE_MARK = re.compile(r"\[\^e?\d+\]")
_FALSE = ("0", "false", "off")


class DocxReader:
    """Reads one package into a TextBuilder."""

    def __init__(self, package: Package) -> None:
        self.out = TextBuilder()
        self.title = ""
        """The text of the first paragraph in Word's Title style."""
        self.warnings: list[str] = []
        self._package = package
        self._styles = read_styles(package.first_related("styles"))
        self._numbering = Numbering(package.first_related("numbering"))
        self._notes = {kind: _notes(package.first_related(kind)) for kind in ("footnotes", "endnotes")}
        self._note_numbers: dict[tuple[str, str], int] = {}
        self._waiting_notes: list[tuple[str, str]] = []
        self._waiting_boxes: list[Any] = []

    def read(self) -> None:
        """Read body, notes, headers and footers."""
        self._blocks(self._package.document)
        self._flush_notes()
        for kind, notes in self._notes.items():  # notes to which nothing refers are text too
            for identity in notes:
                self._note_mark(kind, identity)
        self._flush_notes()
        self._headers_and_footers()

    def _blocks(self, parent: Any) -> None:
        """Read what stands below each other: paragraphs, tables and what wraps them."""
        for element in parent:
            name = local_name(element.tag)
            if name == "p":
                self._paragraph(element)
            elif name == "tbl":
                self._table(element)
            elif name == "AlternateContent":
                self._blocks(_chosen(element))
            elif name == "altChunk":
                self.warnings.append(
                    "a part of another format is embedded (altChunk) and not read; save it anew in Word"
                )
            elif name not in _SKIPPED:
                self._blocks(element)

    def _paragraph(self, element: Any) -> None:
        properties = child(element, "pPr")
        style = self._styles.get(child_value(properties, "pStyle") or "", Style())
        before, self._waiting_notes = self._waiting_notes, []
        text = self._inline(element)
        level = heading_level(properties, style)
        marker = self._numbering.marker(properties, style) if text.strip() else None
        is_item = marker is not None and level is None
        if not is_item and text.strip():
            self._write_notes(before)  # those of a list wait for its end, so that it stays one block
            before = []
        if level is not None:
            line = f"{marker[0]} {text}" if marker and marker[0] != "-" else text
            self.out.heading(line, level, _NOTE_MARK.sub("", line))
        elif marker is not None:
            indent = "  " * marker[1]
            self.out.list_item(f"{indent}{marker[0]} {text.strip()}" if marker[0] else f"{indent}{text.strip()}")
        else:
            if style.is_title and not self.title:
                self.title = " ".join(_NOTE_MARK.sub("", text).split())
            self.out.paragraph(text)
        self._waiting_notes[:0] = before
        self._flush_boxes()
        if not is_item and text.strip():
            self._flush_notes()

    def _flush_boxes(self) -> None:
        """Write the text boxes that are anchored in the paragraph just written."""
        boxes, self._waiting_boxes = self._waiting_boxes, []
        for box in boxes:
            self._blocks(box)

    def _flush_notes(self) -> None:
        """Write the notes to which the text before refers, and those to which they refer."""
        while self._waiting_notes:
            waiting, self._waiting_notes = self._waiting_notes, []
            self._write_notes(waiting)

    def _write_notes(self, notes: list[tuple[str, str]]) -> None:
        for kind, identity in notes:
            text = self._flat(self._notes[kind][identity])
            self.out.paragraph(f"[^{_NOTE_PREFIX[kind]}{self._note_numbers[kind, identity]}]: {text}" if text else "")

    def _note_mark(self, kind: str, identity: str) -> str:
        if identity not in self._notes[kind]:
            return ""
        if (kind, identity) not in self._note_numbers:
            self._note_numbers[kind, identity] = 1 + sum(1 for k, _ in self._note_numbers if k == kind)
            self._waiting_notes.append((kind, identity))
        return f"[^{_NOTE_PREFIX[kind]}{self._note_numbers[kind, identity]}]"

    def _inline(self, parent: Any) -> str:
        pieces: list[str] = []
        self._collect(parent, pieces)
        return "".join(pieces)

    def _collect(self, parent: Any, pieces: list[str]) -> None:
        """Collect the text within a paragraph; text boxes wait until the paragraph is written."""
        for element in parent:
            name = local_name(element.tag)
            if name == "t":
                pieces.append(element.text or "")
            elif name in _LITERALS:
                pieces.append(_LITERALS[name])
            elif name in _SKIPPED or not name or (name == "r" and _is_hidden(element)):
                continue
            elif name == "txbxContent":
                self._waiting_boxes.append(element)
            elif name == "AlternateContent":
                self._collect(_chosen(element), pieces)
            elif name == "sym":
                pieces.append(symbol(attribute(element, "font") or "", attribute(element, "char") or ""))
            elif name in _NOTES:
                pieces.append(self._note_mark(_NOTES[name], attribute(element, "id") or ""))
            else:
                self._collect(element, pieces)

    def _table(self, table: Any) -> None:
        rows = [self._cells(row) for row in _rows(table)]
        if all(len(cells) <= 1 for cells in rows):  # a frame around text, not a table
            for cells in rows:
                for cell in cells:
                    if cell is not None:
                        self._blocks(cell)
            return
        self._flush_notes()
        self.out.end_table()
        for cells in rows:
            line = " | ".join("" if cell is None else self._flat(cell) for cell in cells)
            self.out.table_row(line if line.strip(" |") else "")
        self.out.end_table()
        self._flush_notes()

    def _cells(self, row: Any) -> list[Any]:
        """A row's cells by grid column; None where a merged cell goes on, or none is."""
        properties = child(row, "trPr")
        cells: list[Any] = [None] * _span(child_value(properties, "gridBefore"), 0)
        for cell in _descend(row, "tc"):
            own = child(cell, "tcPr")
            merge = child(own, "vMerge") if own is not None else None
            goes_on = merge is not None and (attribute(merge, "val") or "continue") == "continue"
            cells.append(None if goes_on else cell)
            cells += [None] * (_span(child_value(own, "gridSpan"), 1) - 1)
        return cells

    def _flat(self, parent: Any) -> str:
        """All text below an element on one line: for cells, notes, headers."""
        pieces: list[str] = []
        for element in parent:
            name = local_name(element.tag)
            if name == "p":
                pieces.append(self._flat_paragraph(element))
            elif name == "tbl":
                for row in _rows(element):
                    pieces.extend(self._flat(cell) for cell in self._cells(row) if cell is not None)
            elif name == "AlternateContent":
                pieces.append(self._flat(_chosen(element)))
            elif name not in _SKIPPED:
                pieces.append(self._flat(element))
        return " ".join(" ".join(pieces).split())

    def _flat_paragraph(self, element: Any) -> str:
        properties = child(element, "pPr")
        style = self._styles.get(child_value(properties, "pStyle") or "", Style())
        boxes, self._waiting_boxes = self._waiting_boxes, []
        text = self._inline(element)
        inner, self._waiting_boxes = self._waiting_boxes, boxes
        marker = self._numbering.marker(properties, style) if text.strip() else None
        pieces = [f"{marker[0]} {text.strip()}" if marker and marker[0] else text]
        pieces.extend(self._flat(box) for box in inner)
        return " ".join(pieces)

    def _headers_and_footers(self) -> None:
        """Write each text of the headers and footers once, at the end."""
        seen: set[str] = set()
        for kind in ("header", "footer"):
            for _, found, part in self._package.related(self._package.main):
                root = self._package.optional(part) if found == kind else None
                text = self._flat(root) if root is not None else ""
                if any(map(str.isalpha, text)) and text not in seen:
                    seen.add(text)
                    self.out.paragraph(text)
        self._flush_notes()


def _rows(table: Any) -> Iterator[Any]:
    """The rows of a table that are not deleted."""
    for row in _descend(table, "tr"):
        properties = child(row, "trPr")
        if properties is None or child(properties, "del") is None:
            yield row


def _descend(parent: Any, wanted: str) -> Iterator[Any]:
    """The wanted children, those within content controls and insertions too, but not within cells."""
    for element in parent:
        name = local_name(element.tag)
        if name == wanted:
            yield element
        elif name in ("sdt", "sdtContent", "ins", "moveTo", "customXml", "smartTag"):
            yield from _descend(element, wanted)


def _chosen(alternates: Any) -> Any:
    """The one alternative to read: the first choice, or the fallback where no choice is."""
    choice = child(alternates, "Choice")
    if choice is None:
        choice = child(alternates, "Fallback")
    return choice if choice is not None else ()


def _is_hidden(run: Any) -> bool:
    properties = child(run, "rPr")
    vanish = child(properties, "vanish") if properties is not None else None
    return vanish is not None and attribute(vanish, "val") not in _FALSE


def _span(value: str | None, default: int) -> int:
    """A count of grid columns; more than Word's limit of 63 is damage."""
    return min(int(value), 63) if value is not None and value.isascii() and value.isdigit() else default


def _notes(root: Any) -> dict[str, Any]:
    """The notes by id, without the separators that Word keeps among them."""
    return {
        attribute(note, "id") or "": note
        for note in (root if root is not None else ())
        if local_name(note.tag) in ("footnote", "endnote") and attribute(note, "type") in (None, "normal")
    }
