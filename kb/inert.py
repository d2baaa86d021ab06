r"""Text of documents and models as nothing but text: a terminal, a notebook and a JSON reader obey none of it.

A document may hold escape sequences that rewrite a terminal's screen, `<script>` or an image whose address
tells its owner who reads it. Whatever is printed or shown goes through here first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

_LINE_ENDS = re.compile("\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
# C0 and C1 controls but tab and line feed, and the marks that turn the direction of all that follows.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufeff]")
_SURROGATES = re.compile("[\ud800-\udfff]")

# What JSON may hold as it is, though a terminal that shows it obeys it, or a reader in JavaScript stumbles.
_JSON_UNSAFE = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def safe(text: str) -> str:
    r"""Text that a terminal only shows: line feeds and tabs are its only control characters.

    >>> safe("\x1b[31mred\x07 a\r\nb \x9b2J")
    '[31mred a\nb 2J'
    """
    return _SURROGATES.sub("\ufffd", _CONTROLS.sub("", _LINE_ENDS.sub("\n", text)))


def one_line(text: str) -> str:
    """The same on one line, with single blanks."""
    return " ".join(safe(text).split())


def json_text(value: Any, *, ascii_only: bool = False) -> str:
    """One line of JSON, whose strings are as they were, and which is safe to show."""
    text = json.dumps(value, ensure_ascii=ascii_only)
    return _JSON_UNSAFE.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


# ── markdown ──
#
# A character reference is text and never markup, whatever stands around it (CommonMark 0.31, 2.5). `$` and `\` get an
# element of their own: a notebook looks for formulas in the finished page, but not across elements.

_REFERENCES = {
    **{character: f"&#{ord(character)};" for character in "`*[]|~@"},
    **{character: f"<span>&#{ord(character)};</span>" for character in "$\\"},
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
}
_MARKUP = re.compile(
    r"(?P<marker>\[\d{1,3}\](?![(:]))"
    r"|(?P<colon>(?<=[A-Za-z]):(?=//)|(?<=mailto):|(?<=xmpp):)"
    r"|(?P<stop>(?<=www)\.)"
    r"|(?P<edge>(?<![^\W_])_|_(?![^\W_]))"
    r"|[`*\[\]|~@$\\&<>]",
    re.IGNORECASE,
)
_LINE_START = re.compile(r"(?P<mark>[-#+=:])|(?P<digits>\d{1,9})(?P<after>[.)])")


def inert(text: str) -> str:
    """Markdown that shows `text` letter by letter, each line on its own; blank lines part paragraphs."""
    lines = [_line(line.strip()) for line in safe(text).split("\n")]
    return _joined(lines)


def formatted(text: str) -> str:
    """Markdown of an answer: its lists, code and bold print are kept, all other markup is only shown.

    Nothing that is kept can load or run anything, or hide what it says.
    """
    clean = safe(text)
    parts: list[str] = []
    lines: list[str] = []
    for piece in pieces(clean):
        said = clean[piece.start : piece.end]
        if piece.kind == "code":
            parts += [_joined(lines), _code_block(piece.mark, said)]
            lines = []
        elif piece.kind == "item":
            lines.append(f"{' ' * piece.indent}{piece.mark} {_spans(said)}")
        else:
            lines.append(_spans(said, starts_line=True))
    parts.append(_joined(lines))
    return "\n\n".join(part for part in parts if part)


def _joined(lines: list[str]) -> str:
    """Lines that stay lines: two blanks at the end are a line break."""
    return re.sub(r" *\n(?:\s*\n)+ *", "\n\n", "  \n".join(lines)).strip()


def _line(line: str) -> str:
    """One line as nothing but text, also what means something only at a line's start."""
    start = _LINE_START.match(line)
    if start is None:
        return _inline(line)
    if start["mark"]:
        return f"&#{ord(start['mark'])};{_inline(line[1:])}"
    return f"{start['digits']}&#{ord(start['after'])};{_inline(line[start.end() :])}"


def _inline(text: str) -> str:
    return _MARKUP.sub(_reference, text)


