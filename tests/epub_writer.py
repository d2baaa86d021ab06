"""Writes e-books for tests."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping, Sequence

_CONTAINER = (
    '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="OEBPS/book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
)


def epub(
    pages: Mapping[str, str | bytes],
    *,
    spine: Sequence[str] | None = None,
    metadata: str = "",
    parts: Mapping[str, str] | None = None,
    opf: str | None = None,
    address: Callable[[str], str] = lambda name: name.replace(" ", "%20"),
) -> bytes:
    """Write a book.

    Args:
        pages: The chapters by their names below `OEBPS`.
        spine: The names in reading order; those of `pages` when not given.
        metadata: The XML inside `metadata`.
        parts: Further parts by their names.
        opf: The whole package document instead of one made here.
        address: How the package document writes a name.
    """
    order = list(pages) if spine is None else list(spine)
    names = list(dict.fromkeys([*pages, *order]))
    items = "".join(
        f'<item id="p{n}" href="{address(name)}" media-type="application/xhtml+xml"/>' for n, name in enumerate(names)
    )
    references = "".join(f'<itemref idref="p{names.index(name)}"/>' for name in order)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mimetype", "application/epub+zip", zipfile.ZIP_STORED)
        archive.writestr("META-INF/container.xml", _CONTAINER)
        archive.writestr(
            "OEBPS/book.opf",
            opf
            or '<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/">'
            f"<metadata>{metadata}</metadata><manifest>{items}</manifest><spine>{references}</spine></package>",
        )
        for name, page in pages.items():
            archive.writestr(f"OEBPS/{name}", page)
        for name, part in (parts or {}).items():
            archive.writestr(name, part)
    return out.getvalue()
