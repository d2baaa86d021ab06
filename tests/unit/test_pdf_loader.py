"""PDF: each page's visible text, mended, with its number; every fault its own report."""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pypdf
import pytest

from kb.errors import LoadError
from kb.loading import load_document
from kb.loading._pdf_read import blank_pages
from kb.loading._pdf_text import junk_share, mend_page, without_running_lines
from kb.records import Document
from tests.pdf_writer import arabic_pdf, pdf

Load = Callable[..., Document]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Load a PDF that is given as bytes; keywords are options of the loader."""

    def load_it(data: bytes, **options: Any) -> Document:
        path = tmp_path / "file-name.pdf"
        path.write_bytes(data)
        return load_document(path, options={"pdf": options})

    return load_it


def page_texts(document: Document) -> list[str]:
    return [document.text[page.start : page.end] for page in document.pages]


def test_pages_keep_their_numbers_blank_ones_included(load: Load) -> None:
    document = load(pdf([[], ["one", "two"], [], [], ["five"], []]))
    assert page_texts(document) == ["", "one\ntwo", "", "", "five", ""]
    assert [page.number for page in document.pages] == [1, 2, 3, 4, 5, 6]
    assert document.text == "one\ntwo\n\nfive"
    assert document.warnings == ()


def test_a_fact_on_page_1778_of_2000_is_on_that_page(load: Load) -> None:
    pages = [["Annual manual", f"entry {'odd' if n % 2 else 'even'}"] for n in range(2000)]
    pages[1777] = ["Annual manual", "The relief valve opens at nine bar."]
    document = load(pdf(pages))
    at = document.text.index("nine bar")
    assert [page.number for page in document.pages if page.start <= at < page.end] == [1778]


def test_the_title_comes_from_the_properties_unless_a_program_made_it(load: Load) -> None:
    assert load(pdf([["text"]], title="休暇規程")).title == "休暇規程"
    for senseless in ("Microsoft Word - report.doc", "untitled", "report_final.docx", "Document1", "(anonymous)"):
        assert load(pdf([["text"]], title=senseless)).title == ""


def test_the_outline_gives_headings_where_its_titles_are_lines(load: Load) -> None:
    pages = [["Part I", "words about part i"], ["2. Terms", "more", "Not  in the outline"]]
    document = load(pdf(pages, outline=[("Part I", 0), ("2.  Terms", 1), ("Nowhere", 1), ("Part I", 1)]))
    assert [h.text for h in document.headings] == ["Part I", "2. Terms"]
    assert [document.text[h.start : h.end] for h in document.headings] == ["Part I", "2. Terms"]
    assert document.title == "Part I"


def test_a_password_is_asked_for_and_tried(load: Load) -> None:
    data = encrypted(user="secret", owner="owner")
    with pytest.raises(LoadError, match=r"needs a password; put it into \[loading\.pdf\] passwords"):
        load(data)
    with pytest.raises(LoadError, match="password"):
        load(data, passwords=["wrong"])
    assert load(data, passwords=["wrong", "secret"]).text == "sealed words"


def test_an_owner_password_alone_opens(load: Load) -> None:
    assert load(encrypted(user="", owner="owner")).text == "sealed words"


def encrypted(user: str, owner: str) -> bytes:
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(pdf([["sealed words"]])))
    writer.encrypt(user_password=user, owner_password=owner, algorithm="AES-256")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def test_without_a_text_layer_ocr_is_asked_for(load: Load) -> None:
    with pytest.raises(LoadError, match="no text layer; it needs OCR"):
        load(pdf([[], []], drawn=[0, 1]))


def test_some_pages_without_a_text_layer_are_named_and_the_others_kept(load: Load) -> None:
    document = load(pdf([["one"], [], [], ["four"], []], drawn=[1, 2, 4]))
    assert document.text == "one\n\nfour"
    assert document.warnings == ("no text layer on pages 2-3, 5; OCR is needed if there are words",)


def test_a_damaged_page_is_reported_and_the_others_are_kept(load: Load) -> None:
    document = load(pdf([["one"], ["two"], ["three"]], broken=[1]))
    assert page_texts(document) == ["one", "", "three"]
    assert len(document.warnings) == 1
    assert document.warnings[0].startswith("page 2 is left out: ")


def test_blank_pages_and_no_pages_are_no_error_but_reported(load: Load) -> None:
    assert load(pdf([[], []])).warnings == ("no text in it: all pages are blank",)
    assert load(pdf([])).warnings == ("no text in it: the PDF has no pages",)


def test_an_empty_page_is_told_from_a_damaged_one_and_a_page_tree_that_holds_itself_ends() -> None:
    data = pdf([["one"], [], ["three"], []], broken=[2])
    assert blank_pages(data, (), [1, 2, 3]) == {1, 3}
    assert blank_pages(b"no PDF", (), [0]) == set()
    loop = re.sub(rb"Kids\[\d+ 0 R", b"Kids[2 0 R", data)
    assert blank_pages(loop, (), [0, 1, 2, 3]) <= {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b"<html><body>Sign in</body></html>", "not a PDF; it begins with '<html"),
        (pdf([["words"]] * 30)[:900], "damaged"),
        (b"%PDF-1.7\n" + b"\0" * 200, "damaged"),
    ],
)
def test_what_cannot_be_read_is_one_error_with_its_reason(load: Load, data: bytes, reason: str) -> None:
    with pytest.raises(LoadError, match=reason) as caught:
        load(data)
    assert "\n" not in str(caught.value)


def test_junk_before_the_header_and_a_wrong_table_of_objects_are_no_hindrance(load: Load) -> None:
    data = pdf([["words"]])
    assert load(b"HTTP/1.1 200 OK\r\n\r\n" + data).text == "words"
    start = data.index(b"startxref\n")
    assert load(data[:start] + b"startxref\n7\n%%EOF\n").text == "words"


def test_a_turned_page_is_read_in_the_order_of_its_lines(load: Load) -> None:
    lines = [(60, 700, "first line of the page"), (60, 680, "second line"), (60, 660, "third line")]
    assert load(pdf([lines], rotate=90)).text == "first line of the page\nsecond line\nthird line"


@pytest.mark.parametrize("hidden", [False, True], ids=["all seen", "some hidden"])
def test_lines_that_run_upward_on_a_turned_page_are_not_glued(load: Load, hidden: bool) -> None:
    lines = ["The first line ends here.", "The second one follows.", "会議は月曜日です。", "次の行もあります。"]
    page = [*lines[:2], *([] if hidden else lines[2:])]
    beyond = [(60.0, 2000.0, "out of sight")] if hidden else []
    turned = load(pdf([[*page, *beyond]], rotate=90, upward=True)).text
    assert turned == load(pdf([page])).text
    assert turned.startswith("\n".join(lines[:2]))


def test_the_letters_of_an_arabic_ligature_are_in_their_order(load: Load) -> None:
    # "السلام" is drawn from its end; the article's alef and lam are two letters, and stay.
    assert load(arabic_pdf("م\ufefbسلا")).text == "السلام"


def test_a_word_divided_on_a_turned_page_is_joined_as_on_any_other(load: Load) -> None:
    lines = [(60, 700, "for all who work in the halls: the main-"), (60, 680, "tenance of pumps is due in May")]
    joined = "for all who work in the halls: the maintenance of pumps is due in May"
    assert load(pdf([lines])).text == joined
    assert load(pdf([lines], rotate=90)).text == joined


def test_what_lies_outside_of_the_page_is_not_read(load: Load) -> None:
    assert load(pdf([["seen", (60, 2000, "hidden words")]])).text == "seen"


def test_gaps_between_cjk_characters_are_closed_but_columns_stay_apart(load: Load) -> None:
    lines = [(60, 700, "請求書"), (93, 700, "の控え"), (60, 680, "区分"), (160, 680, "扱い方"), (360, 680, "期間")]
    assert load(pdf([lines])).text == "請求書の控え\n区分 扱い方 期間"


def test_values_in_form_fields_are_read(load: Load) -> None:
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(pdf([["Form"], ["Next"]])))
    name, text = pypdf.generic.NameObject, pypdf.generic.TextStringObject
    field = pypdf.generic.DictionaryObject(
        {
            name("/Type"): name("/Annot"), name("/Subtype"): name("/Widget"), name("/FT"): name("/Tx"),
            name("/T"): text("Contact"), name("/V"): text("Alice"),
            name("/Rect"): pypdf.generic.ArrayObject(map(pypdf.generic.FloatObject, (10, 10, 90, 30))),
        }
    )  # fmt: skip
    reference = writer._add_object(field)
    writer.pages[0][name("/Annots")] = pypdf.generic.ArrayObject([reference])
    form = pypdf.generic.DictionaryObject({name("/Fields"): pypdf.generic.ArrayObject([reference])})
    writer._root_object[name("/AcroForm")] = form
    out = io.BytesIO()
    writer.write(out)
    assert page_texts(load(out.getvalue())) == ["Form\nContact: Alice", "Next"]


def test_many_threads_read_right_text(tmp_path: Path) -> None:
    paths = []
    for number in range(8):
        paths.append(tmp_path / f"{number}.pdf")
        paths[-1].write_bytes(pdf([[f"file {number} page {page}"] for page in range(20)]))
    texts: dict[int, str] = {}

    def read(number: int) -> None:
        texts[number] = load_document(paths[number], options={"pdf": {"drop_running_lines": False}}).text

    threads = [threading.Thread(target=read, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts == {n: "\n\n".join(f"file {n} page {page}" for page in range(20)) for n in range(8)}


@pytest.mark.parametrize(
    ("raw", "mended"),
    [
        ("The main\x02tenance of inter\ufffenational pumps", "The maintenance of international pumps"),
        ("state-of-the\x02art and COVID\x0219", "state-of-the-art and COVID-19"),
        ("NATO\x02STAFF Euro\x02Asian", "NATOSTAFF Euro-Asian"),
        ("one \r\ntwo\r\n", "one\ntwo"),
        ("e\ufb03cient \ufb01le", "efficient file"),
        ("full ＡＢＣ stays", "full ＡＢＣ stays"),
        ("国 防 问 题", "国防问题"),
        ("\u2f47\u672c a b", "日本 a b"),
        ("한국어 문장 띄어쓰기", "한국어 문장 띄어쓰기"),
        ("soft\u00ad\r\nhyphen", "softhyphen"),
    ],
)
def test_a_page_is_mended(raw: str, mended: str) -> None:
    assert mend_page(raw) == mended


def test_line_breaks_in_a_cjk_paragraph_are_closed_and_others_stay() -> None:
    long = "この規則は大阪オフィスで働く人と業務委託で受け入れている人に適"
    page = f"第一章　総則\n{long}\n用します。\n短い行\n次の行\n{long[:-1]}。\n新しい段落です。\n{long}\n・箇条書き"
    assert mend_page(page) == (
        f"第一章　総則\n{long}用します。\n短い行\n次の行\n{long[:-1]}。\n新しい段落です。\n{long}\n・箇条書き"
    )


def test_running_lines_are_kept_once() -> None:
    pages = [f"HANDBOOK\nWords of {word}.\nPage {n} of 5" for n, word in enumerate(("a", "b", "c", "d", "e"), 1)]
    assert without_running_lines(pages) == (pages[0], "Words of b.", "Words of c.", "Words of d.", "Words of e.")


def test_left_and_right_pages_may_have_headers_of_their_own() -> None:
    pages = [f"{'Left' if n % 2 else 'Right'} header\nWords {chr(97 + n)}." for n in range(10)]
    assert without_running_lines(pages)[2:] == tuple(f"Words {chr(97 + n)}." for n in range(2, 10))


@pytest.mark.parametrize(
    "words",
    [
        ("The parcel is stored", "for ten days. Then it", "goes back. It is free", "of charge.", "Next."),
        ("荷物は十日間", "保管します。その後は", "返送し、料金は", "かかりません。", "次へ。"),
        ("包裹保管十", "天，之后", "退回，不收", "费用。", "下一章。"),
    ],
    ids=["en", "ja", "zh"],
)
def test_running_lines_are_never_left_amid_a_sentence_that_crosses_pages(words: tuple[str, ...]) -> None:
    pages = [words[0], *(f"HANDBOOK\n{text}\nPage {n} of 5" for n, text in enumerate(words[1:], 2))]
    assert without_running_lines(pages) == (*words[:3], f"{words[3]}\nPage 4 of 5", f"HANDBOOK\n{words[4]}")


@pytest.mark.parametrize(
    "pages",
    [
        ["a\nrow 12 34", "b\nrow 78 90", "c\nrow 55 11", "d\nrow 3 8"],
        ["Header\na", "Header\nb", "c", "d", "e", "f"],
        ["same page", "same page", "same page", "same page"],
        ["a", "", "", ""],
        [],
    ],
    ids=["rows that differ in numbers", "too few pages", "nothing else on the page", "blank pages", "no pages"],
)
def test_no_other_lines_are_taken_for_running_ones(pages: list[str]) -> None:
    assert without_running_lines(pages) == tuple(pages)


def test_running_lines_stay_when_the_option_says_so(load: Load) -> None:
    data = pdf([["HANDBOOK", word] for word in ("one", "two", "three")])
    assert load(data).text == "HANDBOOK\none\n\ntwo\n\nthree"
    assert load(data, drop_running_lines=False).text == "HANDBOOK\none\n\nHANDBOOK\ntwo\n\nHANDBOOK\nthree"


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("good text, 漢字 too", 0),
        ("", 0),
        ("\x01\x03\x04abc\ufffd", 4 / 7),
        ("\ue000\ue001 ab", 2 / 4),
        ("/g936/g1007 ok", 11 / 13),
        ("path /usr/g1x", 0),
    ],
)
def test_junk_is_what_no_reader_sees_as_letters(text: str, share: float) -> None:
    assert junk_share(text) == pytest.approx(share)
