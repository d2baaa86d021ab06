"""Writes Word files for tests from raw XML: what python-docx cannot make."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping

_W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
NAMESPACES = (
    f'xmlns:w="{_W}" xmlns:r="{_OFFICE}/relationships" xmlns:m="{_OFFICE}/math" '
    'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" '
    'xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape" '
    'xmlns:v="urn:schemas-microsoft-com:vml"'
)


def docx(body: str, parts: Mapping[str, str] | None = None, *, raw: str | None = None) -> bytes:
    """Write a Word file.

    Args:
        body: The XML inside `w:body`.
        parts: Further parts by the name of their kind: `footnotes`, `header`, `styles` …; the XML inside their root.
        raw: The whole main part instead of one made of `body`.
    """
    parts = parts or {}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("_rels/.rels", _relationships({"officeDocument": "word/document.xml"}))
        archive.writestr("word/_rels/document.xml.rels", _relationships({kind: f"{kind}.xml" for kind in parts}))
        archive.writestr("word/document.xml", raw or f"<w:document {NAMESPACES}><w:body>{body}</w:body></w:document>")
        for kind, inner in parts.items():
            root = {"header": "hdr", "footer": "ftr"}.get(kind, kind)
            archive.writestr(f"word/{kind}.xml", f"<w:{root} {NAMESPACES}>{inner}</w:{root}>")
    return out.getvalue()


def paragraph(text: str, properties: str = "") -> str:
    """One paragraph."""
    return f'<w:p><w:pPr>{properties}</w:pPr><w:r><w:t xml:space="preserve">{text}</w:t></w:r></w:p>'


def table(*rows: str) -> str:
    """A table of rows made by `row`."""
    return f"<w:tbl><w:tblPr/><w:tblGrid/>{''.join(rows)}</w:tbl>"


def row(*cells: str, properties: str = "") -> str:
    """A row of cells made by `cell`, or of plain texts."""
    return f"<w:tr><w:trPr>{properties}</w:trPr>{''.join(c if c.startswith('<') else cell(c) for c in cells)}</w:tr>"


def cell(text: str, properties: str = "") -> str:
    """A cell with one paragraph, or with the XML given."""
    return f"<w:tc><w:tcPr>{properties}</w:tcPr>{text if text.startswith('<') else paragraph(text)}</w:tc>"


def _relationships(targets: Mapping[str, str]) -> str:
    entries = "".join(
        f'<Relationship Id="r{kind}" Type="{_OFFICE}/relationships/{kind}" Target="{target}"/>'
        for kind, target in targets.items()
    )
    return f'<Relationships xmlns="{_PACKAGE}/relationships">{entries}</Relationships>'
