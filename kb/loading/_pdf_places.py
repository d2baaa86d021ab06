"""What pdfium's text doesn't say but the places of its characters do: columns, turned lines, Arabic ligatures."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from math import degrees
from typing import Any

from kb.loading._pdf_text import CJK_GAP

MIN_COLUMN_GAP = 1.0
"""In heights of a character. Gaps in running text measured at most 0.4, between columns 2.2 and more."""

ARABIC = re.compile("[\u0600-\u06ff\u0750-\u077f\ufb50-\ufdff\ufe70-\ufefc]")
_ALEF_LAM = re.compile("[\u0622\u0623\u0625\u0627](?=\u0644)")
SAMPLE = 9
"""Characters asked for their direction."""
_ONLY_A_ZERO = 2
"""Bytes: what pdfium ends a text with."""

Box = tuple[float, float, float, float]
"""Left, bottom, right, top, in points."""


def read_by_places(page: Any) -> tuple[str, bool]:
    """What is visible on a page, its lines in the order in which they are read.

    A tab is put between the columns of a table in Chinese or Japanese, and the letters of an Arabic
    lam-alef, which pdfium swaps, are put right.

    Returns:
        The text, and whether it needs another library's opinion: the order of Arabic letters is not known
        when the page hides text, as positions in pdfium's text are not those of the characters then, and
        of a turned page some text may be lost.

    Raises:
        pypdfium2.PdfiumError: the page can't be read.
    """
    text_page, turn = level_text(page)
    try:
        text = _upright(text_page, page.get_bbox()) if turn % 180 else _level(text_page)
        mended = _mended(text_page, text)
        if mended is None:
            return text, bool(ARABIC.search(text))
        return mended, turn != 0 and _loses_text(page, text_page)
    finally:
        text_page.close()


def level_text(page: Any) -> tuple[Any, int]:
    """The text of a page, which is turned so that its lines are level; and by how many degrees clockwise it is now.

    Raises:
        pypdfium2.PdfiumError: the page can't be read.
    """
    text_page = page.get_textpage()
    turn = _turn(text_page)
    if turn != page.get_rotation():  # pdfium would have lines reversed
        text_page.close()
        page.set_rotation(turn)
        text_page = page.get_textpage()
    return text_page, turn


def _turn(text_page: Any) -> int:
    """By how many degrees the page has to be turned clockwise for its lines to be level."""
    import pypdfium2

    count = text_page.count_chars()
    places = range(0, count, max(1, count // SAMPLE))
    angles = [pypdfium2.raw.FPDFText_GetCharAngle(text_page, place) for place in places]
    turns = Counter(-round(degrees(angle) / 90) * 90 % 360 for angle in angles if angle >= 0)
    return turns.most_common(1)[0][0] if turns else 0


def _level(text_page: Any) -> str:
    # "Bounded" is what is on the page; "range" would add what lies outside of it.
    text: str = text_page.get_text_bounded(errors="replace")
    return text


def _upright(text_page: Any, bounds: Box) -> str:
    """The text in "range", without what is outside of the page; "bounded" would glue the lines here."""
    text: str = text_page.get_text_range(errors="replace")
    if text_page.count_chars() != len(text):
        return _level(text_page)
    box = boxes_of(text_page)
    return "".join(letter for place, letter in enumerate(text) if letter.isspace() or _within(box(place), bounds))


def _loses_text(page: Any, text_page: Any) -> bool:
    """Whether a text object gives no text: pdfium drops turned characters that have no size, for want of a font."""
    from pypdfium2 import raw

    objects = page.get_objects(filter=(raw.FPDF_PAGEOBJ_TEXT,))
    return any(raw.FPDFTextObj_GetText(drawn, text_page, None, 0) <= _ONLY_A_ZERO for drawn in objects)


def _within(box: Box, bounds: Box) -> bool:
    across, along = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    return bounds[0] <= across <= bounds[2] and bounds[1] <= along <= bounds[3]


def _mended(text_page: Any, text: str) -> str | None:
    """Columns marked and ligatures put right; None when positions in the text are not those of the characters."""
    if not (CJK_GAP.search(text) or _ALEF_LAM.search(text)):
        return text
    if text_page.count_chars() != len(text) or text_page.get_text_range(errors="replace") != text:
        return None
    box = boxes_of(text_page)
    cuts = [(gap.start(), gap.end(), "\t") for gap in CJK_GAP.finditer(text) if _apart(box, gap)]
    for match in _ALEF_LAM.finditer(text):
        place = match.start()
        if box(place) == box(place + 1):  # one glyph
            cuts.append((place, place + 2, text[place + 1] + text[place]))
    return _replaced(text, sorted(cuts))


def boxes_of(text_page: Any) -> Callable[[int], Box]:
    """The room of a character with the height of its font; one that has none has an empty box."""
    import pypdfium2

    rectangle = pypdfium2.raw.FS_RECTF()
    ask = pypdfium2.raw.FPDFText_GetLooseCharBox

    def box(index: int) -> Box:
        ask(text_page, index, rectangle)
        return rectangle.left, rectangle.bottom, rectangle.right, rectangle.top

    return box


def _apart(box: Callable[[int], Box], gap: re.Match[str]) -> bool:
    """Whether the characters around a gap are in two columns, in whatever direction the line runs."""
    left, bottom, right, top = box(gap.start() - 1)
    next_left, next_bottom, next_right, next_top = box(gap.end())
    distance = max(next_left - right, left - next_right, next_bottom - top, bottom - next_top)
    return distance > MIN_COLUMN_GAP * max(top - bottom, right - left)


def _replaced(text: str, cuts: list[tuple[int, int, str]]) -> str:
    pieces = []
    done = 0
    for start, end, instead in cuts:
        pieces += [text[done:start], instead]
        done = end
    return "".join([*pieces, text[done:]])
