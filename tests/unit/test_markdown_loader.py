"""Markdown: which lines are headings, which spans are blocks, and what front matter becomes."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.loading import load_document
from kb.loading._markdown_blocks import find_blocks, heading_words
from kb.records import Document

Load = Callable[[str], Document]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Load Markdown that is given as a string."""

    def load_it(markup: str) -> Document:
        path = tmp_path / "file-name.md"
        path.write_text(markup, encoding="utf-8", newline="")
        return load_document(path)

    return load_it


def headings(text: str) -> list[tuple[int, str]]:
    return [(heading.level, heading.text) for heading in find_blocks(text)[0]]


def blocks(text: str) -> list[tuple[str, str]]:
    return [(block.kind, text[block.start : block.end]) for block in find_blocks(text)[1]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# One\n\n###### Six\n\n####### seven\n", [(1, "One"), (6, "Six")]),
        ("# Closed ##\n\n#NoSpace\n\n##\n\n# #\n", [(1, "Closed")]),
        ("Setext\n===\n\nTwo\nlines\n---\n\ntext\n", [(1, "Setext"), (2, "Two lines")]),
        ("text\n\n---\n\nmore\n\n***\n", []),
        ("- item\n---\n\n> quote\n===\n", []),
        ("    # indented code\n\n   # three spaces\n", [(1, "three spaces")]),
        ("<!--\n# hidden\n-->\n\n# Seen\n\n<pre>\n# code\n</pre>\n", [(1, "Seen")]),
        ("<!-- never closed\n\n# Kept\n", [(1, "Kept")]),
        ("- item\n\n  # in an item\n\n# Top\n", [(1, "Top")]),
        ("# C#\n\n# 概要\n", [(1, "C#"), (1, "概要")]),
    ],
)
def test_headings(text: str, expected: list[tuple[int, str]]) -> None:
    assert headings(text) == expected


def test_a_heading_spans_its_lines_as_written() -> None:
    text = "a\n\n## B *c* #\n\nD\n===\n"
    assert [text[h.start : h.end] for h in find_blocks(text)[0]] == ["## B *c* #", "D\n==="]


@pytest.mark.parametrize(
    ("markup", "words"),
    [
        ("**Bold** and _it_ `co*de*`", "Bold and it co*de*"),
        ("[Link](https://x.y/(z)) ![pic](a.png) [ref][1]", "Link pic ref"),
        ("With id {#custom-id}", "With id"),
        ("With id { #custom-id }", "With id"),
        ("snake_case_name and 2 * 3 * 4", "snake_case_name and 2 3 4"),
        (r"Escaped \*star\* &amp; <b>tag</b>", "Escaped *star* & tag"),
    ],
)
def test_the_words_of_a_heading(markup: str, words: str) -> None:
    assert heading_words(markup) == words


@pytest.mark.parametrize(
    ("text", "headings_of"),
    [
        ("# Top\n\n````md\n```python\n# no\n```\n## no\n````\n\n## Real\n", ["Top", "Real"]),
        ("# Top\n\n~~~\n# no\n```\n~~~\n\n## Real\n", ["Top", "Real"]),
        ("# Top\n\n1. step\n\n    ```sh\n    # no\n    ```\n\n2. next\n\n## Real\n", ["Top", "Real"]),
        ("# Top\n\n- step\n  ```sh\n  # no\n\n## Real\n", ["Top", "Real"]),
        ("# Top\n\n```python\nx = 1\n\n## no\n", ["Top"]),
        ("# Top\n\n``` not a fence ```\n\n## Real\n", ["Top", "Real"]),
    ],
)
def test_comments_in_code_are_no_headings(text: str, headings_of: list[str]) -> None:
    assert [words for _, words in headings(text)] == headings_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\n\n```py\nx\n\ny\n```\n\nb\n", [("code", "```py\nx\n\ny\n```")]),
        ("a\n\n```py\nx\n\ny\n", [("code", "```py\nx\n\ny")]),
        ("`````\n```\n`````\n", [("code", "`````\n```\n`````")]),
        ("t\n\n| a | b |\n|---|:-:|\n| 1 | 2 |\n| 3 |\n\nend\n", [("table", "| a | b |\n|---|:-:|\n| 1 | 2 |\n| 3 |")]),
        ("a | b\n--|--\n1 | 2\n", [("table", "a | b\n--|--\n1 | 2")]),
        ("a | b\n\nc | d\n---\n", []),
        ("| a \\| b | c |\n|---|---|\n| 1 | 2 |\n", [("table", "| a \\| b | c |\n|---|---|\n| 1 | 2 |")]),
        ("- a\n- b\n  more\n\n  par\n\n- c\n\nend\n", [("list", "- a\n- b\n  more\n\n  par\n\n- c")]),
        ("1. a\n2. b\nlazy\n\nend\n", [("list", "1. a\n2. b\nlazy")]),
        ("* a\n    * b\n        * c\n# H\n", [("list", "* a\n    * b\n        * c")]),
        ("The year was\n1986. A great year\n", []),
        ("a\n\n$$\nx = 1\n$$\n\nb\n", [("math", "$$\nx = 1\n$$")]),
        ("$$x$$\n\n$$ never\n\nclosed\n", [("math", "$$x$$")]),
    ],
)
def test_blocks(text: str, expected: list[tuple[str, str]]) -> None:
    assert blocks(text) == expected


