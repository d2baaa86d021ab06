"""Read the small markdown subset in which the PDF and DOCX documents of the sample knowledge base are written.

`parse` knows front matter, headings of three levels, paragraphs, nested lists, pipe tables, bold, footnotes and page
breaks; inline code and emphasis become plain text. Anything else is refused with its line, so that no stray markup is
rendered.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

PAGE_BREAK = "<!-- pagebreak -->"
LANGUAGES = {"en": "en-GB", "zh": "zh-CN", "ja": "ja-JP"}

# Han, kana, full-width forms and their punctuation: no space is put where a source line ends beside one of these.
WIDE = r"\u2e80-\u303f\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uffef"

_HEADING = re.compile(r"(#{1,3}) +(.+)")
_ITEM = re.compile(r"( *)(-|\d+\.) +(.+)")
_NOTE = re.compile(r"\[\^([^\]]+)\]: *(.+)")
_INLINE = re.compile(r"(\*\*.+?\*\*|\[\^[^\]]+\])")
_PLAIN = re.compile(r"`([^`]+)`|(?<![*\w])\*([^*\s][^*]*)\*(?![*\w])")  # code and emphasis, shown as plain text
_RULE_CELL = re.compile(r":?-+:?")
_REFUSED = {
    "code fence": re.compile(r"^\s*(```|~~~)"),
    "block quote": re.compile(r"^\s*>"),
    "HTML": re.compile(r"</?[A-Za-z!]"),
    "image or link": re.compile(r"\]\("),
    "heading below level 3": re.compile(r"^#{4}"),
    "thematic break": re.compile(r"^\s*(-{3,}|\*{3,}|_{3,})\s*$"),
    "other bullet": re.compile(r"^\s*[*+] "),
}


class SourceError(Exception):
    """A source that can't be rendered; the message says which file and line, and what to do."""


@dataclass(frozen=True, slots=True)
class Run:
    """A stretch of text in one weight; with `note` set it's a footnote mark and has no text."""

    text: str
    bold: bool = False
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading; `level` is 1 to 3."""

    level: int
    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph, its source lines joined."""

    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class Item:
    """A list item; `depth` starts at 0, `number` is None for a bullet, `first` opens a new list of its depth."""

    depth: int
    number: int | None
    first: bool
    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table: rows of cells of runs, all of one width; the first row is the header."""

    rows: tuple[tuple[tuple[Run, ...], ...], ...]


Block = Heading | Paragraph | Item | Table


@dataclass(frozen=True, slots=True)
class Source:
    """One document: metadata, pages of blocks, and the footnotes' text by mark."""

    path: Path
    title: str
    language: str
    author: str
    pages: tuple[tuple[Block, ...], ...]
    notes: dict[str, tuple[Run, ...]]

    @property
    def locale(self) -> str:
        """Give the language with its region, as PDF and Word want it."""
        return LANGUAGES[self.language]

    def runs(self) -> Iterator[Run]:
        """Yield every run of the pages, in reading order."""
        for page in self.pages:
            for block in page:
                for runs in runs_of(block):
                    yield from runs


def parse(path: Path) -> Source:
    """Read one source.

    Raises:
        SourceError: Front matter, markup or a footnote isn't as the subset has it.
    """
    lines = path.read_text(encoding="utf-8").splitlines()
    body_start, meta = _front_matter(path, lines)
    parser = _Parser(path)
    for number, line in enumerate(lines[body_start:], start=body_start + 1):
        parser.feed(number, line.rstrip())
    parser.close()
    return Source(path, meta["title"], meta["language"], meta["author"], tuple(parser.pages), parser.notes)


def _front_matter(path: Path, lines: list[str]) -> tuple[int, dict[str, str]]:
    """Give the index of the first line of the body, and the keys before it."""
    try:
        end = lines.index("---", 1)
    except ValueError:
        end = 0
    if not end or lines[0] != "---":
        raise SourceError(f"{path}: starts without front matter; put title, language and author between two lines ---")
    meta = {key.strip(): value.strip().strip("\"'") for key, _, value in (x.partition(":") for x in lines[1:end])}
    for key in ("title", "language", "author"):
        if not meta.get(key):
            raise SourceError(f"{path}: front matter lacks {key}")
    meta["language"] = meta["language"].split("-")[0].lower()
    if meta["language"] not in LANGUAGES:
        raise SourceError(f"{path}: language {meta['language']!r} is unknown; use one of {', '.join(LANGUAGES)}")
    return end + 1, meta


