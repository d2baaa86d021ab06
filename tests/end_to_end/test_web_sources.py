"""What a citation leads to, over HTTP: a document's text, the page of a PDF, and where on it the quote stands."""

from __future__ import annotations

import io
import os
import random
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pypdf
import pytest

from kb.loading import document_id, load_document
from kb.records import Document
from tests.commands import INGEST, run
from tests.page_pictures import Picture, text_in, within
from tests.pdf_writer import endless_pdf, pdf
from tests.web_server import WebServer, serving

SAMPLES = Path(__file__).parents[2] / "knowledge_base"
PDFS = sorted(path.relative_to(SAMPLES).as_posix() for path in SAMPLES.rglob("*.pdf"))
TEXTS = ["support/refund-policy.md", "zh/退款政策.md", "ja/返金ポリシー.md"]
PASSWORD = "öffne dich"
CONFIG = f"""
[loading]
max_memory_megabytes = 300
[loading.pdf]
passwords = ["{PASSWORD}"]
[web]
ingest_at_start = false
"""
LINE = "The parcel lift carries nine hundred kilograms."
LINES = ["荷物用のリフトは九百キログラムまで運べます。", LINE]


def encrypted(words: str) -> bytes:
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(pdf([[words]])))
    writer.encrypt(user_password=PASSWORD, owner_password="owner", algorithm="AES-256")
    content = io.BytesIO()
    writer.write(content)
    return content.getvalue()


MADE: dict[str, bytes] = {
    **{f"turned-{turn}.pdf": pdf([LINES], rotate=turn) for turn in (0, 90, 180, 270)},
    **{f"cropped-{turn}.pdf": pdf([LINES], rotate=turn, crop=(40, 400, 560, 800)) for turn in (0, 90)},
    "upward.pdf": pdf([LINES], rotate=90, upward=True),
    "sideways.pdf": pdf([LINES], upward=True),
    "huge.pdf": pdf([[(60, 9000, LINE)]], size=(14_400, 14_400)),
    "giant.pdf": pdf([[(60, 9000, LINE)]], size=(900_000, 810_000)),
    "strip.pdf": pdf([[(60, 4, LINE)]], size=(14_400, 20)),
    "tower.pdf": pdf([[(2, 14_000, LINE)]], size=(300, 14_400)),
    "sealed.pdf": encrypted(LINE),
    "two-pages.pdf": pdf(
        [["The lift is inspected", "every spring by the"], ["maker, who then seals", "its doors. 検査済"]]
    ),
    "divided.pdf": pdf([["The ware-", "house opens at eight."]]),
    "twice.pdf": pdf([["Wait a day.", LINE, "Wait a day.", "一日待つ。", LINE, "一日待つ。"]]),
    "columns.pdf": pdf([[(60, 700, "left of all"), (350, 700, "right of all"), (60, 680, "below left")]]),
    "blank.pdf": pdf([["first"], [], ["third"]]),
    "broken.pdf": pdf([["before it"], ["lost"], ["behind it"]], broken=[1]),
    "coloured.pdf": pdf([["beside a black square"]], drawn=[0]),
    "endless.pdf": endless_pdf(),
    "damaged.pdf": b"%PDF-1.7 and nothing else",
    "to-change.pdf": pdf([["before the change"]]),
    "to-touch.pdf": pdf([["touched, not changed"]]),
    "to-delete.pdf": pdf([["soon gone"]]),
    "to-link.pdf": pdf([["soon a link out of the folder"]]),
}