@given(st.text(st.sampled_from("#-=`~*>|$ \t\n1.<!ax[]()")))
def test_spans_rise_and_never_overlap_whatever_the_markup(text: str) -> None:
    found_headings, found_blocks = find_blocks(text)
    spans = sorted([(h.start, h.end) for h in found_headings] + [(b.start, b.end) for b in found_blocks])
    assert all(start < end <= len(text) for start, end in spans)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    assert list(found_headings) == sorted(found_headings, key=lambda h: h.start)
    assert list(found_blocks) == sorted(found_blocks, key=lambda b: b.start)


@pytest.mark.parametrize(
    "text",
    [
        ">" * 20_000,
        "[" * 20_000 + "]" * 20_000,
        "# " + "[" * 20_000,
        "# " + "<a" * 20_000,
        "# " + "*_" * 20_000,
        "".join("  " * depth + f"- {depth}\n" for depth in range(500)),
        "|" * 20_000 + "\n" + "|-" * 20_000,
        "```\n" * 20_001,
        "- a\n\n" * 20_000,
        "$$\na\n" * 20_000,
        "<!-- \n" * 20_000,
        "a\n---|\n" * 20_000,
    ],
)
def test_hostile_markup_takes_linear_time(text: str) -> None:
    started = time.perf_counter()
    find_blocks(text)
    assert time.perf_counter() - started < 5


def test_front_matter_is_metadata_and_not_text(load: Load) -> None:
    document = load(
        '---\ntitle: "Guide: part 1"\ntags: [a, "", b]\ndate: 2026-01-15\ndraft: false\nn: 3\n---\n\n# Body\n\nText.\n'
    )
    assert document.title == "Guide: part 1"
    assert document.metadata == {
        "title": "Guide: part 1", "tags": "a, b", "date": "2026-01-15", "draft": False, "n": 3,
    }  # fmt: skip
    assert document.text == "# Body\n\nText.\n"
    assert document.text[document.headings[0].start : document.headings[0].end] == "# Body"


def test_toml_front_matter_is_metadata_too(load: Load) -> None:
    document = load('+++\ntitle = "T"\nwhen = 2026-01-15\n+++\nText\n')
    assert (document.text, dict(document.metadata)) == ("Text\n", {"title": "T", "when": "2026-01-15"})


def test_broken_front_matter_stays_text_with_a_warning_and_makes_no_heading(load: Load) -> None:
    markup = "---\ntitle: Part 1: start\n---\n# Body\nText\n"
    document = load(markup)
    assert document.text == markup
    assert [heading.text for heading in document.headings] == ["Body"]
    assert "front matter is broken" in document.warnings[0]


@pytest.mark.parametrize(
    "markup",
    [
        "---\n\nA sentence.\n\n---\n\nmore\n",
        "---\ntitle: never closed\n\n# Body\n",
        "---\n---\ntext\n",
        "----\na: b\n----\n",
    ],
)
def test_a_rule_on_the_first_line_swallows_nothing(load: Load, markup: str) -> None:
    document = load(markup)
    assert document.text == markup
    assert not document.metadata
    assert not document.warnings


def test_a_yaml_bomb_costs_nothing(load: Load) -> None:
    lines = ["a: &a [x,x,x,x,x,x,x,x,x]"]
    lines += [f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]" for i in range(9)]
    started = time.perf_counter()
    document = load("---\n" + "\n".join(lines) + "\n---\nText\n")
    assert time.perf_counter() - started < 2
    assert document.text == "Text\n"
    assert dict(document.metadata) == {"a": ", ".join("x" * 9)}


def test_an_embedded_picture_becomes_a_placeholder_in_linear_time(load: Load) -> None:
    data = "iVBORw0KGgo" + "A" * 2_500_000
    started = time.perf_counter()
    document = load(f"# Pic\n\n![logo](data:image/png;base64,{data})\n\nText. `data:text/plain,short`\n")
    assert time.perf_counter() - started < 3
    assert document.text == "# Pic\n\n![logo](embedded:image/png)\n\nText. `data:text/plain,short`\n"


def test_the_title_is_the_first_heading_of_level_one_and_never_the_file_name(load: Load) -> None:
    assert load("## Two\n\n# One\n").title == "One"
    assert load("## Two\n\ntext\n").title == ""


@pytest.mark.parametrize("end", ["\r\n", "\r", "\u2028", "\x85", "\x0c"])
def test_headings_are_seen_whatever_ends_the_lines(load: Load, end: str) -> None:
    document = load(end.join(["# One", "", "text", "", "## Two", ""]))
    assert [(h.level, h.text) for h in document.headings] == [(1, "One"), (2, "Two")]
