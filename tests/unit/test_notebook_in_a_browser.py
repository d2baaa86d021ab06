"""An answer in a real browser: it asks for nothing, can be read in light and dark, and used by the keyboard."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kb.notebook import as_html, search_as_html
from kb.records import SearchResult
from tests.chromium import Chromium, chromium, find_chromium
from tests.made_answers import CHINESE, ENGLISH, JAPANESE, answer, cite, hit

PROGRAM = find_chromium()

pytestmark = pytest.mark.skipif(
    PROGRAM is None, reason="no Chromium is installed: `apt-get install chromium`, or name one in CHROMIUM"
)

# Web Content Accessibility Guidelines 2.2, 1.4.3: contrast of text, level AA.
LEAST_CONTRAST = 4.5

ALL = "".join(
    [*map(as_html, (ENGLISH, CHINESE, JAPANESE)), search_as_html(SearchResult("Why?", ENGLISH.hits, (), 0.3, 0.6))]
)

JUPYTER_DARK = "<style>:root { --jp-content-font-color1: rgba(255, 255, 255, 1); --jp-layout-color1: #111 }</style>"
DARK_THEME = "<script>document.documentElement.dataset.theme = 'dark'</script>"

# Colours as a canvas paints them, over the backgrounds of all elements around, one on the other.
CONTRASTS = r"""
(() => {
  document.querySelectorAll("details").forEach(found => { found.open = true });
  const canvas = new OffscreenCanvas(1, 1), context = canvas.getContext("2d", { willReadFrequently: true });
  const painted = colours => {
    context.globalCompositeOperation = "source-over";
    for (const colour of colours) { context.fillStyle = colour; context.fillRect(0, 0, 1, 1) }
    return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const luminance = rgb => {
    const [r, g, b] = rgb.map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const found = {};
  const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || element.closest("style")) continue;
    const backgrounds = [];
    for (let e = element; e; e = e.parentElement) backgrounds.unshift(getComputedStyle(e).backgroundColor);
    const paper = painted(["white", ...backgrounds]);
    const ink = painted(["white", ...backgrounds, getComputedStyle(element).color]);
    const [low, high] = [luminance(paper), luminance(ink)].sort((a, b) => a - b);
    const name = element.className || element.tagName, contrast = (high + .05) / (low + .05);
    found[name] = Math.min(found[name] ?? 99, Math.round(contrast * 100) / 100);
  }
  return found;
})()
"""


def page(content: str, head: str = "") -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Notebook</title>'
        f'<meta name="viewport" content="width=device-width">{head}</head><body><main>{content}</main></body></html>'
    )


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    assert PROGRAM is not None
    with chromium(PROGRAM, tmp_path_factory.mktemp("profile")) as started:
        yield started


def test_the_browser_would_tell_of_requests_and_complaints(browser: Chromium) -> None:
    browser.show(page('<img src="http://evil.example/x.png"><script>console.log("hello")</script>'))
    assert "http://evil.example/x.png" in browser.requests
    assert any("hello" in complaint for complaint in browser.complaints)


def test_an_answer_asks_for_nothing_runs_nothing_and_complains_of_nothing(browser: Chromium) -> None:
    evil = "<img src='http://evil.example/x.png' onerror=alert(1)><script>document.title = 'taken'</script>\"'><style>"
    citation = cite(1, evil, evil, heading=evil)
    made = answer(f"[1] {evil}", question=evil, citations=(citation,), hits=(hit(evil, evil),), notes=(evil,))
    browser.look()
    browser.show(page(ALL + as_html(made)))
    assert (browser.requests, browser.complaints) == ([], [])
    assert browser.run("document.title") == "Notebook"
    assert browser.run("document.images.length + document.scripts.length") == 0
    assert browser.run("document.querySelectorAll('.kb-answer').length") == 5


def test_a_quote_opens_and_closes_by_the_keyboard(browser: Chromium) -> None:
    browser.look()
    browser.show(page(as_html(CHINESE)))
    quote = "document.querySelectorAll('blockquote')[1].checkVisibility({contentVisibilityAuto: true})"
    opened = "document.querySelectorAll('details')[1].open"
    assert (browser.run(opened), browser.run(quote)) == (False, False)
    for _ in range(2):  # the closest passage of the claim that is not supported, then the source
        browser.press("Tab", 9)
    assert browser.run("document.activeElement.innerText") == "[1] zh/退款政策.md · 退款"
    assert browser.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    browser.press("Enter", 13, "\r")
    assert (browser.run(opened), browser.run(quote)) == (True, True)
    browser.press("Enter", 13, "\r")
    assert browser.run(opened) is False


@pytest.mark.parametrize(
    ("head", "dark"),
    [("", False), ("", True), (JUPYTER_DARK, False), (DARK_THEME, False)],
    ids=["light", "dark", "a dark notebook in a light system", "a dark theme in a light system"],
)
def test_all_text_stands_out_from_what_is_behind_it(browser: Chromium, head: str, dark: bool) -> None:
    browser.look(dark=dark)
    browser.show(page(ALL, head))
    contrasts: dict[str, float] = browser.run(CONTRASTS)
    assert {"kb-marker", "kb-doubt", "kb-note", "kb-sign kb-unsupported", "TD", "BLOCKQUOTE", "CODE"} <= set(contrasts)
    assert {name: found for name, found in contrasts.items() if found < LEAST_CONTRAST} == {}
    paper = "getComputedStyle(document.querySelector('.kb-answer')).backgroundColor"
    assert (browser.run(paper) == "rgb(255, 255, 255)") == (not head and not dark)


def test_contrast_is_measured(browser: Chromium) -> None:
    browser.look()
    browser.show(
        page('<p style="color:#767676">a</p><b style="color:color-mix(in srgb, black 20%, transparent)">b</b>')
    )
    assert browser.run(CONTRASTS) == {"P": 4.54, "B": pytest.approx(1.61, abs=0.02)}


@pytest.mark.parametrize("width", [280, 360, 1200])
def test_nothing_is_wider_than_the_window(browser: Chromium, width: int) -> None:
    browser.look(width=width)
    long = as_html(answer("x" * 300, question="退" * 200, citations=(cite(1, "y" * 200, "z" * 300),)))
    browser.show(page(ALL + long))
    browser.run("document.querySelectorAll('details').forEach(found => { found.open = true })")
    assert browser.run("innerWidth") == width
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run("Math.max(...[...document.querySelectorAll('td')].map(e => e.scrollWidth - e.clientWidth))") <= 0


def test_what_is_read_out_names_the_answer_its_verdicts_and_its_table(browser: Chromium) -> None:
    browser.look()
    browser.show(page(as_html(ENGLISH)))
    browser.run("document.querySelectorAll('details').forEach(found => { found.open = true })")
    nodes = [node for node in browser.call("Accessibility.getFullAXTree")["nodes"] if not node["ignored"]]
    named = [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes]
    assert ("group", "Answer") in named
    verdicts = [name for role, name in named if role == "image"]
    assert verdicts == [
        "supported",
        "not supported",
        "supported",
        "partly supported",
        "not supported",
        "partly supported",
    ]
    assert [name for role, name in named if role == "columnheader"] == ["#", "Source", "Similarity", "Score"]


def test_without_its_style_it_reads_in_the_same_order(browser: Chromium) -> None:
    browser.look()
    html = as_html(ENGLISH)
    style = html[html.index("<style>") : html.index("</style>") + len("</style>")]
    shown = []
    for content in (html, html.replace(style, "")):
        browser.show(page(content))
        shown.append(browser.run("document.querySelector('main').innerText").split())
    assert shown[0] == shown[1]
    assert shown[1][:4] == ["How", "long", "can", "a"]
