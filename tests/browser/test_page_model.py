"""Answers of a chat model on the page: as they stream, stopped, broken off, in doubt, and when they mean harm."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Page, expect

from kb.prompts import Language
from tests.browser._bases import serving_documents
from tests.browser.conftest import OpenPage, ask, serious_faults
from tests.injections import INJECTIONS, PLAIN, QUESTIONS
from tests.llm_server import Reply, Request, chunk, error_reply, scripted_server, stream_bytes
from tests.web_server import WebServer

KEY = "sk-not-a-real-key-0123456789"
HOSTILE = (
    "<img src=x onerror=alert(1)><script>alert(2)</script>\n\n![secret](https://evil.example/a.png?q=1) "
    "[click](javascript:alert(3)) [data](data:text/html,<script>alert(4)</script>) [out](https://evil.example/x)\n\n"
    "[1]: https://evil.example/defined\n\n<iframe src=//evil.example></iframe><svg onload=alert(5)>\n\n"
    "<style>body{background:url(//evil.example/b)}</style><base href=//evil.example>\n\n"
    "`code [1]` Refunds are paid within 30 days of the purchase [1]."
)
RICH = (
    "### Refunds\n\nRefunds are paid **within 30 days** of the purchase [1].\n\n- Keep the *receipt*\n- Use `kb`\n\n"
    "| what | when |\n|---|---:|\n| refund | 30 |\n\n> quoted\n\n1. one\n2. two\n\n```python\nrows[1] = 2\n```\n"
)


@dataclass
class Model:
    """Says what the test wants: `before` at once, `after` when it is let go."""

    before: str = ""
    after: str = ""
    refuses: int = 0
    drops: bool = False
    go: threading.Event = field(default_factory=threading.Event)
    asked: list[Request] = field(default_factory=list)

    def says(self, text: str) -> None:
        self.before, self.after, self.refuses, self.drops = text, "", 0, False
        self.go.set()

    def script(self, request: Request) -> Reply:
        self.asked.append(request)
        if self.refuses:
            self.refuses -= 1
            return error_reply(401, "no such key", "invalid_api_key")
        return Reply(200, self._pieces(), content_type="text/event-stream", drops=self.drops)

    def _pieces(self) -> Iterator[bytes]:
        yield stream_bytes([chunk("", role="assistant"), *map(chunk, self.before)], done=False)
        while not self.go.wait(0.05):
            yield b": still thinking\n\n"  # so that it learns that its client has gone
        yield stream_bytes([chunk(self.after), chunk(None, "stop")])


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    made = Model()
    yield made
    made.go.set()


@pytest.fixture(scope="module")
def server(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    documents = {f"{one.language}.md": one.document for one in INJECTIONS if one.kind == "what nobody sees"}
    config = '[generation]\nuse = "openai"\n[conversation]\nrewrite = "words"\n[chat.answer]\nretries = 0\n'
    with scripted_server(model.script) as service:
        env = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": service.base_url}
        with serving_documents(tmp_path_factory.mktemp("written"), documents, config, env=env) as served:
            yield served


def whole(page: Page) -> None:
    expect(page.get_by_role("button", name="Copy").last).to_be_visible()


def harm(page: Page) -> list[str]:
    """Elements that an answer may never have, whatever a model says."""
    found: list[str] = page.locator("main").evaluate(
        """main => [...main.querySelectorAll("*")].filter(one =>
            one.matches("img, script, iframe, style, base, object, embed, video, form:not(.composer), svg:not(.icon)")
            || [...one.attributes].some(attribute => /^(on|style)/.test(attribute.name))
            || (one.localName === "a" && !/^(https?|mailto):/.test(one.href))
        ).map(one => one.outerHTML)"""
    )
    return found


def test_an_answer_appears_while_it_is_written_and_stop_ends_it(
    server: WebServer, model: Model, open_page: OpenPage
) -> None:
    model.says("Refunds are paid within 30 days of the purchase [1]. And ")
    model.after = "never."
    model.go.clear()
    page = open_page(server)
    ask(page, "How long do refunds take?")
    expect(page.locator(".text")).to_contain_text("Refunds are paid within 30 days of the purchase")
    expect(page.locator(".body")).to_have_attribute("aria-busy", "true")
    expect(page.locator("#said")).to_be_empty()
    page.get_by_label("Your question", exact=True).fill("not yet")
    page.keyboard.press("Enter")
    expect(page.locator(".turn")).to_have_count(1)

    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".body")).to_contain_text("Stopped. This answer is not complete.")
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    model.says("Refunds are paid within 30 days of the purchase [1].")
    page.get_by_role("button", name="Try again").click()
    whole(page)
    expect(page.locator(".turn")).to_have_count(1)
    expect(page.locator(".text")).not_to_contain_text("never")


def test_escape_stops_an_answer(server: WebServer, model: Model, open_page: OpenPage) -> None:
    model.says("Refunds are")
    model.go.clear()
    page = open_page(server)
    ask(page, "How long do refunds take?")
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_text("Stopped.").first).to_be_visible()
    model.go.set()


def test_a_service_that_fails_is_told_in_plain_words_and_asked_again(
    server: WebServer, model: Model, open_page: OpenPage
) -> None:
    model.says("Refunds are paid within 30 days of the purchase [1].")
    model.refuses = 1
    page = open_page(server)
    ask(page, "How long do refunds take?")
    expect(page.get_by_role("alert")).to_contain_text("A service that the answer needs did not work.")
    assert serious_faults(page) == []
    page.get_by_role("button", name="Try again").click()
    whole(page)
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_server_that_cannot_be_reached_is_told_in_plain_words(
    server: WebServer, model: Model, open_page: OpenPage
) -> None:
    model.says("Refunds are paid within 30 days of the purchase [1].")
    page = open_page(server)
    expect(page.get_by_text("3 documents")).to_be_visible()
    page.route("**/ask/stream", lambda route: route.abort("connectionrefused"))
    ask(page, "How long do refunds take?")
    expect(page.get_by_role("alert")).to_contain_text("The server cannot be reached.")
    page.unroute("**/ask/stream")
    cut = 'event: hits\ndata: {"hits": []}\n\nevent: text\ndata: {"text": "Half"}\n\n'
    page.route("**/ask/stream", lambda route: route.fulfill(content_type="text/event-stream", body=cut))
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("alert")).to_contain_text("The connection broke off before the answer was complete.")
    expect(page.locator(".text")).to_have_text("Half")
    page.unroute("**/ask/stream")
    page.get_by_role("button", name="Try again").click()
    whole(page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_statement_in_doubt_says_so_in_words_with_its_reasons(
    server: WebServer, model: Model, open_page: OpenPage, scheme: str
) -> None:
    model.says("Refunds are paid within 30 days of the purchase [1]. Refunds are paid within 90 days [1].")
    page = open_page(server, color_scheme=scheme)
    ask(page, "How long do refunds take?")
    whole(page)
    expect(page.locator("summary")).to_contain_text("1 of 2 statements are supported by their sources")
    doubt = page.locator(".text .doubt")
    expect(doubt).to_have_count(1)
    doubt.hover()
    expect(page.get_by_role("tooltip")).to_contain_text("90")
    page.keyboard.press("Escape")
    expect(page.get_by_role("tooltip")).to_be_hidden()
    page.locator("summary").first.click()
    expect(page.locator("details.checked li")).to_contain_text("Refunds are paid within 90 days")
    assert serious_faults(page) == []


def test_markdown_is_drawn_and_code_keeps_its_brackets(server: WebServer, model: Model, open_page: OpenPage) -> None:
    model.says(RICH)
    page = open_page(server)
    ask(page, "How long do refunds take?")
    whole(page)
    text = page.locator(".text")
    expect(text.get_by_role("heading", level=6)).to_have_text("Refunds")
    expect(text.locator("strong")).to_have_text("within 30 days")
    expect(text.locator("ul li")).to_contain_text(["Keep the receipt", "Use kb"])
    expect(text.locator("ol li")).to_contain_text(["one", "two"])
    expect(text.locator("td").last).to_have_class("to-right")
    expect(text.locator("blockquote")).to_contain_text("quoted")
    expect(text.locator("pre")).to_have_text("rows[1] = 2")
    expect(text.locator("button.cite")).to_have_count(1)
    assert serious_faults(page) == []


def test_html_images_and_links_do_nothing_even_if_the_server_let_them_through(
    server: WebServer, model: Model, open_page: OpenPage
) -> None:
    model.says("Refunds are paid within 30 days of the purchase [1].")
    done = server.client.post("/ask", json={"question": "How long do refunds take?"}).json()
    page = open_page(server)
    body = f"event: done\ndata: {json.dumps({**done, 'text': HOSTILE, 'claims': [], 'notes': [HOSTILE]})}\n\n"
    page.route("**/ask/stream", lambda route: route.fulfill(content_type="text/event-stream", body=body))
    ask(page, "How long do refunds take?")
    whole(page)
    assert harm(page) == []
    text = page.locator(".text")
    expect(text).to_contain_text("<script>alert(2)</script>")
    expect(text).to_contain_text("image: secret")
    expect(text.locator("code").first).to_have_text("code [1]")
    links = text.locator("a").evaluate_all("all => all.map(a => [a.href, a.rel, a.target])")
    assert links, "a link may be followed by hand"
    assert all(rel == "noopener noreferrer nofollow" and target == "_blank" for _, rel, target in links)
    expect(text).to_contain_text("(evil.example)")
    cited = text.locator("button.cite").last
    cited.click()
    expect(page.locator("mark.now")).to_have_text(PLAIN["en"][1])
    assert harm(page) == []


@pytest.mark.parametrize(
    ("text", "numbers", "cited"),
    [
        ("😀😀 Refunds [1]. 🐢[2]", [[1], [2]], ["😀😀 Refunds ", "1", ". 🐢", "2"]),
        ("退款三十天[1]。𠮷野家は三十日[2]。", [[1], [2]], ["退款三十天", "1", "。𠮷野家は三十日", "2", "。"]),
        (
            "no claim [2] here, rows[2], [2](https://a.example)",
            [],
            ["no claim ", "2", " here, rows[2], [2](https://a.example)"],
        ),
        ("not ours: \ufdd0\ufdd3\ufdd1 [7] [1]", [], ["not ours: \ufffd\ufffd\ufffd [7] ", "1"]),
    ],
)
def test_citations_are_found_where_the_server_counts_them(
    server: WebServer, open_page: OpenPage, text: str, numbers: list[list[int]], cited: list[str]
) -> None:
    sentences = re.findall(r"[^.。]*?\[\d\][.。]?\s?", text) if numbers else []
    claims, at = [], 0
    for said, of in zip(sentences, numbers, strict=True):
        claim = {"start": at, "end": at + len(said), "numbers": of, "verdict": "supported", "evidence": []}
        claims.append(claim)
        at += len(said)
    answer = {"text": text, "claims": claims, "citations": [{"number": 1}, {"number": 2}]}
    found = open_page(server).evaluate(
        """async answer => {
            const { marked, pieces } = await import("/assets/marks.js");
            const { text, marks } = marked(answer);
            return pieces(text, marks, mark => String(mark.number));
        }""",
        answer,
    )
    assert found == cited


@pytest.mark.parametrize("language", list(QUESTIONS))
def test_a_model_that_obeys_a_hostile_document_makes_the_page_do_nothing(
    server: WebServer, model: Model, open_page: OpenPage, language: Language
) -> None:
    page = open_page(server)
    for obeyed in [*(one.obeyed for one in INJECTIONS if one.language == language), HOSTILE]:
        model.says(obeyed)
        ask(page, QUESTIONS[language])
        expect(page.get_by_role("button", name="Stop")).to_be_hidden()
        assert harm(page) == [], obeyed
        page.get_by_role("button", name="New conversation").click()
