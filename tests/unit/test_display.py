"""Answers as people see them: nothing of a document is obeyed, lines fit, sources stand where they are."""

from __future__ import annotations

import html
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from rich.cells import cell_len

from kb import display
from kb.answers import Answer, Citation, Claim, Usage
from kb.inert import formatted, inert, json_text, one_line, safe
from kb.records import Chunk, Dropped, Hit, SearchResult
from kb.terminal import LineBreaker, Terminal, shortened
from tests.made_answers import CHINESE, ENGLISH

EVIL = (
    "<script>alert(1)</script> ![x](http://evil.example/x.png) [y](http://evil.example) <img src=x onerror=alert(1)> "
    "http://evil.example www.evil.example a@evil.example $x$ \\(y\\) `z` **b** ~~s~~ &lt; <http://evil.example>"
)


def hit(
    text: str = "Text.", source: str = "a.md", page: int | None = None, heading: str = "", score: float = 0.5
) -> Hit:
    chunk = Chunk(f"c-{source}", "d", text, 0, len(text), page, (heading,) if heading else ())
    return Hit(chunk, source, score, "dense", score)


def cite(
    number: int, source: str = "a.md", page: int | None = None, heading: str | None = None, quote: str = "Q."
) -> Citation:
    return Citation(number, source, page, heading, 0, len(quote), quote, f"c-{source}")


def answer(
    text: str = "It is so [1].",
    citations: tuple[Citation, ...] = (),
    hits: tuple[Hit, ...] = (),
    notes: tuple[str, ...] = (),
    answered: bool = True,
    dropped: tuple[Dropped, ...] = (),
) -> Answer:
    return Answer("Why?", answered, text, citations, hits, 0.4, 0.5, "e5", "extractive", 0.1, dropped, notes)


# ------------------------------------------------------------------------------------------- plain text


def test_text_is_followed_by_its_sources_one_a_line_with_page_or_heading() -> None:
    citations = (cite(1, heading="Leave › Sick"), cite(1, heading="Leave › Sick"), cite(2, "b.pdf", 3, "Ignored"))
    assert str(answer(citations=citations)) == (
        "It is so [1].\n\nSources:\n  [1] a.md › Leave › Sick\n  [2] b.pdf, page 3"
    )


def test_an_unanswered_question_shows_what_came_nearest_and_notes() -> None:
    shown = str(
        answer("Not found.", hits=tuple(hit(source=f"{i}.md") for i in range(5)), notes=("try this",), answered=False)
    )
    assert shown == ("Not found.\n\nNearest passages:\n  0.md (0.50)\n  1.md (0.50)\n  2.md (0.50)\n\nNote: try this")


def test_no_control_character_of_a_document_is_printed() -> None:
    evil = "a\x1b]0;t\x07\x9b2J\x00\x7f\u202eb\ud800"
    shown = str(answer(evil, (cite(1, f"x{evil}\n.md", heading=f"h\n{evil}"),), notes=(f"n\r{evil}",)))
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]", shown)
    assert shown.count("\n") == len(["", "Sources:", "[1]", "", "Note:"])
    assert "a]0;t2Jb\ufffd" in shown


def test_safe_keeps_lines_tabs_and_every_script() -> None:
    text = "a\tb\nc 退款 か\u3099 é 👩\u200d👧 العربية"
    assert safe(text) == text
    assert safe("a\r\nb\rc\u2028d\x0be\x85f") == "a\nb\nc\nd\ne\nf"
    assert one_line(" a\r\n\n b\t c ") == "a b c"


def test_hits_and_explanation_say_who_scored_what_and_why_it_was_dropped() -> None:
    kept, out = hit("One\ntwo.", heading="H"), Dropped(hit(source="b.md", score=0.1), "too far")
    result = SearchResult("q", (kept,), (out,), 0.4, 0.5)
    assert display.hits_as_text(result) == "1. a.md › H  (dense 0.500 similarity 0.500)\n   One two."
    assert display.explanation((kept,), (out,), 0.4) == [
        "cutoff 0.400 on similarity; 1 kept, 1 dropped",
        "kept   1  dense 0.500 similarity 0.500  a.md › H",
        "dropped   dense 0.100 similarity 0.100  b.md: too far",
    ]
    nothing = SearchResult("q", (), (out,), 0.4, 0.1)
    assert display.hits_as_text(nothing) == "nothing at or above the cutoff 0.400; the best similarity was 0.100"


def test_claims_that_are_not_supported_are_told_with_the_reasons_below_the_sources() -> None:
    assert display.below_text(ENGLISH)[1] == (
        "Checked: 2 of 4 claims supported\n"
        "  not supported: and keys rotate every 60 days (60 is not in [2]; [2] has 90)\n"
        "  partly supported: Refunds are free of charge (no source says “free of charge”)"
    )
    assert "  not supported: 退款需要 45 天。 ([1] 中没有 45)" in str(CHINESE)


