"""Render a source as a Word document: real styles, lists, tables and footnotes, the same bytes every time."""

from __future__ import annotations

from datetime import datetime
from io import BytesIO
from pathlib import Path
from xml.sax.saxutils import escape
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import docx
from _source import Block, Heading, Item, Paragraph, Run, Source, Table
from docx.document import Document
from docx.enum.style import WD_STYLE_TYPE
from docx.enum.text import WD_BREAK
from docx.opc.constants import CONTENT_TYPE, RELATIONSHIP_TYPE
from docx.opc.packuri import PackURI
from docx.opc.part import Part
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls, qn
from docx.oxml.xmlchemy import BaseOxmlElement
from docx.shared import Pt
from docx.text.paragraph import Paragraph as WordParagraph

LATIN_FONT = "Calibri"
EAST_ASIAN_FONTS = {"en": "Yu Gothic", "zh": "Microsoft YaHei", "ja": "Yu Gothic"}
CREATED = datetime(2026, 1, 15, 9, 0)  # UTC, as Word has it; fixed, so that the bytes are
BULLETS = "•◦▪"
BULLET_LIST, NUMBER_LIST = 90, 91  # ids of list definitions, beyond the template's own
SPECIAL_NOTES = {-1: "separator", 0: "continuationSeparator"}  # every footnotes part has to begin with these


def render_docx(source: Source, target: Path) -> None:
    """Write a source as a Word document."""
    document = docx.Document()
    _set_properties(document, source)
    _set_fonts(document, source)
    _add_note_styles(document)
    writer = _Writer(document)
    for index, page in enumerate(source.pages):
        if index:
            document.add_paragraph().add_run().add_break(WD_BREAK.PAGE)
        for block in page:
            writer.write(block)
    if source.notes:
        _add_notes(document, [source.notes[mark] for mark in writer.marks])
    target.write_bytes(_packed(document))


class _Writer:
    """Adds blocks to the end of a document, and remembers footnote marks in their order."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.marks: list[str] = []
        self.numbering = document.part.numbering_part.element
        self.lists: dict[int, int] = {}  # the numbered list that is open at each depth
        for abstract_id, bullet in ((BULLET_LIST, True), (NUMBER_LIST, False)):
            self.numbering.find(qn("w:num")).addprevious(_list_definition(abstract_id, bullet=bullet))
        self.bullets = int(self.numbering.add_num(BULLET_LIST).numId)

    def write(self, block: Block) -> None:
        """Add one block."""
        match block:
            case Heading():
                self._fill(self.document.add_heading(level=block.level), block.runs)
            case Item():
                self._write_item(block)
            case Table():
                self._write_table(block)
            case Paragraph():
                self._fill(self.document.add_paragraph(), block.runs)

    def _write_item(self, item: Item) -> None:
        if item.number is not None and item.first:
            numbered = self.numbering.add_num(NUMBER_LIST)
            numbered.add_lvlOverride(ilvl=item.depth).add_startOverride(val=item.number)
            self.lists[item.depth] = int(numbered.numId)
        style = "List Bullet" if item.number is None else "List Number"
        paragraph = self.document.add_paragraph(style=f"{style} {item.depth + 1}" if item.depth else style)
        membership = _element("w:numPr")
        membership.append(_element("w:ilvl", val=item.depth))
        membership.append(_element("w:numId", val=self.bullets if item.number is None else self.lists[item.depth]))
        paragraph._p.get_or_add_pPr().append(membership)
        self._fill(paragraph, item.runs)

    def _write_table(self, table: Table) -> None:
        columns = len(table.rows[0])
        grid = self.document.add_table(rows=0, cols=columns, style="Table Grid")
        for index, row in enumerate(table.rows):
            word_row = grid.add_row()
            if index == 0:
                word_row._tr.get_or_add_trPr().append(_element("w:tblHeader"))
            for cell, runs in zip(word_row.cells, row, strict=True):
                cell.paragraphs[0].paragraph_format.space_after = Pt(2)
                self._fill(cell.paragraphs[0], runs, bold=index == 0)
        self.document.add_paragraph().paragraph_format.space_after = Pt(0)  # else two tables would grow together

    def _fill(self, paragraph: WordParagraph, runs: tuple[Run, ...], *, bold: bool = False) -> None:
        for run in runs:
            if run.note is None:
                paragraph.add_run(run.text).bold = True if run.bold or bold else None
            else:
                self.marks.append(run.note)
                mark = paragraph.add_run(style="footnote reference")
                mark._r.append(_element("w:footnoteReference", id=len(self.marks)))


def _element(name: str, **attributes: object) -> BaseOxmlElement:
    values = "".join(f' w:{key}="{value}"' for key, value in attributes.items())
    return parse_xml(f"<{name} {nsdecls('w')}{values}/>")


def _list_definition(abstract_id: int, *, bullet: bool) -> BaseOxmlElement:
    """Define a list of three levels, each indented by 0.75 cm more."""
    levels = "".join(
        f'<w:lvl w:ilvl="{depth}"><w:start w:val="1"/><w:numFmt w:val="{"bullet" if bullet else "decimal"}"/>'
        f'<w:lvlText w:val="{BULLETS[depth] if bullet else f"%{depth + 1}."}"/><w:lvlJc w:val="left"/>'
        f'<w:pPr><w:ind w:left="{425 * (depth + 1)}" w:hanging="425"/></w:pPr></w:lvl>'
        for depth in range(3)
    )
    xml = (
        f'<w:abstractNum {nsdecls("w")} w:abstractNumId="{abstract_id}">'
        f'<w:multiLevelType w:val="hybridMultilevel"/>{levels}</w:abstractNum>'
    )
    return parse_xml(xml)


def _set_properties(document: Document, source: Source) -> None:
    properties = document.core_properties
    properties.title, properties.author, properties.language = source.title, source.author, source.locale
    properties.last_modified_by, properties.comments, properties.revision = source.author, "", 1
    properties.created = properties.modified = CREATED


def _set_fonts(document: Document, source: Source) -> None:
    """Name the fonts for Latin and East Asian text once, in place of the template's theme fonts."""
    root = document.styles.element
    for fonts in root.iter(qn("w:rFonts")):
        for key in list(fonts.attrib):
            if key.endswith("heme"):
                del fonts.attrib[key]
    east_asian = EAST_ASIAN_FONTS[source.language]
    defaults = root.find(".//" + qn("w:rPrDefault"))
    fonts, language = defaults.find(".//" + qn("w:rFonts")), defaults.find(".//" + qn("w:lang"))
    for key, font in (("ascii", LATIN_FONT), ("hAnsi", LATIN_FONT), ("cs", LATIN_FONT), ("eastAsia", east_asian)):
        fonts.set(qn(f"w:{key}"), font)
    language.set(qn("w:val"), "en-GB")
    language.set(qn("w:eastAsia"), source.locale if source.language != "en" else "ja-JP")


