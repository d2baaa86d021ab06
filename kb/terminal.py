"""An answer on a terminal: wrapped at its width, coloured, with sources that can be clicked where it can do that."""

from __future__ import annotations

import os
import re
import shutil
from typing import TYPE_CHECKING
from urllib.parse import quote

from rich.cells import cell_len

from kb.display import checked_lines, nearest_hits, nothing_kept, one_each, place_of, scores, snippet
from kb.inert import one_line, safe

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kb.answers import Answer
    from kb.records import SearchResult

# Longer lines are hard to read back from, however wide the window is.
_WIDEST_TEXT = 100
_NARROWEST = 20
_INDENT = "   "
_SNIPPET_LINES = 3

# Select Graphic Rendition (ECMA-48, 8.3.117).
_MARKER, _WARNING, _QUIET = "1;36", "33", "2"

_MARKERS = re.compile(r"\[\d+\]")

# What may not begin a line, and what may not end one (JIS X 4051, GB/T 15834).
_NO_START = frozenset(
    "、。，．,.;:!?！？：；…‥・)）]］}｝」』】〕〉》”’%％々ーゝゞヽヾ〜～ぁぃぅぇぉっゃゅょゎァィゥェォッャュョヮヵヶ"
)
_NO_END = frozenset("(（[［{｛「『【〔〈《“‘$＄¥￥")
_ZERO_WIDTH_JOINER = "\u200d"
_BLANKS = frozenset(" \t\u3000")


class LineBreaker:
    """Breaks text at blanks and between Chinese or Japanese characters, piece by piece as it comes.

    Pieces may be cut anywhere, the lines are the same. A word that is wider than a line, such as an
    address, is left whole for the terminal to break, so that it can be copied.
    """

    def __init__(self, width: int, paint: Callable[[str], str] = str) -> None:
        self._width = width
        self._paint = paint
        self._column = 0
        self._before = ""
        self._unit = ""
        """What no line may break in, as far as it has come."""
        self._after = ""

    def feed(self, text: str) -> str:
        """Give what can be written now that `text` has come."""
        return "".join(map(self._character, text))

    def finish(self) -> str:
        """Give what was held back."""
        return self._flush()

    def _character(self, character: str) -> str:
        if character == "\n":
            written = self._flush()
            self._before, self._column = "", 0
            return f"{written}\n"
        if character in _BLANKS:
            if self._unit:
                self._after += character
            else:
                self._before += character
            return ""
        written = ""
        if self._after and character == "[":  # a marker stays with what it proves
            self._unit += self._after
            self._after = ""
        elif self._unit and (self._after or _may_break(self._unit[-1], character)):
            written = self._flush()
        self._unit += character
        return written

    def _flush(self) -> str:
        if not self._unit:
            return ""
        width = cell_len(self._unit)
        gap = self._before.replace("\t", "    ")
        new_line = self._column > 0 and self._column + cell_len(gap) + width > self._width
        if new_line:
            gap, self._column = "", 0
        self._column += cell_len(gap) + width
        written = ("\n" if new_line else "") + gap + self._paint(self._unit)
        self._before, self._unit, self._after = self._after, "", ""
        return written


def _may_break(before: str, after: str) -> bool:
    if before in _NO_END or after in _NO_START or before == _ZERO_WIDTH_JOINER or cell_len(after) == 0:
        return False
    return _stands_alone(before) or _stands_alone(after)


def _stands_alone(character: str) -> bool:
    """Whether lines break beside it without a blank: wide characters but Korean, which has blanks, and skin tones."""
    return (
        cell_len(character) == 2
        and not "\uac00" <= character <= "\ud7a3"
        and not "\U0001f3fb" <= character <= "\U0001f3ff"
    )


def shortened(line: str, width: int) -> str:
    """A line of at most `width` columns; what is too much is taken out before its last third."""
    if cell_len(line) <= width:
        return line
    tail = ""
    for character in reversed(line):
        if cell_len(character + tail) > width // 3:
            break
        tail = character + tail
    head = ""
    for character in line:
        if cell_len(head + character) > width - cell_len(tail) - 1:
            break
        head += character
    return f"{head}…{tail}"


