"""What must be mended in the text that a PDF library gives: one page's, then all pages' together."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TypeAlias

from kb.loading._clean import clean

_HYPHEN_MARK = re.compile("[\x02\ufffe]")
"""pdfium's marks for a hyphen at a line's end; the line break is gone."""
_SOFT_HYPHEN_BREAK = re.compile("\u00ad[ \t]*\n")
_LINE_END_SPACE = re.compile(r"[ \t]+$", re.MULTILINE)
_GLYPH_FORMS = re.compile("[\u2e80-\u2fdf\ufb00-\ufdff\ufe70-\ufefc]")
"""Ligatures, Arabic letter forms and radicals: pictures of letters, which nobody types. Full-width
letters and digits are no such forms; they stay, as in every other format."""

_CJK = (
    "\u2e80-\u2fdf\u3001-\u30ff\u3100-\u312f\u31a0-\u31bf"
    "\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff01-\uff9f\U00020000-\U0003ffff"
)
"""Scripts without spaces between words. Korean has them, so Hangul is not among these."""
CJK_GAP = re.compile(f"[ \u00a0](?<=[{_CJK}][ \u00a0])[ \u00a0]*(?=[{_CJK}])")
"""Spaces between two such characters. It looks back behind the first space, since a pattern that begins
with the look is tried at every character."""
_CJK_CHARACTER = re.compile(f"[{_CJK}]")
_BEGINS_WITH_CJK = re.compile(f"(?![・●○■□◆◇※①-⑳（【])[{_CJK}]")
_SENTENCE_END = "。！？：；"

FULL_LINE_SHARE = 0.8
"""A line this wide, compared with the page's widest, was broken by the margin, not by its writer.
Japanese rules for line ends shorten a line by one or two characters, less than a tenth."""
MIN_FULL_LINE = 24
"""In columns, two for a Han character: narrower lines are cells of a table, not prose."""

_NARROW = re.compile("[\0-\u2e7f]+")

MAX_JUNK_SHARE = 0.1
"""More control, private-use, unassigned and replacement characters than this: the page's fonts
don't say which letters they draw."""

RUNNING_LINE_SHARE = 0.4
"""A line at the edge of so many pages is a running one; left and right pages often have their own."""
MIN_RUNNING_PAGES = 3
EDGE_LINES = 3
"""Headers and footers have at most about three lines."""
_Key: TypeAlias = tuple[str, int | None]
_FINISHED = re.compile(r"[.!?:…。！？：][\])）」』”’\"']*$")
_FINISHED_CHARACTERS = 8
"""A full stop and what closes behind it."""


def junk_share(text: str) -> float:
    """The share of characters, blanks apart, that no reader would see as letters."""
    characters = {character for character in set(text) if _is_junk(character)}
    junk = sum(character in characters for character in text) if characters else 0
    if "/" in text:
        junk += sum(len(name) for name in _GLYPH_NAMES.findall(text))
    return junk / sum(map(len, text.split())) if junk else 0.0


_GLYPH_NAMES = re.compile(r"/(?:g|G|C|cid|glyph|uni)[0-9A-Fa-f]{1,6}(?![a-z])")
"""What pypdf writes for letters without a meaning: `/g936/g1007`."""


@lru_cache(maxsize=1 << 16)
def _is_junk(character: str) -> bool:
    return character == "\ufffd" or (
        unicodedata.category(character) in ("Cc", "Co", "Cn")
        and not character.isspace()
        and character not in "\x02\ufffe"
    )


def marks_are_hyphens(text: str) -> bool:
    """Whether U+0002 stands only between letters, as pdfium's hyphens do, and is no junk itself."""
    marks = list(_HYPHEN_MARK.finditer(text))
    good = sum(
        1 for m in marks if text[max(0, m.start() - 1) : m.start()].isalnum() and text[m.end() : m.end() + 1].isalnum()
    )
    return good * 2 >= len(marks)


def mend_page(raw: str) -> str:
    """Mend the text of one page: hyphens, glyph forms, gaps and line ends; the result is clean.

    A tab between two CJK characters is a gap between columns, which stays as a space.
    """
    text = _mend_hyphens(raw.replace("\r\n", "\n").replace("\r", "\n"))
    text = _SOFT_HYPHEN_BREAK.sub("", text).replace("\u00a0", " ")
    text = _GLYPH_FORMS.sub(lambda form: unicodedata.normalize("NFKC", form[0]), text)
    text = _LINE_END_SPACE.sub("", clean(text)).strip("\n")
    return _join_cjk_lines(CJK_GAP.sub("", text)).replace("\t", " ")


def _mend_hyphens(text: str) -> str:
    """Join words that were divided at a line's end; a compound's own hyphen stays where that shows."""
    pieces = _HYPHEN_MARK.split(text)
    mended = [pieces[0]]
    for before, after in pairwise(pieces):
        word = re.search(r"[\w-]*$", before[-40:])
        # "state-of-the|art" has hyphens already, and "A4|format", "COVID|19" show no divided word
        compound = word is not None and "-" in word[0]
        joins = after[:1].islower() or (after[:1].isupper() and before[-2:].isupper())
        mended.append(after if joins and not compound else "-" + after)
    return "".join(mended)


