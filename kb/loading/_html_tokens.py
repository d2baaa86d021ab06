"""HTML → tags and text, as browsers cut it (WHATWG, "HTML", section Tokenization), in linear time.

Written here because the parsers there are don't read hostile pages in linear time: 20,000 open elements
and as many end tags that match none take libxml2 (lxml 6.1.3, events) 1.4 s and lexbor (selectolax 1.0.2)
1.6 s, growing with the square, lexbor for mere depth too. libxml2's tree loses what is deeper than 2,048
elements; lexbor reads `<title/>`, as e-books have it, as a title without an end, and nothing after it.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

_OPEN = re.compile(r"<(/?)([a-zA-Z][^ \t\n/>]*+)")
_ATTRIBUTE = re.compile(
    r"[ \t\n/]*+(?:(>)|([^ \t\n/>][^ \t\n/>=]*+)"
    r"(?:[ \t\n]*+=[ \t\n]*+(?:\"([^\"]*+)\"|'([^']*+)'|(?![\"'>])([^ \t\n>]++)))?+)"
)
_COMMENT_END = re.compile("--!?>")
_SUBSET = re.compile(r"<!DOCTYPE[^>\[]*+\[[^\]]*+\][ \t\n]*+>", re.IGNORECASE)
_CDATA = "<![CDATA["
_LONG_NUMBER = re.compile(r"&#(?:[0-9]{8,}+|[xX][0-9a-fA-F]{8,}+);?")
"""No character has so high a number, and Python refuses to read numbers of thousands of digits."""

_CODE = frozenset(("script", "style", "iframe", "noembed", "noframes", "noscript"))
"""Their content is no markup, and nothing that a reader sees."""
_PLAIN = frozenset(("title", "textarea", "xmp"))
"""Their content is text in which tags mean nothing."""
_ENDS = {name: re.compile(rf"</{name}(?=[ \t\n/>])", re.IGNORECASE) for name in _CODE | _PLAIN}


@dataclass(frozen=True, slots=True)
class Tag:
    """A start tag, or an end tag, with its name in lower case."""

    name: str
    closes: bool = False
    empty: bool = False
    """Whether it is `<name/>` in a file that is XML; elsewhere the slash means nothing."""
    attributes: Mapping[str, str] = field(default_factory=dict)
    """Values as written, entities included; the first of two of a name."""


def unescape(text: str) -> str:
    """Resolve the entities of HTML."""
    return html.unescape(_LONG_NUMBER.sub("\ufffd", text)) if "&" in text else text


class Tokens:
    """Cuts one file: iterating gives a `Tag` for each tag and a `str` for each piece of text."""

    def __init__(self, markup: str, *, xml: bool = False) -> None:
        r"""Take the markup; its line ends are `\n`. `xml` is for XHTML, where `<p/>` is a whole element."""
        self._markup = markup
        self._xml = xml
        self._unclosed: set[str] = set()
        """Elements of `_ENDS` that have no end tag any more: nobody looks for it twice."""
        self._declared = False

    def __iter__(self) -> Iterator[Tag | str]:
        """Give the tokens in order; comments, declarations and scripts are left out."""
        markup, size = self._markup, len(self._markup)
        at = 0
        while at < size:
            tag_at = markup.find("<", at)
            if tag_at != at:
                tag_at = size if tag_at < 0 else tag_at
                yield unescape(markup[at:tag_at])
                at = tag_at
            elif opened := _OPEN.match(markup, at):
                tag, at = self._tag(opened)
                if tag is None:
                    return
                yield tag
                if tag.name in _ENDS and not tag.closes and not tag.empty:
                    text, at = self._content(tag.name, at)
                    yield text
                    if tag.name in self._unclosed:
                        yield Tag(tag.name, closes=True)
            elif markup.startswith(("<!", "<?", "</"), at):
                if self._xml and markup.startswith(_CDATA, at):
                    end = self._behind("]]>", at)
                    yield markup[at + len(_CDATA) : end].removesuffix("]]>")
                    at = end
                else:
                    at = self._no_text(at)
            else:
                yield "<"
                at += 1

    def _tag(self, opened: re.Match[str]) -> tuple[Tag | None, int]:
        """The tag whose name was found and where it ends; None when the file ends within it."""
        name = opened[2].lower()
        if self._xml:
            name = name.rpartition(":")[2]  # <xhtml:p>, <svg:text>
        attributes: dict[str, str] = {}
        at = opened.end()
        while found := _ATTRIBUTE.match(self._markup, at):
            at = found.end()
            if found[1]:
                return Tag(name, bool(opened[1]), self._xml and found[0].endswith("/>"), attributes), at
            attributes.setdefault(found[2].lower(), found[3] or found[4] or found[5] or "")
        return None, len(self._markup)

    def _content(self, name: str, at: int) -> tuple[str, int]:
        """The text of an element that holds no markup, "" for code, and where it ends."""
        end = None if name in self._unclosed else _ENDS[name].search(self._markup, at)
        if end is None:
            self._unclosed.add(name)
            # A title that is never closed would hide the page; a script's code must not be shown.
            return "", len(self._markup) if name in ("script", "style") else at
        if name in _CODE:
            return "", end.start()
        text = self._markup[at : end.start()]
        return text if name == "xmp" else unescape(text), end.start()

    def _no_text(self, at: int) -> int:
        """The end of a comment, a declaration or a processing instruction."""
        if self._markup.startswith("<!--", at):
            if self._markup.startswith((">", "->"), at + 4):
                return self._behind(">", at)
            end = _COMMENT_END.search(self._markup, at + 4)
            return end.end() if end else len(self._markup)
        if not self._declared and self._markup.startswith("<!", at):
            self._declared = True
            if subset := _SUBSET.match(self._markup, at):
                return subset.end()
        return self._behind(">", at)

    def _behind(self, end: str, at: int) -> int:
        found = self._markup.find(end, at)
        return len(self._markup) if found < 0 else found + len(end)
