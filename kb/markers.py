"""Citation markers in an answer's text: found, and brought into one form while the text streams.

A marker names hits by number: `[1]`, `[1][2]`, `[1, 3-5]`, `【1】`, `［１］`. These are none:

- what stands in a code fence, or in inline code that closes on its own line;
- a Markdown link or image, `[1](https://…)`, `![1](x.png)`;
- a subscript: right after a name that is usually indexed (`array[2]`, `x[0]`, `$rows[1]`), or right
  after any ASCII word when code goes on behind it (`days[1].count()`, `total[2] = 3`). Other words may
  stand right before a marker, as models write it: "30 days[1]", "Tokyo[1]", "退款[1]", "ERR_429[1]".

    >>> marker_filter = MarkerFilter(n_hits=3)
    >>> marker_filter.feed("So it is【1】 and [2, 9") + marker_filter.feed("]; array[2].") + marker_filter.finish()
    'So it is [1] and [2]; array[2].'
    >>> marker_filter.removed
    (9,)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

# Limits on what a stream holds back; longer brackets, code spans, links and fence lines are prose.
MAX_MARKER_CHARACTERS = 48
MAX_CODE_CHARACTERS = 300
MAX_LINK_CHARACTERS = 300
MAX_FENCE_CHARACTERS = 200
# "[1-4]" means four sources; a wider range is a span of years or a mistake, of which only the ends count.
MAX_RANGE = 20

_CLOSING = {"[": "]", "【": "】", "［": "］"}
_SEPARATORS = ",，、;； \u3000\t"
_DASHES = re.escape("-–—~〜～−")
_INSIDE = re.compile(rf"[\d{_SEPARATORS}{_DASHES}]*")
_NUMBER = r"\d{1,9}(?!\d)"
_WHOLE = re.compile(
    rf"[{_SEPARATORS}]*+{_NUMBER}(?:[{_SEPARATORS}]*+(?:[{_DASHES}][{_SEPARATORS}]*+)?{_NUMBER})*[{_SEPARATORS}]*"
)
_PART = re.compile(rf"(\d+)(?:[{_SEPARATORS}]*[{_DASHES}][{_SEPARATORS}]*(\d+))?")
_INTERESTING = re.compile(r"[\[【［`\n]|[ \t](?=[\[【［]|\Z)")

_LIST_PREFIX = r"[ \t]*(?:(?:[-*+>]|\d{1,3}[.)])[ \t]+)*"
_FENCE_LINE = re.compile(_LIST_PREFIX + r"(`{3,}|~{3,})")
_FENCE_TO_BE = re.compile(_LIST_PREFIX + r"(?:[-*+>]|\d{1,3}[.)]?|`{1,2}|~{1,2})?")
_NOTHING_YET = re.compile(_LIST_PREFIX + r"[-*+>]?")

_WORD_AT_END = re.compile(r"(\$?)([A-Za-z_][A-Za-z0-9_]*)\Z")
_ASCII_WORD_END = re.compile(r"[A-Za-z0-9_$\]]\Z")
_USUALLY_INDEXED = frozenset({"array", "arr", "list", "lst", "tuple", "args", "argv", "vec", "buf", "matrix"})
_CODE_GOES_ON = re.compile(r"\.[a-z_][A-Za-z0-9_]*[.(\[]|[ ]?(?:[-+*/|&]?=|:=)|::")
_CODE_TO_BE = re.compile(r"\.(?:[a-z_][A-Za-z0-9_]*)?|[ ]?[-+*/|&:]?")
_LOOK_AHEAD = 24
_LOOK_BACK = 48

_LINK_CHARACTERS = "[!-'*-~]"
_LINK = re.compile(rf"\((?=[^)]*[/#:.]){_LINK_CHARACTERS}+\)")
_LINK_TO_BE = re.compile(rf"\({_LINK_CHARACTERS}*")
_CLOSES_UP = frozenset(".,;:!?。，、；：！？)]}）】」』”’\"'")


@dataclass(frozen=True, slots=True)
class Marker:
    """One bracket of an answer that cites: `text[start:end]`, with the numbers in it, in order."""

    start: int
    end: int
    numbers: tuple[int, ...]


def find_markers(text: str) -> list[Marker]:
    """Find the citation markers of a whole text, in order; `[1][2]` are two."""
    return [token.marker for token in _Scanner().scan(text, final=True) if isinstance(token, _Found)]


class MarkerFilter:
    """Streams an answer through, with all markers as `[n]` and without those that point nowhere.

    Text passes at once; only what may still become a marker, and one blank before it, is held back, for
    at most some hundred characters. Pieces may be cut anywhere: the joined result is the same as for
    the whole text fed once. A number outside 1 … `n_hits` is dropped, with the blank before it where
    the text closes up; where closing up could make new marks of what is left, a "…" stands instead.
    """

    def __init__(self, n_hits: int) -> None:
        self._n_hits = n_hits
        self._scanner = _Scanner()
        self._removed: list[int] = []
        self._line = ""
        self.passed: list[str] = []
        """What was given so far; joined, it is the text."""

    @property
    def removed(self) -> tuple[int, ...]:
        """The numbers that were dropped, each once, in order of appearance."""
        return tuple(dict.fromkeys(self._removed))

    def feed(self, piece: str) -> str:
        """Take the next piece of the answer; give what is decided by now, maybe nothing."""
        return self._write(self._scanner.scan(piece, final=False))

    def finish(self) -> str:
        """Give what was still held back; the text has ended."""
        return self._write(self._scanner.scan("", final=True))

    def _write(self, tokens: Iterable[str | _Found]) -> str:
        written: list[str] = []
        for token in tokens:
            piece = token if isinstance(token, str) else self._normal(token)
            self._line = (self._line + piece)[-_LOOK_BACK:].rpartition("\n")[2]
            written.append(piece)
        self.passed += filter(None, written)
        return "".join(written)

    def _normal(self, found: _Found) -> str:
        numbers = found.marker.numbers
        kept = [number for number in numbers if 1 <= number <= self._n_hits]
        self._removed += [number for number in numbers if not 1 <= number <= self._n_hits]
        blank, following = found.blank, found.following
        if kept:
            # A full-width bracket is a marker wherever it stands; as "[1]" it needs room from word and link.
            before = " " if found.wide and not blank and _WORD_AT_END.search(self._line) else blank
            after = " " if found.wide and following == "(" else ""
            return before + "".join(f"[{number}]" for number in kept) + after
        if following in ("", "\n"):
            return ""
        line = self._line + blank
        if following in "`~=" or _NOTHING_YET.fullmatch(line) or _opens_marker(line):
            return blank + "…"
        if following.isspace() or following in _CLOSES_UP:
            return ""
        return " " if _ASCII_WORD_END.search(line) and following.isascii() else blank


@dataclass(frozen=True, slots=True)
class _Found:
    marker: Marker
    wide: bool
    blank: str
    """The blank right before the marker."""
    following: str
    """The character right after it, empty at the end of the text."""


class _Scanner:
    """Cuts a text that comes in pieces into plain text and markers."""

    def __init__(self) -> None:
        self._held = ""
        self._before = "\n"
        self._position = 0
        self._fence = ""
        self._subscript = False

    def scan(self, piece: str, *, final: bool) -> Iterator[str | _Found]:
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
            self._before = (self._before + taken)[-_LOOK_BACK:]
            at = end
            yield taken if found is None else found
        self._held = self._held[at:]

    def _decide(self, at: int, final: bool) -> tuple[int, _Found | None] | None:
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

    def _bracket(self, at: int, opening: int, final: bool) -> tuple[int, _Found | None] | None:
        """Decide the bracket at `opening`, before which `[at:opening]` is blank."""
        held = self._held
        if opening >= len(held):
            return (opening, None) if final else None
        limit = opening + 1 + MAX_MARKER_CHARACTERS
        inside = _INSIDE.match(held, opening + 1, limit)
        closing = inside.end() if inside else opening + 1
        if closing >= len(held) and closing < limit and not final:
            return None
        numbers = held[opening + 1 : closing]
        if held[closing : closing + 1] != _CLOSING[held[opening]] or not _WHOLE.fullmatch(numbers):
            # What opens here is no marker; a closing bracket that ends it is no chain of subscripts.
            self._subscript = False
            return opening + 1, None
        end = closing + 1
        if end >= len(held) and not final:
            return None
        stays = self._stays(at, opening, end, final)
        if stays is None:
            return None
        if stays:
            return end, None
        self._subscript = False
        start = self._position + opening - at
        marker = Marker(start, start + end - opening, _numbers(numbers))
        return end, _Found(marker, held[opening] != "[", held[at:opening], held[end : end + 1])

    def _stays(self, at: int, opening: int, end: int, final: bool) -> bool | None:
        """Whether a bracket with numbers is a link or a subscript, no marker; None to wait."""
        held = self._held
        if held[opening] != "[":
            return False
        limit = end + MAX_LINK_CHARACTERS
        if _LINK.match(held, end, limit):
            return True
        to_be = _LINK_TO_BE.match(held, end, limit)
        if to_be and to_be.end() == len(held) < limit and not final:
            return None
        if opening > at:
            return False
        if self._before.endswith("]"):
            return self._subscript
        word = _WORD_AT_END.search(self._before)
        if word is None:
            return False
        dollar, name = word.groups()
        rest = held[end : end + _LOOK_AHEAD]
        if dollar or name in _USUALLY_INDEXED or (len(name) == 1 and name.islower()) or _CODE_GOES_ON.match(rest):
            self._subscript = True
            return True
        undecided = len(rest) < _LOOK_AHEAD and not final and _CODE_TO_BE.fullmatch(rest)
        return None if undecided else False


def _code_end(text: str, at: int, final: bool) -> int | None:
    """The end of the inline code at `at`, or of its backticks when it isn't closed; None to wait."""
    run = at
    while run < len(text) and text[run] == "`":
        run += 1
    if run >= len(text) and not final:
        return None
    limit = run + MAX_CODE_CHARACTERS
    growing = len(text) < limit and not final
    for found in re.finditer(r"`+|\n", text[run:limit]):
        if found.group() == "\n":
            return run
        if growing and run + found.end() >= len(text):
            return None
        if found.group() == text[at:run]:
            return run + found.end()
    return None if growing else run


def _opens_marker(line: str) -> bool:
    return re.search(rf"[\[【［][\d{_SEPARATORS}{_DASHES}]*\Z", line) is not None


def _numbers(inside: str) -> tuple[int, ...]:
    numbers: list[int] = []
    for found in _PART.finditer(inside):
        first = int(found.group(1))
        last = int(found.group(2)) if found.group(2) else first
        numbers += range(first, last + 1) if 0 <= last - first <= MAX_RANGE else (first, last)
    return tuple(dict.fromkeys(numbers))
