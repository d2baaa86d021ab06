r"""Addresses in text as a browser reads them: what is one, what is the same one, and whose it is.

A text is read as its reader's program would: character references (`&#104;ttps`), letters of full width and
invisible characters are undone before anything is compared (`Folded`). Percent-encoding is not: a server sees
it, so two addresses that differ in it are two.

    >>> [url.text for url in find_urls(fold("See ｈttps://Example.com/a, or www.example.org."))]
    ['https://Example.com/a', 'www.example.org']
    >>> same_url("HTTPS://EXAMPLE.com") == same_url("https://example.com/"), named_host("https://a.com@evil.example/x")
    (True, 'evil.example')
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from urllib.parse import urlsplit

MAX_URL = 2_000
"""Characters of an address; what is longer is none that anybody may keep."""

_NAME_CHARACTERS = 60
_REFERENCE = re.compile(r"&(?:#[0-9]{1,8};?|#[xX][0-9a-fA-F]{1,8};?|[A-Za-z][A-Za-z0-9]{1,20};)")
_REFERENCE_TO_BE = re.compile(r"&(?:#(?:[0-9]{0,8}|[xX][0-9a-fA-F]{0,8})|[A-Za-z][A-Za-z0-9]{0,20})?\Z")

# Where an address begins. Nobody writes "http:" but before one; "data:" and "file:" are words as well.
STARTER = re.compile(
    r"(?:https?|hxxps?|ftps?|wss?):(?=[/\\\w%\[])|file:(?=[/\\])|(?<!\w)mailto:(?=\S)|(?<!\w)(?:java|vb)script:(?=\S)"
    r"|(?<!\w)data:(?=[a-z]{1,20}/|[;,])|(?<!\w)www\d{0,3}\.(?=\w)|(?<=[(<=\"'\s:])//(?=[\w\[])|(?<=\]:\s)\\\\(?=\w)"
    r"|(?<![\w/])//(?=[\w.-]{1,60}\.[a-z])",
    re.IGNORECASE,
)
_STARTER_WORDS = (
    *("https:", "hxxps:", "http:", "hxxp:", "ftps:", "ftp:", "wss:", "ws:"),
    *("file:", "mailto:", "javascript:", "vbscript:", "data:", "www.", "//"),
)
_BEGINNINGS = sorted({word[:n] for word in _STARTER_WORDS for n in range(1, len(word) + 1)}, key=len, reverse=True)
_STARTER_TO_BE = re.compile(
    rf"(?:{'|'.join(map(re.escape, _BEGINNINGS))})\Z|data:[a-z]{{0,20}}\Z|(?<!\w)www\d{{0,3}}\Z"
    r"|//[\w.-]{0,64}\Z|\\{1,2}\Z",
    re.IGNORECASE,
)
_IN_CODE_A_COMMENT = re.compile(r"(?<![(<=\"':])//")

_ENDS = re.compile(r"[\s<>\"`。，、；！？）】」』》〉”’（【「『《]")
_TRAILING = ".,;:!?'\")]}*_~|，；）"
# These end a sentence or have no meaning to Markdown, whatever their narrow forms have.
_KEPT_WIDE = frozenset("，；！？（）｀～＼［］")
# What a kept address may run into without a blank: behind it another program could read on.
_CUTS = re.compile(r"['),;\[\]}|*]|[^\x00-\x7f]")


@dataclass(frozen=True, slots=True)
class Folded:
    """A text as it is read: `raw[i]` is how the i-th character of `text` was written."""

    text: str
    raw: list[str]


@dataclass(frozen=True, slots=True)
class Url:
    """An address in a folded text: `text` stands from `start` to `end`, as it is read."""

    start: int
    end: int
    text: str


def fold(text: str) -> Folded:
    """A whole text as it is read."""
    folder = Folder()
    return folder.fold(text, final=True)


class Folder:
    """Folds a text that comes in pieces."""

    def __init__(self) -> None:
        self._held = ""

    def fold(self, piece: str, *, final: bool) -> Folded:
        """What `piece` adds; a reference that may go on is held back, for some 20 characters."""
        text = self._held + piece
        self._held = ""
        if text.isascii() and "&" not in text:
            return Folded(text, list(text))
        if not final:
            cut = len(text)
            if (to_be := _REFERENCE_TO_BE.search(text)) is not None:
                cut = to_be.start()
            while cut and not _folded(text[cut - 1]):  # what is invisible belongs to the character behind it
                cut -= 1
            # A stream of nothing but invisible characters is let go.
            if len(text) - cut <= _NAME_CHARACTERS:
                text, self._held = text[:cut], text[cut:]
        read: list[str] = []
        raw: list[str] = []
        before, at = "", 0
        while at < len(text):
            found = _REFERENCE.match(text, at) if text[at] == "&" else None
            written = found.group() if found else text[at]
            at += len(written)
            character = _folded(_meant(written) if found else written)
            if not character:
                before += written
                continue
            read.append(character)
            raw.append(before + written)
            before = ""
        if before:
            read.append("\u200b")
            raw.append(before)
        return Folded("".join(read), raw)


def _meant(reference: str) -> str:
    """What a reference stands for; it is never the beginning of code."""
    meant = html.unescape(reference)
    return "'" if meant in ("`", "~") else meant


@cache
def _folded(character: str) -> str:
    """One character as it is read; "" when it isn't seen, the character itself when it stands for several."""
    if len(character) != 1:
        return character[:1]
    kind = unicodedata.category(character)
    if kind == "Cf" or (kind == "Cc" and character not in "\n\t\r") or 0xFE00 <= ord(character) <= 0xFE0F:
        return ""
    normal = unicodedata.normalize("NFKC", character)
    return normal if len(normal) == 1 and character not in _KEPT_WIDE else character


