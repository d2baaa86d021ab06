"""Walks the tags of a page and keeps what a reader sees, in reading order."""

from __future__ import annotations

import re
from functools import partial

from kb.loading._clean import clean
from kb.loading._html_elements import BLOCKS, HEADINGS, LISTS, PREFORMATTED, VOID, Element, OpenElements
from kb.loading._html_line import MAX_INDENT, ItemList, Line
from kb.loading._html_tables import Piece, Table, write
from kb.loading._html_tokens import Tag, Tokens, unescape
from kb.loading._text_builder import TextBuilder

_UNSEEN = frozenset(
    # what waits for a script or stands in for it; deleted text; proposals; the reading aid above a
    # Japanese word (its word is the base); the source of a formula beside the formula
    ("template", "canvas", "audio", "video", "del", "datalist", "rt", "rp", "rtc", "annotation", "annotation-xml")
)
_UNSEEN_IN_PICTURES = frozenset(("title", "desc", "metadata", "defs", "symbol"))
_NEVER_HIDDEN = frozenset(("html", "body", "main"))
"""Pages hide these until they are loaded, and are saved like that."""
_INVISIBLE = re.compile(
    r"display\s{0,9}:\s{0,9}none|visibility\s{0,9}:\s{0,9}hidden|mso-hide\s{0,9}:\s{0,9}all", re.IGNORECASE
)
_DECORATIONS = frozenset(("a", "b", "em", "i", "img", "small", "span", "sup", "svg"))
"""Where `aria-hidden` means an icon, or a formula that stands there twice. A block that has it may be
the whole page, behind the dialog that was open when it was saved."""
_SPACED = frozenset(("button", "img", "input", "mi", "mn", "mo", "mtext", "option", "select", "text", "textarea"))
"""Elements that are no lines of their own, but no parts of a word either."""
_END_HEADINGS = BLOCKS - {"div", "caption"}
"""A heading that has words ends here when nobody closed it."""
_META = {"author": "author", "description": "description"}

MAX_LABEL_CHARACTERS = 80
"""A `<nav>` is a menu when its words are in links, but for so many (a version, "Search"), or for half of all."""
MAX_METADATA_CHARACTERS = 1000
"""Longer values are texts that slipped into the wrong field."""