def _reference(found: re.Match[str]) -> str:
    if found["marker"]:  # a link's label only where a definition of it stands, and none can
        return found.group()
    return _REFERENCES.get(found.group(), f"&#{ord(found.group()[0])};")


def _spans(text: str, *, starts_line: bool = False) -> str:
    """A line with its code and its bold print."""
    written: list[str] = []
    for run in runs(text, 0, len(text)):
        said = text[run.start : run.end]
        shown = _line(said) if starts_line and run.start == 0 and not run.tag else _inline(said)
        written.append(f"<{run.tag}>{shown}</{run.tag}>" if run.tag else shown)
    return "".join(written)


def _code_block(language: str, code: str) -> str:
    """A block in a fence that is longer than any in it."""
    longest = max((len(run) for run in re.findall("`+", code)), default=0)
    marks = "`" * max(3, longest + 1)
    return f"{marks}{language}\n{code}\n{marks}"


# ── what is kept of an answer's own markup ──

_LIST_ITEM = re.compile(r"(?P<indent> {0,8})(?P<mark>[-*+]|\d{1,9}[.)])[ \t]+(?=\S)")
_FENCE = re.compile(r" {0,3}(?P<fence>`{3,}|~{3,})[ \t]*(?P<language>[\w+#-]{0,20})[^`]*")
_SPAN = re.compile(
    r"(?<!`)(?P<ticks>`+)(?!`)(?P<code>[^\n]+?)(?<!`)(?P=ticks)(?!`)"
    r"|(?<![A-Za-z0-9*])\*\*(?=[^\s*])(?P<strong>[^*\n]+?)(?<!\s)\*\*(?![A-Za-z0-9*])"
)


@dataclass(frozen=True, slots=True)
class Piece:
    """One line of an answer without its list mark, or the lines of one block of code: `text[start:end]`."""

    kind: Literal["line", "item", "code"]
    start: int
    end: int
    mark: str = ""
    """An item's `-` or `3.`, or the language of code."""
    indent: int = 0
    """Blanks before an item; none before the first one of a list."""


@dataclass(frozen=True, slots=True)
class Run:
    """A stretch of a line, `text[start:end]`, and how it is set."""

    start: int
    end: int
    tag: Literal["", "code", "strong"] = ""


def pieces(text: str) -> Iterator[Piece]:
    """Cut a text that is `safe` into lines, list items and blocks of code, in order; blank lines are empty lines."""
    in_list = False
    opened: re.Match[str] | None = None
    code_start = code_end = at = 0
    for line in text.split("\n"):
        start, at = at, at + len(line) + 1
        if opened is not None:
            mark = line.strip()
            if len(mark) >= len(opened["fence"]) and set(mark) == {opened["fence"][0]}:
                yield Piece("code", code_start, code_end, opened["language"])
                opened = None
            else:
                code_end = start + len(line)
        elif opened := _FENCE.fullmatch(line):
            in_list, code_start, code_end = False, at, at
        elif item := _LIST_ITEM.match(line):
            yield Piece("item", start + item.end(), start + len(line), item["mark"], len(item["indent"]) * in_list)
            in_list = True
        else:
            start += len(line) - len(line.lstrip())
            yield Piece("line", start, start + len(line.strip()))
            in_list = in_list and bool(line.strip())
    if opened is not None:
        yield Piece("code", min(code_start, len(text)), min(code_end, len(text)), opened["language"])


def runs(text: str, start: int, end: int) -> Iterator[Run]:
    """Cut `text[start:end]`, a line or a part of one, at its code and its bold print, whose marks are left out."""
    at = start
    for found in _SPAN.finditer(text, start, end):
        if at < found.start():
            yield Run(at, found.start())
        tag: Literal["code", "strong"] = "code" if found["code"] else "strong"
        inside = found[tag]
        first = found.start(tag) + len(inside) - len(inside.lstrip())
        yield Run(first, first + len(inside.strip()), tag)
        at = found.end()
    if at < end:
        yield Run(at, end)
