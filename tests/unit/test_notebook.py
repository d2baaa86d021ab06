"""An answer in a notebook: nothing of a document is obeyed, everything of an answer is there, in its language."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from kb.answers import Answer, Claim, Verdict
from kb.display import as_markdown
from kb.inert import formatted, safe
from kb.languages import Language
from kb.notebook import as_html, search_as_html
from kb.notebook.labels import LABELS, Labels
from kb.notebook.text import SYMBOLS, answer_html
from kb.records import SearchResult
from tests.made_answers import CHINESE, ENGLISH, JAPANESE, answer, cite, claim, hit

EVIL = (
    '<script>alert(1)</script> <img src=x onerror=alert(1)> "\' onmouseover=alert(1) x=" </style></details></div> '
    "[y](http://evil.example) $x$ \\(y\\) &lt; <style>*{display:none}</style> <!-- --> "
    "\x1b[31m\u202eab\u2066\x00\x9b\ud800"
)

ALLOWED = {
    "div": {"class", "lang", "role", "aria-label"},
    "style": set(),
    "p": {"class", "dir"},
    "span": {"class", "title", "role", "aria-label", "dir"},
    "bdi": {"class"},
    "blockquote": {"lang", "dir"},
    "details": {"class"},
    "li": {"value", "dir"},
    "ul": {"class"},
    "sup": {"class", "title"},
    "th": {"scope"},
    "table": {"class"},
    **{tag: set() for tag in ("summary", "strong", "code", "pre", "br", "ol", "thead", "tbody", "tr", "td")},
}
VOID = {"br"}


class Page(HTMLParser):
    """A piece of HTML: its tags, which have to be closed in order, the texts of each class, and all text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.open: list[tuple[str, str]] = []
        self.texts: dict[str, list[str]] = {}
        self.text = ""
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag in VOID:
            self._write("\n")
            return
        self.open.append((tag, dict(attrs).get("class") or tag))
        self.texts.setdefault(self.open[-1][1], []).append("")

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:  # <br /> of Markdown
            return
        assert self.open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != [("style", "style")]:
            self._write(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    def _write(self, data: str) -> None:
        self.text += data
        for _, name in self.open:
            self.texts[name][-1] += data

    def titles(self, tag: str) -> list[str]:
        return [value for of, name, value in self.attributes if (of, name) == (tag, "title")]


def check_harmless(page: Page) -> None:
    assert {tag for tag in page.tags if tag not in ALLOWED} == set()
    assert [(tag, name) for tag, name, _ in page.attributes if name not in ALLOWED[tag]] == []
    values = "".join(value for _, _, value in page.attributes)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", page.text + values)


def letters(text: str) -> str:
    return "".join(text.split())


# ------------------------------------------------------------------------------------ nothing is obeyed


def test_nothing_of_a_document_a_model_or_a_file_name_is_markup() -> None:
    citation = cite(1, EVIL, EVIL, heading=EVIL)
    hits = (hit(EVIL, EVIL, 0.5, None, EVIL),)
    doubt = Claim(EVIL, 0, 20, (1,), "unsupported", 0.1, (citation,), (EVIL,))
    made = answer(
        f"[1] {EVIL}", question=EVIL, citations=(citation,), hits=hits, notes=(EVIL,), claims=(doubt,), where=(EVIL,)
    )
    for shown in (made, replace(made, answered=False)):
        page = Page(as_html(replace(shown, generator=EVIL, embedder=EVIL)))
        check_harmless(page)
        assert page.tags.count("style") == 1
        assert page.text.count("<script>alert(1)</script>") >= len(["question", "text", "claim", "reason", "quote"])
        assert page.text.count("\\(y\\)") == page.text.count("&lt; <style>")
    page = Page(search_as_html(SearchResult(EVIL, hits, (), 0.4, 0.5, (EVIL,), (EVIL,))))
    check_harmless(page)


MARKUP = st.text(st.sampled_from(list("`*_[]()<>#!|~$\\&@:/.-+=12 \n\t\r\"'ax退。")), max_size=60)


@st.composite
def checked(draw: st.DrawFn) -> tuple[str, list[Claim]]:
    text = draw(MARKUP)
    ends = sorted(draw(st.lists(st.integers(0, len(text)), max_size=8)))
    verdicts = st.sampled_from(get_args(Verdict))
    return text, [
        Claim("c", start, end, (), draw(verdicts), 0.5, (), ("<why>",))
        for start, end in zip(ends[::2], ends[1::2], strict=False)
    ]


@given(checked())
@example(("- a\n  - `x <script>` **b `c`** [1]\n\n      deep <b>", []))
@example(("```\n<script>\n````\n<img src=x>", [Claim("c", 2, 30, (), "partly", 0.5)]))
@example(("a\r\n1. b\r\n\r\n7) c **d [1]**", [Claim("c", 2, 22, (1,), "partly", 0.5)]))
def test_an_answers_text_is_well_formed_shows_every_letter_and_one_sign_for_each_claim(
    case: tuple[str, list[Claim]],
) -> None:
    text, claims = case
    page = Page(answer_html(text, {1: "title"}, claims, LABELS["en"]))
    check_harmless(page)
    signs = [name for name in page.texts if name.startswith("kb-sign")]
    assert sum(len(page.texts[name]) for name in signs) == len(claims)
    signed = re.sub("\u202f[✓~✗]|\u2060", "", page.text)
    assert without_marks(signed) == without_marks(Page(RENDERER.render(formatted(text))).text)


RENDERER = MarkdownIt("commonmark", {"html": True})


def without_marks(text: str) -> str:
    """The letters but list marks, of which Markdown keeps some as text."""
    return re.sub(r"\s|\d+[.)]|[-*+]", "", text)


@given(st.text(st.sampled_from(list("[]()<>#!|$\\&@:/=\"'ax退。 ")), max_size=60))
def test_text_without_marks_is_shown_letter_by_letter(text: str) -> None:
    assert letters(Page(answer_html(text, {}, [], LABELS["zh"])).text) == letters(safe(text))


def test_formulas_are_never_found_in_what_is_only_text() -> None:
    shown = answer_html("It costs $5 and $6, or \\(x\\) or \\begin{y}.", {}, [], LABELS["en"])
    texts = re.split("<[^>]*>", shown)
    assert not [text for text in texts if text.count("$") > 1 or re.search(r"\\.", text)]
    assert Page(shown).text == "It costs $5 and $6, or \\(x\\) or \\begin{y}."


# ---------------------------------------------------------------------------------------- what is shown


def test_lists_are_nested_code_and_bold_are_kept_and_numbers_are_the_answers() -> None:
    text = "Do **this：**先\n2. one `a<b`\n   - inner\nstill inner\n3. two\n\n7. seven\n\nEnd.\n"
    text += "```py\nif a < b:\n    pass\n```"
    assert answer_html(text, {}, [], LABELS["en"]).replace(' dir="auto"', "") == (
        "<p>Do <strong>this：</strong>先</p>"
        '<ol><li value="2">one <code>a&lt;b</code><ul><li>inner<br>still inner</li></ul></li>'
        '<li value="3">two</li><li value="7">seven</li></ol>'
        "<p>End.</p><pre><code>if a &lt; b:\n    pass</code></pre>"
    )


def test_markers_of_citations_are_raised_and_say_where_and_what() -> None:
    page = Page(as_html(ENGLISH))
    assert page.texts["kb-marker"] == ["[1]", "[2]", "[1]", "[1]", "[2]"]  # not the subscript in the code
    assert page.titles("sup")[:2] == [
        "support/refunds.md · Refunds\n“Unused labels can be returned within 30 days.”",
        "handbook/security-policy.pdf · page 3 · Rotation of keys\n“Keys are rotated every 90 days.”",
    ]
    assert "returned within 30 days\u00a0[1]" in page.text


def test_each_citation_unfolds_to_its_quote_with_page_and_heading() -> None:
    page = Page(as_html(ENGLISH))
    assert "[1] support/refunds.md · Refunds" in page.texts["summary"]
    assert "[2] handbook/security-policy.pdf · page 3 · Rotation of keys" in page.texts["summary"]
    assert "Unused labels can be\nreturned within 30 days." in page.texts["blockquote"]
    assert ("details", "open") not in {(tag, name) for tag, name, _ in page.attributes}


def test_quotes_of_one_number_and_place_unfold_together() -> None:
    citations = (
        cite(1, "a.md", "One."),
        cite(1, "a.md", "Two."),
        cite(1, "a.md", "Three.", 2),
        cite(2, "a.md", "One."),
    )
    page = Page(as_html(answer("[1][2]", citations=citations)))
    assert page.texts["summary"] == ["[1] a.md", "[1] a.md · page 2", "[2] a.md", "Passages found: 0"]
    assert page.texts["details"][:2] == ["[1] a.mdOne.Two.", "[1] a.md · page 2Three."]


def test_a_claim_that_is_not_supported_is_underlined_and_told_with_its_reasons_and_the_closest_passage() -> None:
    page = Page(as_html(ENGLISH))
    assert page.texts["kb-doubt"] == ["and keys rotate every 60 days\u00a0", "Refunds are free of charge\u00a0"]
    assert page.titles("span").count("not supported\n60 is not in [2]\n[2] has 90") == 1
    first, second = page.texts["kb-doubts"][0].split("[2] has 90")
    assert first == "✗ and keys rotate every 60 days\nnot supported · 60 is not in [2] · "
    assert second.startswith("Closest passage: [2] handbook/security-policy.pdf · page 3")
    assert second.endswith("~ Refunds are free of charge\npartly supported · no source says “free of charge”")
    assert page.texts["kb-quiet kb-support"] == ["2 of 4 claims supported"]


def test_each_sign_stands_behind_its_claim_and_is_read_out() -> None:
    said = Page(as_html(ENGLISH)).texts["kb-text"][0]
    assert "30 days\u00a0[1],\u202f✓ and keys" in said
    assert "60 days\u00a0[2].\u202f✗" in said
    assert "refund(label)\u00a0[1].\u202f✓" in said
    assert "charge\u00a0[1][2].\u202f~" in said
    named = [value for tag, name, value in Page(as_html(CHINESE)).attributes if (tag, name) == ("span", "aria-label")]
    assert named == ["有依据", "无依据", "无依据"]  # the last one in the list below


def test_no_line_begins_with_a_marker_or_a_sign() -> None:
    assert Page(as_html(CHINESE)).texts["kb-text"] == [
        "退款须在 30 天内申请。\u2060[1]\u202f✓退款需要 45 天。\u2060[1]\u202f✗"
    ]


def test_a_sign_behind_bold_print_code_or_a_lost_character_stands_where_the_claim_ends() -> None:
    text = "\x1b\x1bA\u202e\r\nis **so [1]** and `b` too. C."
    claims = [
        claim(text, "A\u202e\r\nis **so [1]**", "supported"),
        claim(text, " and `b`", "partly"),
        claim(text, "C.", "unsupported"),
    ]
    page = Page(answer_html(text, {1: "t"}, claims, LABELS["en"]))
    assert page.text == "A\nis so\u00a0[1]\u202f✓ and b\u202f~ too. C.\u202f✗"
    assert page.texts["kb-doubt"] == [" and ", "b", "C."]


def test_a_claim_in_code_has_its_sign_below() -> None:
    text = "```\nx [1]\n```\nAfter."
    page = Page(answer_html(text, {1: "t"}, [claim(text, "x [1]", "supported")], LABELS["en"]))
    assert page.text.replace("\u202f", "") == "x [1]✓After."


def test_scores_stand_in_a_table_whose_ranks_are_the_numbers_of_the_markers() -> None:
    page = Page(as_html(ENGLISH))
    assert page.texts["th"] == ["#", "Source", "Similarity", "Score"]
    assert page.texts["td"][4:8] == [
        "[2]", "handbook/security-policy.pdf · page 3 · Rotation of keys", "0.520", "0.720 fused",
    ]  # fmt: skip
    assert "Passages found: 3" in page.texts["summary"]


def test_the_last_line_says_what_made_it_how_long_it_took_and_what_it_cost() -> None:
    assert Page(as_html(ENGLISH)).texts["kb-quiet kb-footer"] == [
        "extractive · e5 · 0.05 s · cutoff 0.28 · best similarity 0.64 · only where kind=markdown"
        " · requests: 2, tokens: 1,234 in, 56 out (estimated) · $0.0012"
    ]
    assert Page(as_html(CHINESE)).texts["kb-quiet kb-footer"] == [
        "extractive · e5 · 0.05 秒 · 阈值 0.28 · 最高相似度 0.64"
    ]


def test_what_is_not_answered_shows_the_nearest_passages_to_unfold_and_no_table() -> None:
    page = Page(as_html(JAPANESE))
    assert page.texts["summary"] == ["ja/返金.md (0.33)", "ja/アカウント.pdf · 2 ページ · パスワード (0.31)"]
    assert page.texts["blockquote"] == ["返金は30日以内です。", "パスワードを忘れた場合は再設定します。"]
    assert page.texts["kb-title"] == ["最も近い箇所"]
    assert page.texts["kb-note"] == ["注: cutoff 0.70 removed all, best 0.33"]
    assert "table" not in page.tags
    assert ("div", "class", "kb-answer kb-none tex2jax_ignore mathjax_ignore") in page.attributes


@pytest.mark.parametrize(("made", "language"), [(ENGLISH, "en"), (CHINESE, "zh"), (JAPANESE, "ja")])
def test_our_own_words_are_in_the_questions_language(made: Answer, language: Language) -> None:
    page = Page(as_html(made))
    assert ("div", "lang", language) in page.attributes
    assert ("div", "aria-label", LABELS[language].answer) in page.attributes
    ours = "".join(page.texts["kb-title"] + page.texts["kb-quiet kb-footer"])
    assert bool(re.search("[a-z]{6}", ours.replace("extractive", ""))) == (language == "en")
    assert LABELS[language].cutoff.format(cutoff="0.28") in ours


def test_a_quote_has_its_own_language_so_that_its_characters_have_the_right_form() -> None:
    citations = (cite(1, "a.md", "直ちに返金します。"), cite(2, "b.md", "直接退款。"), cite(3, "c.md", "Refunds."))
    page = Page(as_html(answer("[1][2][3]", question="退款政策是什么？", citations=citations)))
    assert [value for tag, name, value in page.attributes if (tag, name) == ("blockquote", "lang")] == [
        "ja",
        "zh",
        "en",
    ]


def test_every_language_has_every_label_and_its_places_to_fill() -> None:
    def places(labels: Labels) -> list[list[str]]:
        texts = [getattr(labels, name) for name in Labels.__slots__ if name != "verdicts"]
        assert all(texts)
        return [sorted(re.findall(r"\{\w+\}", text)) for text in texts]

    assert set(LABELS) == set(get_args(Language))
    for labels in LABELS.values():
        assert places(labels) == places(LABELS["en"])
        assert set(labels.verdicts) == set(SYMBOLS) == set(get_args(Verdict))


def test_several_answers_on_a_page_share_nothing_and_load_nothing() -> None:
    html = "".join(map(as_html, (ENGLISH, ENGLISH, CHINESE, JAPANESE)))
    assert not re.search(r"\bid=|href|src=|url\(|@import|https?:|<script|<link", html)
    styles = re.findall("<style>(.*?)</style>", html)
    assert len(styles) == 4
    rules = re.sub(r"/\*.*?\*/|@media[^{]*\{(.*?\})\s*\}", r"\1", styles[0])
    selectors = [selector for rule in re.findall(r"([^{}]+)\{", rules) for selector in rule.split(",")]
    assert len(selectors) > 20
    assert [selector for selector in selectors if ".kb-answer" not in selector] == []


def test_a_notebook_prefers_html_and_finds_markdown_where_that_is_taken_out() -> None:
    assert ENGLISH._repr_html_() == as_html(ENGLISH)
    assert ENGLISH._repr_markdown_() == as_markdown(ENGLISH)


def test_what_a_search_found_is_shown_with_its_passages_folded() -> None:
    found = SearchResult("返金はいつまで？", JAPANESE.hits, (), 0.28, 0.33, ("a note",), ("kind=pdf",))
    page = Page(found._repr_html_())
    assert page.texts["summary"][0] == "1. ja/アカウント.pdf · 2 ページ · パスワード (0.31 · 0.510 fused)"
    assert page.texts["blockquote"][0] == "パスワードを忘れた場合は再設定します。"
    assert page.texts["kb-quiet kb-footer"] == ["しきい値 0.28 · 最高の類似度 0.33 · kind=pdf に限る"]
    assert "a note" in page.text
    assert "**1.** ja/アカウント.pdf, page 2" in found._repr_markdown_()
    nothing = replace(found, hits=())
    assert "no candidate was kept" in Page(nothing._repr_html_()).text
    assert nothing._repr_markdown_().startswith("no candidate was kept")


class Printer:
    def __init__(self) -> None:
        self.written = ""

    def text(self, obj: str, /) -> None:
        self.written += obj


def test_an_ipython_terminal_shows_text() -> None:
    printer = Printer()
    ENGLISH._repr_pretty_(printer, False)
    assert printer.written == str(ENGLISH)
    found = SearchResult("Why?", ENGLISH.hits, (), 0.28, 0.64)
    printer = Printer()
    found._repr_pretty_(printer, False)
    assert printer.written.startswith("1. support/refunds.md › Refunds")
