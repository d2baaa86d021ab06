"""Asking on the page: streamed answers, citations and their sources, keys, languages, a phone, and who cannot see."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Request, expect

from tests.browser._bases import DOCUMENTS, PARCELS, QUESTIONS, serving_documents
from tests.browser.conftest import OpenPage, ask, has_no_sideways_scroll, serious_faults
from tests.web_server import WebServer

UNKNOWN = "Kilimanjaro?"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    documents: dict[str, str | bytes] = {**DOCUMENTS, "depot.pdf": PARCELS}
    others = {"ships": {"船.md": "# 船\n\nその船は青いペンキで塗られています。\n"}}
    with serving_documents(tmp_path_factory.mktemp("asked"), documents, others=others) as served:
        yield served


@pytest.mark.parametrize("language", QUESTIONS)
def test_an_answer_has_its_source_beside_it_and_a_citation_opens_it_at_the_quote(
    server: WebServer, open_page: OpenPage, language: str
) -> None:
    question, source, said = QUESTIONS[language]
    page = open_page(server)
    ask(page, question)
    expect(page.locator(".text")).to_contain_text(said)
    expect(page.locator(".text")).to_have_attribute("lang", {"en": "", "zh": "zh-CN", "ja": "ja"}[language])
    expect(page.get_by_role("region", name="Sources")).to_contain_text(source)
    expect(page.get_by_text(re.compile("supported by"))).to_be_visible()
    expect(page.locator("#said")).to_contain_text("The answer is there")

    cite = page.locator(".text button.cite").first
    cite.hover()
    expect(page.get_by_role("tooltip")).to_contain_text(said)
    expect(page.get_by_role("tooltip")).to_contain_text("supported")
    cite.click()
    panel = page.get_by_role("complementary", name="Source")
    expect(panel.get_by_role("heading", level=2)).to_have_text(source.rpartition("/")[2])
    expect(panel.locator("mark.now")).to_have_text(said)
    expect(panel.locator("mark.now")).to_be_in_viewport()


def test_what_the_documents_do_not_say_is_told_apart(server: WebServer, open_page: OpenPage) -> None:
    page = open_page(server)
    ask(page, UNKNOWN)
    expect(page.get_by_text("Not in these documents")).to_be_visible()
    expect(page.locator("#said")).to_have_text("The documents do not answer this question.")
    expect(page.locator(".sources")).to_be_hidden()


def test_a_follow_up_sends_the_turns_before_it_and_a_new_conversation_none(
    server: WebServer, open_page: OpenPage
) -> None:
    page = open_page(server)
    sent: list[dict[str, object]] = []

    def note(request: Request) -> None:
        if request.url.endswith("/ask/stream"):
            sent.append(json.loads(request.post_data or "{}"))

    page.on("request", note)
    for number, question in enumerate([QUESTIONS["en"][0], "What are parcels weighed by?"], start=1):
        ask(page, question)
        expect(page.get_by_role("button", name="Copy")).to_have_count(number)
    page.get_by_role("button", name="New conversation").click()
    expect(page.get_by_role("heading", name="What would you like to know?")).to_be_visible()
    ask(page, QUESTIONS["zh"][0])
    expect(page.get_by_role("button", name="Copy")).to_have_count(1)
    histories = [body["history"] for body in sent]
    assert [len(history) for history in histories if isinstance(history, list)] == [0, 1, 0]
    assert '"question": "How many days of leave do employees have?"' in json.dumps(histories[1])


def test_another_collection_is_chosen_and_asked_by_itself(server: WebServer, open_page: OpenPage) -> None:
    page = open_page(server, permissions=["clipboard-read", "clipboard-write"])
    ask(page, QUESTIONS["ja"][0])
    expect(page.locator(".text")).to_have_text(re.compile(QUESTIONS["ja"][2]))
    page.get_by_label("Collection").select_option("ships")
    expect(page.get_by_text("1 document", exact=True)).to_be_visible()
    ask(page, "その船は何色のペンキで塗られていますか？")
    expect(page.locator(".text")).to_contain_text("青いペンキで塗られています。")
    page.locator(".text button.cite").first.click()
    expect(page.locator("mark.now")).to_have_text("その船は青いペンキで塗られています。")
    page.get_by_role("button", name="Copy a link to this passage").click()
    expect(page.locator("#said")).to_have_text("Copied")
    linked = open_page(server, page.evaluate("navigator.clipboard.readText()").removeprefix(server.url))
    expect(linked.locator("mark.now")).to_have_text("その船は青いペンキで塗られています。")
    expect(linked.get_by_label("Collection")).to_have_value("ships")
    page.get_by_role("button", name="Documents").click()
    expect(page.get_by_role("dialog").locator(".documents > li")).to_have_count(1)


def test_an_answer_is_copied_with_its_sources(server: WebServer, open_page: OpenPage) -> None:
    page = open_page(server, permissions=["clipboard-read", "clipboard-write"])
    ask(page, QUESTIONS["ja"][0])
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith(QUESTIONS["ja"][2])
    assert copied.endswith("Sources:\n[1] ja/休暇.md › 休暇規程\n")


def test_a_page_of_a_pdf_is_shown_with_the_quote_framed(server: WebServer, open_page: OpenPage) -> None:
    page = open_page(server)
    ask(page, "What are parcels weighed by?")
    page.locator(".text button.cite").first.click()
    panel = page.get_by_role("complementary", name="Source")
    picture = panel.get_by_role("img", name=re.compile("depot.pdf, page 2"))
    expect(picture).to_be_visible()
    sheet, box = panel.locator(".sheet").bounding_box(), panel.locator(".box").first.bounding_box()
    assert sheet is not None
    assert box is not None
    assert sheet["x"] < box["x"] < sheet["x"] + sheet["width"] / 2
    assert sheet["y"] < box["y"] < sheet["y"] + sheet["height"] / 4, "the sentence stands at the top of its page"
    panel.get_by_role("button", name="Previous page").click()
    expect(panel.get_by_role("img", name=re.compile("page 1"))).to_be_visible()
    panel.get_by_role("button", name="Text").click()
    expect(panel.locator("mark.now")).to_contain_text("Parcels are weighed by the turquoise scale.")


def test_a_link_to_a_passage_opens_it(server: WebServer, open_page: OpenPage) -> None:
    body = server.client.post("/ask", json={"question": QUESTIONS["zh"][0]}).json()["citations"][0]
    page = open_page(server, f"/?document={body['document_id']}&start={body['start']}&end={body['end']}&number=1")
    expect(page.locator("mark.now")).to_have_text(body["quote"])
    expect(page.get_by_role("heading", name="退款.md")).to_be_visible()


def test_everything_is_reached_by_keys_and_escape_gives_the_focus_back(server: WebServer, open_page: OpenPage) -> None:
    page = open_page(server)
    field = page.get_by_label("Your question", exact=True)
    expect(field).to_be_focused()
    page.keyboard.type("How many days")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("of leave do employees have?")
    expect(field).to_have_value("How many days\nof leave do employees have?")
    page.keyboard.press("Enter")
    cite = page.locator(".text button.cite").first
    expect(cite).to_be_visible()
    expect(page.get_by_role("button", name="Copy")).to_be_visible()
    for _ in range(12):
        if cite.evaluate("one => one === document.activeElement"):
            break
        page.keyboard.press("Shift+Tab")
    expect(cite).to_be_focused()
    expect(page.get_by_role("tooltip")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("tooltip")).to_be_hidden()
    page.keyboard.press("Enter")
    expect(page.get_by_role("complementary").get_by_role("heading")).to_be_focused()
    expect(page.locator("mark.now")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("complementary")).to_be_hidden()
    expect(cite).to_be_focused()
    page.get_by_role("button", name="Documents").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Documents")).to_be_focused()


def test_a_skip_link_is_the_first_stop_and_leads_to_the_question(server: WebServer, open_page: OpenPage) -> None:
    page = open_page(server)
    link = page.get_by_role("link", name="Skip to the question")
    expect(link).not_to_be_in_viewport()
    assert page.evaluate("document.querySelector('a, button, input, select, textarea').className") == "skip"
    link.focus()
    expect(link).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Your question", exact=True)).to_be_focused()


def test_enter_sends_nothing_while_an_ime_composes(server: WebServer, open_page: OpenPage) -> None:
    page = open_page(server)
    field = page.get_by_label("Your question", exact=True)
    expect(field).to_be_focused()
    ime = page.context.new_cdp_session(page)
    ime.send("Input.imeSetComposition", {"text": "ゆうきゅう", "selectionStart": 5, "selectionEnd": 5})
    page.keyboard.press("Enter")  # takes the candidate
    ime.send("Input.insertText", {"text": "有給休暇は何日ありますか？"})
    expect(field).to_have_value(re.compile("有給休暇は何日ありますか？"))
    expect(page.locator(".turn")).to_have_count(0)
    page.keyboard.press("Enter")
    expect(page.locator(".turn")).to_have_count(1)


@pytest.mark.parametrize(
    ("locale", "tag", "label", "title", "sources"),
    [
        ("zh-CN", "zh-CN", "您的问题", "您想了解什么？", "来源"),
        ("ja-JP", "ja", "質問", "何をお調べですか？", "出典"),
        ("fr-FR", "en", "Your question", "What would you like to know?", "Sources"),
    ],
)
def test_the_page_speaks_the_readers_language(
    server: WebServer, open_page: OpenPage, locale: str, tag: str, label: str, title: str, sources: str
) -> None:
    page = open_page(server, locale=locale)
    expect(page.get_by_role("heading", name=title)).to_be_visible()
    expect(page.locator("html")).to_have_attribute("lang", tag)
    ask(page, QUESTIONS["zh"][0], label)
    expect(page.get_by_role("region", name=sources)).to_contain_text("退款.md")


@pytest.mark.parametrize("locale", ["en-GB", "zh-CN", "ja-JP"])
def test_a_phone_shows_all_without_scrolling_sideways(server: WebServer, open_page: OpenPage, locale: str) -> None:
    page = open_page(server, width=360, height=700, locale=locale, has_touch=True, is_mobile=True)
    field = page.locator("textarea")
    expect(field).to_be_visible()
    assert has_no_sideways_scroll(page)
    field.fill(QUESTIONS["en"][0])
    page.locator(".send").tap()
    cite = page.locator(".text button.cite").first
    cite.tap()
    expect(page.get_by_role("tooltip")).to_be_visible()
    assert has_no_sideways_scroll(page)
    cite.tap()
    expect(page.locator("mark.now")).to_be_in_viewport()
    assert has_no_sideways_scroll(page)
    aside, talk = page.locator("aside").bounding_box(), page.locator("main").bounding_box()
    assert aside is not None
    assert talk is not None
    assert aside["y"] >= talk["y"] + talk["height"] - 1, "below, not over it"
    page.locator("aside header button").last.tap()
    page.locator("header.top button").nth(1).tap()
    expect(page.locator("dialog .documents li").first).to_be_visible()
    assert has_no_sideways_scroll(page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(server: WebServer, open_page: OpenPage, scheme: str) -> None:
    page = open_page(server, color_scheme=scheme)
    expect(page.get_by_text("5 documents")).to_be_visible()
    faults = {"start": serious_faults(page)}
    ask(page, UNKNOWN)
    expect(page.get_by_text("Not in these documents")).to_be_visible()
    ask(page, QUESTIONS["en"][0])
    expect(page.get_by_role("button", name="Copy")).to_be_visible()
    faults["answer"] = serious_faults(page)
    page.locator(".text button.cite").first.hover()
    expect(page.get_by_role("tooltip")).to_be_visible()
    faults["quote"] = serious_faults(page)
    page.locator(".text button.cite").first.click()
    expect(page.locator("mark.now")).to_be_visible()
    faults["source"] = serious_faults(page)
    page.get_by_role("button", name="Documents").click()
    expect(page.get_by_role("dialog").get_by_text("depot.pdf")).to_be_visible()
    faults["documents"] = serious_faults(page)
    assert {state: found for state, found in faults.items() if found} == {}


def test_the_switch_changes_the_colours_and_they_are_kept(server: WebServer, open_page: OpenPage) -> None:
    page = open_page(server, color_scheme="light")
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    light = page.evaluate(ground)
    page.get_by_role("button", name="Dark colours").click()
    dark = page.evaluate(ground)
    assert dark != light
    page.reload()
    expect(page.get_by_role("button", name="Light colours")).to_be_visible()
    assert page.evaluate(ground) == dark
