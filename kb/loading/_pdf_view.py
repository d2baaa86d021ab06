"""One page of a PDF as a reader sees it: its picture, and where on it a quote stands."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ctypes import byref, c_int
from itertools import pairwise
from math import isfinite, sqrt
from typing import Any, NamedTuple

from kb.loading._pdf_places import Box, boxes_of, level_text
from kb.loading._pdf_quotes import find_quote
from kb.loading._pdf_read import PDFIUM, UnreadableError, open_pdfium

MOST_PIXELS = 8_000_000
"""Of a picture: 24 MB while it is drawn. A sheet of A4 that is 2,000 pixels wide has 5.7 million."""
MOST_SIDE = 8_000
"""Pixels: a strip of a metre by a millimetre is drawn smaller than it was asked for."""
MOST_BOXES = 1_000
_FINENESS = 1_000_000
"""Parts of a side to which places are told."""
_LINE_ENDS = frozenset("\r\n\x02\ufffe")
"""The last two are what pdfium has in the place of a hyphen and its line's end."""
_OVERLAP = 0.5
"""Of the lower of two characters: so much of their height is side by side in one line."""
_LEAP = 0.1
"""Of a page: the end of a line and the beginning of the next are farther apart, also where lines are slanted and pdfium
sees one in two. Words of another direction within a line only leap forward."""

_PNG_START = b"\x89PNG\r\n\x1a\n"
_PNG_LEVEL = 6

_ROUNDED = 1 - 1e-9
"""A picture's side is rounded up: that of 1,000.0000001 pixels would be one longer."""


class Rectangle(NamedTuple):
    """A part of a page as shares of its sides, from its upper left corner."""

    left: float
    top: float
    right: float
    bottom: float


def places_on_page(data: bytes, passwords: tuple[str, ...], *, number: int, text: str, start: int, end: int) -> bytes:
    """Find a quote on a page; see `kb.loading.look_at_page`.

    Args:
        data: The file.
        passwords: Tried when it needs one.
        number: The page's, from 1.
        text: The page's text as it was loaded.
        start: Where in it the quote begins.
        end: And ends; a quote without length is not looked for.

    Raises:
        UnreadableError: the page cannot be opened.
    """
    with _page(data, passwords, number) as page:
        width, height = page.get_size()
        boxes = _boxes(page, text, start, end) if end > start else []
    quotes = [
        {"x": box.left, "y": box.top, "width": box.right - box.left, "height": box.bottom - box.top} for box in boxes
    ]
    return json.dumps({"width": width, "height": height, "quotes": quotes}).encode()


def picture_of_page(data: bytes, passwords: tuple[str, ...], *, number: int, width: int) -> bytes:
    """Draw a page, as PNG.

    Args:
        data: The file.
        passwords: Tried when it needs one.
        number: The page's, from 1.
        width: Of the picture in pixels; it is smaller when it would be too large or too high.

    Raises:
        UnreadableError: the page cannot be opened or drawn.
    """
    with _page(data, passwords, number) as page:
        across, along = page.get_size()
        if not (isfinite(across) and isfinite(along) and across > 0 and along > 0):
            raise UnreadableError("it has no size")
        scale = min(width / across, sqrt(MOST_PIXELS / across / along), MOST_SIDE / across, MOST_SIDE / along)
        bitmap = page.render(scale=scale * _ROUNDED, rev_byteorder=True)
        try:
            return _png(bitmap.width, bitmap.height, bitmap.stride, memoryview(bitmap.buffer).cast("B"))
        finally:
            bitmap.close()


@contextmanager
def _page(data: bytes, passwords: tuple[str, ...], number: int) -> Iterator[Any]:
    import pypdfium2

    with PDFIUM:
        document = open_pdfium(data, passwords)
        try:
            if document.get_formtype() != pypdfium2.raw.FORMTYPE_NONE:
                document.init_forms()  # so that what is filled in is drawn
            if number > len(document):
                raise UnreadableError(f"it has {len(document)} pages")
            page = document[number - 1]
            try:
                yield page
            finally:
                page.close()
        except pypdfium2.PdfiumError as error:
            raise UnreadableError(str(error).rstrip(".")) from error
        finally:
            document.close()


# ── where a quote stands ──


def _boxes(page: Any, text: str, start: int, end: int) -> list[Rectangle]:
    rotation = page.get_rotation()
    text_page, _ = level_text(page)  # as it was read, so that the letters are in the same order
    try:
        drawn = _characters(text_page)
        found = find_quote(text, start, end, drawn)
        if not found:
            return []
        box = boxes_of(text_page)
        boxes = [box(place) for place in found]
    finally:
        text_page.close()
    page.set_rotation(rotation)
    placed = [_placed(page, one) for one in boxes]
    ends = [bool(_LINE_ENDS.intersection(drawn[one:other])) for one, other in pairwise(found)]
    lines = (_within_page(line) for line in _lines(placed, [False, *ends]))
    return [line for line in lines if line.left < line.right and line.top < line.bottom][:MOST_BOXES]


