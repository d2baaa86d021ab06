"""How links, images and tags are written, for `kb.links`; the text is folded (`kb.urls.Folded`)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property

from kb.urls import STARTER, Folded, find_urls, fold, heads, same_url

_ACTIVE = """
a abbr applet area audio base bgsound body button canvas details dialog embed fieldset font form frame frameset head
html iframe image img input isindex link map marquee math meta noscript object option param picture plaintext portal
script select slot source style svg template textarea title track use video xml xmp
"""
ACTIVE_TAGS = frozenset(_ACTIVE.split()) - {"abbr", "details", "font", "title", "option", "map", "fieldset"}
TAG_NAME = re.compile(r"</?([a-z][a-z0-9:-]*)(?=[\s/>])", re.IGNORECASE)
TAG_TO_BE = re.compile(r"<(?:/?[a-z][a-z0-9:-]{0,30}|/|!-?)?\Z", re.IGNORECASE)
ATTRIBUTE = re.compile(r"[\s/\"'][\w:@.-]+\s*=")
AUTOLINK = re.compile(r"<([a-z][a-z0-9+.-]{1,31}:[^\s<>]*)>", re.IGNORECASE)
AUTOLINK_TO_BE = re.compile(r"<[a-z][a-z0-9+.-]{1,31}:[^\s<>]*\Z", re.IGNORECASE)

LINE_MARKS = re.compile(r"[ \t>]*(?:(?:[-*+]|\d{1,3}[.)])[ \t]+)*")
TITLE = re.compile(r"\s+(?:\"[^\"]*\"|'[^']*'|\([^()]*\))\s*\Z")
_ADDRESSED = re.compile(r"[/#:.?\\%]")
NUMBERS = re.compile(r"\s*\[?[\d\s,，、;-]*\d[\d\s,，、;–-]*\]?\s*")
_DESTINATIONS = re.compile(
    r"\]\(\s*<?([^\s()<>]+)|\]:\s*<?([^\s<>]+)|(?:href|src)\s*=\s*[\"']?([^\s\"'<>]+)", re.IGNORECASE
)


INTERESTING = re.compile(rf"!(?=\[|\Z)|[\[<`~]|{STARTER.pattern}", re.IGNORECASE)
INTERESTING_IN_CODE = re.compile(rf"[<`~]|{STARTER.pattern}", re.IGNORECASE)


class Known:
    """What contexts hold, for looking it up; read with the first link, as most answers have none."""

    def __init__(self, contexts: Iterable[str]) -> None:
        self._contexts = tuple(contexts)

    @cached_property
    def _folded(self) -> tuple[Folded, ...]:
        return tuple(map(fold, self._contexts))

    @cached_property
    def urls(self) -> frozenset[str]:
        """The addresses, in the form of `same_url`."""
        return _known_urls(self._folded)

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The texts, folded."""
        return tuple(text.text for text in self._folded)


def is_active(name: str, tag: str) -> bool:
    """Whether a tag may load, run or link something: by its name, or as it has an attribute."""
    return name.lower() in ACTIVE_TAGS or ATTRIBUTE.search(tag) is not None


def _known_urls(texts: Iterable[Folded]) -> frozenset[str]:
    """The addresses that stand in texts, bare or as a link's, in the form of `same_url`."""
    urls: set[str] = set()
    for folded in texts:
        for url in find_urls(folded):
            urls.add(same_url(url.text))
            urls.update(same_url(head) for head in heads(url.text) if STARTER.match(head + "/"))
        for groups in _DESTINATIONS.findall(folded.text):
            urls.update(same_url(group) for group in groups if group)
    return frozenset(urls)


_MOST_NESTED = 8

OPEN = -1
NONE = -2
_BRACKETS = {"[": re.compile(r"\\.|\n[ \t]*\n|[\[\]]"), "(": re.compile(r"\\.|\n[ \t]*\n|[()]")}


def matching(text: str, opening: int, limit: int) -> int:
    """Where the bracket at `opening` closes; OPEN when it doesn't yet, NONE when a blank line or too much is within."""
    first, last = text[opening], "]" if text[opening] == "[" else ")"
    depth = 0
    for found in _BRACKETS[first].finditer(text, opening, opening + limit):
        mark = found.group()
        if mark == first:
            depth += 1
            if depth > _MOST_NESTED:
                return NONE
        elif mark == last:
            depth -= 1
            if not depth:
                return found.start()
        elif mark[0] == "\n":
            return NONE
    return OPEN if len(text) < opening + limit else NONE


def is_destination(text: str) -> bool:
    """Whether what stands in round brackets behind square ones is an address, and no aside: `[1](see page 3)`."""
    if STARTER.search("".join(text.split())):
        return True
    return not re.search(r"\s", text) and _ADDRESSED.search(text) is not None
