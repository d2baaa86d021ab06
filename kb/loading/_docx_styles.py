"""What a Word paragraph's style and numbering say: heading level, title, list marker."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kb.loading._docx_package import child_value
from kb.loading._zip_package import attribute, local_name

_HEADING_NAME = re.compile(r"heading ([1-9])", re.IGNORECASE)
BODY_LEVEL = 9
"""Word's outline level of text that is no heading."""
MAX_LIST_LEVEL = 8
BULLET = "-"


@dataclass(frozen=True, slots=True)
class Style:
    """A paragraph style with what it inherits."""

    heading_level: int | None = None
    is_title: bool = False
    number_id: str | None = None
    list_level: int = 0


def read_styles(root: Any) -> dict[str, Style]:
    """Read the paragraph styles by id; what `basedOn` inherits is worked in."""
    elements = {
        attribute(e, "styleId") or "": e for e in (root if root is not None else ()) if local_name(e.tag) == "style"
    }
    styles: dict[str, Style] = {}
    for identity in elements:
        chain: list[Any] = []
        at: str | None = identity
        while at in elements and elements[at] not in chain:
            chain.append(elements[at])
            at = child_value(elements[at], "basedOn")
        styles[identity] = _style(chain)
    return styles


def _style(chain: list[Any]) -> Style:
    """One style from its own element and those that it is based on."""
    names = [child_value(element, "name") or "" for element in chain]
    outline = _first(chain, "pPr", "outlineLvl")
    level = _level(outline)
    if outline is None:
        match = next(filter(None, map(_HEADING_NAME.fullmatch, names)), None)
        level = int(match[1]) if match else None
    return Style(
        heading_level=level,
        is_title=names[0].lower() == "title",
        number_id=_first(chain, "pPr", "numPr", "numId"),
        list_level=_small_int(_first(chain, "pPr", "numPr", "ilvl"), 0),
    )


def _first(chain: list[Any], *names: str) -> str | None:
    return next((value for element in chain if (value := child_value(element, *names)) is not None), None)


def _level(outline: str | None) -> int | None:
    number = _small_int(outline, BODY_LEVEL)
    return number + 1 if number < BODY_LEVEL else None


def heading_level(properties: Any, style: Style) -> int | None:
    """The level of a paragraph, 1 the highest; None for text that is no heading."""
    own = child_value(properties, "outlineLvl")
    return style.heading_level if own is None else _level(own)


def _small_int(value: str | None, default: int) -> int:
    return int(value) if value is not None and re.fullmatch(r"[0-9]{1,6}", value) else default


@dataclass(frozen=True, slots=True)
class _Level:
    format: str
    pattern: str
    start: int


class Numbering:
    """The lists of a document: counts their items as the paragraphs go by."""

    def __init__(self, root: Any) -> None:
        self._levels: dict[str, dict[int, _Level]] = {}
        self._abstract: dict[str, str] = {}
        self._counts: dict[str, dict[int, int]] = {}
        self._restarted: set[str] = set()
        self._overrides: dict[str, dict[int, int]] = {}
        for element in root if root is not None else ():
            if local_name(element.tag) == "abstractNum":
                self._levels[attribute(element, "abstractNumId") or ""] = _levels(element)
            elif local_name(element.tag) == "num":
                number_id = attribute(element, "numId") or ""
                self._abstract[number_id] = child_value(element, "abstractNumId") or ""
                self._overrides[number_id] = {
                    _small_int(attribute(o, "ilvl"), 0): _small_int(start, 1)
                    for o in element
                    if local_name(o.tag) == "lvlOverride" and (start := child_value(o, "startOverride")) is not None
                }

    def marker(self, properties: Any, style: Style) -> tuple[str, int] | None:
        """Count a paragraph; gives its marker as a reader sees it and its depth, or None outside lists."""
        own = child_value(properties, "numPr", "numId")
        number_id = own if own is not None else style.number_id
        if number_id is None or number_id not in self._abstract:
            return None  # "0" takes a paragraph out of its style's list
        depth = min(_small_int(child_value(properties, "numPr", "ilvl"), style.list_level), MAX_LIST_LEVEL)
        abstract = self._abstract[number_id]
        levels = self._levels.get(abstract, {})
        level = levels.get(depth, _Level("bullet", "", 1))
        if level.format == "bullet":
            return BULLET, depth
        counts = self._counts.setdefault(abstract, {})
        if number_id not in self._restarted:
            self._restarted.add(number_id)
            for at, start in self._overrides.get(number_id, {}).items():
                counts[at] = start - 1
        counts[depth] = counts.get(depth, level.start - 1) + 1
        for deeper in [at for at in counts if at > depth]:
            del counts[deeper]
        return _numbered(level.pattern, levels, counts), depth


def _levels(abstract: Any) -> dict[int, _Level]:
    return {
        _small_int(attribute(e, "ilvl"), 0): _Level(
            child_value(e, "numFmt") or "decimal",
            child_value(e, "lvlText") or "",
            _small_int(child_value(e, "start"), 1),
        )
        for e in abstract
        if local_name(e.tag) == "lvl"
    }


def _numbered(pattern: str, levels: dict[int, _Level], counts: dict[int, int]) -> str:
    """Fill a pattern such as `%1.%2)`."""

    def number(match: re.Match[str]) -> str:
        depth = int(match[1]) - 1
        level = levels.get(depth, _Level("decimal", "", 1))
        return _FORMATS.get(level.format, str)(counts.get(depth, level.start))

    return re.sub(r"%([1-9])", number, pattern).strip()


def _letters(number: int) -> str:
    return chr(ord("a") + (number - 1) % 26) * ((number - 1) // 26 + 1)  # Word goes on with aa, bb, cc


def _roman(number: int) -> str:
    numerals = ((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"))
    text = ""
    for value, letters in (*numerals, (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i")):
        text += letters * (number // value)
        number %= value
    return text


_FORMATS: dict[str, Callable[[int], str]] = {
    "lowerLetter": lambda n: _letters(min(n, 702)) if n > 0 else str(n),
    "upperLetter": lambda n: _letters(min(n, 702)).upper() if n > 0 else str(n),
    "lowerRoman": lambda n: _roman(n) if 0 < n < 4000 else str(n),
    "upperRoman": lambda n: _roman(n).upper() if 0 < n < 4000 else str(n),
    "decimalZero": lambda n: f"{n:02d}",
    "none": lambda n: "",
}
"""Word's formats that differ from plain numbers; Chinese and Japanese counting is written in digits."""