def test_nothing_is_said_of_claims_when_all_are_supported() -> None:
    sound = replace(ENGLISH, claims=(ENGLISH.claims[0],))
    for shown_text in (str(sound), sound._repr_markdown_(), shown(sound, colours=False)):
        assert "Checked" not in shown_text


def test_long_snippets_end_in_an_ellipsis() -> None:
    assert display.snippet("a" * 300) == "a" * 199 + "…"


# ------------------------------------------------------------------------------------------------ JSON


def test_the_json_object_has_the_documented_keys_and_nothing_else() -> None:
    found = display.answer_as_dict(answer(citations=(cite(1),), hits=(hit(),)))
    assert list(found) == [
        "question", "answered", "text", "citations", "claims", "support", "hits", "cutoff", "best_score", "embedder",
        "generator", "seconds", "usage",
    ]  # fmt: skip
    assert list(found["citations"][0]) == ["number", "source", "page", "heading", "start", "end", "quote"]
    assert (found["claims"], found["support"]) == ([], None)
    assert list(found["hits"][0]) == [
        "chunk_id", "source", "page", "heading", "score", "scored_by", "similarity", "text",
    ]  # fmt: skip


def test_the_json_object_has_the_claims_with_their_evidence_and_their_support() -> None:
    found = display.answer_as_dict(ENGLISH)
    assert found["support"] == 2 / 4
    assert found["claims"][1] == {
        "text": "and keys rotate every 60 days",
        "start": ENGLISH.claims[1].start,
        "end": ENGLISH.claims[1].end,
        "numbers": [1],
        "verdict": "unsupported",
        "score": 0.5,
        "evidence": [display.citation_as_dict(ENGLISH.citations[1])],
        "reasons": ["60 is not in [2]", "[2] has 90"],
    }
    assert json.loads(json_text(found)) == found


@given(st.text(st.characters(), max_size=50), st.booleans())
@example("\x1b[2J\x9b \u2028\ud800\udfff 退 👩 \x7f", False)
def test_json_reads_back_as_it_was_and_shows_no_control_character(text: str, ascii_only: bool) -> None:
    written = json_text({"text": text}, ascii_only=ascii_only)
    assert json.loads(written) == {"text": json.loads(json.dumps(text))}
    assert not re.search("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\ud800-\udfff]", written)
    assert written.isascii() or not ascii_only


# -------------------------------------------------------------------------------------------- notebook


