"""Which elements are open while a page is read, and which tag closes what, as browsers have it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

VOID = frozenset(
    ("area", "base", "br", "col", "embed", "frame", "hr", "img", "input", "link", "meta", "param", "source", "track",
     "wbr")
)  # fmt: skip
"""Elements without content and end tag."""
HEADINGS = {f"h{level}": level for level in range(1, 7)}
LISTS = frozenset(("ul", "ol", "menu", "dir"))
PREFORMATTED = frozenset(("pre", "listing", "xmp", "plaintext"))
BLOCKS = frozenset(
    ("address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details", "dialog", "div", "dl",
     "dt", "fieldset", "figcaption", "figure", "footer", "form", "header", "hgroup", "hr", "legend", "li", "main",
     "nav", "optgroup", "p", "search", "section", "summary", "table", "tbody", "td", "tfoot", "th", "thead", "tr",
     *HEADINGS, *LISTS, *PREFORMATTED)
)  # fmt: skip
"""Elements that begin and end a line."""

_FAMILIES = {
    **dict.fromkeys(HEADINGS, "heading"),
    **dict.fromkeys(LISTS, "list"),
    **dict.fromkeys(("td", "th", "caption"), "cell"),
    **dict.fromkeys(("thead", "tbody", "tfoot"), "rows"),
    **dict.fromkeys(("dt", "dd"), "definition"),
    **dict.fromkeys(("rt", "rp", "rb", "rtc"), "rt"),
}
"""Names whose end tags close each other."""
_PARTS_OF_TABLES = frozenset(("cell", "tr", "rows", "table"))
_FENCES = frozenset(("cell", "table", "button", "object", "template"))
"""What an end tag within closes nothing beyond."""
_CLOSED_BY = {
    "li": (("li",), "list"),
    "definition": (("definition",), "dl"),
    "cell": (("cell",), "table"),
    "tr": (("cell", "tr"), "table"),
    "rows": (("cell", "tr", "rows"), "table"),
    "option": (("option",), "select"),
    "rt": (("rt",), "ruby"),
}
"""What a start tag closes (innermost first), and the element beyond which it doesn't."""


@dataclass(frozen=True, slots=True)
class Element:
    """An open element, and what is to be done at its end."""

    name: str
    finish: Callable[[], None] | None = None


class OpenElements:
    """The open elements, from the outermost; each call takes constant time for each element closed."""

    def __init__(self) -> None:
        self._stack: list[Element] = []
        self._places: dict[str, list[int]] = {}
        """Where the elements of each family lie in the stack."""
        self._fences: list[int] = []

    def push(self, element: Element) -> None:
        """Open an element."""
        family = _family(element.name)
        self._places.setdefault(family, []).append(len(self._stack))
        if family in _FENCES:
            self._fences.append(len(self._stack))
        self._stack.append(element)

    def closed_by_start(self, name: str) -> list[Element]:
        """Close what the start tag of `name` ends without saying so; innermost first."""
        closed: list[Element] = []
        family = _family(name)
        if name in BLOCKS and self._last("p") > self._fence():
            closed += self._pop_from(self._last("p"))
        if name == "a" and self._last("a") > self._fence():
            closed += self._pop_from(self._last("a"))
        families, limit = _CLOSED_BY.get(family, ((), ""))
        beyond = max(self._last(limit), self._limit(family))
        for one in families:
            if self._last(one) > beyond:
                closed += self._pop_from(self._last(one))
        return closed

    def closed_by_end(self, name: str) -> list[Element]:
        """Close the element that an end tag of `name` ends, with all within it; [] when it ends none."""
        family = _family(name)
        place = self._last(family)
        return self._pop_from(place) if place >= max(self._limit(family), 0) else []

    def close_all(self) -> list[Element]:
        """Close what is open at the end of the file."""
        return self._pop_from(0)

    def has(self, name: str) -> bool:
        """Whether an element of that name, or family, is open."""
        return self._last(name) >= 0

    def _limit(self, family: str) -> int:
        """The place of the element beyond which nothing of this family is closed."""
        if family in _PARTS_OF_TABLES:
            return max(self._last("table"), self._last("template"))
        return -1 if family == "template" else self._fence()

    def _last(self, family: str) -> int:
        places = self._places.get(family)
        return places[-1] if places else -1

    def _fence(self) -> int:
        return self._fences[-1] if self._fences else -1

    def _pop_from(self, place: int) -> list[Element]:
        closed = []
        while len(self._stack) > place:
            element = self._stack.pop()
            family = _family(element.name)
            self._places[family].pop()
            if family in _FENCES:
                self._fences.pop()
            closed.append(element)
        return closed


def _family(name: str) -> str:
    return _FAMILIES.get(name, name)
