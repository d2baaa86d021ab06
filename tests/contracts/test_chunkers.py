"""What every chunker promises, whatever its idea of a good boundary.

A new chunker is in this suite as soon as its file is in kb/chunking.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kb.components import Chunker, build_component, component_module
from kb.records import Block, Chunk, Document, Heading, Page
from kb.settings import ComponentOptions, component_names
from tests.contracts._counting import COUNTERS, OVERHEAD, parts

NAMES = component_names("chunking")
each_chunker = pytest.mark.parametrize("name", NAMES)
some_examples = settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])

MAX_TOKENS = 512
# Small sizes bring out what large ones hide; a chunker takes those that it has options for.
SMALL = {
    "size_tokens": 24,
    "overlap_tokens": 8,
    "min_tokens": 6,
    "header_tokens": 12,
    "size_words": 16,
    "overlap_words": 4,
    "size_characters": 60,
    "overlap_characters": 10,
}
SMALL_MAX_TOKENS = 24 + 12 + OVERHEAD


@dataclass(frozen=True)
class Case:
    """A document, how its tokens are counted, and whether chunks are small."""

    document: Document
    counter: str
    small: bool


def options_of(name: str, small: bool) -> dict[str, Any]:
    """The component's options: those of `SMALL` that it knows, or all defaults."""
    options = getattr(component_module("chunking", name), "Options", ComponentOptions)
    defaults: dict[str, Any] = options().model_dump()
    return {**defaults, **{key: SMALL[key] for key in SMALL.keys() & defaults.keys()}} if small else defaults


def room_of(name: str, small: bool) -> int:
    """The embedder's limit: so low that nothing is to spare, where the chunker's size is in tokens."""
    return SMALL_MAX_TOKENS if small and "size_tokens" in options_of(name, small) else MAX_TOKENS


def build(name: str, counter: str, small: bool) -> Chunker:
    lent = parts(counter, room_of(name, small))
    chunker: Chunker = build_component("chunking", name, options_of(name, small), lent)
    return chunker


def chunks_of(name: str, case: Case) -> tuple[Chunk, ...]:
    return build(name, case.counter, case.small).chunk(case.document)


def document_of(text: str) -> Document:
    return Document("document", "notes.txt", text, "Notes", "text")


TEXT = """
    gateway resets the password limit and Überprüfung naïve слово λόγος ERR_429 v2.3.1 e.g. 3.14 api.example.com/x?a=b
    知识库 限流窗口 パスワードの再設定 トークン 한국어 ภาษาไทย العربية हिन्दी 👍🏽 🇯🇵 <|endoftext|> | # ``` ---
"""
WORDS = [*TEXT.split(), "👩\u200d👩\u200d👧\u200d👦", "e\u0301", "\u200b"]
SIGNS = (". ", "。", "? ", "！", ", ", "、", "；", ": ", " ", "  ", "\t", "\u3000", "\n", "\n    ", "", "…", ") ", "」")

word = st.sampled_from(WORDS) | st.text(max_size=12).map(
    lambda text: text.encode("utf-8", "ignore").decode().replace("\r", "").replace("\0", "")
)
prose = st.lists(st.tuples(word, st.sampled_from(SIGNS)), min_size=1, max_size=60).map(
    lambda pairs: "".join(part for pair in pairs for part in pair)
)
line = prose.map(lambda text: " ".join(text.split()) or "line")
separator = st.sampled_from(("\n\n", "\n", "\n \n", "\n\n\n\n", "\n\t\n\n  "))


@st.composite
def documents(draw: st.DrawFn) -> Document:
    """A document as a loader makes it: text with headings, blocks and pages at their true offsets."""
    text = draw(st.sampled_from(("", "", "\n", " \n\n")))
    headings, blocks, page_starts = [], [], [0]
    for kind in draw(
        st.lists(st.sampled_from(("heading", "prose", "prose", "table", "code", "list", "math")), max_size=9)
    ):
        start = len(text)
        if kind == "heading":
            level, words = draw(st.integers(1, 4)), draw(line)[:60].strip()
            text += f"{'#' * level} {words}"
            headings.append(Heading(level, words, start, len(text)))
        elif kind == "prose":
            text += draw(prose)
        else:
            text += _block(kind, draw(st.lists(line.map(lambda row: row[:50]), min_size=1, max_size=12)))
            blocks.append(Block(kind, start, len(text)))  # type: ignore[arg-type]
        text += draw(separator)
        page_starts += [len(text)] * draw(st.sampled_from((0, 0, 1, 2)))
    ends = [*page_starts[1:], len(text)]
    pages = tuple(Page(at + 1, *edges) for at, edges in enumerate(zip(page_starts, ends, strict=True)))
    return Document(
        id=draw(st.sampled_from(("a", "b"))),
        path="folder/notes.md",
        text=text,
        title=draw(
            st.sampled_from(("", "Notes", "知识库使用手册", "A title that is much longer than a header may be " * 3))
        ),
        kind="markdown",
        pages=pages if draw(st.booleans()) else (),
        headings=tuple(headings),
        blocks=tuple(blocks),
    )


