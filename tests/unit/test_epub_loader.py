"""EPUB: every chapter in reading order, with the book's own title; protected and hostile books are refused."""

from __future__ import annotations

import io
import time
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from kb.errors import LoadError
from kb.loading import load_document
from kb.records import Document
from tests.epub_writer import epub

Load = Callable[..., Document]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Load a book that is given as bytes; keywords are options of the loader."""

    def load_it(data: bytes, **options: Any) -> Document:
        path = tmp_path / "file-name.epub"
        path.write_bytes(data)
        return load_document(path, options={"epub": options})

    return load_it


def test_chapters_come_in_the_order_of_the_spine_with_their_headings(load: Load) -> None:
    document = load(
        epub(
            {
                "b.xhtml": "<h1>第二章</h1><p>二</p>",
                "a.xhtml": "<h1>First</h1><p>one</p><table><tr><td>x<td>1<tr><td>y<td>2</table>",
            },
            spine=["a.xhtml", "b.xhtml"],
            metadata="<dc:title>A  book</dc:title><dc:creator>Elise</dc:creator><dc:creator>李雷</dc:creator>"
            "<dc:language>en</dc:language>",
        )
    )
    assert document.text == "First\n\none\n\nx | 1\ny | 2\n\n第二章\n\n二"
    assert [(h.level, h.text, document.text[h.start : h.end]) for h in document.headings] == [
        (1, "First", "First"), (1, "第二章", "第二章"),
    ]  # fmt: skip
    assert [document.text[b.start : b.end] for b in document.blocks] == ["x | 1\ny | 2"]
    assert document.title == "A book"
    assert document.metadata == {"author": "Elise, 李雷", "language": "en"}
    assert document.pages == ()
    assert document.warnings == ()


def test_the_table_of_contents_is_left_out(load: Load) -> None:
    contents = '<nav><h1>Contents</h1><ol><li><a href="a.xhtml">One</a></li></ol></nav>'
    assert load(epub({"nav.xhtml": contents, "a.xhtml": "<p>One</p>"})).text == "One"


def test_empty_elements_of_xml_hide_nothing(load: Load) -> None:
    page = '<html><head><title/><script src="x"/></head><body><a id="1"/><p hidden=""/><p>Words</p></body></html>'
    assert load(epub({"a.xhtml": page})).text == "Words"


def test_addresses_of_parts_are_resolved_as_in_links(load: Load) -> None:
    document = load(
        epub({"text/第 1.xhtml": "<p>found</p>"}, address=lambda name: f"./x/../{name.replace(' ', '%20')}")
    )
    assert document.text == "found"


def test_a_missing_or_unreadable_chapter_is_reported_and_the_others_are_read(load: Load) -> None:
    document = load(
        epub({"a.xhtml": "<p>a</p>", "bad.xhtml": b"\0\1\2\3" * 99}, spine=["a.xhtml", "gone.xhtml", "bad.xhtml"])
    )
    assert document.text == "a"
    assert [warning.split(" is ")[0] for warning in document.warnings] == [
        "its part OEBPS/gone.xhtml", "its part OEBPS/bad.xhtml",
    ]  # fmt: skip
    assert load(epub({})).warnings == ("no text in it",)


def encryption(algorithm: str, part: str) -> Mapping[str, str]:
    return {
        "META-INF/encryption.xml": '<encryption xmlns="urn:oasis:names:tc:opendocument:xmlns:container" '
        'xmlns:e="http://www.w3.org/2001/04/xmlenc#"><e:EncryptedData>'
        f'<e:EncryptionMethod Algorithm="{algorithm}"/><e:CipherData><e:CipherReference URI="{part}"/></e:CipherData>'
        "</e:EncryptedData></encryption>"
    }


def test_a_protected_book_is_reported_and_one_with_scrambled_fonts_is_read(load: Load) -> None:
    pages = {"a b.xhtml": "<p>words</p>"}
    with pytest.raises(LoadError, match="DRM"):
        load(epub(pages, parts=encryption("http://www.w3.org/2001/04/xmlenc#aes128-cbc", "OEBPS/a%20b.xhtml")))
    for algorithm, part in (
        ("http://www.idpf.org/2008/embedding", "OEBPS/font.otf"),
        ("http://www.w3.org/2001/04/xmlenc#aes128-cbc", "OEBPS/cover.jpg"),
    ):
        assert load(epub(pages, parts=encryption(algorithm, part))).text == "words"


def another_zip() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("../evil.txt", "x")
    return out.getvalue()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b"BOOKMOBI" * 9, "not a book in EPUB format"),
        (another_zip(), "no book in EPUB format"),
        (epub({"a.xhtml": "x" * 999})[:500], "truncated or corrupt"),
        (epub({}, opf="<package"), "damaged"),
        (epub({}, opf='<!DOCTYPE p [<!ENTITY a "b">]><package/>'), "declares entities"),
    ],
)
def test_what_cannot_be_read_is_told_apart(load: Load, data: bytes, reason: str) -> None:
    with pytest.raises(LoadError, match=reason) as caught:
        load(data)
    assert "\n" not in str(caught.value)


def test_an_old_book_with_a_doctype_is_read(load: Load) -> None:
    opf = (
        '<!DOCTYPE package PUBLIC "+//ISBN 0-9673008-1-9//DTD OEB 1.2 Package//EN" "http://example.org/oeb.dtd"><package>'
        '<manifest><item id="a" href="a.html" media-type="text/x-oeb1-document"/></manifest>'
        '<spine><itemref idref="a"/></spine></package>'
    )
    assert load(epub({"a.html": "<h1>Old</h1>"}, opf=opf)).title == "Old"


def test_a_zip_bomb_is_refused_at_once_and_the_size_is_limited_by_an_option(load: Load) -> None:
    started = time.perf_counter()
    with pytest.raises(LoadError, match="zip bomb"):
        load(epub({"a.xhtml": "A" * 60_000_000}))
    assert time.perf_counter() - started < 10
    book = epub({f"{n}.xhtml": f"<p>{' '.join(str(m * n) for m in range(3000))}</p>" for n in range(1, 6)})
    assert load(book).text
    with pytest.raises(LoadError, match=r"\[loading\.epub\] max_unpacked_megabytes"):
        load(book, max_unpacked_megabytes=0.05)
