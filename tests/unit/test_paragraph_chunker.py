"""Paragraphs joined and cut as in the guide, in every script, and within the embedder's limit."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kb.chunking._spans import Budget
from kb.chunking.paragraph import Options, ParagraphChunker, build
from kb.errors import ConfigError
from kb.records import Block, Chunk, Document, Heading, Page
from tests.contracts._counting import parts

NOTE = "chunks end early"


def chunker(
    size: int, overlap: int = 0, limit: int = 100_000, count: Callable[[str], int] = len, header: int = 0
) -> ParagraphChunker:
    options = Options(size_characters=size, overlap_characters=overlap, header_tokens=header)
    return ParagraphChunker(options, Budget(count, limit, header, limit + header), "test", NOTE)


def document(text: str, pages: tuple[Page, ...] = (), blocks: tuple[Block, ...] = ()) -> Document:
    """A document whose headings are its `#` lines."""
    found = re.finditer(r"^(#+) (.+)$", text, re.M)
    headings = tuple(Heading(len(match[1]), match[2], *match.span()) for match in found)
    return Document("d", "d.md", text, "", "markdown", headings=headings, pages=pages, blocks=blocks)


def texts(chunks: Sequence[Chunk]) -> list[str]:
    return [chunk.text for chunk in chunks]


def words(number: int, letters: int = 4) -> str:
    """A paragraph of words of so many letters; with the spaces between them `number * (letters + 1) - 1` characters."""
    return " ".join(["w" * letters] * number)


def test_short_paragraphs_are_joined_up_to_the_size_as_in_the_guide() -> None:
    text = "one one\n\ntwo\n\nthree three\n\nfour\n\nfive five five"
    assert texts(chunker(20).chunk(document(text))) == ["one one\n\ntwo", "three three\n\nfour", "five five five"]
    assert texts(chunker(14).chunk(document(text))) == ["one one\n\ntwo", "three three", "four", "five five five"]


def test_a_long_paragraph_is_cut_by_a_sliding_window_and_what_was_joined_before_ends_there() -> None:
    text = "short\n\n" + "aaa bbb ccc ddd eee fff ggg" + "\n\nlast"
    assert texts(chunker(15, 4).chunk(document(text))) == [
        "short",
        "aaa bbb ccc ddd",
        "ddd eee fff ggg",
        "last",
    ]


def test_the_defaults_are_500_characters_and_an_overlap_of_50() -> None:
    options = Options()
    chunks = chunker(options.size_characters, options.overlap_characters).chunk(document(words(200)))
    # 100 words are 499 characters; the last 499 × 50 ÷ 500 = 49 characters are ten words.
    assert [(chunk.start, chunk.end) for chunk in chunks] == [(0, 499), (450, 949), (900, 999)]


def test_a_paragraph_of_exactly_the_size_is_whole_and_no_tail_is_left_that_was_there_before() -> None:
    assert len(chunker(499, 50).chunk(document(words(100)))) == 1
    assert [chunk.end for chunk in chunker(499, 50).chunk(document(words(190)))] == [499, 949]


def test_lines_with_only_blanks_part_paragraphs_and_plain_line_breaks_do_not() -> None:
    text = "one\nstill one\n \t\ntwo\n\u3000\n\n\nthree three"
    assert texts(chunker(13).chunk(document(text))) == ["one\nstill one", "two", "three three"]


def test_a_heading_stays_with_the_paragraph_below_it() -> None:
    text = "first first\n\n# Limits\n\n## Requests\n\nSixty a minute.\n\nlast"
    chunks = chunker(40).chunk(document(text))
    assert texts(chunks) == ["first first", "# Limits\n\n## Requests\n\nSixty a minute.", "last"]
    assert chunks[1].heading_path == ("Limits", "Requests")
    long = chunker(20).chunk(document("# Limits\n\n" + words(6)))
    assert texts(long) == ["# Limits\n\nwwww wwww", "wwww wwww wwww wwww"]
    assert texts(chunker(20).chunk(document("one\n\n# Last"))) == ["one\n\n# Last"]


def test_code_and_tables_are_paragraphs_like_others() -> None:
    text = "Set it:\n\n```\na = 1\n\nb = 2\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |"
    blocks = (Block("code", 9, 30), Block("table", 32, len(text)))
    assert texts(chunker(20).chunk(document(text, blocks=blocks))) == [
        "Set it:\n\n```\na = 1",
        "b = 2\n```",
        "| a | b |\n|---|---|",
        "| 1 | 2 |",
    ]


def test_a_chunk_has_the_page_on_which_it_starts() -> None:
    text = "first\n\nsecond\n\nthird"
    pages = (Page(1, 0, 7), Page(2, 7, 7), Page(3, 7, len(text)))
    assert [chunk.page for chunk in chunker(13).chunk(document(text, pages=pages))] == [1, 3]
    assert [chunk.page for chunk in chunker(8).chunk(document(text, pages=pages))] == [1, 3, 3]


# Scripts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "超过上限的请求会被拒绝。\n\n请稍后再试。\n\n等待时间写在响应里，单位是秒。",
            ["超过上限的请求会被拒", "被拒绝。", "请稍后再试。", "等待时间写在响应里，", "里，单位是秒。"],
        ),
        (
            "トークンの期限は三十日です。\n\n更新する。",
            ["トークンの期限は三十", "三十日です。", "更新する。"],
        ),
        ("用 kb.query 查。\n\nはい", ["用 kb.query", "查。", "はい"]),
    ],
    ids=["Chinese", "Japanese", "mixed"],
)
def test_sizes_are_characters_in_every_script(text: str, expected: list[str]) -> None:
    assert texts(chunker(10, 2).chunk(document(text))) == expected


def test_a_window_begins_and_ends_between_words() -> None:
    text = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda"
    for chunk in chunker(18, 9).chunk(document(text)):
        assert set(chunk.text.split()) <= set(text.split())


def test_a_word_longer_than_a_chunk_is_cut_by_characters() -> None:
    assert texts(chunker(10, 3).chunk(document("one " + "x" * 25 + " two"))) == [
        "one",
        "x" * 10,
        "x" * 10,
        "x" * 5,
        "two",
    ]


# The embedder's limit


def thirds(text: str) -> int:
    """Three tokens for each Han or kana character, as where bytes are counted, and one for each other."""
    return len(text.encode())


def test_a_chunk_ends_before_the_limit_and_the_report_says_so() -> None:
    text = "知识库检索增强生成" * 4 + "\n\n短\n\n短短"
    chunks, notes = chunker(20, 4, limit=30, count=thirds).chunk_with_notes(document(text))
    assert max(thirds(chunk.text) for chunk in chunks) <= 30
    assert notes == (NOTE,)
    joined, notes = chunker(20, 4, limit=12, count=thirds).chunk_with_notes(document("短短\n\n短短"))
    assert (texts(joined), notes) == (["短短", "短短"], (NOTE,))
    assert chunker(20, 4, limit=60, count=thirds).chunk_with_notes(document(text))[1] == ()


def test_a_word_of_more_tokens_than_the_limit_is_cut_though_it_has_few_characters() -> None:
    chunks = chunker(20, 4, limit=16, count=thirds).chunk(document("👍" * 10))
    assert [len(chunk.text) for chunk in chunks] == [4, 4, 2]


def test_the_limit_is_that_of_the_embedder_less_its_own_and_the_header() -> None:
    lent = parts("utf8_thirds", max_tokens=103)  # of which 3 are its own
    chunks, notes = build(Options(header_tokens=20), lent).chunk_with_notes(document("ab " * 200))
    assert len(chunks[0].text) == 239  # 80 tokens of three bytes
    assert notes == (
        "some chunks end before size_characters = 500: counting takes no more than 80 tokens beside the header (20)",
    )


def test_the_fingerprint_knows_the_limit_which_shapes_the_chunks() -> None:
    budgets = [Budget(len, limit, 0, limit) for limit in (100, 200)]
    assert len({ParagraphChunker(Options(), budget, "same", NOTE).fingerprint for budget in budgets}) == 2


# Settings and cost


@pytest.mark.parametrize(("size", "overlap"), [(100, 100), (100, 120), (100, 51), (1, 1)])
def test_an_overlap_that_would_repeat_most_of_a_window_is_refused(size: int, overlap: int) -> None:
    said = rf"\[chunking.paragraph\] overlap_characters = {overlap}; allowed: at most {size // 2}"
    with pytest.raises(ConfigError, match=said):
        build(Options(size_characters=size, overlap_characters=overlap), parts("words"))


def test_a_header_that_leaves_no_room_for_text_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"header_tokens = 500 leaves too little.*lower header_tokens to 493 or less"):
        build(Options(header_tokens=500), parts("words", 512))


HARD = ["a\n\n" * 20_000, words(12_000), "知识" * 30_000, "x" * 60_000, "# h\n\n" * 12_000]


@pytest.mark.parametrize("text", HARD, ids=["tiny paragraphs", "one paragraph", "Han", "one word", "only headings"])
def test_each_character_is_counted_a_few_times_however_long_the_text(text: str) -> None:
    counted = 0

    def count(piece: str) -> int:
        nonlocal counted
        counted += len(piece)
        return len(piece)

    def cost(part: str) -> float:
        nonlocal counted
        counted = 0
        chunker(500, 50, limit=443, count=count).chunk(document(part))
        return counted / len(part)

    assert cost(text) <= 12
    assert cost(text) <= 1.2 * cost(text[: len(text) // 4])


word = st.text("ab", min_size=1, max_size=9) | st.text("知识のパ、。", min_size=1, max_size=9) | st.just("z" * 70)
prose = st.lists(st.tuples(word, st.sampled_from([" ", "\n", "\n\n", "\n \n"])), max_size=60).map(
    lambda pairs: "".join(part for pair in pairs for part in pair)
)


@settings(max_examples=100)
@given(text=prose, size=st.integers(2, 60), share=st.integers(2, 6), limit=st.integers(6, 120))
def test_chunks_fit_and_are_joined_paragraphs_or_parts_of_one(text: str, size: int, share: int, limit: int) -> None:
    chunks, notes = chunker(size, size // share, limit, thirds).chunk_with_notes(document(text))
    paragraphs = [match.span() for match in re.finditer(r"\S(?:(?!\n\s*\n).)*(?<=\S)", text, re.S)]
    starts, ends = {start for start, _ in paragraphs}, {end for _, end in paragraphs}
    for chunk in chunks:
        assert len(chunk.text) <= size
        assert thirds(chunk.text) <= limit
        whole = chunk.start in starts and chunk.end in ends
        assert whole or any(start <= chunk.start and chunk.end <= end for start, end in paragraphs)
    for before, after in pairwise(chunks):
        assert before.start < after.start
        assert before.end < after.end
        assert text[before.end : after.start].strip() == ""
        overlap = before.end - after.start
        assert overlap <= size // share
        if {before.start, after.start} <= starts and {before.end, after.end} <= ends:  # whole ones, not joined
            assert after.end - before.start > size or notes == (NOTE,)
