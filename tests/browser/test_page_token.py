"""A server that wants a token: asked for once, kept for the tab, and never in an address."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.browser._bases import DOCUMENTS, QUESTIONS, serving_documents
from tests.browser.conftest import OpenPage, ask, serious_faults
from tests.web_server import WebServer

TOKEN = "a-token-for-the-tests-0123456789"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    folder = tmp_path_factory.mktemp("closed")
    with serving_documents(folder, DOCUMENTS, env={"KNOWLEDGE_BASE_TOKEN": TOKEN}, headers=headers) as served:
        yield served


@pytest.mark.parametrize(
    ("scheme", "locale", "title", "enter", "wrong"),
    [
        ("light", "en-GB", "Access token", "Enter", "That token was not right."),
        ("dark", "zh-CN", "访问令牌", "进入", "令牌不正确。"),
        ("dark", "ja-JP", "アクセストークン", "入る", "トークンが正しくありません。"),
    ],
)
def test_the_token_is_asked_for_checked_and_kept_for_the_tab(
    server: WebServer, open_page: OpenPage, scheme: str, locale: str, title: str, enter: str, wrong: str
) -> None:
    page = open_page(server, color_scheme=scheme, locale=locale)
    addresses: list[str] = []
    page.on("request", lambda request: addresses.append(request.url))
    dialog = page.get_by_role("dialog", name=title)
    field = dialog.get_by_label(title, exact=True).and_(page.locator("input"))
    expect(field).to_be_focused()
    assert serious_faults(page) == []
    field.fill("not-the-token-of-this-server")
    dialog.get_by_role("button", name=enter).click()
    expect(dialog.get_by_role("alert")).to_contain_text(wrong)
    field.fill(TOKEN)
    page.keyboard.press("Enter")
    expect(dialog).to_be_hidden()
    expect(page.locator(".holds")).to_contain_text("4")
    page.reload()
    expect(page.locator(".holds")).to_contain_text("4")
    page.locator("textarea").fill(QUESTIONS["zh"][0])
    page.keyboard.press("Enter")
    expect(page.locator(".text")).to_contain_text(QUESTIONS["zh"][2])
    assert [address for address in addresses if TOKEN in address] == []
    assert page.evaluate("JSON.stringify(localStorage) + document.cookie").count(TOKEN) == 0


def test_without_the_token_nothing_is_shown_and_it_may_be_given_later(server: WebServer, open_page: OpenPage) -> None:
    page = open_page(server)
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_text("Without the token nothing can be asked.")).to_be_visible()
    ask(page, QUESTIONS["en"][0])
    page.get_by_role("dialog").locator("input").fill(TOKEN)
    page.keyboard.press("Enter")
    expect(page.locator(".text")).to_contain_text(QUESTIONS["en"][2])
