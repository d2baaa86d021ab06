"""Writes small PDFs for tests: text at chosen places, in Latin, Chinese and Japanese, and faults on purpose."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Sequence
from typing import TypeAlias

Line: TypeAlias = str | tuple[float, float, str]
"""Text, below the line before; or (x, y, text) with the origin at the lower left."""

TOP, LEFT, LEADING, SIZE = 780.0, 60.0, 14.0, 10.0
WIDTH, HEIGHT = 595, 842

_FONTS = (
    b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>",
    b"<</Type/Font/Subtype/Type0/BaseFont/HeiseiMin-W3/Encoding/UniJIS-UTF16-H/DescendantFonts[5 0 R]>>",
    b"<</Type/Font/Subtype/CIDFontType0/BaseFont/HeiseiMin-W3/DW 1000/FontDescriptor 6 0 R"
    b"/CIDSystemInfo<</Registry(Adobe)/Ordering(Japan1)/Supplement 2>>>>",
    b"<</Type/FontDescriptor/FontName/HeiseiMin-W3/Flags 4/FontBBox[0 -200 1000 900]/ItalicAngle 0"
    b"/Ascent 800/Descent -200/CapHeight 700/StemV 80>>",
)


def pdf(
    pages: Sequence[Sequence[Line]],
    *,
    title: str | None = None,
    outline: Sequence[tuple[str, int]] = (),
    broken: Collection[int] = (),
    drawn: Collection[int] = (),
    rotate: int = 0,
    upward: bool = False,
    size: tuple[float, float] = (WIDTH, HEIGHT),
    crop: tuple[float, float, float, float] | None = None,
) -> bytes:
    """Write a PDF.

    Args:
        pages: The lines of each page.
        title: The title in the file's properties.
        outline: Bookmarks as (title, page index).
        broken: Indices of pages whose content cannot be unpacked.
        drawn: Indices of pages that hold a filled rectangle, as a scan holds its picture.
        rotate: Degrees by which a viewer turns all pages.
        upward: Whether lines run upward on the page, so that one rotated by 90 degrees shows them level.
        size: Of all pages, in points.
        crop: What of them is shown: left, bottom, right, top.
    """
    objects = [b"", b"", *_FONTS]
    cut = b"" if crop is None else b"/CropBox[%g %g %g %g]" % crop
    kids = []
    for number, lines in enumerate(pages):
        content = b"0 0 100 100 re f " * (number in drawn) + b" ".join(_shown(lines, upward=upward))
        packed = b"this is no zlib data at all" if number in broken else zlib.compress(content)
        objects.append(b"<</Length %d/Filter/FlateDecode>>stream\n%s\nendstream" % (len(packed), packed))
        objects.append(
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 %g %g]%s/Rotate %d/Contents %d 0 R"
            b"/Resources<</Font<</F1 3 0 R/F2 4 0 R>>>>>>" % (*size, cut, rotate, len(objects))
        )
        kids.append(len(objects))
    objects[1] = b"<</Type/Pages/Count %d/Kids[%s]>>" % (len(kids), b" ".join(b"%d 0 R" % kid for kid in kids))
    objects[0] = b"<</Type/Catalog/Pages 2 0 R%s>>" % _outline(outline, kids, objects)
    trailer = b""
    if title is not None:
        objects.append(b"<</Title<%s>>>" % _hex(title, mark=True))
        trailer = b"/Info %d 0 R" % len(objects)
    return _file(objects, trailer)


def endless_pdf() -> bytes:
    """Write a PDF of 3 KB whose page draws a form that draws another ten times, and so on: 10,000,000,000 in all."""
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Count 1/Kids[3 0 R]>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R/Resources<</XObject<</X 5 0 R>>>>>>",
        b"<</Length 5>>stream\n/X Do\nendstream",
    ]
    for content in (*[b"/X Do " * 10] * 10, b"0 0 1 1 re f"):
        objects.append(
            b"<</Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<</XObject<</X %d 0 R>>>>/Length %d>>stream\n%s"
            b"\nendstream" % (len(objects) + 2, len(content), content)
        )
    return _file(objects, b"")


def arabic_pdf(drawn: str) -> bytes:
    """Write a PDF of one line of Arabic, its characters as they stand from left to right; `\ufefb` is one glyph, لا."""
    letters = sorted(set(drawn))
    shown = "".join("%02x" % (0x41 + letters.index(letter)) for letter in drawn).encode()
    meant = [
        b"<%02x> <%s>" % (0x41 + code, _hex(letter.replace("\ufefb", "لا"))) for code, letter in enumerate(letters)
    ]
    to_unicode = (
        b"/CIDInit/ProcSet findresource begin 12 dict begin begincmap /CMapName/A def /CMapType 2 def "
        b"1 begincodespacerange <00> <ff> endcodespacerange %d beginbfchar %s endbfchar "
        b"endcmap end end" % (len(letters), b" ".join(meant))
    )
    content = b"BT /F1 12 Tf 60 700 Td <%s> Tj ET" % shown
    return _file(
        [
            b"<</Type/Catalog/Pages 2 0 R>>",
            b"<</Type/Pages/Count 1/Kids[3 0 R]>>",
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
            b"<</Length %d>>stream\n%s\nendstream" % (len(content), content),
            b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding/ToUnicode 6 0 R>>",
            b"<</Length %d>>stream\n%s\nendstream" % (len(to_unicode), to_unicode),
        ],
        b"",
    )


def _shown(lines: Sequence[Line], *, upward: bool) -> list[bytes]:
    shown = []
    below = TOP
    for line in lines:
        x, y, text = (LEFT, below, line) if isinstance(line, str) else line
        below = y - LEADING
        font = b"F1" if text.isascii() else b"F2"
        string = b"<%s>" % (text.encode("latin-1").hex().encode() if text.isascii() else _hex(text))
        place = b"0 1 -1 0 %g %g Tm" % (LEFT + TOP - y, x) if upward else b"%g %g Td" % (x, y)
        shown.append(b"BT /%s %g Tf %s %s Tj ET" % (font, SIZE, place, string))
    return shown


def _hex(text: str, *, mark: bool = False) -> bytes:
    return ((b"\xfe\xff" if mark else b"") + text.encode("utf-16-be")).hex().encode()


def _outline(entries: Sequence[tuple[str, int]], kids: Sequence[int], objects: list[bytes]) -> bytes:
    if not entries:
        return b""
    root = len(objects) + 1
    first, last = root + 1, root + len(entries)
    objects.append(b"<</Type/Outlines/First %d 0 R/Last %d 0 R/Count %d>>" % (first, last, len(entries)))
    for number, (title, page) in enumerate(entries, first):
        following = b"/Next %d 0 R" % (number + 1) if number < last else b""
        objects.append(
            b"<</Title<%s>/Parent %d 0 R/Dest[%d 0 R/Fit]%s>>" % (_hex(title, mark=True), root, kids[page], following)
        )
    return b"/Outlines %d 0 R" % root


def _file(objects: Sequence[bytes], trailer: bytes) -> bytes:
    out = bytearray(b"%PDF-1.7\n")
    offsets = []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    out += b"trailer<</Size %d/Root 1 0 R%s>>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, trailer, start)
    return bytes(out)