class HtmlReader:
    """Reads one page."""

    def __init__(self) -> None:
        self.title = ""
        self.metadata: dict[str, str] = {}
        """What the page says of itself: `author`, `description`, `language`."""
        self._sinks: list[list[Piece]] = [[]]
        """Where pieces go: into the page, or the innermost cell or menu."""
        self._line = Line()
        self._open = OpenElements()
        self._tables: list[Table] = []
        self._lists: list[ItemList] = []
        self._marker = ""
        """Of an item whose first words are still to come."""
        self._heading: int | None = None
        self._hidden = 0
        self._preformatted = 0
        self._links = 0
        self._menu: list[int] | None = None
        """Within a `<nav>`: how many characters it has, headings apart, and how many of them in links."""
        self._title: list[str] | None = None

    def read(self, markup: str, *, xml: bool = False) -> None:
        """Read a page; `xml` is for XHTML."""
        for token in Tokens(clean(markup), xml=xml):
            if isinstance(token, str):
                self._text(token)
            elif token.closes:
                self._end(token.name)
            else:
                self._start(token)
        self._finish(self._open.close_all())
        self._flush()

    def write(self, out: TextBuilder, *, menus: bool = False) -> None:
        """Write what was read, with or without its menus."""
        write(self._sinks[0], out, menus=menus)

    def _text(self, text: str) -> None:
        if self._title is not None:
            self._title.append(text)
        elif not self._hidden:
            if self._menu and self._heading is None:
                self._menu[0] += len(text.strip())
                self._menu[1] += len(text.strip()) if self._links else 0
            self._line.add(text)

    def _start(self, tag: Tag) -> None:
        name = tag.name
        if name in BLOCKS:
            self._break()
            if self._heading is not None and name in _END_HEADINGS and not self._line.is_blank:
                self._finish(self._open.closed_by_end("h1"))
        elif name in _SPACED:
            self._line.space()
        self._finish(self._open.closed_by_start(name))
        if name in ("html", "body"):
            self._note("language", tag.attributes.get("lang") or tag.attributes.get("xml:lang") or "")
            return
        self._open.push(Element(name) if self._hidden else self._enter(tag))
        if name in VOID or tag.empty:
            self._finish(self._open.closed_by_end(name))

    def _end(self, name: str) -> None:
        if name in BLOCKS:
            self._break()
        elif name == "br":  # browsers take </br> for <br>
            self._line.end_line()
        self._finish(self._open.closed_by_end(name))
        if name in _SPACED or (name == "a" and self._menu):
            self._line.space()

    def _finish(self, elements: list[Element]) -> None:
        for element in elements:
            if element.finish is not None:
                element.finish()

    def _enter(self, tag: Tag) -> Element:
        """Note what the element changes for the text within."""
        name = tag.name
        if self._is_hidden(tag):
            self._hidden += 1
            return Element(name, self._leave_hidden)
        if name == "br":
            self._line.end_line()
        elif name == "img":
            self._text(unescape(tag.attributes.get("alt", "")))
            self._line.space()
        elif name == "sup":
            self._line.raise_next()
        elif name == "meta":
            key = _META.get(tag.attributes.get("name", "").lower(), "")
            self._note(key, unescape(tag.attributes.get("content", "")))
        elif name == "title":
            self._title = []
            return Element(name, self._leave_title)
        elif name == "a" and "href" in tag.attributes:
            self._links += 1
            return Element(name, self._leave_link)
        elif not self._preformatted:
            return self._enter_block(tag)
        return Element(name)

    def _enter_block(self, tag: Tag) -> Element:
        name = tag.name
        role = tag.attributes.get("role", "")
        if name == "nav" or role == "navigation":
            if self._menu is None:
                self._flush()
                self._menu = [0, 0]
                self._sinks.append([])
                return Element(name, self._leave_menu)
        elif name in HEADINGS and self._heading is None:
            self._heading = HEADINGS[name]
            return Element(name, self._leave_heading)
        elif name in PREFORMATTED:
            self._flush()
            self._preformatted += 1
            return Element(name, self._leave_preformatted)
        elif name in LISTS:
            self._lists.append(ItemList(name, tag.attributes))
            return Element(name, self._leave_list)
        elif name == "li":
            self._marker = self._lists[-1].marker(tag.attributes) if self._lists else "-"
            return Element(name, self._leave_item)
        elif name == "table":
            self._tables.append(Table(depth=len(self._tables), arranges=role in ("presentation", "none")))
            return Element(name, self._leave_table)
        elif name == "tr" and self._tables:
            self._tables[-1].begin_row()
            return Element(name, self._tables[-1].end_row)
        elif name in ("td", "th", "caption") and self._tables:
            return self._enter_cell(tag)
        return Element(name)

    def _enter_cell(self, tag: Tag) -> Element:
        table = self._tables[-1]
        is_caption = tag.name == "caption"
        self._sinks.append(table.caption if is_caption else table.cell(tag.attributes, header=tag.name == "th"))
        outside, self._lists, self._marker = self._lists, [], ""
        return Element(tag.name, partial(self._leave_cell, outside))

    def _is_hidden(self, tag: Tag) -> bool:
        name, attributes = tag.name, tag.attributes
        if name in _NEVER_HIDDEN:
            return False
        return (
            name in _UNSEEN
            or (name == "dialog" and "open" not in attributes)
            or (name in _UNSEEN_IN_PICTURES and self._open.has("svg"))
            or attributes.get("hidden", "until-found").lower() != "until-found"
            or (name in _DECORATIONS and attributes.get("aria-hidden", "").lower() == "true")
            or _INVISIBLE.search(attributes.get("style", "")) is not None
        )

    def _note(self, key: str, value: str) -> None:
        """Keep the first sensible value of something that the page says of itself."""
        value = " ".join(clean(value).split())
        if key and value and len(value) <= MAX_METADATA_CHARACTERS:
            self.metadata.setdefault(key, value)

    def _break(self) -> None:
        """End the line where a block begins or ends."""
        if self._preformatted:
            self._line.end_row()
        elif self._heading is not None:
            self._line.space()
        else:
            self._flush()

    def _flush(self) -> None:
        """Write the line as a paragraph, or as part of the list it stands in."""
        text = self._line.take()
        if not text:
            return
        if not self._lists and not self._marker:
            self._put("paragraph", text)
            return
        indent = "  " * min(max(0, len(self._lists) - 1), MAX_INDENT)
        first = f"{self._marker} " if self._marker else "  "
        self._marker = ""
        lines = [line for line in text.split("\n") if line]
        self._put("list", "\n".join((f"{indent}{first}{lines[0]}", *(f"{indent}  {line}" for line in lines[1:]))))

    def _put(self, kind: str, text: str, level: int = 0) -> None:
        if text:
            self._sinks[-1].append(Piece(kind, text, level))

    def _leave_hidden(self) -> None:
        self._hidden -= 1

    def _leave_link(self) -> None:
        self._links -= 1

    def _leave_title(self) -> None:
        title = " ".join(clean("".join(self._title or ())).split())
        self._title = None
        self.title = self.title or title

    def _leave_heading(self) -> None:
        self._put("heading", self._line.take(), self._heading or 1)
        self._heading = None

    def _leave_preformatted(self) -> None:
        self._preformatted -= 1
        self._put("code", self._line.take_as_written().strip("\n"))

    def _leave_list(self) -> None:
        self._flush()
        self._lists.pop()

    def _leave_item(self) -> None:
        self._flush()
        self._marker = ""

    def _leave_cell(self, outside: list[ItemList]) -> None:
        self._flush()
        self._sinks.pop()
        self._lists = outside

    def _leave_table(self) -> None:
        self._flush()
        self._sinks[-1].append(self._tables.pop().piece())

    def _leave_menu(self) -> None:
        self._flush()
        total, linked = self._menu or (0, 0)
        self._menu = None
        kind = "menu" if total - linked <= max(MAX_LABEL_CHARACTERS, linked) else "group"
        pieces = self._sinks.pop()
        self._sinks[-1].append(Piece(kind, inner=pieces))
