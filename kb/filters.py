"""Filters: which passages a question may be answered from, as in `--where kind=pdf --where page=3-7`.

Conditions on several fields have all to hold; of several values of one field, one. What a field means:

    source    the file's path below the folder: exactly, or a pattern as in .gitignore when it holds a star
    path      a folder below the folder, with everything in it (or one file); stars as in `source`
    kind      the loader that read it: pdf, markdown, docx …
    heading   any heading above the passage
    page      the pages that the passage stands on, in part too: 3, 3-7, 3-, -7
    (other)   a field of the front matter; one element of a list is enough

Paths are compared as file names are, everything else without regard to case and width.
"""

from __future__ import annotations

import datetime
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from kb.errors import ConfigError

OWN_FIELDS = ("source", "path", "kind", "heading", "page")
"""What can be asked for of every document; other names are those of its front matter."""

Test: TypeAlias = Callable[[str], bool]

_MOST_DEEP = 3
"""So many `**` with others between them in a pattern: each multiplies the ways to match a deep path."""
_ANY_FOLDERS = "(?:[^/]+/)*"
_PAGES = re.compile(r"(\d{1,9})|(\d{1,9})?\s*[-–—~〜]\s*(\d{1,9})?")


@dataclass(frozen=True, slots=True)
class Condition:
    """One field, and the values of which one has to hold, as they were written."""

    field: str
    values: tuple[str, ...]

    def __post_init__(self) -> None:
        """Refuse what says nothing.

        Raises:
            ConfigError: the name or a value is blank, or a value is no page or no pattern.
        """
        if not self.field.strip():
            raise ConfigError("a filter needs the name of a field before the =, as in kind=pdf")
        if not self.values or not all(value.strip() for value in self.values):
            raise ConfigError(f"the filter {self.field}= needs a value behind the =, as in kind=pdf")
        if self.field == "page":
            self.page_ranges()
        if self.field in ("source", "path"):
            self.test()

    def test(self) -> Test:
        """Whether a text is one of the values: a path, a kind, a heading, one value of the front matter."""
        if self.field in ("source", "path"):
            return _any(_path_test(value, below=self.field == "path") for value in self.values)
        return _any(map(_text_test, self.values))

    def page_ranges(self) -> list[tuple[int, float]]:
        """The values as first and last page, from 1.

        Raises:
            ConfigError: one is no page.
        """
        return [_page_range(value) for value in self.values]


@dataclass(frozen=True, slots=True)
class Where:
    """Conditions that have all to hold, each on another field; without any, everything passes."""

    conditions: tuple[Condition, ...]

    @classmethod
    def parse(cls, written: Sequence[str]) -> Where:
        """Read conditions of the form `field=value`.

        Raises:
            ConfigError: one has another form.
        """
        pairs = []
        for text in written:
            field, equals, value = text.partition("=")
            if not equals:
                raise ConfigError(f"the filter {text!r} has no =; it has to be a field and a value, as in kind=pdf")
            pairs.append((field, [value]))
        return cls._joined(pairs)

    @classmethod
    def of(cls, given: Filter) -> Where | None:
        """The filter that a caller means; None for none.

        Args:
            given: Values by field: a text, number, bool or date, or a list of which one has to hold. Pages are
                numbers, `(first, last)` with None for an open end, or text.

        Raises:
            ConfigError: a value is of another kind.
        """
        if given is not None and not isinstance(given, Where):
            given = cls._joined([(str(field), _written(str(field), value)) for field, value in given.items()])
        return given if given is not None and given.conditions else None

    @classmethod
    def _joined(cls, pairs: Iterable[tuple[str, Sequence[str]]]) -> Where:
        values: dict[str, list[str]] = {}
        for field, more in pairs:
            values.setdefault(folded(field), []).extend(value.strip() for value in more)
        return cls(tuple(Condition(field, tuple(dict.fromkeys(some))) for field, some in values.items()))

    def __str__(self) -> str:
        return " ".join(f"--where {one}" for one in self.written)

    @property
    def written(self) -> tuple[str, ...]:
        """Every condition as `field=value`."""
        return tuple(f"{one.field}={value}" for one in self.conditions for value in one.values)

    def on(self, *fields: str) -> list[Condition]:
        """The conditions on some of our own fields."""
        return [one for one in self.conditions if one.field in fields]

    @property
    def on_front_matter(self) -> list[Condition]:
        """The conditions on other fields."""
        return [one for one in self.conditions if one.field not in OWN_FIELDS]


