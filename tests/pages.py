"""The pages for users taken apart: blocks, prose, tables, and the commands that they show."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
GUIDES = [page for page in PAGES if page.name != "CHANGELOG.md" and page.parent.name != "decisions"]


@dataclass(frozen=True)
class Block:
    """A fenced block of a page; `mark` is the HTML comment on the line above it, such as `runs`."""

    page: str
    line: int
    mark: str
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks() -> Iterator[Block]:
    pattern = re.compile(r"(?:^<!-- (?P<mark>[^\n]+) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.M | re.S)
    for page in GUIDES:
        text = page.read_text(encoding="utf-8")
        for found in pattern.finditer(text):
            line = text.count("\n", 0, found.start()) + 1
            yield Block(name_of(page), line, found["mark"] or "", found["language"], found["text"])


def prose(page: Path) -> str:
    """A page without its blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)


def marked_table(mark: str) -> list[list[str]]:
    """The cells of the rows of the one table below `<!-- mark -->`, without its head."""
    found = [re.search(rf"<!-- {re.escape(mark)} -->\n((?:\|.*\n)+)", page.read_text("utf-8")) for page in GUIDES]
    (table,) = [match[1] for match in found if match]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines()[2:]]


def in_code(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as the usual hosts make them."""
    headings = re.findall(r"^#{1,6} (.+)$", prose(page), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def commands() -> set[str]:
    """Every command of this project that a block or a piece of code shows, without its comment."""
    lines = [line for block in blocks() if block.language == "sh" for line in block.text.splitlines()]
    lines += [code for page in GUIDES for code in in_code(prose(page).replace("\n", " "))]
    shown = re.compile(r"(?:^|[\s/])((?:python (?:-m (?:kb|pipelines)\.|tests/|benchmarks/)|make )[^#]*)")
    return {found[1].strip() for line in lines if (found := shown.search(line))}