def _block(kind: str, rows: list[str]) -> str:
    if kind == "table":
        return "| name | value |\n|---|---|\n" + "\n".join(f"| {row} | 1 |" for row in rows)
    if kind == "code":
        return "```\n" + "\n\n".join(rows) + "\n```"
    if kind == "list":
        return "\n".join(f"- {row}" for row in rows)
    return "$$\n" + "\n".join(rows) + "\n$$"


cases = st.builds(Case, documents(), st.sampled_from(sorted(COUNTERS)), st.booleans())


def spans_are_those_of_the_document(case: Case, chunks: Sequence[Chunk]) -> None:
    for chunk in chunks:
        assert case.document.text[chunk.start : chunk.end] == chunk.text
        assert chunk.text == chunk.text.strip() != ""
        assert chunk.document_id == case.document.id
    assert [chunk.start for chunk in chunks] == sorted({chunk.start for chunk in chunks})
    assert [chunk.end for chunk in chunks] == sorted({chunk.end for chunk in chunks})


def every_character_that_is_not_blank_is_in_a_chunk(case: Case, chunks: Sequence[Chunk]) -> None:
    text = case.document.text
    covered = bytearray(len(text))
    for chunk in chunks:
        covered[chunk.start : chunk.end] = b"\1" * (chunk.end - chunk.start)
    assert [at for at, character in enumerate(text) if not covered[at] and not character.isspace()] == []


def page_and_headings_are_those_at_the_start_of_the_chunk(case: Case, chunks: Sequence[Chunk]) -> None:
    names = {heading.text for heading in case.document.headings}
    for chunk in chunks:
        pages = [page.number for page in case.document.pages if page.start <= chunk.start < page.end]
        assert chunk.page == (pages[0] if pages else None)
        assert set(chunk.heading_path) <= names


@each_chunker
@some_examples
@given(case=cases)
def test_chunks_of_any_document_are_as_promised(name: str, case: Case) -> None:
    """One test for all promises: making documents takes most of its time."""
    chunks = chunks_of(name, case)
    spans_are_those_of_the_document(case, chunks)
    every_character_that_is_not_blank_is_in_a_chunk(case, chunks)
    page_and_headings_are_those_at_the_start_of_the_chunk(case, chunks)
    # What is sent is never larger than the embedder takes.
    count = COUNTERS[case.counter]
    size = options_of(name, case.small).get("size_tokens", MAX_TOKENS)
    for chunk in chunks:
        assert count(chunk.embedded_text) + OVERHEAD <= room_of(name, case.small)
        assert count(chunk.text) <= size
    assert chunks == chunks_of(name, case), "the same document gives the same chunks"
    assert len({chunk.id for chunk in chunks}) == len(chunks)


@each_chunker
@pytest.mark.parametrize("blank", ["", " ", "\n", "\n \t\n\u3000\n", " " * 5000, "\n" * 5000])
def test_a_document_of_blanks_gives_no_chunk(name: str, blank: str) -> None:
    pages = (Page(1, 0, len(blank)), Page(2, len(blank), len(blank)))
    document = Document("document", "notes.pdf", blank, "Notes", "pdf", pages=pages)
    assert build(name, "words", small=False).chunk(document) == ()


HARD_TEXTS = {
    "8,000 Han characters without a space": "知识库检索增强生成向量" * 727 + "三个字",
    "a word of 2,000 characters": "x" * 2000,
    "the same sentence 4,000 times": "The window resets after 60 seconds. " * 4000,
    "one emoji of more tokens than the cap": "👩🏽‍❤️‍💋‍👨🏾" * 40,
    "an emoji sequence without end": "👩\u200d" * 2000,
    "one letter with 3,000 accents": "e" + "\u0301" * 3000,
    "nothing but signs": "!?.,;:" * 1000,
    "one word on each of 3,000 lines": "line\n" * 3000,
    "words far apart": ("a" + " " * 900 + "b" + "\n" * 900) * 20,
    "special tokens as plain text": "<|endoftext|>" * 500,
    "control characters": "a\u0001b\u001fc\u007f" * 500,
}


@each_chunker
@pytest.mark.parametrize("counter", sorted(COUNTERS))
@pytest.mark.parametrize("small", [False, True], ids=["large", "small"])
@pytest.mark.parametrize("text", HARD_TEXTS.values(), ids=HARD_TEXTS)
def test_a_hard_text_is_cut_to_its_end(name: str, text: str, small: bool, counter: str) -> None:
    document = document_of(text)
    chunks = chunks_of(name, Case(document, counter, small))
    covered = [False] * len(text)
    for chunk in chunks:
        assert document.text[chunk.start : chunk.end] == chunk.text
        assert COUNTERS[counter](chunk.embedded_text) + OVERHEAD <= room_of(name, small)
        covered[chunk.start : chunk.end] = [True] * len(chunk.text)
    assert all(done or character.isspace() for done, character in zip(covered, text, strict=True))
    starts = [chunk.start for chunk in chunks]
    assert starts == sorted(set(starts))


@each_chunker
def test_the_fingerprint_changes_with_the_options(name: str) -> None:
    assert build(name, "words", small=False).fingerprint == build(name, "words", small=False).fingerprint
    differ = options_of(name, small=False) != options_of(name, small=True)
    assert (build(name, "words", small=False).fingerprint != build(name, "words", small=True).fingerprint) is differ


def test_the_suite_has_a_chunker_to_run_over() -> None:
    assert "recursive" in NAMES
