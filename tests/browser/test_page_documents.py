"""Documents on the page: added by button and by dropping, asked about, looked through, deleted."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import FilePayload, Page, expect

from tests.browser._bases import PARCELS, serving_documents
from tests.browser.conftest import OpenPage, ask, has_no_sideways_scroll, serious_faults
from tests.web_server import WebServer

QUESTION = "What are parcels weighed by?"
NOTHING = re.compile("Not in these documents|No documents have been read yet")
"""What a question finds where there is nothing: nothing any more, or nothing yet."""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    with serving_documents(tmp_path_factory.mktemp("managed"), {}) as served:
        yield served


@pytest.fixture
def server(running: WebServer) -> WebServer:
    """Without documents, whatever was there before."""
    folder = running.folder / "documents"
    shutil.rmtree(folder)
    folder.mkdir()
    assert running.client.post("/ingest", json={"allow_removals": True}).status_code == 202
    running.settled()
    assert running.client.get("/documents").json()["total"] == 0
    return running


def payload(name: str, content: bytes) -> FilePayload:
    return {"name": name, "mimeType": "application/octet-stream", "buffer": content}


def drop(page: Page, name: str, text: str) -> None:
    """Drop a file on the page, as the browser tells of it."""
    transfer = page.evaluate_handle(
        """([name, text]) => {
            const transfer = new DataTransfer();
            transfer.items.add(new File([text], name));
            return transfer;
        }""",
        [name, text],
    )
    page.dispatch_event("main", "dragenter", {"dataTransfer": transfer})
    expect(page.get_by_text("Drop files to add them to the documents")).to_be_visible()
    page.dispatch_event("main", "drop", {"dataTransfer": transfer})


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_an_empty_base_says_how_to_begin(server: WebServer, open_page: OpenPage, scheme: str) -> None:
    page = open_page(server, color_scheme=scheme)
    expect(page.get_by_text("There are no documents yet")).to_be_visible()
    assert serious_faults(page) == []
    ask(page, QUESTION)
    expect(page.locator(".turn")).to_contain_text(NOTHING)


def test_a_pdf_is_uploaded_asked_about_and_deleted(server: WebServer, open_page: OpenPage) -> None:
    page = open_page(server)
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Upload files").click()
    chooser.value.set_files([payload("depot guide.pdf", PARCELS)])
    uploads = page.get_by_role("region", name="Uploads")
    expect(uploads.get_by_role("listitem")).to_contain_text("Can be asked about now")
    expect(page.get_by_text("1 document", exact=True)).to_be_visible()
    ask(page, QUESTION)
    expect(page.locator(".text")).to_contain_text("weighed by the turquoise scale")
    page.locator(".text button.cite").first.click()
    expect(page.get_by_role("img", name=re.compile("depot guide.pdf, page 2"))).to_be_visible()
    expect(page.locator(".box").first).to_be_visible()

    page.get_by_role("button", name="Documents").click()
    panel = page.get_by_role("dialog", name="Documents")
    expect(panel.locator(".documents li")).to_contain_text(["2 pages"])
    panel.get_by_role("button", name="Delete uploads/depot guide.pdf").click()
    expect(page.get_by_role("alertdialog")).to_contain_text("This cannot be undone.")
    assert serious_faults(page) == []
    page.get_by_role("button", name="Cancel").click()
    expect(panel.locator(".documents li")).to_have_count(1)
    panel.get_by_role("button", name="Delete uploads/depot guide.pdf").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Delete").click()
    expect(panel.get_by_text("uploads/depot guide.pdf has been deleted.")).to_be_visible()
    expect(panel.locator(".documents li")).to_have_count(0)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="New conversation").click()
    ask(page, QUESTION)
    expect(page.locator(".turn")).to_contain_text(NOTHING)


def test_files_are_dropped_on_the_page_and_what_cannot_be_taken_is_told(server: WebServer, open_page: OpenPage) -> None:
    page = open_page(server)
    expect(page.get_by_role("heading", name="What would you like to know?")).to_be_visible()
    expect(page.get_by_text(re.compile("document"), exact=False).first).to_be_visible()
    items = page.get_by_role("region", name="Uploads").get_by_role("listitem")
    drop(page, "返金.md", "# 返金\n\n返金は三十日以内に行われます。\n")
    expect(items).to_contain_text(["Can be asked about now"])
    drop(page, "again.md", "# 返金\n\n返金は三十日以内に行われます。\n")
    expect(items).to_contain_text(["Can be asked about now", "Was there already"])
    drop(page, "program.exe", "MZ")
    drop(page, "nothing.md", "")
    expect(items.nth(2)).to_contain_text("Files of this kind cannot be read.")
    expect(items.nth(3)).to_contain_text("The file is empty.")
    drop(page, "broken.pdf", "%PDF-1.7 and no more")
    expect(items.nth(4)).to_have_class("failed")
    expect(items.nth(4)).to_contain_text(re.compile("pdf|PDF|read"))
    ask(page, "返金は何日以内に行われますか？")
    expect(page.locator(".text")).to_contain_text("返金は三十日以内に行われます。")
    for line in items.all():
        line.get_by_role("button", name="Dismiss").first.click()
        break
    expect(items).to_have_count(4)


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 360)])
def test_the_list_is_searched_tells_problems_and_opens_a_document(
    server: WebServer, open_page: OpenPage, scheme: str, width: int
) -> None:
    folder = server.folder / "documents"
    (folder / "notes.txt").write_text("Turtles walk slowly.\n")
    (folder / "damaged.docx").write_bytes(b"PK nothing")
    page = open_page(server, color_scheme=scheme, width=width)
    page.get_by_role("button", name="Documents").click()
    panel = page.get_by_role("dialog", name="Documents")
    panel.get_by_role("button", name="Read the folder again").click()
    expect(panel.get_by_text("notes.txt")).to_be_visible()
    expect(panel.locator("li", has_text="damaged.docx")).to_contain_text("could not be read:")
    expect(panel.get_by_role("button", name="Delete notes.txt")).to_have_count(0)
    assert serious_faults(page) == []
    assert has_no_sideways_scroll(page)
    panel.get_by_role("searchbox").fill("NOTES")
    expect(panel.locator(".documents > li")).to_have_count(1)
    panel.get_by_role("searchbox").fill("turquoise elephants")
    expect(panel.get_by_text("No document has this in its name.")).to_be_visible()
    panel.get_by_role("searchbox").fill("notes")
    panel.get_by_role("button", name="Open notes.txt").click()
    expect(page.get_by_role("complementary")).to_contain_text("Turtles walk slowly.")