LONG = {"long.txt": "A parcel of many", "长.txt": "很多包裹中的一个编号为", "長い.txt": "たくさんの荷物のうちの番号は"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served")
    documents = folder / "documents"
    for name in (*PDFS, *TEXTS):
        (documents / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(SAMPLES / name, documents / name)
    for name, content in MADE.items():
        (documents / name).write_bytes(content)
    os.symlink("support/carrier-guide.pdf", documents / "linked.pdf")
    for name, words in LONG.items():
        (documents / name).write_text("\n\n".join(f"{words} {number}" for number in range(15_000)), encoding="utf-8")
    (folder / "config.toml").write_text(f'documents_dir = "documents"\ndata_dir = "data"\n{CONFIG}', encoding="utf-8")
    run(INGEST, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[WebServer]:
    with serving(folder, CONFIG) as server:
        yield server


@pytest.fixture(scope="module")
def loaded(folder: Path) -> dict[str, Document]:
    """The documents as they were ingested, from before anything happened to their files."""
    options = {"pdf": {"passwords": [PASSWORD]}}
    names = (*PDFS, *TEXTS, *(name for name in MADE if name not in ("endless.pdf", "damaged.pdf")))
    return {name: load_document(folder / "documents" / name, name, options=options) for name in names}


def page_of(server: WebServer, name: str, number: int, start: int, end: int) -> dict[str, Any]:
    answer = server.client.get(f"/documents/{document_id(name)}/pages/{number}", params={"start": start, "end": end})
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def quote_of(server: WebServer, document: Document, quote: str, number: int = 1) -> list[dict[str, float]]:
    start = document.text.index(quote)
    boxes: list[dict[str, float]] = page_of(server, document.path, number, start, start + len(quote))["quotes"]
    return boxes


def picture(server: WebServer, name: str, number: int = 1, **params: Any) -> Picture:
    answer = server.client.get(f"/documents/{document_id(name)}/pages/{number}/image", params=params)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "image/png"
    return Picture(answer.content)


def refused(answer: httpx.Response, status: int, kind: str) -> str:
    assert answer.status_code == status, answer.text
    body = answer.json()
    assert set(body) == {"error", "message"}
    assert body["error"] == kind
    return str(body["message"])


def bare(text: str) -> str:
    return "".join(text.split())


# Text


@pytest.mark.parametrize("name", [*TEXTS, *PDFS])
def test_the_text_is_that_of_the_document_with_its_pages_and_headings(
    server: WebServer, loaded: dict[str, Document], name: str
) -> None:
    document = loaded[name]
    body = server.client.get(f"/documents/{document.id}/content").json()
    assert (body["id"], body["path"], body["title"], body["kind"]) == (document.id, name, document.title, document.kind)
    assert (body["text"], body["start"], body["end"]) == (document.text, 0, len(document.text))
    assert body["length"] == len(document.text)
    assert [(page["number"], page["start"], page["end"]) for page in body["pages"]] == [
        (page.number, page.start, page.end) for page in document.pages
    ]
    assert [(one["level"], one["text"], one["start"], one["end"]) for one in body["headings"]] == [
        (one.level, one.text, one.start, one.end) for one in document.headings
    ]
    assert body["headings"] or document.kind == "pdf"


@pytest.mark.parametrize("question", ["refund for a lost parcel", "退款政策", "返金"])
def test_what_a_hit_says_of_its_place_is_the_place_in_the_text(server: WebServer, question: str) -> None:
    hits = server.client.get("/search", params={"q": question, "cutoff": -1}).json()["hits"]
    assert hits
    for hit in hits:
        span = {"start": hit["start"], "end": hit["end"]}
        body = server.client.get(f"/documents/{hit['document_id']}/content", params=span).json()
        assert (body["text"], body["path"]) == (hit["text"], hit["source"])


def test_a_part_has_all_pages_and_only_its_own_headings(server: WebServer, loaded: dict[str, Document]) -> None:
    document = loaded["zh/退款政策.md"]
    second = document.headings[1]
    span = {"start": second.start + 1, "end": second.end + 1}
    body = server.client.get(f"/documents/{document.id}/content", params=span).json()
    assert [one["text"] for one in body["headings"]] == [second.text]
    paged = loaded["zh/仓库操作手册.pdf"]
    body = server.client.get(f"/documents/{paged.id}/content", params={"start": 5, "end": 6}).json()
    assert len(body["pages"]) == len(paged.pages)


@pytest.mark.parametrize("name", TEXTS)
def test_an_end_behind_the_text_is_the_text_s_end(server: WebServer, loaded: dict[str, Document], name: str) -> None:
    text = loaded[name].text
    address = f"/documents/{document_id(name)}/content"
    body = server.client.get(address, params={"start": len(text) - 3, "end": 10**9}).json()
    assert (body["text"], body["end"]) == (text[-3:], len(text))
    body = server.client.get(address, params={"start": len(text)}).json()
    assert (body["text"], body["start"], body["end"]) == ("", len(text), len(text))


@pytest.mark.parametrize("name", LONG)
def test_a_long_text_comes_in_parts_that_join_to_the_whole(server: WebServer, folder: Path, name: str) -> None:
    parts: list[str] = []
    at, length = 0, 1
    while at < length:
        params = {"start": at, "end": 10**9}
        body = server.client.get(f"/documents/{document_id(name)}/content", params=params).json()
        assert (body["start"], body["end"] - body["start"]) == (at, len(body["text"]))
        assert 0 < len(body["text"]) <= 200_000
        parts.append(body["text"])
        at, length = body["end"], body["length"]
    assert len(parts) >= 2
    assert "".join(parts) == (folder / "documents" / name).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "params",
    [{"start": -1}, {"end": -1}, {"start": 5, "end": 4}, {"start": 10**9}, {"start": "x"}, {"start": "9" * 5000}],
)
def test_a_wrong_range_is_refused(server: WebServer, params: dict[str, Any]) -> None:
    answer = server.client.get(f"/documents/{document_id(TEXTS[0])}/content", params=params)
    refused(answer, 422, "bad_request")


@pytest.mark.parametrize("document", ["unknown", "0" * 32, "..%2F..%2Fetc%2Fpasswd", "%00", "to-link.pdf"])
@pytest.mark.parametrize("rest", ["content", "pages/1", "pages/1/image"])
def test_an_unknown_document_is_not_found(server: WebServer, document: str, rest: str) -> None:
    refused(server.client.get(f"/documents/{document}/{rest}"), 404, "not_found")


@pytest.mark.parametrize("name", ["endless.pdf", "damaged.pdf"])
def test_a_document_that_could_not_be_read_has_no_text_and_the_answer_says_why(server: WebServer, name: str) -> None:
    said = refused(server.client.get(f"/documents/{document_id(name)}/content"), 404, "not_found")
    assert said.startswith(f"{name} has no text, as it could not be read: ")
    refused(server.client.get(f"/documents/{document_id(name)}/pages/1/image"), 404, "not_found")


@pytest.mark.parametrize("rest", ["content", "pages/1", "pages/1/image"])
def test_an_unknown_collection_is_not_found(server: WebServer, rest: str) -> None:
    answer = server.client.get(f"/documents/{document_id(PDFS[0])}/{rest}", params={"collection": "none"})
    assert "'none'" in refused(answer, 404, "not_found")


# Quotes on a page


@pytest.mark.parametrize("name", PDFS)
def test_the_boxes_of_a_quote_hold_the_quote(
    server: WebServer, folder: Path, loaded: dict[str, Document], name: str
) -> None:
    document = loaded[name]
    chance = random.Random(name)
    asked = 0
    for page in document.pages:
        for length in (2, 7, 30, 90, 250):
            start = chance.randrange(page.start, page.end)
            end = min(page.end, start + length)
            quote = bare(document.text[start:end])
            body = page_of(server, name, page.number, start, end)
            assert (body["number"], body["start"], body["end"]) == (page.number, page.start, page.end)
            assert text_in(folder / "documents" / name, page.number, body["quotes"]) == quote, (page.number, start, end)
            asked += bool(quote)
    assert asked >= 3 * len(document.pages)


@pytest.mark.parametrize(
    "question",
    [
        "Who decides whether the supervisory authority is notified?",
        "叉车只由持证的几个人驾驶？",
        "来客は何を記入しますか",
        "carrier for large parcels",
    ],
)
def test_what_an_answer_or_a_search_points_to_is_found_on_its_page(
    server: WebServer, folder: Path, question: str
) -> None:
    where = ["kind=pdf"]
    hits = server.client.get("/search", params={"q": question, "cutoff": -1, "where": where}).json()["hits"]
    asked = {"question": question, "cutoff": -1, "where": where, "top_k": 20}
    citations = server.client.post("/ask", json=asked).json()["citations"]
    assert hits
    assert citations
    samples = [one for one in (*hits, *citations) if one["source"] in PDFS]
    assert samples
    for one in samples:
        content = server.client.get(f"/documents/{one['document_id']}/content").json()
        page = content["pages"][one["page"] - 1]
        body = page_of(server, one["source"], one["page"], one["start"], one["end"])
        expected = content["text"][one["start"] : min(one["end"], page["end"])]
        assert text_in(folder / "documents" / one["source"], one["page"], body["quotes"]) == bare(expected)


@pytest.mark.parametrize(
    "name", ["turned-0", "turned-90", "turned-180", "turned-270", "cropped-0", "cropped-90", "upward", "sideways"]
)
def test_boxes_and_picture_show_a_page_alike_however_it_is_turned_and_cut(
    server: WebServer, loaded: dict[str, Document], name: str
) -> None:
    document = loaded[f"{name}.pdf"]
    drawn = picture(server, document.path, width=600)
    size = page_of(server, document.path, 1, 0, 0)
    assert abs(drawn.width / drawn.height - size["width"] / size["height"]) < 0.01
    dark = list(drawn.dark())
    both = [box for line in LINES for box in quote_of(server, document, line)]
    assert len(both) == 2
    assert len(dark) > 200
    assert [place for place in dark if not within(place, both)] == []
    for box in both:
        assert sum(within(place, [box], slack=0) for place in dark) > 50


def test_each_page_has_its_part_of_a_quote_over_two(
    server: WebServer, folder: Path, loaded: dict[str, Document]
) -> None:
    document = loaded["two-pages.pdf"]
    start, end = (
        document.text.index("every spring"),
        document.text.index("its doors. 検査済") + len("its doors. 検査済"),
    )
    for number, expected, lines in ((1, "everyspringbythe", 1), (2, "maker,whothensealsitsdoors.検査済", 2)):
        body = page_of(server, document.path, number, start, end)
        assert text_in(folder / "documents/two-pages.pdf", number, body["quotes"]) == expected
        assert len(body["quotes"]) == lines


def test_a_page_without_any_part_of_the_quote_has_no_boxes(server: WebServer, loaded: dict[str, Document]) -> None:
    document = loaded["two-pages.pdf"]
    assert quote_of(server, document, "maker", number=1) == []
    assert page_of(server, document.path, 1, 10**9, 10**9 + 5)["quotes"] == []
    body = server.client.get(f"/documents/{document.id}/pages/2").json()
    assert body == {**body, "number": 2, "width": 595, "height": 842, "quotes": []}


def test_a_word_that_was_divided_has_a_box_on_each_line(server: WebServer, loaded: dict[str, Document]) -> None:
    assert "warehouse" in loaded["divided.pdf"].text
    first, second = quote_of(server, loaded["divided.pdf"], "warehouse opens")
    assert first["y"] < second["y"]
    assert first["x"] > second["x"]


@pytest.mark.parametrize("quote", ["Wait a day.", "一日待つ。"])
def test_of_two_equal_sentences_the_cited_one_is_shown(
    server: WebServer, loaded: dict[str, Document], quote: str
) -> None:
    document = loaded["twice.pdf"]
    first, last = document.text.index(quote), document.text.rindex(quote)
    above, below = (page_of(server, document.path, 1, at, at + len(quote))["quotes"] for at in (first, last))
    assert len(above) == len(below) == 1
    assert above[0]["y"] + above[0]["height"] < below[0]["y"]


def test_a_quote_in_one_column_has_no_box_in_the_other(server: WebServer, loaded: dict[str, Document]) -> None:
    for quote, left in (("left of all", True), ("right of all", False)):
        (box,) = quote_of(server, loaded["columns.pdf"], quote)
        assert (box["x"] + box["width"] < 0.5) == left
        assert (box["x"] > 0.5) != left


@pytest.mark.parametrize("params", [{"start": 1}, {"end": 1}, {"start": 5, "end": 4}, {"start": -1, "end": 4}])
def test_a_wrong_quote_is_refused(server: WebServer, params: dict[str, Any]) -> None:
    refused(server.client.get(f"/documents/{document_id(PDFS[0])}/pages/1", params=params), 422, "bad_request")


@pytest.mark.parametrize("number", [0, -1, 7, 10**30])
@pytest.mark.parametrize("rest", ["", "/image"])
def test_a_page_that_is_not_there_is_not_found(server: WebServer, number: int, rest: str) -> None:
    name = "handbook/security-policy.pdf"
    answer = server.client.get(f"/documents/{document_id(name)}/pages/{number}{rest}")
    assert f"6 pages and no page {number}" in refused(answer, 404, "not_found")


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("rest", ["", "/image"])
def test_what_is_no_pdf_has_no_pages_to_show(server: WebServer, name: str, rest: str) -> None:
    assert name in refused(server.client.get(f"/documents/{document_id(name)}/pages/1{rest}"), 404, "not_found")


# Pictures


@pytest.mark.parametrize("name", PDFS)
def test_a_page_is_drawn_as_wide_as_asked_for(server: WebServer, name: str) -> None:
    for width in (200, 1000, 2000):
        drawn = picture(server, name, 2, width=width)
        assert (drawn.width, drawn.height) == (width, pytest.approx(width * 2**0.5, abs=2))
    assert picture(server, name, 2).width == 1000


@pytest.mark.parametrize("width", [199, 2001, 0, -5, "wide"])
def test_other_widths_are_refused(server: WebServer, width: object) -> None:
    answer = server.client.get(f"/documents/{document_id(PDFS[0])}/pages/1/image", params={"width": str(width)})
    refused(answer, 422, "bad_request")


@pytest.mark.parametrize(
    ("name", "width", "height"),
    [("huge", 2000, 2000), ("giant", 2000, 1800), ("strip", 2000, 3), ("tower", 167, 8000)],
)
def test_the_size_of_a_page_decides_on_no_memory(
    server: WebServer, loaded: dict[str, Document], name: str, width: int, height: int
) -> None:
    drawn = picture(server, f"{name}.pdf", width=2000)
    assert (drawn.width, drawn.height) == (pytest.approx(width, abs=1), pytest.approx(height, abs=1))
    assert len(quote_of(server, loaded[f"{name}.pdf"], LINE)) == 1


def test_an_encrypted_file_is_shown_with_the_password_of_its_ingest(
    server: WebServer, loaded: dict[str, Document]
) -> None:
    boxes = quote_of(server, loaded["sealed.pdf"], LINE)
    assert all(within(place, boxes) for place in picture(server, "sealed.pdf", width=600).dark())


def test_blank_and_broken_pages_are_shown_as_they_are(server: WebServer) -> None:
    assert list(picture(server, "blank.pdf", 2, width=200).dark()) == []
    assert list(picture(server, "broken.pdf", 2, width=200).dark()) == []
    assert list(picture(server, "broken.pdf", 3, width=1000).dark())


def test_the_same_picture_comes_again(server: WebServer) -> None:
    address = f"/documents/{document_id('coloured.pdf')}/pages/1/image"
    assert server.client.get(address).content == server.client.get(address).content


# Files that are not what was read any more; each of these has its own


def test_a_page_of_a_changed_file_is_not_shown_and_its_text_still_is(server: WebServer, folder: Path) -> None:
    name = "to-change.pdf"
    address = f"/documents/{document_id(name)}"
    assert picture(server, name).width == 1000
    (folder / "documents" / name).write_bytes(pdf([["behind the change"]]))
    for rest in ("pages/1", "pages/1/image"):
        assert name in refused(server.client.get(f"{address}/{rest}"), 409, "changed")
    assert server.client.get(f"{address}/content").json()["text"] == "before the change"


def test_a_file_with_another_time_and_the_same_content_is_not_changed(server: WebServer, folder: Path) -> None:
    os.utime(folder / "documents/to-touch.pdf", (1_000_000_000, 1_000_000_000))
    assert picture(server, "to-touch.pdf").width == 1000


def test_a_page_of_a_deleted_file_is_not_found(server: WebServer, folder: Path) -> None:
    (folder / "documents/to-delete.pdf").unlink()
    address = f"/documents/{document_id('to-delete.pdf')}"
    assert "to-delete.pdf" in refused(server.client.get(f"{address}/pages/1/image"), 404, "not_found")
    assert server.client.get(f"{address}/content").json()["text"] == "soon gone"


@pytest.mark.skipif(sys.platform == "win32", reason="links need a right there")
def test_a_link_out_of_the_folder_is_not_followed(server: WebServer, folder: Path, tmp_path: Path) -> None:
    inside, outside = folder / "documents/to-link.pdf", tmp_path / "outside.pdf"
    shutil.copy2(inside, outside)
    inside.unlink()
    inside.symlink_to(outside)
    for rest in ("pages/1", "pages/1/image"):
        refused(server.client.get(f"/documents/{document_id('to-link.pdf')}/{rest}"), 404, "not_found")
