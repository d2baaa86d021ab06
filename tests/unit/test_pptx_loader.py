"""PowerPoint: slides in their order with all that is on them, no prompts of layouts, hostile files are refused."""

from __future__ import annotations

import time
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from kb.errors import LoadError
from kb.loading import load_document
from kb.records import Document
from tests.docx_writer import docx
from tests.docx_writer import paragraph as word_paragraph
from tests.pptx_writer import NAMESPACES, Slide, cell, graphic, group, paragraph, pptx, shape, table

Load = Callable[..., Document]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Load a presentation that is given as bytes, or as slides; keywords are options of the loader."""

    def load_it(given: bytes | Slide, *more: Slide, suffix: str = ".pptx", **options: Any) -> Document:
        path = tmp_path / f"file-name{suffix}"
        path.write_bytes(given if isinstance(given, bytes) else pptx((given, *more)))
        return load_document(path, options={"pptx": options})

    return load_it


def pages(document: Document) -> list[tuple[int, str]]:
    return [(page.number, document.text[page.start : page.end]) for page in document.pages]


def blocks(document: Document) -> list[tuple[str, str]]:
    return [(block.kind, document.text[block.start : block.end]) for block in document.blocks]


def test_slides_are_pages_in_the_order_in_which_they_are_shown_and_titles_are_headings(load: Load) -> None:
    slides = [
        Slide(shape("Zoll", placeholder="title") + shape("Formulare")),
        Slide(shape("物流計画", "二〇二六年", placeholder="ctrTitle") + shape("営業部", placeholder="subTitle")),
        Slide(shape("退款", placeholder="title") + shape("七天之内", placeholder="body")),
    ]
    document = load(pptx(slides, order=(1, 2, 0)))
    assert pages(document) == [
        (1, "物流計画 二〇二六年\n\n営業部"),
        (2, "退款\n\n七天之内"),
        (3, "Zoll\n\nFormulare"),
    ]
    assert [(h.level, h.text, document.text[h.start : h.end]) for h in document.headings] == [
        (1, "物流計画 二〇二六年", "物流計画 二〇二六年"),
        (1, "退款", "退款"),
        (1, "Zoll", "Zoll"),
    ]
    assert document.title == "物流計画 二〇二六年"


def test_a_title_that_stands_last_in_the_file_is_read_first(load: Load) -> None:
    assert load(Slide(shape("Body") + shape("Title", placeholder="title"))).text == "Title\n\nBody"


def test_blank_and_hidden_slides_keep_their_numbers_and_hidden_ones_are_read(load: Load) -> None:
    document = load(Slide(shape("One", placeholder="title")), Slide(), Slide(shape("Spare"), hidden=True))
    assert pages(document) == [(1, "One"), (2, ""), (3, "Slide 3\n\nSpare")]


def test_a_slide_without_a_title_does_not_stand_below_the_title_of_the_one_before(load: Load) -> None:
    document = load(
        Slide(shape("Prices", placeholder="title")), Slide(shape("", placeholder="title") + shape("Tariff"))
    )
    assert [heading.text for heading in document.headings] == ["Prices", "Slide 2"]
    assert document.title == "Prices"


def test_paragraphs_are_lines_indented_by_level_with_line_breaks_links_and_fields(load: Load) -> None:
    link = '<a:r><a:rPr><a:hlinkClick r:id="x"/></a:rPr><a:t>link</a:t></a:r><a:br/><a:r><a:t>below</a:t></a:r>'
    page_number = '<a:r><a:t>page </a:t></a:r><a:fld type="slidenum"><a:t>17</a:t></a:fld>'
    formula = (
        '<mc:AlternateContent><mc:Choice Requires="a14"><a:m><a:t>x+y</a:t></a:m></mc:Choice>'
        "<mc:Fallback><a:r><a:t>picture</a:t></a:r></mc:Fallback></mc:AlternateContent>"
    )
    body = shape("one", paragraph("two", 2), "", paragraph(link), paragraph(page_number), paragraph(formula))
    assert load(Slide(shape("T", placeholder="title") + body)).text == "T\n\none\n    two\nlink\nbelow\npage\nx+y"


def test_groups_are_descended_into_and_hidden_shapes_are_not_read(load: Load) -> None:
    shapes = group(shape("in a group"), group(shape("in an inner one")), shape("gone", hidden=True))
    chosen = f"<mc:AlternateContent><mc:Choice>{shape('new')}</mc:Choice><mc:Fallback>{shape('old')}</mc:Fallback>"
    document = load(Slide(shapes + chosen + "</mc:AlternateContent>"))
    assert document.text == "Slide 1\n\nin a group\n\nin an inner one\n\nnew"


def test_tables_are_rows_of_cells_and_one_block_each(load: Load) -> None:
    merged = table([cell("wide", 'gridSpan="2"'), cell("wide", 'hMerge="1"')], [cell("", 'vMerge="1"'), "x"])
    document = load(Slide(shape("T", placeholder="title") + table(("都市", "上限"), ("大阪", "90")) + merged))
    assert blocks(document) == [("table", "都市 | 上限\n大阪 | 90"), ("table", "wide |\n | x")]


def test_dates_and_slide_numbers_are_left_out_and_a_footer_is_kept_once(load: Load) -> None:
    furniture = (
        shape("1 May", placeholder="dt") + shape("7", placeholder="sldNum") + shape("Internal", placeholder="ftr")
    )
    document = load(*(Slide(shape(title, placeholder="title") + furniture) for title in ("A", "B")))
    assert document.text == "A\n\nInternal\n\nB"


def test_notes_stand_below_their_slide_without_picture_number_and_header(load: Load) -> None:
    notes = (
        shape("picture", placeholder="sldImg")
        + shape("话术：先问订单号", "再查物流", placeholder="body")
        + shape("3", placeholder="sldNum")
        + shape("Handout", placeholder="hdr")
    )
    document = load(Slide(shape("售后", placeholder="title"), notes=notes), Slide(shape("B", placeholder="title")))
    assert pages(document) == [(1, "售后\n\nNotes:\n话术：先问订单号\n再查物流"), (2, "B")]


def test_notes_without_words_leave_no_trace(load: Load) -> None:
    assert load(Slide(shape("A", placeholder="title"), notes=shape("", placeholder="body"))).text == "A"


def test_a_diagram_is_read_from_its_data_in_the_order_of_its_links(load: Load) -> None:
    def point(identity: str, text: str = "", kind: str = "node") -> str:
        return f'<dgm:pt modelId="{identity}" type="{kind}"><dgm:t>{paragraph(text) if text else ""}</dgm:t></dgm:pt>'

    links = (("doc", "b", 10), ("doc", "a", 2), ("a", "c", 0), ("c", "a", 0))
    data = (
        f"<dgm:dataModel {NAMESPACES}><dgm:ptLst>{point('b', 'Ship')}{point('a', 'Pack')}{point('c', 'Weigh')}"
        f"{point('x', 'Alone')}{point('doc', kind='doc')}</dgm:ptLst><dgm:cxnLst>"
        + "".join(f'<dgm:cxn srcId="{a}" destId="{b}" srcOrd="{place}"/>' for a, b, place in links)
        + '<dgm:cxn type="presOf" srcId="doc" destId="x"/></dgm:cxnLst></dgm:dataModel>'
    )
    frame = graphic('<dgm:relIds r:dm="diagramData" r:lo="other"/>')
    document = load(Slide(shape("Steps", placeholder="title") + frame, parts={"diagramData": data}))
    assert document.text == "Steps\n\nPack\n  Weigh\nShip\nAlone"


@pytest.mark.parametrize(
    "title",
    [
        f"<c:rich>{paragraph('Parcels a day')}</c:rich>",
        "<c:strRef><c:strCache><c:v>Parcels a day</c:v></c:strCache></c:strRef>",
    ],
)
def test_the_title_of_a_chart_is_read(load: Load, title: str) -> None:
    chart = (
        f"<c:chartSpace {NAMESPACES}><c:chart><c:title><c:tx>{title}</c:tx></c:title>"
        "<c:plotArea><c:v>12</c:v></c:plotArea></c:chart></c:chartSpace>"
    )
    document = load(Slide(graphic('<c:chart r:id="chart"/>'), parts={"chart": chart}))
    assert document.text == "Slide 1\n\nParcels a day"


def test_what_a_slide_refers_to_in_vain_is_no_error(load: Load) -> None:
    frames = graphic('<c:chart r:id="gone"/>') + graphic('<dgm:relIds r:dm="gone"/>')
    assert load(Slide(shape("A", placeholder="title") + frames)).text == "A"


def test_the_title_of_the_properties_serves_where_no_slide_has_one(load: Load) -> None:
    assert load(pptx([Slide(shape("words"))], title="Fleet plan")).title == "Fleet plan"
    assert load(pptx([Slide(shape("words"))], title="PowerPoint.pptx")).title == ""


@pytest.mark.parametrize("suffix", [".pptm", ".ppsx", ".potx"])
def test_shows_templates_and_files_with_macros_are_read(load: Load, suffix: str) -> None:
    assert load(Slide(shape("A", placeholder="title")), suffix=suffix).text == "A"


def test_a_presentation_without_words_is_reported(load: Load) -> None:
    document = load(Slide(), Slide())
    assert document.warnings == ("no text in it",)
    assert pages(document) == [(1, ""), (2, "")]
    assert load(pptx([])).warnings == ("no text in it",)


def old_office(stream: str) -> bytes:
    return b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(512) + stream.encode("utf-16-le") + bytes(512)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (old_office("PowerPoint Document"), r"old \.ppt format; open it in PowerPoint and save it as \.pptx"),
        (old_office("EncryptedPackage"), "password-protected"),
        (old_office("?"), r"an old \.ppt or a password-protected file"),
        (b"<html>", "not a PowerPoint presentation"),
        (pptx([Slide(shape("A"))])[:-40], "truncated or corrupt"),
        (docx(word_paragraph("words")), "no PowerPoint presentation but an Office file of <document>"),
        (pptx([], raw=f"<p:presentation {NAMESPACES}>"), r"presentation\.xml is damaged"),
        (
            pptx([], raw=f'<!DOCTYPE x [<!ENTITY e "x">]><p:presentation {NAMESPACES}>&e;</p:presentation>'),
            "declares entities",
        ),
    ],
)
def test_what_is_no_presentation_says_so(load: Load, data: bytes, reason: str) -> None:
    with pytest.raises(LoadError, match=reason):
        load(data)


def test_a_slide_that_is_not_there_is_an_error_that_names_it(load: Load) -> None:
    with pytest.raises(LoadError, match="its part for slide 2 is missing"):
        load(pptx([Slide(shape("A"))], order=(0, 5)))


def test_another_zip_says_so(load: Load) -> None:
    out = BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("../readme.txt", "words")
    with pytest.raises(LoadError, match="zip archive, but no PowerPoint presentation"):
        load(out.getvalue())


def test_bombs_are_refused_and_one_part_that_is_shown_often_counts_each_time(load: Load) -> None:
    with pytest.raises(LoadError, match="refused as a zip bomb"):
        load(Slide(shape("x" * 3_000_000)))
    slide = Slide(shape("".join(chr(0x4E00 + number * 7919 % 20000) for number in range(30_000))))
    assert len(load(pptx([slide], order=[0] * 2), max_unpacked_megabytes=1).text) > 60_000
    with pytest.raises(LoadError, match=r"raise \[loading.pptx\] max_unpacked_megabytes"):
        load(pptx([slide], order=[0] * 100), max_unpacked_megabytes=1)


def test_deep_groups_end_in_a_document_or_a_clear_error(load: Load) -> None:
    nested = shape("deep")
    for _ in range(100):
        nested = group(nested)
    assert load(Slide(nested)).text == "Slide 1\n\ndeep"
    for _ in range(2_000):
        nested = group(nested)
    with pytest.raises(LoadError, match=r"damaged|too deeply"):
        load(Slide(nested))


def test_time_grows_with_the_size_of_a_diagram_and_not_faster(load: Load) -> None:
    count = 20_000
    points = "".join(f'<dgm:pt modelId="{n}"><dgm:t>{paragraph("x")}</dgm:t></dgm:pt>' for n in range(count))
    links = "".join(f'<dgm:cxn srcId="{n}" destId="{n + 1}"/>' for n in range(count))
    data = (
        f"<dgm:dataModel {NAMESPACES}><dgm:ptLst>{points}</dgm:ptLst><dgm:cxnLst>{links}</dgm:cxnLst></dgm:dataModel>"
    )
    began = time.monotonic()
    document = load(Slide(graphic('<dgm:relIds r:dm="diagramData"/>'), parts={"diagramData": data}))
    assert document.text.count("x") == count
    assert len(document.text) < 25 * count
    assert time.monotonic() - began < 10
