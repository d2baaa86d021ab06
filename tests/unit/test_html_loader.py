"""HTML: what a reader sees, in reading order and in any encoding; whatever is hidden or hostile stays out."""

from __future__ import annotations

import codecs
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kb.errors import LoadError
from kb.loading import load_document
from kb.records import Document

Load = Callable[..., Document]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Load a page that is given as text or bytes."""

    def load_it(page: str | bytes, suffix: str = ".html") -> Document:
        path = tmp_path / f"file-name{suffix}"
        path.write_bytes(page.encode() if isinstance(page, str) else page)
        return load_document(path)

    return load_it


def blocks(document: Document) -> list[tuple[str, str]]:
    return [(block.kind, document.text[block.start : block.end]) for block in document.blocks]


def test_a_page_has_title_headings_lists_tables_and_code(load: Load) -> None:
    document = load(
        '<!DOCTYPE html><html lang="en-GB"><head><title>Travel\n policy</title>'
        '<meta name="author" content="Elise &amp; Co">'
        '<meta name=Description content="Who may travel"><style>p{}</style><script>var x = "<p>no</p>"</script></head>'
        "<body><h1>Travel <em>policy</em></h1><p>For   all\nstaff.<p>Unclosed.<h2>Limits</h2>"
        "<ul><li>trains<li>ferries<ol start=3><li>slow<li value=7>fast</ol></ul>"
        "<table><tr><th>City<th>Limit<tr><td>Osaka<td>90</table><pre>\n  if x &lt; 1:\n      go()\n</pre></body></html>"
    )
    assert document.title == "Travel policy"
    assert document.kind == "html"
    assert document.pages == ()
    assert document.metadata == {"language": "en-GB", "author": "Elise & Co", "description": "Who may travel"}
    assert [(h.level, h.text, document.text[h.start : h.end]) for h in document.headings] == [
        (1, "Travel policy", "Travel policy"), (2, "Limits", "Limits"),
    ]  # fmt: skip
    assert blocks(document) == [
        ("list", "- trains\n- ferries\n  3. slow\n  7. fast"),
        ("table", "City | Limit\nOsaka | 90"),
        ("code", "  if x < 1:\n      go()"),
    ]
    assert document.text.startswith("Travel policy\n\nFor all staff.\n\nUnclosed.\n\nLimits\n\n- trains")
    assert document.warnings == ()


def test_without_a_title_the_first_heading_is_the_title(load: Load) -> None:
    assert load("<title> </title><h2>b</h2><h1>出張規程</h1>").title == "出張規程"
    assert load("<title>Untitled document</title><p>x").title == ""
    assert load("<p>x<svg><title>icon</title></svg>").title == ""


@pytest.mark.parametrize(
    "hidden",
    [
        "<script>NO</script>", "<style>NO</style>", "<template><p>NO</p></template>", "<noscript>NO</noscript>",
        "<!-- NO -->", "<!--[if IE]>NO<![endif]-->", "<div hidden>NO<p>NO</p></div>", "<iframe>NO</iframe>",
        '<p style="color:red; display : none">NO</p>', "<span style='VISIBILITY:hidden'>NO</span>",
        "<dialog>NO</dialog>", "<del>NO</del>", "<video>NO</video>", '<i aria-hidden="true">NO</i>',
        "<svg><title>NO</title><desc>NO</desc></svg>", "<div hidden><div>NO</div>NO</div>", '<img src="data:NO">',
        '<input type=hidden value="NO">', "<script><p>NO</p></script >", "<?php NO ?>", "<!NO>", "</ NO>",
        "<datalist><option>NO</datalist>", "<template><table><tr><td>NO</table></template>",
    ],
)  # fmt: skip
def test_what_a_reader_does_not_see_is_left_out(load: Load, hidden: str) -> None:
    assert load(f"<div><p>before</p>{hidden}<p>after</p></div>").text == "before\n\nafter"


def test_a_hidden_element_that_is_not_closed_ends_with_the_one_around_it(load: Load) -> None:
    assert load("<section><div hidden>no</section><p>yes").text == "yes"
    assert load("<ul><li hidden>no<li>yes</ul>").text == "- yes"
    assert load("<p hidden>no<p>yes").text == "yes"
    assert load("<table><tr><td>a<td style='display:none'>no<td>b</table>").text == "a | b"
    assert load("<table><tr><td>a<template><tr><td>no</template><td>b</table>").text == "a | b"


def test_a_whole_page_that_was_saved_hidden_is_read(load: Load) -> None:
    assert (
        load('<body style="display:none"><main hidden><div aria-hidden="true">Words</div></main></body>').text
        == "Words"
    )


def test_the_text_of_pictures_and_fields_is_kept(load: Load) -> None:
    assert load('A<img src="data:image/png;base64,iVBORw0" alt="图表 &amp; 说明">B').text == "A 图表 & 说明 B"
    assert load("<button>Save</button><button>Quit</button><select><option>a<option>b</select>").text == "Save Quit a b"


def test_a_menu_is_left_out_and_a_nav_with_text_is_not(load: Load) -> None:
    menu = "<nav><h2>Menu</h2><ul><li><a href=/>Home and news</a><li><a href=/a>About us</a></ul></nav>"
    assert load(f"{menu}<p>Words.</p>").text == "Words."
    assert load(menu).text == "Menu\n\n- Home and news\n- About us"
    assert load(f"<nav>{menu}<div>Version 1.2</div></nav><p>Words.").text == "Words."
    prose = "Rooms are booked with the general affairs office, three days ahead at the latest; who comes late asks. "
    assert load(f"<nav>{prose}<a href=x>More</a></nav><p>x").text == f"{prose}More\n\nx"
    assert load("<div role=navigation><a href=/>Home</a></div><footer>Imprint</footer>").text == "Imprint"
    assert load("<nav><a href=/>首页</a><p>正文").text == "首页\n\n正文"


def test_spaces_are_as_a_browser_shows_them(load: Load) -> None:
    assert load("<p>Bread&nbsp;&amp;&nbsp;butter <b>b</b>old\n\t<i> x </i></p>").text == "Bread & butter bold x"
    assert load("one<br>two<br/><br>three<hr>four").text == "one\ntwo\n\nthree\n\nfour"
    assert load("<p>会議室の\n  予約は<b>総務部</b>\nへ。\nRoom\n二").text == "会議室の予約は総務部へ。 Room 二"
    assert load("soft&shy;hyphen zero&#8203;width").text == "softhyphen zerowidth"


def test_readings_above_japanese_words_are_left_out(load: Load) -> None:
    assert load("<ruby>漢<rp>(</rp><rt>かん</rt><rp>)</rp>字<rt>じ</ruby>を読む").text == "漢字を読む"


def test_a_raised_number_does_not_become_part_of_another(load: Load) -> None:
    assert load("<p>10<sup>6</sup>, 10<sup>−3</sup>, 1<sup>st</sup>, H<sub>2</sub>O").text == "10^6, 10^−3, 1st, H2O"


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("a < b && c > d &lt;p&gt; &copy &#x41;&#66; &unknown; &#0;", "a < b && c > d <p> © AB &unknown; \ufffd"),
        ("<b><i>x</b></i>y</p>z</div>", "xy\n\nz"),
        ("<p class='a>b' x=\"1>2\" y=c/>d", "d"),
        ("<title>never closed<p>text", "never closed\n\ntext"),
        ("<a href=\"x>all</a> of it", "all of it"),
        ("<h2>Unclosed<p>text", "Unclosed\n\ntext"),
        ("<h1><div>A</div><div>B</div></h2>c", "A B\n\nc"),
        ("text<p", "text"),
        ("<P>UPPER</P><Br>x", "UPPER\n\nx"),
        (f"&#{'9' * 5000};", "\ufffd"),
        ("<li>alone", "- alone"),
        ("<td>no<td>table", "no\n\ntable"),
        ("<table><tr><td>a<td>b<tr><td>c<td>d</div></table>e", "a | b\nc | d\n\ne"),
    ],
)  # fmt: skip
def test_broken_markup_is_read_as_browsers_read_it(load: Load, markup: str, text: str) -> None:
    assert load(markup).text == text


def test_a_cell_that_covers_others_is_written_once(load: Load) -> None:
    document = load(
        "<table><caption>Sales</caption><thead><tr><th rowspan=2>City<th colspan=2>Year<tr><th>1<th>2</thead>"
        "<tbody><tr><td>Osaka<td>5<td><ul><li>6<li>7</ul><tr><td colspan=3>None<tr><td colspan=x><td>8</table>"
    )
    assert document.text == "Sales\n\nCity | Year\n | 1 | 2\nOsaka | 5 | - 6 - 7\nNone\n | 8"
    assert [kind for kind, _ in blocks(document)] == ["table"]


def test_a_table_in_a_cell_is_read_within_the_row(load: Load) -> None:
    inner = "<table><tr><th>in<th>ner</tr></table>"
    assert load(f"<table><tr><th>a<th>b<tr><td>c<td>{inner}</table>").text == "a | b\nc | in | ner"


def test_a_table_that_only_arranges_the_page_is_read_in_order(load: Load) -> None:
    menu, page = "<p>one<p>two<p>three<p>four", "<h1>Title</h1><table><tr><td>x<td>1<tr><td>y<td>2</table>"
    document = load(f"<table><tr><td>{menu}<td>{page}</table>")
    assert document.text == "one\n\ntwo\n\nthree\n\nfour\n\nTitle\n\nx | 1\ny | 2"
    assert [heading.text for heading in document.headings] == ["Title"]
    assert load("<table role=presentation><tr><td>a<td>b</table>").text == "a\n\nb"
    assert load("<table><tr><td>a<tr><td>b</table>").text == "a\n\nb"


def test_code_keeps_its_lines_wherever_they_are_marked(load: Load) -> None:
    document = load("<ol><li>Run<pre>a\n  b<br>c</pre><li>Done</ol><pre><div>x</div><div>  y</div></pre>")
    assert blocks(document) == [("list", "1. Run"), ("code", "a\n  b\nc"), ("list", "2. Done"), ("code", "x\n  y")]


TEXT = "会議室の予約は総務部へ。"


@pytest.mark.parametrize(
    ("label", "encoding", "text"),
    [
        ("Shift_JIS", "cp932", "①会議室の予約"),
        ("x-sjis", "cp932", TEXT),
        ("EUC-JP", "euc_jp", TEXT),
        ("ISO-2022-JP", "iso2022_jp", TEXT),
        ("gb2312", "gb18030", "朱镕基的会议室€"),
        ("GBK", "gbk", "会议室"),
        ("big5", "big5", "會議室"),
        ("ks_c_5601-1987", "cp949", "회의실"),
        ("iso-8859-1", "cp1252", "“Café” – 5 €"),
        ("windows-1251", "cp1251", "Комната"),
        ("utf-8", "utf-8", TEXT),
    ],
)
def test_the_declared_encoding_is_believed(load: Load, label: str, encoding: str, text: str) -> None:
    http = f'<meta http-equiv="Content-Type" content="text/html; charset={label}">'
    for head in (
        f"<meta charset={label}>",
        http,
        f"<!-- <meta charset=utf-7> --><META  CHARSET = '{label.upper()}' />",
    ):
        document = load(f"<html><head>{head}</head><body>{text}</body></html>".encode(encoding))
        assert document.text == text
        assert document.warnings == ()
    xml = f'<?xml version="1.0" encoding="{label}"?><html><body>{text}</body></html>'
    assert load(xml.encode(encoding), ".xhtml").text == text


def test_the_bytes_overrule_a_declaration_that_is_wrong(load: Load) -> None:
    for label in ("gb2312", "iso-8859-1", "utf-16"):
        assert load(f"<meta charset={label}>{TEXT * 3}".encode()).text == TEXT * 3
    assert load(codecs.BOM_UTF8 + "<meta charset=gbk>é".encode()).text == "é"
    assert load(f"<meta charset=utf-8><p>{TEXT}".encode("utf-16")).text == TEXT
    assert load("<meta charset=utf-8><p>some more words".encode("utf-16-le")).text == "some more words"
    assert load(f"<meta charset=utf-8>{TEXT * 9}".encode("cp932")).text == TEXT * 9
    assert load("<meta charset=unknown-8>é".encode()).text == "é"


def test_a_few_broken_bytes_do_not_cost_the_page(load: Load) -> None:
    document = load(f"<meta charset=Shift_JIS>{TEXT * 100}".encode("cp932") + b"\x81")
    assert document.text.startswith(TEXT)
    assert "cp932" in document.warnings[0]


def test_xhtml_closes_empty_elements_and_declares_entities_without_effect(load: Load) -> None:
    page = (
        '<?xml version="1.0"?>\n<!DOCTYPE html [<!ENTITY lol "ha">]>\n<h:html xmlns:h="http://www.w3.org/1999/xhtml">'
        '<h:head><h:title/><h:script src="x"/></h:head>'
        '<h:body><h:span hidden=""/><h:p>a<![CDATA[ <b> & ]]>&lol;</h:p></h:body>'
    )
    assert load(page, ".xhtml").text == load(page).text == "a <b> & &lol;"
    assert load("<title/>x</title><p>y").text == "y"


def test_an_empty_page_says_why(load: Load) -> None:
    assert load("").warnings == ("no text in it",)
    app = "<body><div id=app></div><noscript>Enable JavaScript</noscript><script src=app.js></script></body>"
    assert "save the page from a browser" in load(app).warnings[0]
    with pytest.raises(LoadError, match="PDF"):
        load(b"%PDF-1.4 x")


@pytest.mark.parametrize(
    "page",
    [
        "<div>" * 100_000 + "needle" + "</div>" * 100_000,
        "<span>" * 50_000 + "</b>" * 50_000 + "needle",
        "<table><tr><td>x<th>y" * 10_000 + "needle",
        "<ul><li>" * 30_000 + "needle",
        "<h1>" + "<p>" * 50_000 + "needle",
        "<title>" * 50_000 + "needle",
        "<![CDATA[" * 50_000 + ">needle",
        "<a b=" * 50_000 + ">needle",
    ],
    ids=["depth", "stray ends", "tables", "lists", "heading", "titles", "declarations", "attributes"],
)
def test_hostile_nesting_takes_time_that_grows_with_the_size_only(load: Load, page: str) -> None:
    started = time.perf_counter()
    assert load(page).text.endswith("needle")
    assert time.perf_counter() - started < 60  # quadratic time would be many minutes
