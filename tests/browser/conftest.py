"""A real Chromium on the real page. What a page asks of another host, or complains of, fails its test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, expect, sync_playwright

from tests.chromium import find_chromium
from tests.web_server import WebServer

OpenPage = Callable[..., Page]

expect.set_options(timeout=15_000)


@dataclass
class Watched:
    """What pages did that none may."""

    outside: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def playwright() -> Iterator[Playwright]:
    # Of a module only: its loop runs in this thread, where other tests start one of their own.
    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="module")
def browser(playwright: Playwright) -> Iterator[Browser]:
    program = find_chromium()
    if program is None:
        pytest.skip("no Chromium was found: install it, or name one in CHROMIUM")
    launched = playwright.chromium.launch(
        executable_path=program,
        args=["--no-sandbox", "--disable-dev-shm-usage", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"],
    )
    yield launched
    launched.close()


@pytest.fixture
def watched() -> Watched:
    return Watched()


@pytest.fixture
def open_page(browser: Browser, watched: Watched) -> Iterator[OpenPage]:
    """Opens pages of a server: `open_page(server, path, locale=…, color_scheme=…, width=…)`."""
    contexts: list[BrowserContext] = []

    def opened(server: WebServer, path: str = "/", *, width: int = 1280, height: int = 800, **options: Any) -> Page:
        size: Any = {"width": width, "height": height}
        context = browser.new_context(viewport=size, **{"locale": "en-GB", **options})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.on("request", lambda request: _note_address(request.url, server, watched))
        page.on("console", lambda message: _note_complaint(message.type, message.text, watched))
        page.on("pageerror", lambda error: watched.complaints.append(str(error)))
        page.on("dialog", lambda dialog: watched.complaints.append(f"dialog {dialog.message}"))
        page.goto(server.url + path)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert watched.outside == []
    assert watched.complaints == []


def _note_address(url: str, server: WebServer, watched: Watched) -> None:
    if not url.startswith((f"{server.url}/", f"blob:{server.url}/", "data:")):
        watched.outside.append(url)


def _note_complaint(kind: str, text: str, watched: Watched) -> None:
    # A refusal that a test asks for is noted by the browser too.
    if kind in ("error", "warning") and not text.startswith("Failed to load resource"):
        watched.complaints.append(text)


def serious_faults(page: Page) -> list[str]:
    """What axe-core calls serious or critical."""
    found = Axe().run(page).response["violations"]
    return [
        f"{one['id']}: {[node['html'][:200] for node in one['nodes']]}"
        for one in found
        if one["impact"] in ("serious", "critical")
    ]


def ask(page: Page, question: str, label: str = "Your question") -> None:
    page.get_by_label(label, exact=True).fill(question)
    page.keyboard.press("Enter")


def has_no_sideways_scroll(page: Page) -> bool:
    """Nothing is wider than the window, and nothing hangs out of it unseen."""
    fits: bool = page.evaluate(
        """() => document.documentElement.scrollWidth <= innerWidth
            && [...document.querySelectorAll("main *, header *, aside *, dialog[open] *")].every((one) => {
                const box = one.getBoundingClientRect();
                return one.closest(".unseen, .label, pre, .wide") || box.width === 0 || box.right <= innerWidth + 1;
            })"""
    )
    return fits
