"""Word: nothing that a reader sees is lost, nothing that was deleted comes back, hostile files are refused."""

from __future__ import annotations

import io
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import docx as python_docx
import pytest

from kb.errors import LoadError
from kb.loading import load_document
from kb.records import Document
from tests.docx_writer import NAMESPACES, cell, docx, paragraph, row, table

Load = Callable[..., Document]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Load a Word file that is given as bytes; keywords are options of the loader."""

    def load_it(data: bytes, suffix: str = ".docx", **options: Any) -> Document:
        path = tmp_path / f"file-name{suffix}"
        path.write_bytes(data)
        return load_document(path, options={"docx": options})

    return load_it


def blocks(document: Document) -> list[tuple[str, str]]:
    return [(block.kind, document.text[block.start : block.end]) for block in document.blocks]


def test_what_word_writes_has_title_headings_lists_and_tables(load: Load) -> None:
    source = python_docx.Document()
    source.add_heading("Travel policy", 0)
    source.add_heading("Scope", 1)
    source.add_paragraph("For all staff.")
    source.add_paragraph("trains", style="List Bullet")
    source.add_paragraph("ferries", style="List Bullet")
    source.add_paragraph("Ask.", style="List Number")
    source.add_heading("Limits", 2)
    cells = source.add_table(2, 2)
    for at, text in enumerate(("City", "Limit", "Osaka", "90")):
        cells.cell(at // 2, at % 2).text = text
    source.core_properties.author = "Elise"
    out = io.BytesIO()
    source.save(out)
    document = load(out.getvalue())
    assert document.title == "Travel policy"
    assert document.metadata["author"] == "Elise"
    assert [(h.level, h.text, document.text[h.start : h.end]) for h in document.headings] == [
        (1, "Scope", "Scope"), (2, "Limits", "Limits"),
    ]  # fmt: skip
    assert blocks(document) == [("list", "- trains\n- ferries\n1. Ask."), ("table", "City | Limit\nOsaka | 90")]
    assert document.text == (
        "Travel policy\n\nScope\n\nFor all staff.\n\n- trains\n- ferries\n1. Ask.\n\nLimits\n\nCity | Limit\nOsaka | 90"
    )


def test_content_controls_are_descended_into(load: Load) -> None:
    def control(inner: str) -> str:
        return f"<w:sdt><w:sdtPr/><w:sdtContent>{inner}</w:sdtContent></w:sdt>"

    run = "<w:r><w:t>inline</w:t></w:r>"
    body = (
        control(paragraph("block"))
        + f"<w:p>{control(run)}</w:p>"
        + table(control(row(control(cell("in a cell")), cell(control(paragraph("in it"))))))
    )
    assert load(docx(body)).text == "block\n\ninline\n\nin a cell | in it"


def test_tracked_insertions_are_read_and_deletions_are_not(load: Load) -> None:
    body = (
        "<w:p><w:r><w:t>keep </w:t></w:r><w:ins><w:r><w:t>added</w:t></w:r></w:ins>"
        "<w:del><w:r><w:delText>removed</w:delText></w:r></w:del>"
        "<w:moveTo><w:r><w:t> here</w:t></w:r></w:moveTo><w:moveFrom><w:r><w:t>there</w:t></w:r></w:moveFrom></w:p>"
        + table(row("a", "b"), row("gone", "too", properties="<w:del/>"))
    )
    assert load(docx(body)).text == "keep added here\n\na | b"


def test_a_text_box_is_read_once(load: Load) -> None:
    box = f"<w:txbxContent>{paragraph('boxed')}</w:txbxContent>"
    body = (
        "<w:p><w:r><w:t>anchor</w:t><mc:AlternateContent>"
        f'<mc:Choice Requires="wps"><w:drawing><wps:txbx>{box}</wps:txbx></w:drawing></mc:Choice>'
        f"<mc:Fallback><w:pict><v:textbox>{box}</v:textbox></w:pict></mc:Fallback></mc:AlternateContent></w:r></w:p>"
        f"<w:p><w:r><w:pict><v:textbox>{box}</v:textbox></w:pict></w:r></w:p>"
    )
    assert load(docx(body)).text == "anchor\n\nboxed\n\nboxed"


def test_notes_follow_the_paragraph_that_refers_to_them(load: Load) -> None:
    body = (
        '<w:p><w:r><w:t>Body</w:t><w:footnoteReference w:id="7"/><w:endnoteReference w:id="1"/></w:r></w:p>'
        + paragraph("After.")
        + table(row("a", '<w:tc><w:p><w:r><w:t>b</w:t><w:footnoteReference w:id="8"/></w:r></w:p></w:tc>'))
    )
    parts = {
        "footnotes": '<w:footnote w:type="separator" w:id="0"><w:p/></w:footnote>'
        f'<w:footnote w:id="7">{paragraph("Foot.")}</w:footnote><w:footnote w:id="8">{paragraph("Cell.")}</w:footnote>'
        f'<w:footnote w:id="9">{paragraph("Orphan.")}</w:footnote>',
        "endnotes": f'<w:endnote w:id="1">{paragraph("End.")}</w:endnote>',
    }
    assert load(docx(body, parts)).text == (
        "Body[^1][^e1]\n\n[^1]: Foot.\n\n[^e1]: End.\n\nAfter.\n\na | b[^2]\n\n[^2]: Cell.\n\n[^3]: Orphan."
    )


def test_notes_of_list_items_follow_the_whole_list(load: Load) -> None:
    def item(text: str, more: str = "") -> str:
        numbered = '<w:pPr><w:numPr><w:numId w:val="1"/></w:numPr></w:pPr>'
        return f"<w:p>{numbered}<w:r><w:t>{text}</w:t>{more}</w:r></w:p>"

    parts = {
        "numbering": '<w:abstractNum w:abstractNumId="0"/><w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num>',
        "footnotes": f'<w:footnote w:id="1">{paragraph("Note.")}</w:footnote>',
    }
    body = item("one", '<w:footnoteReference w:id="1"/>') + item("two") + paragraph("end")
    document = load(docx(body, parts))
    assert document.text == "- one[^1]\n- two\n\n[^1]: Note.\n\nend"
    assert blocks(document) == [("list", "- one[^1]\n- two")]


def test_headers_and_footers_are_read_once_at_the_end_and_comments_not_at_all(load: Load) -> None:
    parts = {
        "header": paragraph("Confidential") + table(row("Harborline", "Handbook")),
        "footer": paragraph("Confidential Harborline Handbook"),
        "comments": f"<w:comment>{paragraph('remark')}</w:comment>",
    }
    assert load(docx(paragraph("Body."), parts)).text == "Body.\n\nConfidential Harborline Handbook"


def test_merged_cells_keep_their_text_once_and_columns_in_line(load: Load) -> None:
    body = table(
        row(cell("wide", '<w:gridSpan w:val="2"/>'), "c"),
        row(cell("tall", '<w:vMerge w:val="restart"/>'), "b1", "c1"),
        row(cell("", "<w:vMerge/>"), "b2", "c2"),
        row("c3", properties='<w:gridBefore w:val="2"/>'),
        row("", "", ""),
    )
    assert load(docx(body)).text == "wide |  | c\ntall | b1 | c1\n | b2 | c2\n |  | c3"


def test_nested_tables_and_paragraphs_in_cells_stay_on_their_row(load: Load) -> None:
    inner = table(row("x", "y")) + paragraph("z")
    body = paragraph("before") + table(row("a", cell(inner)), row("b", "c")) + paragraph("after")
    assert load(docx(body)).text == "before\n\na | x y z\nb | c\n\nafter"


def test_a_table_of_one_column_is_a_frame_around_paragraphs(load: Load) -> None:
    document = load(docx(table(row(cell(paragraph("one") + paragraph("two"))))))
    assert (document.text, document.blocks) == ("one\n\ntwo", ())


def test_heading_levels_come_from_the_outline_of_styles_and_what_they_are_based_on(load: Load) -> None:
    styles = (
        '<w:style w:type="paragraph" w:styleId="A"><w:name w:val="Kapitel"/>'
        '<w:pPr><w:outlineLvl w:val="1"/></w:pPr></w:style>'
        '<w:style w:styleId="B"><w:name w:val="Mine"/><w:basedOn w:val="A"/></w:style>'
        '<w:style w:styleId="C"><w:name w:val="heading 3"/><w:basedOn w:val="D"/></w:style>'
        '<w:style w:styleId="D"><w:name w:val="loop"/><w:basedOn w:val="C"/></w:style>'
        '<w:style w:styleId="E"><w:name w:val="body"/><w:basedOn w:val="A"/>'
        '<w:pPr><w:outlineLvl w:val="9"/></w:pPr></w:style>'
    )
    body = "".join(paragraph(f"in {style}", f'<w:pStyle w:val="{style}"/>') for style in "ABCE")
    body += paragraph("own", '<w:outlineLvl w:val="0"/>')
    found = load(docx(body, {"styles": styles})).headings
    assert [(h.level, h.text) for h in found] == [(2, "in A"), (2, "in B"), (3, "in C"), (1, "own")]


def test_list_numbers_are_those_that_word_shows(load: Load) -> None:
    levels = (
        '<w:lvl w:ilvl="0"><w:start w:val="3"/><w:numFmt w:val="decimal"/><w:lvlText w:val="%1."/></w:lvl>'
        '<w:lvl w:ilvl="1"><w:numFmt w:val="lowerLetter"/><w:lvlText w:val="%1.%2)"/></w:lvl>'
        '<w:lvl w:ilvl="2"><w:numFmt w:val="upperRoman"/><w:lvlText w:val="%3"/></w:lvl>'
    )
    numbering = (
        f'<w:abstractNum w:abstractNumId="0">{levels}</w:abstractNum>'
        '<w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num>'
        '<w:num w:numId="2"><w:abstractNumId w:val="0"/>'
        '<w:lvlOverride w:ilvl="0"><w:startOverride w:val="1"/></w:lvlOverride></w:num>'
    )

    def item(text: str, depth: int, number: int = 1) -> str:
        return paragraph(text, f'<w:numPr><w:ilvl w:val="{depth}"/><w:numId w:val="{number}"/></w:numPr>')

    body = item("a", 0) + item("b", 1) + item("c", 1) + item("d", 2) + item("e", 0) + item("f", 1)
    body += paragraph("between") + item("g", 0, 2) + item("none", 0, 0)
    assert load(docx(body, {"numbering": numbering})).text == (
        "3. a\n  3.a) b\n  3.b) c\n    I d\n4. e\n  4.a) f\n\nbetween\n\n1. g\n\nnone"
    )


def test_what_stands_in_a_run_is_kept_and_field_codes_and_hidden_text_are_not(load: Load) -> None:
    body = (
        "<w:p><w:r><w:rPr><w:vanish/></w:rPr><w:t>hidden</w:t></w:r>"
        '<w:r><w:rPr><w:vanish w:val="0"/></w:rPr><w:t>shown</w:t></w:r>'
        "<w:r><w:tab/><w:t>a</w:t><w:br/><w:t>b</w:t><w:noBreakHyphen/><w:t>c</w:t>"
        '<w:sym w:font="Symbol" w:char="F0B3"/></w:r>'
        '<w:r><w:fldChar w:fldCharType="begin"/><w:instrText>HYPERLINK "x"</w:instrText><w:t>field</w:t></w:r>'
        "<w:hyperlink><w:r><w:t> link</w:t></w:r></w:hyperlink><m:oMath><m:r><m:t> E=mc</m:t></m:r></m:oMath>"
        "<w:ruby><w:rt><w:r><w:t>とうきょう</w:t></w:r></w:rt><w:rubyBase><w:r><w:t>東京</w:t></w:r></w:rubyBase></w:ruby></w:p>"
    )
    assert load(docx(body)).text == "shown\ta\nb-c≥field link E=mc東京"


def test_strict_files_and_other_suffixes_are_read(load: Load) -> None:
    strict = (
        '<w:document xmlns:w="http://purl.oclc.org/ooxml/wordprocessingml/main"><w:body><w:p><w:r><w:t>strict</w:t>'
        "</w:r></w:p></w:body></w:document>"
    )
    assert load(docx("", raw=strict)).text == "strict"
    assert load(docx(paragraph("macro")), ".docm").text == "macro"
    assert load(docx(paragraph("template")), ".dotx").text == "template"


def test_an_embedded_part_of_another_format_is_reported(load: Load) -> None:
    document = load(docx('<w:altChunk r:id="x"/>'))
    assert document.text == ""
    assert len(document.warnings) == 2
    assert "altChunk" in document.warnings[0]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (bytes.fromhex("d0cf11e0a1b11ae1") + bytes(100) + "WordDocument".encode("utf-16-le"), "old .doc format"),
        (bytes.fromhex("d0cf11e0a1b11ae1") + "EncryptedPackage".encode("utf-16-le"), "password-protected"),
        (bytes.fromhex("d0cf11e0a1b11ae1") + bytes(500), "old .doc or a password-protected"),
        (b"{\\rtf1 hello}", "RTF"),
        (docx(paragraph("x") * 50)[:400], "truncated or corrupt"),
        (b"<html>", "not a Word document"),
        (docx("", raw="<worksheet/>"), "no Word document"),
        (docx("", raw="<w:document"), "damaged"),
    ],
)
def test_what_cannot_be_read_is_told_apart(load: Load, data: bytes, reason: str) -> None:
    with pytest.raises(LoadError, match=reason) as caught:
        load(data)
    assert "\n" not in str(caught.value)


def test_another_zip_is_no_word_document_and_nothing_is_unpacked(load: Load, tmp_path: Path) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("../evil.txt", "x")
    with pytest.raises(LoadError, match="no Word document"):
        load(out.getvalue())
    assert not (tmp_path.parent / "evil.txt").exists()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_entities_are_refused(load: Load, encoding: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("outside", encoding="utf-8")
    declared = f'<!ENTITY a "{"x" * 10}"><!ENTITY x SYSTEM "file://{secret}">'
    raw = (
        f'<?xml version="1.0" encoding="{encoding}"?><!DOCTYPE d [{declared}]>'
        f"<w:document {NAMESPACES}><w:body><w:p><w:r><w:t>&a;&x;</w:t></w:r></w:p></w:body></w:document>"
    )
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("word/document.xml", raw.encode(encoding))
    with pytest.raises(LoadError, match="entities"):
        load(out.getvalue())


def test_a_zip_bomb_is_refused_at_once(load: Load) -> None:
    bomb = docx(paragraph("A" * 60_000_000))
    started = time.perf_counter()
    with pytest.raises(LoadError, match="zip bomb"):
        load(bomb)
    assert time.perf_counter() - started < 2


def test_the_size_of_the_unpacked_parts_is_limited_by_an_option(load: Load) -> None:
    data = docx("".join(paragraph(f"{n * n}") for n in range(5000)))
    assert load(data).text.endswith(str(4999 * 4999))
    with pytest.raises(LoadError, match="max_unpacked_megabytes"):
        load(data, max_unpacked_megabytes=0.1)


def test_deep_nesting_ends_in_a_document_or_an_error(load: Load) -> None:
    depth = 60
    body = "".join("<w:tbl><w:tr><w:tc/><w:tc>" for _ in range(depth)) + paragraph("deep")
    body += "</w:tc></w:tr></w:tbl>" * depth
    assert load(docx(body)).text.endswith("deep")
    with pytest.raises(LoadError):
        load(docx("<w:sdt>" * 3000 + "</w:sdt>" * 3000))


def test_large_tables_and_many_paragraphs_take_linear_time(load: Load) -> None:
    body = table(*(row(*(f"r{r}c{c}" for c in range(8))) for r in range(2000)))
    body += "".join(paragraph(f"line {n}") for n in range(20_000))
    started = time.perf_counter()
    document = load(docx(body))
    assert time.perf_counter() - started < 15
    assert document.text.endswith("line 19999")
    assert len(document.blocks) == 1
