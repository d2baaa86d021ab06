"""Cuts an answer that comes in pieces into plain text and citation markers (see `kb.markers`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from kb.marker_grammar import MAX_INSIDE, Cited, may_become, read

# Limits on what a stream holds back; longer code spans, links and fence lines are prose.
MAX_CODE_CHARACTERS = 300
MAX_LINK_CHARACTERS = 300
MAX_FENCE_CHARACTERS = 200

_CLOSING = {"[": "]", "【": "】", "［": "］", "(": ")）", "（": ")）"}
OPENING = r"[\[【［(（]"
# Another bracket within a square one is none of its own parts; "[1 (page 3)]" is.
_INSIDE_SQUARE = re.compile(r"[\[\]【】［］\n]")
_INSIDE_ROUND = re.compile(r"[\[\]【】［］()（）\n]")
_INTERESTING = re.compile(rf"{OPENING}|[`\n]|[ \t](?={OPENING}|\Z)")

_LIST_PREFIX = r"[ \t]*(?:(?:[-*+>]|\d{1,3}[.)])[ \t]+)*"
_FENCE_LINE = re.compile(_LIST_PREFIX + r"(`{3,}|~{3,})")
_FENCE_TO_BE = re.compile(_LIST_PREFIX + r"(?:[-*+>]|\d{1,3}[.)]?|`{1,2}|~{1,2})?")
NOTHING_YET = re.compile(_LIST_PREFIX + r"[-*+>]?")

WORD_AT_END = re.compile(r"(\$?)([A-Za-z_][A-Za-z0-9_]*)\Z")
ASCII_WORD_END = re.compile(r"[A-Za-z0-9_$\]]\Z")
_USUALLY_INDEXED = frozenset({"array", "arr", "list", "lst", "tuple", "args", "argv", "vec", "buf", "matrix"})
_CODE_GOES_ON = re.compile(r"\.[a-z_][A-Za-z0-9_]*[.(\[]|[ ]?(?:[-+*/|&]?=|:=)|::")
_CODE_TO_BE = re.compile(r"\.(?:[a-z_][A-Za-z0-9_]*)?|[ ]?[-+*/|&:]?")
_BEFORE_NUMBERS = re.compile(
    r"(?:[∈=]|\\in|\\left|\b(?:range|interval)s?(?: of| is)?"
    r"|(?:区间|區間|区間|范围|範囲|範圍)(?:是|为|為|は|：|:)?)[ \t]*\Z",
    re.IGNORECASE,
)
_LOOK_AHEAD = 24
LOOK_BACK = MAX_INSIDE + 16

_LINK_CHARACTERS = "[!-'*-~]"
_LINK = re.compile(rf"\((?=[^)]*[/#:.]){_LINK_CHARACTERS}+\)")
_LINK_TO_BE = re.compile(rf"\({_LINK_CHARACTERS}*")


@dataclass(frozen=True, slots=True)
class Marker:
    """One bracket of an answer that cites: `text[start:end]`, with the numbers in it, in order."""

    start: int
    end: int
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """A marker, and what the filter needs to know of where it stands."""

    marker: Marker
    rewritten: bool
    """It is no plain "[1, 2]", and will become one."""
    after_subscript: bool
    blank: str
    """The blank right before the marker."""
    following: str
    """The character right after it, empty at the end of the text."""


class Scanner:
    """Cuts a text that comes in pieces into plain text and markers."""

    def __init__(self) -> None:
        self._held = ""
        self._before = "\n"
        self._position = 0
        self._fence = ""
        self._subscript = False
        self._marker_end = -1

    def scan(self, piece: str, *, final: bool) -> Iterator[str | Found]:
        """Yield what `piece` decides; with `final`, everything."""
        self._held += piece
        at = 0
        while at < len(self._held):
            decided = self._decide(at, final)
            if decided is None:
                break
            end, found = decided
            taken = self._held[at:end]
            self._position += len(taken)
            self._before = (self._before + taken)[-LOOK_BACK:]
            at = end
            yield taken if found is None else found
        self._held = self._held[at:]

    def _decide(self, at: int, final: bool) -> tuple[int, Found | None] | None:
        """Decide the next stretch: its end and the marker in it, or None when more text is needed."""
        held = self._held
        if self._fence or self._before.endswith("\n"):
            end = self._line_of_code(at, final)
            if end != at:
                return None if end is None else (end, None)
        found = _INTERESTING.search(held, at)
        if found is None or found.start() > at:
            self._subscript = False
            return (len(held) if found is None else found.start()), None
        if held[at] == "\n":
            return at + 1, None
        if held[at] == "`":
            code_end = _code_end(held, at, final)
            return None if code_end is None else (code_end, None)
        return self._bracket(at, found.end() if held[at] in " \t" else at, final)

    def _line_of_code(self, at: int, final: bool) -> int | None:
        """The end of the fence line or line of code at `at`; `at` itself for prose, None to wait."""
        newline = self._held.find("\n", at)
        end = newline + 1 if newline >= 0 else len(self._held)
        line = self._held[at:end]
        if not self._before.endswith("\n"):
            return end  # the rest of a line of code
        growing = newline < 0 and not final and len(line) <= MAX_FENCE_CHARACTERS
        if self._fence:
            mark = line.strip()
            may_close = len(line) <= MAX_FENCE_CHARACTERS and not mark.strip(self._fence[0])
            if growing and may_close:
                return None
            if may_close and mark.startswith(self._fence):
                self._fence = ""
            return end
        found = _FENCE_LINE.match(line)
        if found is None:
            return None if growing and _FENCE_TO_BE.fullmatch(line) else at
        if len(line) > MAX_FENCE_CHARACTERS or (found.group(1)[0] == "`" and "`" in line[found.end() :]):
            return at
        if growing:
            return None
        self._fence = found.group(1)
        return end

    def _bracket(self, at: int, opening: int, final: bool) -> tuple[int, Found | None] | None:
        """Decide the bracket at `opening`, before which `[at:opening]` is blank."""
        held = self._held
        if opening >= len(held):
            return (opening, None) if final else None
        bracket = _bracketed(held, opening, final)
        if bracket is None:
            return None
        if not bracket:
            # What opens here is no marker; a closing bracket that ends it is no chain of subscripts.
            self._subscript = False
            return opening + 1, None
        end, cited = bracket
        if end >= len(held) and not final:
            return None
        stays = self._stays(at, opening, end, cited, final)
        if stays is None:
            return None
        if stays:
            return end, None
        after_subscript, self._subscript = self._subscript, False
        start = self._position + opening - at
        marker = Marker(start, start + end - opening, cited.numbers)
        self._marker_end = start + end - opening
        rewritten = not cited.plain or held[opening] != "[" or held[opening + 1] == "["
        return end, Found(marker, rewritten, after_subscript, held[at:opening], held[end : end + 1])

    def _stays(self, at: int, opening: int, end: int, cited: Cited, final: bool) -> bool | None:
        """Whether a bracket that could cite is a link, a subscript or mathematics, no marker; None to wait."""
        held = self._held
        if held[opening] == "(":  # "f(source 1)", "[text](source 1)"
            close = at == opening and self._position != self._marker_end
            return close and ASCII_WORD_END.search(self._before) is not None
        if held[opening] != "[":
            return False
        limit = end + MAX_LINK_CHARACTERS
        if _LINK.match(held, end, limit):
            return True
        to_be = _LINK_TO_BE.match(held, end, limit)
        if to_be and to_be.end() == len(held) < limit and not final:
            return None
        before = self._before + held[at:opening]
        following = held[end : end + 1]
        if cited.note and following and (following in "+{\\" or (following == ":" and _begins_line(before))):
            return True
        if cited.ranged and following and following in "+{\\":
            return True
        if cited.plain and len(cited.numbers) > 1 and _BEFORE_NUMBERS.search(before):
            return True
        if opening > at or not cited.plain:
            return False
        return self._is_subscript(end, final)

    def _is_subscript(self, end: int, final: bool) -> bool | None:
        """Whether a plain bracket right behind what was given is code; None to wait."""
        if self._before.endswith("]"):
            return self._subscript
        word = WORD_AT_END.search(self._before)
        if word is None:
            return False
        dollar, name = word.groups()
        rest = self._held[end : end + _LOOK_AHEAD]
        if dollar or name in _USUALLY_INDEXED or (len(name) == 1 and name.islower()) or _CODE_GOES_ON.match(rest):
            self._subscript = True
            return True
        undecided = len(rest) < _LOOK_AHEAD and not final and _CODE_TO_BE.fullmatch(rest)
        return None if undecided else False


def _bracketed(text: str, opening: int, final: bool) -> tuple[int, Cited] | Literal[False] | None:
    """Where the bracket at `opening` ends, and what it cites; False when it is no marker, None to wait."""
    inner = opening + 1
    if text[opening] != "[" or text[inner : inner + 1] not in ("[", ""):
        return _bracketed_once(text, opening, final)
    found = _bracketed_once(text, inner, final) if inner < len(text) else (False if final else None)
    if not found:
        return found
    end, cited = found
    if end >= len(text) and not final:
        return None
    return (end + 1, cited) if text[end : end + 1] == "]" else False


def _bracketed_once(text: str, opening: int, final: bool) -> tuple[int, Cited] | Literal[False] | None:
    mark = text[opening]
    limit = opening + 1 + MAX_INSIDE
    stop = (_INSIDE_ROUND if mark in "(（" else _INSIDE_SQUARE).search(text, opening + 1, limit)
    if stop is None:
        waits = len(text) < limit and not final and may_become(text[opening + 1 :], mark)
        return None if waits else False
    if stop.group() not in _CLOSING[mark]:
        return False
    cited = read(text[opening + 1 : stop.start()], mark)
    return (stop.end(), cited) if cited else False


def _code_end(text: str, at: int, final: bool) -> int | None:
    """The end of the inline code at `at`, or of its backticks when it isn't closed; None to wait."""
    run = at
    while run < len(text) and text[run] == "`":
        run += 1
    if run >= len(text) and not final:
        return None
    return inline_code_end(text, at, run, MAX_CODE_CHARACTERS, final)


def inline_code_end(text: str, at: int, run: int, most: int, final: bool) -> int | None:
    """Where the inline code ends whose backticks are `text[at:run]`.

    `run` when it isn't closed on its line within `most` characters; None when more text has to come first.
    """
    limit = run + most
    growing = len(text) < limit and not final
    for found in re.finditer(r"`+|\n", text[run:limit]):
        if found.group() == "\n":
            return run
        if growing and run + found.end() >= len(text):
            return None
        if found.group() == text[at:run]:
            return run + found.end()
    return None if growing else run


def _begins_line(before: str) -> bool:
    return not before.rpartition("\n")[2].strip()
