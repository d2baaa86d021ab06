"""Finds headings and blocks in Markdown, line by line, in linear time.

It follows CommonMark and GitHub's tables where a chunker needs it: which lines are headings, and
which spans are code, tables, lists and formulas. Inline markup and block quotes are not parsed;
neither headings in quotes nor those in list items divide a document.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_left
from dataclasses import dataclass, field

from kb.records import Block, BlockKind, Heading

_FENCE = re.compile(r"[ \t]*(`{3,}(?=[^`]*$)|~{3,})")
_LIST_ITEM = re.compile(r"([ \t]*)([-+*]|(\d{1,9})[.)])(?:([ \t]+)|$)")
_RULE = re.compile(r" {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-+)[ \t]*$")
_DELIMITER_CELL = re.compile(r":?-+:?")
_RAW_HTML = re.compile(r" {0,3}<(?:(!--)|(script|pre|style|textarea)(?=[\s>]|$)|(\?)|(!\[CDATA\[))", re.IGNORECASE)
_RAW_HTML_ENDS = ("-->", "", "?>", "]]>")
_RAW_HTML_TAG_END = re.compile(r"</(?:script|pre|style|textarea)>", re.IGNORECASE)

MAX_SETEXT_CHARACTERS = 200
"""A longer paragraph with a rule directly below is that, though CommonMark calls it a heading."""
TAB_STOP = 4

_HEADING_ID = re.compile(r"[ \t]*\{[ \t]*[#.:][^{}]*\}$")
_LINK = re.compile(r"!?\[([^\[\]]*)\](?:\([^()]*(?:\([^()]*\)[^()]*)*\)|\[[^\[\]]*\])")
_TAG = re.compile(r"</?[A-Za-z][^<>]*>|<!--.*?-->")
_EMPHASIS = re.compile(r"(?<!\\)(\*{1,3}|~~|(?<!\w)_{1,3}(?=\S)|(?<=\S)_{1,3}(?!\w))")
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")


def find_blocks(text: str, begin: int = 0) -> tuple[tuple[Heading, ...], tuple[Block, ...]]:
    """Find the headings and the blocks of a Markdown text; both rise by start.

    What stands before `begin`, the start of a line, is not looked at.
    """
    scanner = _Scanner(text, begin)
    scanner.run()
    return tuple(scanner.headings), tuple(scanner.blocks)


def heading_words(markup: str) -> str:
    """The words of a heading, without ids, links, tags, emphasis and escapes."""
    words = _HEADING_ID.sub("", markup)
    if "`" in words:  # code keeps what else would be markup
        parts = re.split(r"`+", words)
        return " ".join("".join(p if i % 2 else _plain(p) for i, p in enumerate(parts)).split())
    return " ".join(_plain(words).split())


def _plain(markup: str) -> str:
    words = _LINK.sub(r"\1", _LINK.sub(r"\1", markup))  # twice: an image in a link
    words = _EMPHASIS.sub("", _TAG.sub("", words))
    return html.unescape(_ESCAPE.sub(r"\1", words))


@dataclass(slots=True)
class _Scanner:
    text: str
    begin: int
    headings: list[Heading] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    never_closed: set[int] = field(default_factory=set)
    """Kinds of raw HTML whose end was searched in vain: searched once, it isn't searched again."""

    def run(self) -> None:
        self.lines = self.text.split("\n")
        start = 0
        for line in self.lines:
            self.starts.append(start)
            start += len(line) + 1
        number = bisect_left(self.starts, self.begin)
        paragraph: int | None = None  # the first line of the paragraph that the scan is in
        while number < len(self.lines):
            line = self.lines[number]
            if not line or line.isspace():
                paragraph, number = None, number + 1
                continue
            end = self._block_at(number, paragraph)
            if end is None:
                if paragraph is None and _is_text(line):
                    paragraph = number
                number += 1
            else:
                paragraph, number = None, end

    def _block_at(self, number: int, paragraph: int | None) -> int | None:
        """Handle what begins at a line; gives the line after it, or None for a line of a paragraph."""
        line = self.lines[number]
        first = line.lstrip(" \t")[0]
        if _indent(line) >= TAB_STOP:
            return None  # indented code, or a paragraph's further line
        if first == "#":
            return self._atx(number)
        if paragraph is not None and first in "=-" and _UNDERLINE.match(line):
            return self._setext(paragraph, number)
        if first in "`~" and (fence := _FENCE.match(line)):
            return self._add("code", number, self._fence_end(number, fence[1], 0))
        if first in "*-_" and _RULE.match(line):
            return number + 1
        if first in "-+*0123456789" and (item := _LIST_ITEM.match(line)) and _may_begin(item, paragraph):
            return self._add("list", number, self._list_end(number))
        if first == "<" and (raw := _RAW_HTML.match(line)):
            return self._raw_html_end(number, raw)
        if first == "$" and line.lstrip().startswith("$$") and (end := self._math_end(number)):
            return self._add("math", number, end)
        if "|" in line and self._is_table(number):
            return self._add("table", number, self._table_end(number))
        return None

    def _add(self, kind: BlockKind, first: int, after: int) -> int:
        """Record the block of lines [first, after), without the blank ones at its end."""
        last = after - 1
        while last > first and not self.lines[last].strip():
            last -= 1
        self.blocks.append(Block(kind, self.starts[first], self.starts[last] + len(self.lines[last])))
        return after

    def _atx(self, number: int) -> int | None:
        line = self.lines[number].strip(" \t")
        words = line.lstrip("#")
        level = len(line) - len(words)
        if level > 6 or (words and words[0] not in " \t"):
            return None
        words = words.strip(" \t")
        closed = words.rstrip("#")
        if not closed or closed[-1] in " \t":
            words = closed
        self._heading(level, words, number, number)
        return number + 1

    def _setext(self, first: int, underline: int) -> int | None:
        markup = " ".join(line.strip() for line in self.lines[first:underline])
        if len(markup) > MAX_SETEXT_CHARACTERS:
            return underline + 1 if _RULE.match(self.lines[underline]) else None
        self._heading(1 if "=" in self.lines[underline] else 2, markup, first, underline)
        return underline + 1

    def _heading(self, level: int, markup: str, first: int, last: int) -> None:
        words = heading_words(markup)
        if words:
            self.headings.append(Heading(level, words, self.starts[first], self.starts[last] + len(self.lines[last])))

    def _fence_end(self, number: int, fence: str, least_indent: int) -> int:
        """The line after a fence: after its closing line, before its list item ends, or the text's end."""
        for at in range(number + 1, len(self.lines)):
            line = self.lines[at]
            bare = line.strip(" \t")
            if bare and least_indent and _indent(line) < least_indent:
                return at
            if bare.startswith(fence) and not bare.strip(fence[0]) and _indent(line) < least_indent + TAB_STOP:
                return at + 1
        return len(self.lines)

    def _list_end(self, number: int) -> int:
        """The line after a list with all its items, their further lines, and blank lines between."""
        content = 0  # the indent at which the current item's text begins
        blank = False
        at = number
        while at < len(self.lines):
            line = self.lines[at]
            if not line.strip():
                blank, at = True, at + 1
                continue
            indent = _indent(line)
            item = None if _RULE.match(line) else _LIST_ITEM.match(line)
            if item and (indent < content + TAB_STOP):
                content = _content_indent(item)
            elif indent < min(content, 2) and (blank or not _is_text(line) or self._ends_list(at)):
                return at
            fence = _FENCE.match(line, item.end() if item else 0)
            at = self._fence_end(at, fence[1], min(content, indent) if not item else content) if fence else at + 1
            blank = False
        return at

    def _ends_list(self, number: int) -> bool:
        """Whether an unindented line ends the paragraph of a list item rather than continuing it."""
        line = self.lines[number].lstrip()
        return line.startswith(("#", "```", "~~~", ">", "<", "$$")) or bool(_RULE.match(line)) or self._is_table(number)

    def _raw_html_end(self, number: int, opened: re.Match[str]) -> int:
        group = opened.lastindex or 1
        for at in range(number, number if group in self.never_closed else len(self.lines)):
            begin = opened.end() if at == number else 0
            line = self.lines[at]
            closed = _RAW_HTML_TAG_END.search(line, begin) if group == 2 else _RAW_HTML_ENDS[group - 1] in line[begin:]
            if closed:
                return at + 1
        self.never_closed.add(group)
        return number + 1  # the rest stays what it looks like, so that no heading is lost

    def _math_end(self, number: int) -> int | None:
        """The line after the closing `$$`; None when a blank line comes first."""
        line = self.lines[number].strip()
        if len(line) > 2 and "$$" in line[2:]:
            return number + 1 if line.endswith("$$") else None
        for at in range(number + 1, len(self.lines)):
            if not self.lines[at].strip():
                return None
            if "$$" in self.lines[at]:
                return at + 1
        return None

    def _is_table(self, number: int) -> bool:
        if number + 1 >= len(self.lines) or "|" not in self.lines[number]:
            return False
        rule = self.lines[number + 1].strip()
        if not rule or rule[0] not in "|:-" or not set(rule) <= set("|:- \t"):
            return False
        cells = [cell.strip() for cell in rule.strip("|").split("|")]
        return all(_DELIMITER_CELL.fullmatch(cell) for cell in cells) and len(cells) == _columns(self.lines[number])

    def _table_end(self, number: int) -> int:
        at = number + 2
        while at < len(self.lines) and self.lines[at].strip():
            line = self.lines[at]
            if "|" not in line and (line.lstrip()[0] in "#>" or _FENCE.match(line) or _LIST_ITEM.match(line)):
                break
            at += 1
        return at


def _columns(row: str) -> int:
    row = row.strip()
    row = row[1:] if row.startswith("|") else row
    if row.endswith("|") and not row.endswith("\\|"):
        row = row[:-1]
    return row.count("|") - row.count("\\|") + 1


def _indent(line: str) -> int:
    width = 0
    for character in line:
        if character == " ":
            width += 1
        elif character == "\t":
            width += TAB_STOP - width % TAB_STOP
        else:
            break
    return width


def _content_indent(item: re.Match[str]) -> int:
    before = _indent(item[1]) + len(item[2])
    offset = before % TAB_STOP
    gap = _indent(" " * offset + (item[4] or "")) - offset
    return before + (gap if 1 <= gap <= TAB_STOP else 1)


def _may_begin(item: re.Match[str], paragraph: int | None) -> bool:
    """Whether a list may begin here: within a paragraph only with words, and a numbered one at 1."""
    return paragraph is None or (item[4] is not None and item[3] in (None, "1"))


def _is_text(line: str) -> bool:
    """Whether a line can be part of a paragraph that a Setext underline makes a heading."""
    return line.lstrip(" \t")[0] != ">" and _indent(line) < TAB_STOP
