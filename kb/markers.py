"""Citation markers in an answer's text: found, and brought into one form while the text streams.

A marker names hits by number: `[1]`, `[1][2]`, `[1, 3-5]`, `【1】`, `［１］`, `[[1]]`, or in one of the other ways that
models have (`[source 1]`, `[^1]`, `【1†source】`, `（来源1）`): see `kb.marker_grammar`. A bare `(1)` is none, nor are

- what stands in a code fence, or in inline code that closes on its own line;
- a Markdown link or image, `[1](https://…)`, `![1](x.png)`;
- a subscript: right after a name that is usually indexed (`array[2]`, `x[0]`, `$rows[1]`), or right
  after any ASCII word when code goes on behind it (`days[1].count()`, `total[2] = 3`). Other words may
  stand right before a marker, as models write it: "30 days[1]", "Tokyo[1]", "退款[1]", "ERR_429[1]";
- two numbers or more behind what an interval or an array stands behind, `x ∈ [1, 5]`, `in the range [1, 10]`,
  `区间 [1, 3]`, `rows = [1, 2]`, and a range as patterns have it, `[1-9]+`, `[1-9]{3}`;
- the definition of a footnote, `[^1]: …` at the beginning of a line.

    >>> marker_filter = MarkerFilter(n_hits=3)
    >>> marker_filter.feed("So it is【1】 and [2, 9") + marker_filter.feed("]; array[2].") + marker_filter.finish()
    'So it is [1] and [2]; array[2].'
    >>> marker_filter.removed
    (9,)
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from kb.marker_grammar import may_become
from kb.marker_scanner import ASCII_WORD_END, LOOK_BACK, NOTHING_YET, OPENING, WORD_AT_END, Found, Marker, Scanner

__all__ = ["Marker", "MarkerFilter", "find_markers"]

_CLOSES_UP = frozenset(".,;:!?。，、；：！？)]}）】」』”’\"'")
_OPENED = re.compile(rf"(?P<opening>{OPENING})(?P<inside>[^\[\]【】［］()（）\n]*)\Z")


def find_markers(text: str) -> list[Marker]:
    """Find the citation markers of a whole text, in order; `[1][2]` are two."""
    return [token.marker for token in Scanner().scan(text, final=True) if isinstance(token, Found)]


class MarkerFilter:
    """Streams an answer through, with all markers as `[n]` and without those that point nowhere.

    Text passes at once; only what may still become a marker, and one blank before it, is held back, for
    at most some hundred characters. Pieces may be cut anywhere: the joined result is the same as for
    the whole text fed once. A number outside 1 … `n_hits` is dropped, with the blank before it where
    the text closes up; where closing up could make new marks of what is left, a "…" stands instead.
    """

    def __init__(self, n_hits: int) -> None:
        self._n_hits = n_hits
        self._scanner = Scanner()
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

    def _write(self, tokens: Iterable[str | Found]) -> str:
        written: list[str] = []
        for token in tokens:
            piece = token if isinstance(token, str) else self._normal(token)
            self._line = (self._line + piece)[-LOOK_BACK:].rpartition("\n")[2]
            written.append(piece)
        self.passed += filter(None, written)
        return "".join(written)

    def _normal(self, found: Found) -> str:
        numbers = found.marker.numbers
        kept = [number for number in numbers if 1 <= number <= self._n_hits]
        self._removed += [number for number in numbers if not 1 <= number <= self._n_hits]
        blank, following = found.blank, found.following
        if kept:
            # Another form is a marker wherever it stands; as "[1]" it needs room from word, subscript and link.
            close = found.rewritten and not blank
            before = " " if close and (found.after_subscript or WORD_AT_END.search(self._line)) else blank
            after = " " if found.rewritten and following == "(" else ""
            return before + "".join(f"[{number}]" for number in kept) + after
        if following in ("", "\n"):
            return ""
        line = self._line + blank
        if following in "`~=" or NOTHING_YET.fullmatch(line) or _opens_marker(line, following):
            return blank + "…"
        if following.isspace() or following in _CLOSES_UP:
            return ""
        return " " if ASCII_WORD_END.search(line) and following.isascii() else blank


def _opens_marker(line: str, following: str) -> bool:
    """Whether a bracket is open that could become a marker when what stood at the line's end is gone."""
    opened = _OPENED.search(line)
    if opened is None or not may_become(opened["inside"], opened["opening"]):
        return False
    return following not in "]】］)）" or any(character.isnumeric() for character in opened["inside"])
