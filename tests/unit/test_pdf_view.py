"""A quote on a page as it is drawn: lines of any direction, and texts that are not there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kb.loading._pdf_read import UnreadableError
from kb.loading._pdf_view import Rectangle, _lines, picture_of_page, places_on_page
from tests.page_pictures import Picture, within
from tests.pdf_writer import arabic_pdf, pdf


def boxes(data: bytes, text: str, quote: str) -> list[dict[str, float]]:
    start = text.index(quote)
    found: dict[str, Any] = json.loads(
        places_on_page(data, (), number=1, text=text, start=start, end=start + len(quote))
    )
    return list(found["quotes"])


@pytest.mark.parametrize("quote", ["another text altogether", "完全不同的一段文字在这里", "まったく別の文章がここに"])
def test_a_quote_that_is_not_on_the_page_has_no_boxes(quote: str) -> None:
    assert boxes(pdf([["Name", "Birthday 生日 誕生日"]]), quote, quote) == []


def test_a_quote_on_a_page_without_text_has_no_boxes() -> None:
    assert boxes(pdf([[]], drawn=[0]), "some words", "words") == []


def test_a_line_that_runs_downward_has_one_box() -> None:
    lines = [(500, 700, "縦書きの一行目です"), (450, 700, "二行目はその左にある")]  # pdfium reads the left one first
    upright = pdf([lines]).replace(b"UniJIS-UTF16-H", b"UniJIS-UTF16-V")
    text = "二行目はその左にある\n縦書きの一行目です"
    second, first = boxes(upright, text, text)
    for box in (first, second):
        assert box["height"] * 842 > 5 * box["width"] * 595
    assert first["x"] > second["x"] + second["width"]
    (part,) = boxes(upright, text, "一行目")
    assert part["height"] == pytest.approx(first["height"] / 3, abs=0.001)
    assert (part["x"], part["width"]) == (first["x"], first["width"])


def test_the_swapped_letters_of_an_arabic_ligature_are_found() -> None:
    words = "السلام لا يمل"
    data = arabic_pdf(words.replace("لا", "\ufefb")[::-1])
    (box,) = boxes(data, words, "لا يمل")
    assert box["width"] > 0


@pytest.mark.parametrize("rightward", [True, False], ids=["to the right", "to the left"])
def test_slanted_lines_are_told_apart_where_the_next_one_begins(rightward: bool) -> None:
    level = [[(x / 100, (10 + 2 * line + x / 10) / 100) for x in range(10, 90, 2)] for line in range(2)]
    placed = [Rectangle(x, y, x + 0.02, y + 0.04) for line in level for x, y in line]
    if not rightward:
        placed = [Rectangle(1 - box.right, box.top, 1 - box.left, box.bottom) for box in placed]
    assert len(list(_lines(placed, [False] * len(placed)))) == 2


def test_words_of_the_other_direction_within_a_line_don_t_divide_it() -> None:
    arabic = [x / 100 for x in range(80, 60, -2)]
    latin = [x / 100 for x in range(40, 60, 2)]
    rest = [x / 100 for x in range(38, 20, -2)]
    placed = [Rectangle(x, 0.5, x + 0.02, 0.52) for x in (*arabic, *latin, *rest)]
    (line,) = _lines(placed, [False] * len(placed))
    assert (line.left, line.right) == pytest.approx((0.22, 0.82))


def test_a_picture_shows_what_is_filled_into_colours_and_greys() -> None:
    grey = Picture(picture_of_page(pdf([["grey"]]), (), number=1, width=300))
    assert grey.channels == 1
    red = pdf([["red"]], drawn=[0])
    coloured = Picture(picture_of_page(red, (), number=1, width=300))
    square = [{"x": 0.0, "y": 1 - 100 / 842, "width": 100 / 595, "height": 100 / 842}]
    assert sum(within(place, square) for place in coloured.dark()) > 2000


def test_a_page_that_is_not_there_cannot_be_shown() -> None:
    with pytest.raises(UnreadableError, match="2 pages"):
        picture_of_page(pdf([["one"], ["two"]]), (), number=3, width=300)
