"""Take the pictures of the page that the documentation has: python -m docs.make_page_pictures

A real server on the sample documents, with the default settings, in a real Chromium. After anything that changes how
the page looks.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, FilePayload, Page, expect, sync_playwright

from tests.chromium import find_chromium
from tests.pdf_writer import pdf
from tests.web_server import WebServer, serving

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
SCALE = 1.25

DEFAULT = {"KB_EMBEDDING__USE": None, "KB_STORE__USE": None}
"""Takes the tests' fast parts away."""
ANSWERED = "What does a 429 mean and how should I handle it?"
IN_A_PDF = "How soon must a security incident be reported?"
IN_JAPANESE = "返金は何日以内ですか？"
NOT_THERE = "富士山有多高？"


def main() -> None:
    """Take them all."""
    program = find_chromium()
    if program is None:
        raise SystemExit("no Chromium was found: install it, or name one in CHROMIUM")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        shutil.copytree(ROOT / "knowledge_base", folder / "documents")
        with serving(folder, env=DEFAULT) as server, sync_playwright() as playwright:
            server.settled(300)
            browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
            for take in (answer, source, documents, phone, dark):
                take(browser, server)
            browser.close()


def answer(browser: Browser, server: WebServer) -> None:
    """An answer with its sources beside it, and a quote that is looked at."""
    page = opened(browser, server, height=520)
    ask(page, ANSWERED)
    page.locator(".text button.cite").first.hover()
    expect(page.get_by_role("tooltip")).to_be_visible()
    keep(page, "answer")


def source(browser: Browser, server: WebServer) -> None:
    """A page of a PDF with a quote on it."""
    page = opened(browser, server)
    ask(page, IN_A_PDF)
    page.locator(".text button.cite").first.click()
    expect(page.locator(".box").first).to_be_visible()
    keep(page, "source")


def documents(browser: Browser, server: WebServer) -> None:
    """The list, a file on its way, and one that cannot be read."""
    page = opened(browser, server)
    page.get_by_role("button", name="Documents").click()
    guide = pdf([["Depot guide", "", "Parcels are weighed at the door."]], title="Depot guide")
    files = {"depot-guide.pdf": guide, "minutes.docx": b"PK\3\4"}
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Upload files").click()
    chooser.value.set_files([payload(name, content) for name, content in files.items()])
    expect(page.locator(".uploads li.done, .uploads li.failed")).to_have_count(2)
    page.get_by_role("searchbox").fill("uide")
    expect(page.get_by_role("button", name="Open api/rate-limits.md")).to_have_count(0)
    expect(page.get_by_role("button", name="Delete uploads/depot-guide.pdf")).to_be_visible()
    keep(page, "documents")


def payload(name: str, content: bytes) -> FilePayload:
    return {"name": name, "mimeType": "", "buffer": content}


def phone(browser: Browser, server: WebServer) -> None:
    """A phone, in Japanese, with the source below the answer."""
    page = opened(browser, server, width=390, height=780, locale="ja-JP")
    ask(page, IN_JAPANESE)
    page.locator(".text button.cite").first.click()
    expect(page.locator("mark.now, .box").first).to_be_visible()
    keep(page, "phone")


def dark(browser: Browser, server: WebServer) -> None:
    """Dark, in Chinese, and a question that the documents don't answer."""
    page = opened(browser, server, color_scheme="dark", locale="zh-CN")
    ask(page, NOT_THERE)
    keep(page, "dark")


def opened(browser: Browser, server: WebServer, width: int = 1240, height: int = 700, **options: Any) -> Page:
    size: Any = {"width": width, "height": height}
    context = browser.new_context(viewport=size, device_scale_factor=SCALE, **{"locale": "en-GB", **options})
    page = context.new_page()
    page.goto(server.url)
    expect(page.locator(".holds")).not_to_be_empty()
    return page


def ask(page: Page, question: str) -> None:
    page.locator("textarea").fill(question)
    page.keyboard.press("Enter")
    expect(page.locator(".below > *").first).to_be_visible(timeout=60_000)


def keep(page: Page, name: str) -> None:
    page.evaluate("document.activeElement.blur()")
    page.screenshot(path=IMAGES / f"page-{name}.png", animations="disabled")
    page.context.close()


if __name__ == "__main__":
    main()