def find_urls(folded: Folded) -> Iterator[Url]:
    """The addresses of a whole text, in order; stops at an address's end are not part of it."""
    at = 0
    while (found := STARTER.search(folded.text, at)) is not None:
        end, _ = url_end(folded.text, found.start())
        end = trimmed(folded.text, found.start(), end)
        yield Url(found.start(), end, folded.text[found.start() : end])
        at = max(end, found.end())


def url_end(text: str, start: int) -> tuple[int, bool]:
    """Where the address that begins at `start` ends, and whether what ends it stands in the text."""
    found = _ENDS.search(text, start, start + MAX_URL)
    return (found.start(), True) if found else (min(len(text), start + MAX_URL), False)


def trimmed(text: str, start: int, end: int) -> int:
    """The end without the stops and closing brackets of the sentence around it; a bracket of its own stays."""
    while end > start and text[end - 1] in _TRAILING:
        if text[end - 1] == ")" and text.count("(", start, end) >= text.count(")", start, end):
            break
        end -= 1
    return end


def heads(text: str) -> Iterator[str]:
    """What an address may be without what it runs into, longest first."""
    cuts = [found.start() for found in _CUTS.finditer(text)]
    yield from (text[:cut] for cut in reversed(cuts) if cut)


def begins_url(text: str, at: int, *, code: bool) -> bool:
    """Whether an address begins at `at`; in code "//" mostly begins a comment."""
    return STARTER.match(text, at) is not None and not (code and _IN_CODE_A_COMMENT.match(text, at))


def ends_in_url(text: str) -> bool:
    """Whether what is written behind a text would go on its last address."""
    last = max((found.end() for found in _ENDS.finditer(text)), default=0)
    return STARTER.search(text, last) is not None


def url_to_be(text: str) -> int:
    """Where the end of a text begins that could become an address; its length when none could."""
    found = _STARTER_TO_BE.search(text, max(0, len(text) - 80))
    return found.start() if found else len(text)


def same_url(text: str) -> str:
    """The form in which equal addresses are equal: scheme and host in small letters, a host in its own script."""
    url = "".join(text.split()).replace("\\", "/")
    scheme, colon, rest = url.partition(":")
    if not colon or not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*", scheme):
        return url
    if not rest.startswith("//"):
        return f"{scheme.lower()}:{rest}"
    host, slash, path = rest[2:].partition("/")
    query = re.search(r"[?#]", host)
    if query:
        host, path = host[: query.start()], host[query.start() :] + slash + path
    return f"{scheme.lower()}://{_readable(host.lower())}/{path}"


def named_host(text: str) -> str:
    """Whose an address is, for a note: its host, else its scheme, else its beginning."""
    url = same_url(text)
    if url.lower().startswith("www"):
        url = f"http://{url}"
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:  # brackets that are no IPv6 address
        host = ""
    scheme, colon, _ = url.partition(":")
    name = _readable(host) or (f"{scheme}:" if colon else url)
    return "".join(c if c.isprintable() else "?" for c in name)[:_NAME_CHARACTERS]


def _readable(host: str) -> str:
    if "xn--" not in host:
        return host
    try:
        return host.encode("ascii").decode("idna")
    except UnicodeError:
        return host