@dataclass(slots=True)
class _Parser:
    """Collects lines into blocks, one line at a time."""

    path: Path
    pages: list[tuple[Block, ...]] = field(default_factory=list)
    notes: dict[str, tuple[Run, ...]] = field(default_factory=dict)
    page: list[Block] = field(default_factory=list)
    open_lines: list[str] = field(default_factory=list)  # of the paragraph, item or table being read
    opener: Item | None = None  # the item being read, without its text
    number: int = 0

    def feed(self, number: int, line: str) -> None:
        """Take the next line."""
        self.number = number
        if line.strip() == PAGE_BREAK:
            self._end_page()
        elif not line:
            self._end_block()
        else:
            self._check(line)
            self._feed_text(line)

    def _feed_text(self, line: str) -> None:
        if heading := _HEADING.fullmatch(line):
            self._end_block()
            self.page.append(Heading(len(heading[1]), self._runs(heading[2])))
        elif note := _NOTE.fullmatch(line):
            self._end_block()
            self.notes[note[1]] = self._runs(note[2])
        elif item := _ITEM.fullmatch(line):
            self._end_block()
            self.opener = self._item(item)
            self.open_lines = [item[3]]
        else:
            self.open_lines.append(line.strip())

    def close(self) -> None:
        """End the last page and check that marks and notes pair up."""
        self._end_page()
        blocks = (block for page in self.pages for block in page)
        marks = [run.note for block in blocks for runs in runs_of(block) for run in runs if run.note]
        if sorted(marks) != sorted(self.notes):
            raise self._error(f"footnote marks {sorted(marks)} and footnotes {sorted(self.notes)} don't pair up")

    def _end_page(self) -> None:
        self._end_block()
        if not self.page:
            raise self._error("an empty page; take out the page break before or after it")
        self.pages.append(tuple(self.page))
        self.page = []

    def _end_block(self) -> None:
        lines, opener = self.open_lines, self.opener
        self.open_lines, self.opener = [], None
        if not lines:
            return
        if lines[0].startswith("|"):
            self.page.append(self._table(lines))
        elif opener:
            self.page.append(Item(opener.depth, opener.number, opener.first, self._runs(_joined(lines))))
        else:
            self.page.append(Paragraph(self._runs(_joined(lines))))

    def _item(self, match: re.Match[str]) -> Item:
        depth = len(match[1]) // 2
        number = None if match[2] == "-" else int(match[2][:-1])
        before: Block | None = self.page[-1] if self.page else None
        if depth > (before.depth + 1 if isinstance(before, Item) else 0) or depth > 2:
            raise self._error("a list item is nested too deep; indent by two spaces a level, three levels at most")
        return Item(depth, number, self._opens_list(depth, number is None), ())

    def _opens_list(self, depth: int, bullet: bool) -> bool:
        """Say whether an item begins a list, rather than go on with one at its depth."""
        for block in reversed(self.page):
            if not isinstance(block, Item) or block.depth < depth:
                return True
            if block.depth == depth:
                return (block.number is None) != bullet
        return True

    def _table(self, lines: list[str]) -> Table:
        rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))] for line in lines]
        if len(rows) < 2 or not all(_RULE_CELL.fullmatch(cell) for cell in rows[1]):
            raise self._error("the table before this line has no row of --- below its header")
        if len({len(row) for row in rows}) != 1:
            raise self._error("the rows of the table before this line differ in their number of cells")
        cells = [tuple(self._runs(cell.replace(r"\|", "|")) for cell in row) for row in (rows[0], *rows[2:])]
        return Table(tuple(cells))

    def _runs(self, text: str) -> tuple[Run, ...]:
        runs = []
        plain = _PLAIN.sub(lambda match: match[1] or match[2], text)
        for part in filter(None, _INLINE.split(plain)):
            if part.startswith("[^"):
                runs.append(Run("", note=part[2:-1]))
            elif part.startswith("**") and part.endswith("**"):
                runs.append(Run(part[2:-2], bold=True))
            else:
                runs.append(Run(part))
        if any("**" in run.text for run in runs):
            raise self._error("** without its partner on the line or in the block before it")
        return tuple(runs)

    def _check(self, line: str) -> None:
        for name, pattern in _REFUSED.items():
            if pattern.search(line):
                raise self._error(f"{name}: not in the subset of markdown that is rendered: {line.strip()[:60]!r}")

    def _error(self, reason: str) -> SourceError:
        return SourceError(f"{self.path}:{self.number}: {reason}")


def runs_of(block: Block) -> Iterator[tuple[Run, ...]]:
    """Yield the runs of a block: once, or for a table once a cell, row by row."""
    if isinstance(block, Table):
        for row in block.rows:
            yield from row
    else:
        yield block.runs


def _joined(lines: list[str]) -> str:
    """Join source lines with spaces, except where both sides of the join are wide characters.

    Example: `_joined(["東京と", "大阪"])` is `"東京と大阪"`.
    """
    return re.sub(rf"(?<=[{WIDE}])\n(?=[{WIDE}])", "", "\n".join(lines)).replace("\n", " ")