def _add_note_styles(document: Document) -> None:
    text = document.styles.add_style("footnote text", WD_STYLE_TYPE.PARAGRAPH, builtin=True)
    text.base_style = document.styles["Normal"]
    text.font.size = Pt(9)
    text.element.set(qn("w:styleId"), "FootnoteText")
    mark = document.styles.add_style("footnote reference", WD_STYLE_TYPE.CHARACTER, builtin=True)
    mark.font.superscript = True
    mark.element.set(qn("w:styleId"), "FootnoteReference")


def _add_notes(document: Document, notes: list[tuple[Run, ...]]) -> None:
    """Add the part that holds the footnotes, numbered from 1, and tell the settings of its special ones."""
    special = "".join(
        f'<w:footnote w:type="{kind}" w:id="{i}"><w:p><w:r><w:{kind}/></w:r></w:p></w:footnote>'
        for i, kind in SPECIAL_NOTES.items()
    )
    body = "".join(
        f'<w:footnote w:id="{i}"><w:p><w:pPr><w:pStyle w:val="FootnoteText"/></w:pPr>'
        f'<w:r><w:rPr><w:rStyle w:val="FootnoteReference"/></w:rPr><w:footnoteRef/></w:r>'
        f'<w:r><w:t xml:space="preserve"> </w:t></w:r>{"".join(map(_note_run, runs))}</w:p></w:footnote>'
        for i, runs in enumerate(notes, start=1)
    )
    declaration = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>'
    xml = f"{declaration}\n<w:footnotes {nsdecls('w')}>{special}{body}</w:footnotes>"
    package = document.part.package
    part = Part(PackURI("/word/footnotes.xml"), CONTENT_TYPE.WML_FOOTNOTES, xml.encode(), package)
    document.part.relate_to(part, RELATIONSHIP_TYPE.FOOTNOTES)
    pointers = _element("w:footnotePr")
    for i in SPECIAL_NOTES:
        pointers.append(_element("w:footnote", id=i))
    document.settings.element.find(qn("w:compat")).addprevious(pointers)


def _note_run(run: Run) -> str:
    weight = "<w:rPr><w:b/></w:rPr>" if run.bold else ""
    return f'<w:r>{weight}<w:t xml:space="preserve">{escape(run.text)}</w:t></w:r>'


def _packed(document: Document) -> bytes:
    """Give the file's bytes, with the same time on every part."""
    raw, packed = BytesIO(), BytesIO()
    document.save(raw)
    with ZipFile(raw) as parts, ZipFile(packed, "w", ZIP_DEFLATED) as archive:
        for name in parts.namelist():
            info = ZipInfo(name, CREATED.timetuple()[:6])
            info.compress_type, info.create_system = ZIP_DEFLATED, 3
            archive.writestr(info, parts.read(name))
    return packed.getvalue()