Filter: TypeAlias = Where | Mapping[str, Any] | None
"""What a caller gives for a filter; None for none."""


def folded(text: str) -> str:
    """A text as it is compared: without regard to case, to width (`Ａ` is `a`) and to how an accent is written."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()).strip()


def texts_of(value: object) -> set[str]:
    """What a value of the front matter can be asked for by; a list, which may be text with commas, by each element."""
    if isinstance(value, bool):
        return {str(value).lower()}
    if isinstance(value, (int, float)):
        return {str(value), f"{value:g}"}
    if isinstance(value, str):
        return {value, *value.split(",")}
    return {text for item in value for text in texts_of(item)} if isinstance(value, (list, tuple)) else set()


def _written(field: str, value: Any) -> list[str]:
    if folded(field) == "page" and isinstance(value, tuple):
        if len(value) != 2 or any(isinstance(end, bool) or not isinstance(end, (int, type(None))) for end in value):
            raise ConfigError(f"where page = {value!r}: a range of pages is (first, last), as in (3, 7) or (3, None)")
        return ["-".join("" if end is None else str(end) for end in value)]
    if isinstance(value, (list, tuple, set, frozenset)):
        return [text for item in value for text in _written(field, item)]
    if isinstance(value, bool):
        return [str(value).lower()]
    if isinstance(value, (str, int, float)):
        if folded(field) == "page" and not isinstance(value, str) and value < 1:
            raise ConfigError(f"where page = {value!r}: pages are counted from 1")  # as text it would be a range
        return [str(value)]
    if isinstance(value, datetime.date):
        return [value.isoformat()]
    raise ConfigError(f"where {field} = {value!r}: allowed are texts, numbers, true or false, dates, and lists of them")


def _any(tests: Iterable[Test]) -> Test:
    every = list(tests)
    return every[0] if len(every) == 1 else lambda text: any(test(text) for test in every)


def _text_test(value: str) -> Test:
    wanted = folded(value)
    if "*" not in wanted:
        return lambda text: folded(text) == wanted
    regex = re.compile(_starred(wanted, "."), re.DOTALL)
    return lambda text: regex.fullmatch(folded(text)) is not None


def _path_test(value: str, *, below: bool) -> Test:
    """Whether a path below the folder is meant.

    Args:
        value: A path, or a pattern.
        below: Whether what lies below a folder of that path is meant as well.
    """
    wanted = unicodedata.normalize("NFC", value).removeprefix("./")
    bare = wanted.strip("/") if below else wanted.removeprefix("/")
    if not bare:
        raise ConfigError(f"the filter path={value} names no folder; leave it out for all files")
    if "*" not in bare:
        return lambda path: path == bare or (below and path.startswith(f"{bare}/"))
    regex = re.compile(_path_regex(bare, anywhere="/" not in wanted.rstrip("/")) + ("(?:/.*)?" if below else ""), re.S)
    return lambda path: regex.fullmatch(path) is not None


def _path_regex(pattern: str, *, anywhere: bool) -> str:
    parts = re.sub(r"(?<![^/])(?:\*\*/)+", "**/", pattern).split("/")
    if parts.count("**") > _MOST_DEEP:
        raise ConfigError(f"the filter {pattern!r} has more than {_MOST_DEEP} times **")
    regex = _ANY_FOLDERS if anywhere and parts[0] != "**" else ""
    for part in parts[:-1]:
        regex += _ANY_FOLDERS if part == "**" else _starred(part, "[^/]") + "/"
    return regex + (".+" if parts[-1] == "**" else _starred(parts[-1], "[^/]"))


def _starred(pattern: str, character: str) -> str:
    """The regex of a pattern whose stars stand for any number of a class of characters.

    The shortest match of a star leaves the most for the next one, so none but the last is tried twice: the time
    rises with a text's length, not with a power of it.
    """
    first, *others = map(re.escape, re.split(r"\*+", pattern))
    middle = [f"(?>{character}*?{part})" for part in others[:-1]]
    return "".join([first, *middle, *(f"{character}*{part}" for part in others[-1:])])


def _page_range(value: str) -> tuple[int, float]:
    found = _PAGES.fullmatch(unicodedata.normalize("NFKC", value).strip())
    single, first, last = found.groups("") if found else ("", "", "")
    start = int(single or first or "1")
    end = float(single or last or "inf")
    if not (single or first or last) or not 1 <= start <= end:
        raise ConfigError(f"the filter page={value} is no page from 1 and no range of pages; write 3, 3-7, 3- or -7")
    return start, end
