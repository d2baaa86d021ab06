r"""Where sentences begin and end, in English, Chinese and Japanese.

Two steps: lines are gathered into blocks (a paragraph whose lines are only wrapped is one block, a
heading, a table row or a list item is one of its own), then each block is cut after its full stops.
The time is linear in the length of the text.

    >>> text = "See v2.3.1 by Dr. Ito. It works.\n\n対応済みです。次は来週。"
    >>> [text[start:end] for start, end in sentence_spans(text)]
    ['See v2.3.1 by Dr. Ito.', 'It works.', '対応済みです。', '次は来週。']
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from kb.marker_grammar import BRACKETED_NUMBERS

Span = tuple[int, int]

CJK = "\u3005\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
"""Han, kana and their iteration marks, as the inside of a character class."""

_CJK = re.compile(f"[{CJK}]")

# What is written by the line: a new line of these never continues the sentence above it.
_HEADING = re.compile(r"[ ]{0,3}#{1,6}(?:\s|$)")
_RULE = re.compile(r"[ \t]*([-=*_~#＝－ー─━])(?:[ \t]*\1){2,}\s*$")
_TABLE_ROW = re.compile(r"[ \t]*\|")
_FENCE = re.compile(r"[ \t]*(?:>[ \t]*)*(`{3,}|~{3,})")
_ITEM = re.compile(
    r"[ \t]*(?:>[ \t]*)*(?:"
    r"[-*+–•‣▪◦]\s|[・●○◆◇■□▶►※★☆◎△▲▼]|"
    r"(?:\d{1,3}|[a-zA-Z])[.)]\s|[(（](?:\d{1,3}|[a-zA-Z]|[一二三四五六七八九十]{1,3})[)）]|[①-⑳⑴-⒇]|"
    r"\d{1,3}[．、]|[一二三四五六七八九十]{1,3}[、．]|第[\d一二三四五六七八九十百]{1,4}[条條章節节款项項]|【"
    r")"
)
# "現象：…", "答：…", "Date: …": forms and records put one statement on a line, often without a full stop.
_LABEL = re.compile(rf"[ \t]*(?:[{CJK}A-Za-z0-9（）()/ ]{{1,12}}：|[A-Z][A-Za-z0-9 /-]{{0,23}}:\s)")

_END = re.compile(r"[.!?。！？…‥｡．؟।]+")
_CLOSERS = re.compile(r"[\"'”’」』》〉›»）)\]】〕］}*_`]{1,8}")
_OPENERS = "\"'“‘「『《〈‹«（(【〔［{*_`"
# Citation markers after the full stop belong to the sentence before it: "It is so. [1][2] Next";
# "[1](" is a link, which belongs to the next.
_MARKERS = re.compile(rf"[ ]?{BRACKETED_NUMBERS}+(?!\()")
_QUOTATIVE = re.compile("(?:と|って|など|という)")
_FULL = frozenset("。！？｡؟।")

_WORD_BEFORE = re.compile(r"(?:[A-Za-z]\.)+[A-Za-z]$|[A-Za-z]+$|\d{1,3}$")
# Longer words than this are no abbreviation; looking back only so far keeps the time linear.
_LOOK_BACK = 16

_TITLES_AND_LATIN = """
mr mrs ms mx dr prof st mt messrs mme gen rev hon capt lt sgt col gov sen rep pres
e.g eg i.e ie cf vs viz approx ca esp resp incl excl
"""
_NEVER_ENDS = frozenset(_TITLES_AND_LATIN.split())
_BEFORE_NUMBERS = """
no nos nr fig figs eq eqs sec secs ch chap art vol vols ed p pp para ver rev tab ref refs
jan feb mar apr jun jul aug sep sept oct nov dec
"""
_NUMBER_FOLLOWS = frozenset(_BEFORE_NUMBERS.split())


@dataclass(frozen=True, slots=True)
class _Block:
    start: int
    end: int
    whole: bool
    """A heading, a table row, a line of code: one sentence, whatever stops it holds."""


def sentence_spans(text: str) -> list[Span]:
    """Find the sentences of `text`.

    A sentence ends after 。！？!?… and after a `.` that is not part of an abbreviation, a number, a
    version, an address or an initial; closing quotes, brackets and citation markers stay with it. A
    blank line always ends it, a mere line break in a paragraph does not. Heading lines, table rows
    and lines of code are one sentence each; a list item or a labelled line ("答：…") starts one.

    Returns:
        Half-open spans that rise, don't overlap, have no white space at their edges and together
        hold every non-blank character. Text without such a character gives `[]`.
    """
    spans: list[Span] = []
    for block in _blocks(text):
        if block.whole:
            _add(spans, text, block.start, block.end)
            continue
        start = block.start
        for end in _ends(text, block.start, block.end):
            _add(spans, text, start, end)
            start = end
        _add(spans, text, start, block.end)
    return spans


def fenced_spans(text: str) -> list[Span]:
    """Spans of the code fences of a Markdown text; one that is never closed runs to the end."""
    spans: list[Span] = []
    fence, opened, position = "", 0, 0
    for line in _lines(text):
        before, fence = fence, fence_after(fence, line)
        if fence and not before:
            opened = position
        position += len(line)
        if before and not fence:
            spans.append((opened, position))
    return [*spans, (opened, len(text))] if fence else spans


def fence_after(fence: str, line: str) -> str:
    """The code fence that is open after a line, when `fence` was before it; "" for none."""
    found = _FENCE.match(line)
    if found is None:
        return fence
    if not fence:
        return found.group(1)
    closes = found.group(1).startswith(fence) and not line[found.end() :].strip()
    return "" if closes else fence


def _add(spans: list[Span], text: str, start: int, end: int) -> None:
    piece = text[start:end]
    left = len(piece) - len(piece.lstrip())
    right = len(piece.rstrip())
    if left < right:
        spans.append((start + left, start + right))


def _blocks(text: str) -> Iterator[_Block]:
    """Gather lines into blocks; every non-blank line is in exactly one."""
    open_start: int | None = None
    open_end = 0
    in_item = False
    fence = ""
    position = 0
    for line in _lines(text):
        start, end = position, position + len(line)
        position = end
        fence_mark = _FENCE.match(line)
        whole = bool(fence) or fence_mark is not None or any(p.match(line) for p in (_HEADING, _RULE, _TABLE_ROW))
        blank = not line.strip()
        # An item goes on in lines that are indented below it; a paragraph in any plain line.
        fresh = _ITEM.match(line) is not None or _LABEL.match(line) is not None
        goes_on = not (blank or whole or fresh) and (not in_item or line[:1] in " \t")
        if open_start is not None and not goes_on:
            yield _Block(open_start, open_end, whole=False)
            open_start = None
        fence = fence_after(fence, line)
        if blank:
            continue
        if whole:
            yield _Block(start, end, whole=True)
            continue
        if open_start is None:
            open_start, in_item = start, _ITEM.match(line) is not None
        open_end = end
    if open_start is not None:
        yield _Block(open_start, open_end, whole=False)


def _lines(text: str) -> Iterator[str]:
    start = 0
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end + 1
        yield text[start:end]
        start = end


def _ends(text: str, start: int, stop: int) -> Iterator[int]:
    """Yield the offsets in `(start, stop)` at which a sentence is over."""
    position = start
    while (found := _END.search(text, position, stop)) is not None:
        position = found.end()
        closing = _CLOSERS.match(text, position, stop)
        after = closing.end() if closing else position
        if _is_end(text, found, after, stop, sentence_start=start):
            markers = _MARKERS.match(text, after, stop)
            after = markers.end() if markers else after
            yield after
            start = position = after


def _is_end(text: str, found: re.Match[str], after: int, stop: int, sentence_start: int) -> bool:
    """Decide whether the stops `found`, with the closing characters up to `after`, end a sentence."""
    stops = found.group()
    closed = after > found.end()
    following = text[after : min(after + 2, stop)]
    if after >= stop:
        return True
    if _FULL & set(stops):
        return not (closed and _QUOTATIVE.match(text, after, stop))
    before = text[found.start() - 1 : found.start()] if found.start() > sentence_start else ""
    if _MARKERS.match(text, after, stop) is None and not following[0].isspace():
        # "3.5", "api.example.com", "?a=b" go on; only CJK text puts no space after a stop.
        return bool(_CJK.match(before)) and (_CJK.match(following) is not None or following[0] in _OPENERS)
    next_character = _next_visible(text, after, stop)
    if next_character.islower():
        return bool(set(stops) & {"!", "?"}) and not closed
    return stops != "." or closed or not _is_abbreviation(text, found.start(), sentence_start, next_character)


def _next_visible(text: str, position: int, stop: int) -> str:
    """The first letter or digit-like character of what follows, past spaces, markers and opening quotes."""
    markers = _MARKERS.match(text, position, stop)
    if markers:
        position = markers.end()
    while position < stop and (text[position].isspace() or text[position] in _OPENERS):
        position += 1
    return text[position : position + 1] if position < stop else ""


def _is_abbreviation(text: str, dot: int, sentence_start: int, next_character: str) -> bool:
    look = max(sentence_start, dot - _LOOK_BACK)
    found = _WORD_BEFORE.search(text[look:dot])
    if found is None:
        return False
    word = found.group()
    at_start = not text[sentence_start : look + found.start()].strip() if look == sentence_start else False
    if word.isdigit():
        return at_start  # "1. First": a number that opens a list item
    lower = word.lower()
    if lower in _NEVER_ENDS:
        return True
    if lower in _NUMBER_FOLLOWS:
        return next_character.isdigit()
    if len(word) == 1:
        return word.isupper() or at_start  # an initial, "J. Smith", or "a. First"
    return "." in word and lower not in {"a.m", "p.m"} and next_character.isupper()