def _join_cjk_lines(text: str) -> str:
    """Close line breaks within a Chinese or Japanese paragraph, where a space would be wrong."""
    lines = text.split("\n")
    if len(lines) < 2 or not any(map(_ends_in_cjk, lines)):
        return text
    widths = [_columns(line) for line in lines]
    full = max(MIN_FULL_LINE, FULL_LINE_SHARE * max(widths))
    joined = [lines[0]]
    for line, before, width in zip(lines[1:], lines, widths, strict=False):
        wraps = width >= full and _ends_in_cjk(before) and before[-1] not in _SENTENCE_END
        if wraps and _BEGINS_WITH_CJK.match(line):
            joined.append(line)
        else:
            joined.append("\n" + line)
    return "".join(joined)


def _ends_in_cjk(line: str) -> bool:
    return _CJK_CHARACTER.match(line[-1:]) is not None


def _columns(line: str) -> int:
    return len(line) + len(_NARROW.sub("", line))


def without_running_lines(pages: Sequence[str]) -> tuple[str, ...]:
    """Keep repeated headers and footers once, and never amid a sentence where that can be.

    A running line stands at the edge of at least 3 pages and 40 % of all, word for word, except for
    one number that grows with the pages. Rows of a table that differ in other numbers stay. It is
    kept on the first page where no sentence runs across it, or else on the last page that has it.
    """
    split = [page.split("\n") if page else [] for page in pages]
    seen: Counter[_Key] = Counter()
    for number, lines in enumerate(split):
        seen.update({key for line in _edge_lines(lines) for key in _keys(line, number)})
    needed = max(MIN_RUNNING_PAGES, RUNNING_LINE_SHARE * sum(1 for lines in split if lines))
    running = {key for key, count in seen.items() if count >= needed}
    if not running:
        return tuple(pages)
    bodies = [_body(lines, number, running) for number, lines in enumerate(split)]
    kept_on = _places(split, bodies, running)
    texts = []
    for number, (lines, body) in enumerate(zip(split, bodies, strict=True)):
        stays = [
            at in body or any(kept_on.get(key) == number for key in _keys(line.strip(), number))
            for at, line in enumerate(lines)
        ]
        texts.append("\n".join(line for line, stay in zip(lines, stays, strict=True) if stay).strip("\n"))
    return tuple(texts)


def _edge_lines(lines: Sequence[str]) -> set[str]:
    return {line.strip() for line in (*lines[:EDGE_LINES], *lines[-EDGE_LINES:]) if line.strip()}


def _keys(line: str, page: int) -> set[_Key]:
    """How a line may repeat: as it is, or with one number that is the page's plus a constant."""
    keys: set[_Key] = {(line, None)}
    for digits in re.finditer(r"\d{1,6}", line):
        keys.add((f"{line[: digits.start()]}\0{line[digits.end() :]}", int(digits[0]) - page))
    return keys


def _body(lines: Sequence[str], page: int, running: set[_Key]) -> range:
    """Which lines of a page lie between its running ones: from both edges inwards, up to the first that is none."""

    def runs(line: str) -> bool:
        return not line.strip() or bool(_keys(line.strip(), page) & running)

    first, after = 0, len(lines)
    while first < min(EDGE_LINES, len(lines)) and runs(lines[first]):
        first += 1
    while after > max(first, len(lines) - EDGE_LINES) and runs(lines[after - 1]):
        after -= 1
    if not any(map(str.strip, lines[first:after])):
        return range(len(lines))  # nothing else is on the page, so these lines are its content
    return range(first, after)


def _places(split: Sequence[Sequence[str]], bodies: Sequence[range], running: set[_Key]) -> dict[_Key, int]:
    """On which page each running line is kept."""
    filled = [number for number, lines in enumerate(split) if lines]
    words = ["\n".join(split[number][at] for at in bodies[number]).strip() for number in filled]
    runs_on = [False, *(_runs_on(before, after) for before, after in pairwise(words)), False]
    places: dict[_Key, int] = {}
    settled: set[_Key] = set()
    for at, number in enumerate(filled):
        lines, body = split[number], bodies[number]
        for edge, amid_sentence in ((lines[: body.start], runs_on[at]), (lines[body.stop :], runs_on[at + 1])):
            for key in {key for line in edge for key in _keys(line.strip(), number)} & running - settled:
                places[key] = number
                if not amid_sentence:
                    settled.add(key)
    return places


def _runs_on(before: str, after: str) -> bool:
    """Whether a sentence seems to go on from one page's words to the next page's."""
    return after[:1].isalpha() and not after[0].isupper() and not _FINISHED.search(before[-_FINISHED_CHARACTERS:])