class Page(HTMLParser):
    """The tags, addresses and text of a rendered page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs
        self.text += "\n" if tag == "br" else ""

    def handle_data(self, data: str) -> None:
        self.text += data

    @property
    def letters(self) -> str:
        """The text without white space, which markdown folds."""
        return "".join(self.text.split())


RENDERER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


def render(markdown: str) -> Page:
    return Page(RENDERER.render(markdown))


MARKUP = st.text(st.sampled_from(list("`*_[]()<>#!|~$\\&@:/.-+=1 \n\tax退www")), max_size=60)


@given(MARKUP)
@example(EVIL)
@example("[1]: http://evil.example\n[1]")
@example("a | b\n--|--\n`x | <script>`")
@example("1. a\n2) b\n- c\n+ d\n# e\n=====\n    code\n```\nf")
@example("_a_ __b__ snake_case_name _")
def test_nothing_in_inert_text_is_markup_and_every_letter_is_shown(text: str) -> None:
    page = render(inert(text))
    assert page.tags <= {"p", "br", "span"}
    assert page.attributes == []
    assert page.letters == "".join(text.split())


@given(MARKUP)
@example(EVIL)
@example("```\n<script>alert(1)</script>\n````\n<img src=x>")
@example("~~~html\n```\n<b>\n~~~ \n![x](http://evil.example)")
@example("- a\n  - `x <script>` **b `c`**\n\n      deep <b>")
@example("`a` [1](http://evil.example) [1]: http://evil.example")
def test_an_answers_own_formatting_can_load_and_run_nothing(text: str) -> None:
    page = render(formatted(text))
    assert page.tags <= {"p", "br", "span", "strong", "code", "pre", "ul", "ol", "li"}
    assert {name for name, _ in page.attributes} <= {"class", "start"}


def test_formulas_are_never_found_in_what_is_only_text() -> None:
    shown = formatted("It costs $5 and $6, or \\(x\\) or \\[y\\].")
    # A notebook looks for $…$ and \(…\) in each run of text of the finished page, which elements part.
    texts = re.split("<[^>]*>", RENDERER.render(shown))
    assert not [text for text in texts if html.unescape(text).count("$") > 1 or "\\(" in html.unescape(text)]
    assert render(shown).text.strip() == "It costs $5 and $6, or \\(x\\) or \\[y\\]."


def test_lists_code_and_bold_print_of_an_answer_are_kept() -> None:
    page = RENDERER.render(
        formatted("Do **this：**先\n- one `a<b` [1]\n- two\n\n```py\nif a < b:\n    pass\n```\nEnd.")
    )
    assert "<strong>this：</strong>先" in page
    assert "<li>one <code>a&lt;b</code> [1]</li>" in page
    assert "if a &lt; b:\n    pass\n" in page
    assert "<p>End.</p>" in page


def test_lines_of_an_answer_stay_lines() -> None:
    assert RENDERER.render(formatted("a\nb\n\n\nc")) == "<p>a<br />\nb</p>\n<p>c</p>\n"


def test_a_notebook_shows_sources_quotes_and_notes_with_a_documents_markup_inert() -> None:
    shown = answer(f"So [1]. {EVIL}", (cite(1, f"{EVIL}.md", quote=EVIL), cite(2, "b.pdf", 3)), notes=(EVIL,))
    page = render(shown._repr_markdown_())
    assert page.tags <= {"p", "br", "span", "strong", "code", "em", "blockquote"}
    assert page.attributes == []
    assert page.text.count("<script>alert(1)</script>") == len(["text", "source", "quote", "note"])
    assert "[2] b.pdf, page 3" in page.text


def test_an_unanswered_question_shows_the_nearest_passages_in_a_notebook() -> None:
    page = render(answer("Not found.", hits=(hit(heading="H"),), answered=False)._repr_markdown_())
    assert "Nearest passages:" in page.text
    assert "a.md › H (0.50)" in page.text


def test_a_notebook_without_html_lists_the_claims_that_are_not_supported() -> None:
    doubt = Claim(EVIL, 0, 1, (1,), "unsupported", 0.1, (), (EVIL,))
    page = render(replace(answer(), claims=(doubt,))._repr_markdown_())
    assert page.tags <= {"p", "br", "span", "strong", "code", "ul", "li"}
    assert page.attributes == []
    assert "Checked: 0 of 1 claims supported\n" in page.text
    assert page.text.count("<script>alert(1)</script>") == len(["claim", "reason"])


# -------------------------------------------------------------------------------------------- terminal


def lines_of(text: str, width: int) -> list[str]:
    breaker = LineBreaker(width)
    return (breaker.feed(text) + breaker.finish()).split("\n")


def test_chinese_and_japanese_are_broken_by_the_width_of_their_characters() -> None:
    lines = lines_of("退款政策属于账务类问题，工单的类别选“账务”，由账务队列处理。 [1]", 20)
    assert lines == ["退款政策属于账务类问", "题，工单的类别选“账", "务”，由账务队列处", "理。 [1]"]
    assert max(map(cell_len, lines)) <= 20


def test_no_line_begins_with_a_closing_mark_or_ends_with_an_opening_one() -> None:
    text = "「返金」は、次の（とおり）です。ページ・コード。" * 5
    for width in range(10, 40):
        lines = lines_of(text, width)
        assert not [line for line in lines if line[0] in "」、）。ー・ッ" or line[-1] in "「（"]
        assert "".join(lines) == text


def test_a_marker_stays_with_the_word_it_proves() -> None:
    assert lines_of("aaaa bbbb [1] cccc", 10) == ["aaaa", "bbbb [1]", "cccc"]


def test_addresses_and_korean_words_are_not_cut() -> None:
    address = "https://example.org/" + "a" * 60
    assert lines_of(f"see {address} now", 30) == ["see", address, "now"]
    assert lines_of("환불 정책은 여기에", 12) == ["환불 정책은", "여기에"]


def test_line_ends_and_indentation_are_kept() -> None:
    assert lines_of("a\n  b  c\n\n\td", 40) == ["a", "  b  c", "", "    d"]


PIECES = st.lists(st.text(st.sampled_from(list("ab [1]\n退。「ー👩\u200d👧e\u0301")), max_size=6), max_size=20)


@given(PIECES, st.integers(4, 30))
def test_pieces_cut_anywhere_give_the_same_lines_and_lose_nothing(pieces: list[str], width: int) -> None:
    breaker = LineBreaker(width)
    written = "".join(breaker.feed(piece) for piece in pieces) + breaker.finish()
    assert written.split("\n") == lines_of("".join(pieces), width)
    assert "".join(written.split()) == "".join("".join(pieces).split())


def test_a_long_place_is_shortened_in_the_middle_and_keeps_its_page() -> None:
    line = shortened("very/long/path/to/some/document/of/ours.pdf, page 12", 30)
    assert cell_len(line) <= 30
    assert line.startswith("very/long/path")
    assert line.endswith("page 12")
    assert shortened("short.md", 30) == "short.md"
    assert cell_len(shortened("资料" * 40, 21)) <= 21


def shown(
    answer: Answer, root: Path | None = None, *, width: int = 60, colours: bool = True, links: bool = True
) -> str:
    written: list[str] = []
    terminal = Terminal(written.append, root, width=width, colours=colours, links=links)
    terminal.text(answer)
    terminal.below(answer)
    return "".join(written)


def test_a_terminal_shows_markers_in_colour_and_sources_as_links_to_their_files(tmp_path: Path) -> None:
    (tmp_path / "退款 a.pdf").write_bytes(b"")
    written = shown(answer(citations=(cite(1, "退款 a.pdf", 2), cite(2, "gone.md", heading="H"))), tmp_path)
    link = f"\x1b]8;;{(tmp_path / '退款 a.pdf').as_uri()}#page=2\x1b\\退款 a.pdf, page 2\x1b]8;;\x1b\\"
    assert (
        written == f"It is so \x1b[1;36m[1]\x1b[0m.\n\n\x1b[1;36m[1]\x1b[0m {link}\n\x1b[1;36m[2]\x1b[0m gone.md › H\n"
    )


def test_a_terminal_that_can_do_nothing_gets_nothing_but_text(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("x")
    plain = shown(answer(citations=(cite(1),), notes=("n",)), tmp_path, colours=False, links=False)
    assert plain == "It is so [1].\n\n[1] a.md\n\nNote: n\n"


def test_no_escape_sequence_of_a_document_reaches_a_terminal(tmp_path: Path) -> None:
    evil = "\x1b]0;t\x07\x9b2J"
    name = "e\x1b[31m.md"
    (tmp_path / name).write_text("x")
    written = shown(answer(f"x {evil} [1]", (cite(1, name, heading=evil),), (hit(evil),), (evil,)), tmp_path)
    left = re.sub(r"\x1b\[[\d;]*m|\x1b\]8;;[!-~]*\x1b\\", "", written)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", left)
    assert "%1B" in written
    assert not re.search(r"\x1b\[31m", written)


def test_an_unanswered_question_on_a_terminal_shows_the_nearest_passages_and_the_cutoff() -> None:
    written = shown(answer("Not found.", hits=(hit(heading="H"),), answered=False), colours=False)
    assert written == "Not found.\n\nNearest passages (similarity, cutoff 0.40):\n  0.50  a.md › H\n"


def test_a_terminal_tells_of_claims_that_are_not_supported_between_sources_and_notes() -> None:
    written = shown(CHINESE, colours=False).split("\n\n")
    assert written[1] == "[1] zh/退款政策.md › 退款"
    assert written[2] == "Checked: 1 of 2 claims supported\nnot supported: 退款需要 45 天。 ([1] 中没有 45)\n"
    painted = shown(CHINESE)
    assert "\x1b[33mChecked: 1 of 2 claims supported\x1b[0m\n\x1b[33mnot supported: " in painted


@pytest.mark.parametrize("width", [20, 33, 60, 200])
def test_nothing_but_a_long_word_is_wider_than_the_terminal(width: int) -> None:
    text = "Words and 中文字符混在一起，没有空格。 More words [1]. " * 6
    citations = (cite(1, "a/long/folder/name/and/file.md", heading="一个很长的标题 › 还有一个很长的标题 › Heading"),)
    written = shown(answer(text, citations, notes=(text,)), width=width, colours=False)
    assert max(cell_len(line) for line in written.split("\n")) <= min(width, 100)


def test_hits_on_a_terminal_have_a_place_a_score_and_a_few_lines(tmp_path: Path) -> None:
    written: list[str] = []
    terminal = Terminal(written.append, tmp_path, width=40, colours=False, links=False)
    terminal.hits(SearchResult("q", (hit("字" * 300, heading="H"),), (), 0.4, 0.5))
    lines = "".join(written).splitlines()
    assert lines[:2] == ["1. a.md › H", "   dense 0.500 similarity 0.500"]
    assert len(lines) == len(["place", "scores", "text", "text", "text"])
    assert lines[-1].endswith(" …")


def test_usage_is_an_object_of_the_json_and_a_line_of_an_explanation() -> None:
    usage = Usage(2, 1_240, 85, 0.00395)
    found = display.answer_as_dict(replace(answer(), usage=usage))
    assert found["usage"] == {
        "requests": 2,
        "prompt_tokens": 1_240,
        "completion_tokens": 85,
        "dollars": 0.00395,
        "estimated": False,
    }
    assert display.answer_as_dict(answer())["usage"] is None
    assert display.usage_line(usage) == ("2 requests to chat models, 1,240 tokens of prompt, 85 of reply, $0.003950")
    assert display.usage_line(Usage(1, 9, 3, None, estimated=True)) == (
        "1 request to chat models, about 9 tokens of prompt, about 3 of reply, the price is not known"
    )