class Terminal:
    """Writes answers and hits; `root` is the folder of the documents, for links to their files."""

    def __init__(
        self, write: Callable[[str], None], root: Path | None, *, width: int, colours: bool, links: bool
    ) -> None:
        self._write = write
        self._root = root
        self._width = max(width, _NARROWEST)
        self._text_width = min(self._width, _WIDEST_TEXT)
        self._colours = colours
        self._links = links
        self._breaker = self._new_breaker()

    @classmethod
    def open(cls, write: Callable[[str], None], root: Path | None) -> Terminal:
        """The terminal that the process runs in, with what it can do by `TERM` and may do by `NO_COLOR`."""
        kind = os.environ.get("TERM", "")
        capable = kind not in ("", "dumb", "unknown")
        return cls(
            write,
            root,
            width=shutil.get_terminal_size().columns,
            colours=capable and not os.environ.get("NO_COLOR"),
            links=capable and kind != "linux",
        )

    def piece(self, text: str) -> None:
        """Write the next piece of an answer's text."""
        self._write(self._breaker.feed(safe(text)))

    def end_of_text(self) -> None:
        """End the text that was written piece by piece."""
        self._write(self._breaker.finish() + "\n")
        self._breaker = self._new_breaker()

    def text(self, answer: Answer) -> None:
        """Write the text of an answer."""
        if answer.answered:
            self.piece(answer.text)
            self.end_of_text()
        else:
            self._write(self._wrapped(safe(answer.text), _WARNING) + "\n")

    def below(self, answer: Answer) -> None:
        """Write what stands below the text: sources, or the nearest passages, and notes."""
        sources = [
            f"{self._painted(f'[{citation.number}]', _MARKER)} {self._linked(where, citation.source, citation.page)}"
            for where, citation in one_each(answer.citations)
        ]
        nearest = [
            self._painted(f"{hit.similarity:6.2f}  {self._linked(place_of(hit), hit.source, hit.chunk.page)}", _QUIET)
            for hit in nearest_hits(answer)
        ]
        if nearest:
            nearest.insert(0, self._painted(f"Nearest passages (similarity, cutoff {answer.cutoff:.2f}):", _QUIET))
        checked = [self._wrapped(line, _WARNING) for line in checked_lines(answer)]
        notes = [self._wrapped(f"Note: {one_line(note)}", _WARNING) for note in answer.notes]
        for block in filter(None, (sources, checked, nearest, notes)):
            self._write("\n" + "\n".join(block) + "\n")

    def hits(self, result: SearchResult) -> None:
        """Write hits without an answer, best first, each with the beginning of its text."""
        if not result.hits:
            self._write(self._wrapped(nothing_kept(result), _WARNING) + "\n")
        for rank, hit in enumerate(result.hits, start=1):
            number = self._painted(f"{rank}.", _MARKER)
            self._write(f"{number} {self._linked(place_of(hit), hit.source, hit.chunk.page)}\n")
            self._write(f"{_INDENT}{self._painted(scores(hit), _QUIET)}\n")
            lines = self._wrapped(snippet(hit.chunk.text), indent=len(_INDENT)).split("\n")
            if len(lines) > _SNIPPET_LINES:
                lines[_SNIPPET_LINES - 1 :] = [f"{lines[_SNIPPET_LINES - 1]} …"]
            self._write("".join(f"{_INDENT}{line}\n" for line in lines))

    def _new_breaker(self) -> LineBreaker:
        def with_markers(unit: str) -> str:
            return _MARKERS.sub(lambda marker: self._painted(marker.group(), _MARKER), unit)

        return LineBreaker(self._text_width, with_markers)

    def _wrapped(self, text: str, style: str = "", indent: int = 0) -> str:
        breaker = LineBreaker(self._text_width - indent)
        return self._painted(breaker.feed(text) + breaker.finish(), style)

    def _painted(self, text: str, style: str) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if self._colours and style else text

    def _linked(self, where: str, source: str, page: int | None) -> str:
        """A place on one line, as a link to its file (OSC 8) where that exists."""
        shown = shortened(where, self._width - 8)
        file = self._root / source if self._root is not None else None
        if not self._links or file is None or not file.is_file():
            return shown
        address = f"file://{quote(os.fsencode(file.absolute()))}" + (f"#page={page}" if page is not None else "")
        return f"\x1b]8;;{address}\x1b\\{shown}\x1b]8;;\x1b\\"
