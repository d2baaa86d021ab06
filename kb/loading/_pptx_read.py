"""Walks the XML of a presentation, slide by slide.

Only slides and their notes are read: layouts and masters hold prompts ("Click to add title") and
decoration, which no reader takes for text of a slide.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kb.errors import LoadError
from kb.loading._clean import clean
from kb.loading._text_builder import TextBuilder
from kb.loading._zip_package import PackageFormat, ZipPackage, attribute, child, local_name
from kb.records import Block

_POWERPOINT = PackageFormat(
    "pptx", "PowerPoint presentation", "PowerPoint", ".pptx", ".ppt", old_stream="PowerPoint Document"
)
_TITLES = ("title", "ctrTitle")
_NOT_TEXT = ("dt", "sldNum", "hdr", "sldImg")
"""Placeholders of dates, numbers, the header of printed notes, and the slide's picture in its notes."""
_SKIPPED = frozenset(("pPr", "rPr", "endParaRPr"))
_LEVELS = tuple("012345678")
_UPDATED = ("slidenum", "datetime")
"""Fields whose text changes by itself."""
_MOST_INDENT = 8
"""Steps; as deep as levels of text go."""
_TRUE = ("1", "true", "on")


class Presentation(ZipPackage):
    """The parts of one presentation."""

    def __init__(self, data: bytes, relative: str, max_bytes: int) -> None:
        """Open the zip and find its slides.

        Raises:
            LoadError: it is no zip, damaged, a bomb, or no presentation.
        """
        super().__init__(data, relative, max_bytes, _POWERPOINT)
        main = self.main_part("ppt/presentation.xml")
        root = self.part(main)
        if local_name(root.tag) != "presentation":
            raise LoadError(
                relative, f"this is no PowerPoint presentation but an Office file of <{local_name(root.tag)}>"
            )
        parts = {identity: part for identity, _, part in self.related(main)}
        slides = _elements(child(root, "sldIdLst"))
        self.slides = [parts.get(_relation(slide, "id"), f"for slide {n}") for n, slide in enumerate(slides, 1)]
        """The parts of the slides in the order in which they are shown."""


@dataclass(frozen=True, slots=True)
class Slide:
    """The text of one slide."""

    title: str
    """That of its title placeholder; may be empty."""
    body: str
    """Everything else, the notes at its end."""
    blocks: tuple[Block, ...]
    """The tables of `body`."""


class SlideReader:
    """Reads the slides of one presentation in their order."""

    def __init__(self, package: Presentation) -> None:
        self._package = package
        self._footers: set[str] = set()
        self._related: dict[str, str] = {}
        self._out = TextBuilder()

    def read(self, part: str) -> Slide:
        """Read one slide with its notes.

        Raises:
            LoadError: one of its parts is missing or damaged, or too much is unpacked.
        """
        related = self._package.related(part)
        self._related = {identity: target for identity, _, target in related}
        self._out = TextBuilder()
        shapes = child(self._package.part(part), "cSld", "spTree")
        titles = [_flat(shape) for shape in _elements(shapes) if _placeholder(shape) in _TITLES]
        self._shapes(shapes)
        notes = self._package.optional(next((target for _, kind, target in related if kind == "notesSlide"), None))
        self._notes(child(notes, "cSld", "spTree") if notes is not None else None)
        body = self._out.text()
        return Slide(" ".join(clean(" ".join(titles)).split()), body, tuple(self._out.blocks))

    def _shapes(self, parent: Any) -> None:
        """Read what stands on a slide, in the order in which a screen reader reads it."""
        for shape in _elements(parent):
            name, kind = local_name(shape.tag), _placeholder(shape)
            if kind in _TITLES or kind in _NOT_TEXT or _is_hidden(shape):
                continue
            if name == "AlternateContent":
                self._shapes(_chosen(shape))
            elif name == "grpSp":
                self._shapes(shape)
            elif name == "graphicFrame":
                self._graphic(child(shape, "graphic", "graphicData"))
            elif name == "sp":
                text = "\n".join(_lines(child(shape, "txBody")))
                if kind != "ftr" or text not in self._footers:  # a footer is the same on all slides
                    self._out.paragraph(text)
                if kind == "ftr":
                    self._footers.add(text)

    def _graphic(self, data: Any) -> None:
        """Read a table, a diagram or a chart's title."""
        for element in _elements(data):
            name = local_name(element.tag)
            if name == "tbl":
                self._table(element)
            elif name == "relIds":
                diagram = self._package.optional(self._related.get(_relation(element, "dm")))
                self._out.paragraph("\n".join(_diagram_lines(diagram)))
            elif name == "chart":
                chart = self._package.optional(self._related.get(_relation(element, "id")))
                title = child(chart, "chart", "title") if chart is not None else None
                self._out.paragraph(_flat(title) or _from_cell(title) if title is not None else "")

    def _table(self, table: Any) -> None:
        self._out.end_table()
        for row in _named(table, "tr"):
            line = " | ".join("" if _goes_on(cell) else _flat(cell) for cell in _named(row, "tc"))
            self._out.table_row(line if line.strip(" |") else "")
        self._out.end_table()

    def _notes(self, shapes: Any) -> None:
        lines = [
            line
            for shape in _elements(shapes)
            if _placeholder(shape) in ("", "body")
            for line in _lines(child(shape, "txBody"))
        ]
        self._out.paragraph("\n".join(("Notes:", *lines)) if lines else "")


