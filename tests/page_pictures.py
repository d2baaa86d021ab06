"""A page of a PDF as tests look at it: what a picture shows where, and which text stands in boxes on it."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from ctypes import byref, c_double
from pathlib import Path

import pypdfium2
from pypdfium2 import raw

PNG = b"\x89PNG\r\n\x1a\n"
DARK = 128

_FINE = 1_000_000
_EDGE = 0.0015
"""Of a page: letters may hang over into the next one's room by so much."""


class Picture:
    """A PNG of eight bits, grey or in colours, whose rows are not filtered."""

    def __init__(self, content: bytes) -> None:
        assert content.startswith(PNG)
        parts = dict(_parts(content[len(PNG) :]))
        self.width, self.height, bits, colours, *_ = struct.unpack("!IIBBBBB", parts[b"IHDR"])
        assert bits == 8
        self.channels = {0: 1, 2: 3}[colours]
        pixels = zlib.decompress(parts[b"IDAT"])
        length = 1 + self.width * self.channels
        assert len(pixels) == length * self.height
        self.rows = [pixels[at + 1 : at + length] for at in range(0, len(pixels), length)]
        assert {pixels[at] for at in range(0, len(pixels), length)} == {0}

    def dark(self) -> Iterator[tuple[float, float]]:
        """Where it is dark, as shares of its sides from the upper left corner."""
        for y, row in enumerate(self.rows):
            for x, shade in enumerate(row[:: self.channels]):
                if shade < DARK:
                    yield (x + 0.5) / self.width, (y + 0.5) / self.height


def _parts(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    while content:
        (length,) = struct.unpack("!I", content[:4])
        name, part = content[4:8], content[8 : 8 + length]
        assert struct.unpack("!I", content[8 + length : 12 + length]) == (zlib.crc32(name + part),)
        yield name, part
        content = content[12 + length :]


def within(place: tuple[float, float], boxes: Iterable[Mapping[str, float]], slack: float = 0.005) -> bool:
    x, y = place
    return any(
        box["x"] - slack <= x <= box["x"] + box["width"] + slack
        and box["y"] - slack <= y <= box["y"] + box["height"] + slack
        for box in boxes
    )


def text_in(file: Path, number: int, boxes: Iterable[Mapping[str, float]]) -> str:
    """What pdfium finds in the boxes, without blanks."""
    document = pypdfium2.PdfDocument(file.read_bytes())
    try:
        page = document[number - 1]
        text_page = page.get_textpage()
        found = [text_page.get_text_bounded(*_on_page(page, box)) for box in boxes]
        return "".join("".join(found).split())
    finally:
        document.close()


def _on_page(page: pypdfium2.PdfPage, box: Mapping[str, float]) -> tuple[float, float, float, float]:
    """A box in the page's own coordinates: left, bottom, right, top."""
    x, y = c_double(), c_double()
    corners = []
    for side, (across, along) in ((_EDGE, ("x", "y")), (-_EDGE, ("width", "height"))):
        left = box["x"] + (box["width"] if across == "width" else 0) + side
        top = box["y"] + (box["height"] if along == "height" else 0) + side / 4
        raw.FPDF_DeviceToPage(page, 0, 0, _FINE, _FINE, 0, round(left * _FINE), round(top * _FINE), byref(x), byref(y))
        corners.append((x.value, y.value))
    (left, bottom), (right, top) = (tuple(map(pick, zip(*corners, strict=True))) for pick in (min, max))
    return left, bottom, right, top
