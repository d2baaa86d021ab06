"""The line of text that is being read, and the lists it stands in."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kb.loading._clean import clean
from kb.loading._pdf_text import CJK_GAP

_BREAK = "\v"
"""Stands for `<br>` until the line is taken; cleaned text has none."""
_SPACES = re.compile("[ \t\n\u00a0]+")
_WRAPS = re.compile("[ \t]*\n[ \t\n]*")
_BLANK_LINES = re.compile("\n{3,}")
_NUMBER = re.compile(r"[-−+]?\d")
MAX_INDENT = 8
"""Levels of lists that are told apart, as in Word."""


class Line:
    """Collects pieces of text until a block ends."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._is_raised = False
        self.is_blank = True
        """Whether there is nothing but space."""

    def add(self, text: str) -> None:
        """Add text as it is written in the file."""
        if self._is_raised:
            self._is_raised = False
            if _NUMBER.match(text) and self._pieces and self._pieces[-1][-1:].isdigit():
                text = f"^{text}"  # 10^6, and a note's number, would be another number without it
        self._pieces.append(text)
        self.is_blank = self.is_blank and not text.strip()

    def raise_next(self) -> None:
        """Say that the text added next is superscript."""
        self._is_raised = True

    def space(self) -> None:
        """Part what stands side by side."""
        self._pieces.append(" ")

    def end_line(self) -> None:
        """Begin another line of the same paragraph."""
        self._pieces.append(_BREAK)

    def end_row(self) -> None:
        """Begin another line where the last one has ended, once."""
        if self._pieces and not self._pieces[-1].endswith(("\n", _BREAK)):
            self._pieces.append(_BREAK)

    def take(self) -> str:
        """Give the text as a browser shows it: spaces and line ends are one space, none within CJK text."""
        lines = [clean(line) for line in self._joined().split(_BREAK)]
        text = "\n".join(_SPACES.sub(" ", _unwrapped(line)).strip() for line in lines)
        return _BLANK_LINES.sub("\n\n", text).strip()

    def take_as_written(self) -> str:
        """Give the text with its spaces and line ends."""
        return self._joined().replace(_BREAK, "\n").replace("\u00a0", " ")

    def _joined(self) -> str:
        text = "".join(self._pieces)
        self._pieces.clear()
        self.is_blank = True
        return text


def _unwrapped(text: str) -> str:
    """Join lines of Chinese and Japanese, where the end of a line in the file is no space."""
    text = text.strip()

    def join(wrap: re.Match[str]) -> str:
        around = f"{text[wrap.start() - 1]} {text[wrap.end()]}"
        return "" if CJK_GAP.search(around) else " "

    return _WRAPS.sub(join, text) if "\n" in text else text


class ItemList:
    """A list that is open, and the number of its next item."""

    def __init__(self, name: str, attributes: Mapping[str, str]) -> None:
        self._next = _number(attributes.get("start"), 1) if name == "ol" else None

    def marker(self, attributes: Mapping[str, str]) -> str:
        """The marker of the next item."""
        if self._next is None:
            return "-"
        number = _number(attributes.get("value"), self._next)
        self._next = number + 1
        return f"{number}."


def _number(value: str | None, default: int) -> int:
    return int(value) if value and re.fullmatch(r"-?\d{1,6}", value, re.ASCII) else default