def _elements(parent: Any) -> Iterator[Any]:
    """The child elements, without comments; none of None."""
    return (element for element in (parent if parent is not None else ()) if local_name(element.tag))


def _named(parent: Any, name: str) -> Iterator[Any]:
    return (element for element in _elements(parent) if local_name(element.tag) == name)


def _relation(element: Any, name: str) -> str:
    """An attribute that holds the id of a relationship; a plain `id` beside it is something else."""
    return next((str(value) for key, value in element.attrib.items() if str(key).endswith(f"}}{name}")), "")


def _placeholder(shape: Any) -> str:
    """The type of a placeholder: `title`, `body`, `dt` …; "" for a shape that is none."""
    found = child(shape, "nvSpPr", "nvPr", "ph")
    return "" if found is None else attribute(found, "type") or "obj"


def _is_hidden(shape: Any) -> bool:
    """Whether the selection pane hides a shape."""
    properties = next((e for e in _elements(shape) if local_name(e.tag).startswith("nv")), None)
    own = child(properties, "cNvPr") if properties is not None else None
    return own is not None and attribute(own, "hidden") in _TRUE


def _chosen(alternates: Any) -> Any:
    """The one alternative to read: the first choice, or the fallback where no choice is."""
    choice = child(alternates, "Choice")
    return choice if choice is not None else child(alternates, "Fallback")


def _goes_on(cell: Any) -> bool:
    """Whether a cell is covered by a merged one before or above it."""
    return attribute(cell, "hMerge") in _TRUE or attribute(cell, "vMerge") in _TRUE


def _lines(body: Any) -> Iterator[str]:
    """The paragraphs of a text, indented by their level, blank ones left out."""
    for paragraph in _named(body, "p"):
        text = "".join(_inline(paragraph)).strip()
        properties = child(paragraph, "pPr")
        level = attribute(properties, "lvl") if properties is not None else None
        if text:
            yield "  " * (int(level) if level in _LEVELS else 0) + text


def _inline(parent: Any) -> Iterator[str]:
    """The text of a paragraph: runs, links, fields and formulas."""
    for element in _elements(parent):
        name = local_name(element.tag)
        if name == "t":
            yield element.text or ""
        elif name == "br":
            yield "\n"
        elif name == "AlternateContent":
            yield from _inline(_chosen(element))
        elif name not in _SKIPPED and not (name == "fld" and (attribute(element, "type") or "").startswith(_UPDATED)):
            yield from _inline(element)


def _flat(parent: Any) -> str:
    """All text below an element on one line: for titles and cells."""
    texts = ["".join(_inline(p)) for p in parent.iter() if local_name(p.tag) == "p"]
    return " ".join(" ".join(texts).split())


def _from_cell(title: Any) -> str:
    """A chart's title that is the content of a cell of its sheet, as it was when saved."""
    return " ".join(value.text or "" for value in title.iter() if local_name(value.tag) == "v")


def _diagram_lines(root: Any) -> Iterator[str]:
    """The texts of a SmartArt diagram, each above those that hang on it, which are indented."""
    if root is None:
        return
    points = {attribute(point, "modelId") or "": point for point in _named(child(root, "ptLst"), "pt")}
    below: dict[str, list[tuple[str, str]]] = {}
    for link in _named(child(root, "cxnLst"), "cxn"):
        if attribute(link, "type") in (None, "parOf"):
            place = (attribute(link, "srcOrd") or "").zfill(9)  # as text, in the order of numbers
            below.setdefault(attribute(link, "srcId") or "", []).append((place, attribute(link, "destId") or ""))
    top = [identity for identity, point in points.items() if attribute(point, "type") == "doc"]
    waiting = [(identity, 0) for identity in (*reversed(points), *top)]
    seen = {""}
    while waiting:
        identity, depth = waiting.pop()
        if identity in seen:
            continue
        seen.add(identity)
        for line in _lines(child(points[identity], "t")) if identity in points else ():
            yield "  " * depth + line
        deeper = min(depth + (identity not in top), _MOST_INDENT)
        waiting += [(lower, deeper) for _, lower in sorted(below.get(identity, ()), reverse=True)]