def _characters(text_page: Any) -> list[str]:
    """The characters by their index; of a pair of surrogates the second one is empty."""
    from pypdfium2 import raw

    codes = [raw.FPDFText_GetUnicode(text_page, index) for index in range(text_page.count_chars())]
    characters = [chr(code) if code <= 0x10FFFF else "" for code in codes]
    for index, (high, low) in enumerate(pairwise(codes)):
        if 0xD800 <= high < 0xDC00 <= low < 0xE000:
            pair = (characters[index] + characters[index + 1]).encode("utf-16-le", "surrogatepass")
            characters[index : index + 2] = pair.decode("utf-16-le"), ""
    return characters


def _placed(page: Any, box: Box) -> Rectangle:
    """A box in the page's own points as it is shown: turned as the page is, and cut as it is."""
    from pypdfium2 import raw

    x, y = c_int(), c_int()
    corners = []
    for across, along in ((box[0], box[1]), (box[2], box[3])):
        raw.FPDF_PageToDevice(page, 0, 0, _FINENESS, _FINENESS, 0, across, along, byref(x), byref(y))
        corners.append((x.value / _FINENESS, y.value / _FINENESS))
    (left, top), (right, bottom) = map(min, zip(*corners, strict=True)), map(max, zip(*corners, strict=True))
    return Rectangle(left, top, right, bottom)


def _lines(boxes: Sequence[Rectangle], ends: Sequence[bool]) -> Iterator[Rectangle]:
    """Join characters to lines; `ends` says of each whether a line ends before it."""
    line: _Line | None = None
    for box, begins in zip(boxes, ends, strict=True):
        if box.left >= box.right or box.top >= box.bottom:
            continue  # it has no room of its own
        if line is not None and not begins and line.goes_on_with(box):
            line = _Line(line.first, box, _around(line.whole, box))
        else:
            if line is not None:
                yield line.whole
            line = _Line(box, box, box)
    if line is not None:
        yield line.whole


class _Line(NamedTuple):
    """Characters that stand in one line, level or upright."""

    first: Rectangle
    last: Rectangle
    whole: Rectangle

    def goes_on_with(self, box: Rectangle) -> bool:
        upright = _Line(*map(_turned, self))
        run, run_down = abs(self._run), abs(upright._run)
        return (run >= run_down and self._has_beside(box)) or (run <= run_down and upright._has_beside(_turned(box)))

    @property
    def _run(self) -> float:
        """How far a level line runs to the right, or, below 0, to the left."""
        return self.last.left - self.first.left

    def _has_beside(self, box: Rectangle) -> bool:
        """Whether a character stands in a level line, and not back where the next line begins."""
        step = box.left - self.last.left
        if abs(step) > _LEAP and step * self._run < 0:
            return False
        shared = min(self.whole.bottom, box.bottom) - max(self.whole.top, box.top)
        return shared >= _OVERLAP * min(self.whole.bottom - self.whole.top, box.bottom - box.top)


def _turned(box: Rectangle) -> Rectangle:
    return Rectangle(box.top, box.left, box.bottom, box.right)


def _around(one: Rectangle, other: Rectangle) -> Rectangle:
    return Rectangle(
        min(one.left, other.left), min(one.top, other.top), max(one.right, other.right), max(one.bottom, other.bottom)
    )


def _within_page(box: Rectangle) -> Rectangle:
    return Rectangle(*(min(1.0, max(0.0, share)) for share in box))


# ── the picture ──


def _png(width: int, height: int, stride: int, pixels: memoryview) -> bytes:
    """Pack pixels of three bytes each, whose rows begin every `stride` bytes; without colours in a third of the bytes.

    Source: W3C, Portable Network Graphics (PNG) Specification (Third Edition), https://www.w3.org/TR/png-3/
    """

    def rows() -> Iterator[bytes]:
        return (bytes(pixels[at : at + 3 * width]) for at in range(0, height * stride, stride))

    grey = all(row[0::3] == row[1::3] == row[2::3] for row in rows())
    packer = zlib.compressobj(_PNG_LEVEL)
    packed = [packer.compress(b"\0" + (row[0::3] if grey else row)) for row in rows()]
    head = struct.pack("!IIBBBBB", width, height, 8, 0 if grey else 2, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", b"".join([*packed, packer.flush()])), (b"IEND", b""))
    return _PNG_START + b"".join(
        struct.pack("!I", len(part)) + name + part + struct.pack("!I", zlib.crc32(name + part)) for name, part in parts
    )
