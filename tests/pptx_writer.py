"""Writes PowerPoint files for tests from raw XML."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
NAMESPACES = (
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
    'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" '
    'xmlns:c="http://schemas.openxmlformats.org/drawingml/2006/chart" '
    'xmlns:dgm="http://schemas.openxmlformats.org/drawingml/2006/diagram" '
    'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" '
    f'xmlns:r="{_OFFICE}/relationships"'
)


@dataclass(frozen=True)
class Slide:
    """One slide: the XML of its shapes, and what it refers to."""

    shapes: str = ""
    notes: str | None = None
    """The XML of the shapes of its notes page."""
    parts: Mapping[str, str] = field(default_factory=dict)
    """Further parts by the last word of their type, which is also their id: `chart`, `diagramData`; the whole XML."""
    hidden: bool = False


def pptx(slides: Sequence[Slide], order: Sequence[int] = (), *, raw: str | None = None, title: str = "") -> bytes:
    """Write a presentation.

    Args:
        slides: The slides, in the order of their file names.
        order: The numbers, from 0, of the slides as they are shown; as they are when not given.
        raw: The whole main part instead of one made of `slides`.
        title: That of the file's properties.
    """
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            "_rels/.rels",
            _relationships(
                {"main": ("officeDocument", "ppt/presentation.xml"), "core": ("core-properties", "core.xml")}
            ),
        )
        archive.writestr("core.xml", f'<c:p xmlns:c="c" xmlns:d="d"><d:title>{title}</d:title></c:p>')
        shown = "".join(f'<p:sldId id="{256 + n}" r:id="r{n}"/>' for n in order or range(len(slides)))
        main = f"<p:presentation {NAMESPACES}><p:sldIdLst>{shown}</p:sldIdLst></p:presentation>"
        archive.writestr("ppt/presentation.xml", raw or main)
        targets = {f"r{n}": ("slide", f"slides/slide{n}.xml") for n in range(len(slides))}
        archive.writestr("ppt/_rels/presentation.xml.rels", _relationships(targets))
        for number, slide in enumerate(slides):
            _write_slide(archive, number, slide)
    return out.getvalue()


def _write_slide(archive: zipfile.ZipFile, number: int, slide: Slide) -> None:
    show = ' show="0"' if slide.hidden else ""
    archive.writestr(f"ppt/slides/slide{number}.xml", f"<p:sld {NAMESPACES}{show}>{_tree(slide.shapes)}</p:sld>")
    targets = {kind: (kind, f"../parts/{kind}{number}.xml") for kind in slide.parts}
    for kind, xml in slide.parts.items():
        archive.writestr(f"ppt/parts/{kind}{number}.xml", xml)
    if slide.notes is not None:
        archive.writestr(f"ppt/notes/notes{number}.xml", f"<p:notes {NAMESPACES}>{_tree(slide.notes)}</p:notes>")
        targets["notes"] = ("notesSlide", f"../notes/notes{number}.xml")
    archive.writestr(f"ppt/slides/_rels/slide{number}.xml.rels", _relationships(targets))


def _tree(shapes: str) -> str:
    return f"<p:cSld><p:spTree><p:nvGrpSpPr/><p:grpSpPr/>{shapes}</p:spTree></p:cSld>"


def shape(*paragraphs: str, placeholder: str = "", hidden: bool = False) -> str:
    """A text box, or a placeholder of a type; paragraphs are plain texts or XML made by `paragraph`."""
    inner = "".join(text if text.startswith("<") else paragraph(text) for text in paragraphs)
    kind = f'<p:ph type="{placeholder}"/>' if placeholder else ""
    own = f'<p:cNvPr id="1" name="x" hidden="{int(hidden)}"/>'
    return f"<p:sp><p:nvSpPr>{own}<p:nvPr>{kind}</p:nvPr></p:nvSpPr><p:txBody>{inner}</p:txBody></p:sp>"


def paragraph(text: str, level: int = 0) -> str:
    """One paragraph, of plain text or of XML."""
    runs = text if text.startswith("<") else f"<a:r><a:t>{text}</a:t></a:r>"
    return f'<a:p><a:pPr lvl="{level}"/>{runs}<a:endParaRPr/></a:p>'


def group(*shapes: str) -> str:
    """A group of shapes."""
    return f"<p:grpSp><p:nvGrpSpPr/>{''.join(shapes)}</p:grpSp>"


def graphic(xml: str) -> str:
    """A frame around a table, a chart or a diagram."""
    return f"<p:graphicFrame><a:graphic><a:graphicData>{xml}</a:graphicData></a:graphic></p:graphicFrame>"


def table(*rows: Sequence[str]) -> str:
    """A table of rows of texts, or of cells made by `cell`."""
    written = "".join(f"<a:tr>{''.join(c if c.startswith('<') else cell(c) for c in row)}</a:tr>" for row in rows)
    return graphic(f"<a:tbl><a:tblPr/>{written}</a:tbl>")


def cell(text: str, attributes: str = "") -> str:
    """A cell of a table."""
    return f"<a:tc {attributes}><a:txBody>{paragraph(text)}</a:txBody></a:tc>"


def _relationships(targets: Mapping[str, tuple[str, str]]) -> str:
    entries = "".join(
        f'<Relationship Id="{identity}" Type="{_OFFICE}/relationships/{kind}" Target="{target}"/>'
        for identity, (kind, target) in targets.items()
    )
    return f'<Relationships xmlns="{_PACKAGE}/relationships">{entries}</Relationships>'
