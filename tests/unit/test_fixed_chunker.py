"""Windows of words: the guide's behaviour, the embedder's limit, and what a word is without spaces."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kb.chunking._spans import Budget
from kb.chunking.fixed import FixedChunker, Options, build
from kb.errors import ConfigError
from kb.records import Block, Chunk, Document, Heading, Page
from tests.contracts._counting import parts

_TOKEN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]{1,4}|[^\w\s]")
NOTE = "windows end early"


def tokens(text: str) -> int:
    """One for each begun four letters of a word, each sign, and each Han or kana character."""
    return len(_TOKEN.findall(text))


def chunker(
    size: int, overlap: int = 0, limit: int = 10_000, count: Callable[[str], int] = tokens, header: int = 0
) -> FixedChunker:
    options = Options(size_words=size, overlap_words=overlap, header_tokens=header)
    return FixedChunker(options, Budget(count, limit, header, limit + header), "test", NOTE)


def document(text: str, **known: tuple[Heading, ...] | tuple[Page, ...] | tuple[Block, ...]) -> Document:
    return Document("d", "d.txt", text, "", "text", **known)  # type: ignore[arg-type]


def texts(chunks: Sequence[Chunk]) -> list[str]:
    return [chunk.text for chunk in chunks]


def numbered(number: int) -> str:
    return " ".join(f"w{at}" for at in range(number))


def windows(chunks: Sequence[Chunk]) -> list[tuple[int, int]]:
    """The first word of each chunk of `numbered`, and the one behind its last."""
    return [(int(text.split()[0][1:]), int(text.split()[-1][1:]) + 1) for text in texts(chunks)]


def test_windows_of_words_overlap_as_in_the_guide() -> None:
    assert texts(chunker(5, 2).chunk(document("a b c d e f g h i j k"))) == ["a b c d e", "d e f g h", "g h i j k"]


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (500, [(0, 500)]),
        (501, [(0, 500), (400, 501)]),
        (900, [(0, 500), (400, 900)]),
        (1000, [(0, 500), (400, 900), (800, 1000)]),
    ],
)
def test_the_defaults_are_500_words_and_an_overlap_of_100_and_no_tail_is_left_that_was_there_before(
    number: int, expected: list[tuple[int, int]]
) -> None:
    options = Options()
    chunks = chunker(options.size_words, options.overlap_words).chunk(document(numbered(number)))
    assert windows(chunks) == expected


def test_what_stands_in_the_text_makes_no_difference_but_is_kept_as_it_is() -> None:
    text = "# Limits\n\nSixty  a\tminute.\n\n| a | b |\n|---|---|\n\n```\nx = 1\n```"
    found = document(text, headings=(Heading(1, "Limits", 0, 8),), blocks=(Block("table", 26, 45),))
    chunks = chunker(6, 2).chunk(found)
    assert texts(chunks)[:2] == ["# Limits\n\nSixty  a\tminute.\n\n|", "minute.\n\n| a | b |"]
    assert all(chunk.heading_path == ("Limits",) for chunk in chunks)


def test_a_chunk_has_the_page_on_which_it_starts() -> None:
    pages = (Page(1, 0, 8), Page(2, 8, 8), Page(3, 8, 15))
    chunks = chunker(3).chunk(document("a b c d e f g h", pages=pages))
    assert [(chunk.text, chunk.page) for chunk in chunks] == [("a b c", 1), ("d e f", 1), ("g h", 3)]


# The embedder's limit


def test_a_window_ends_before_the_limit_and_the_report_says_so() -> None:
    chunks, notes = chunker(500, 0, limit=30).chunk_with_notes(document("abcd " * 100))
    assert [len(text.split()) for text in texts(chunks)] == [30, 30, 30, 10]
    assert notes == (NOTE,)


def test_nothing_is_reported_when_every_window_has_its_size() -> None:
    assert chunker(20, 5, limit=20).chunk_with_notes(document("abcd " * 100))[1] == ()
    assert chunker(20, 5, limit=20).chunk_with_notes(document(""))[1] == ()


def test_a_window_that_ended_early_hands_on_the_same_share_of_its_words() -> None:
    chunks = chunker(100, 20, limit=100).chunk(document(numbered(150)))  # w0 … w149 have one token each
    assert windows(chunks) == [(0, 100), (80, 150)]
    chunks = chunker(100, 20, limit=50).chunk(document(numbered(130)))
    assert windows(chunks) == [(0, 50), (40, 90), (80, 130)]


def test_only_a_word_that_alone_passes_the_limit_is_cut() -> None:
    long = "x" * 100  # 25 tokens
    chunks, notes = chunker(8, 2, limit=10).chunk_with_notes(document(f"one two {long} three {'y' * 36} four five"))
    first, *parts_of_long, three, four, last = texts(chunks)
    assert [first, three, four, last] == ["one two", "three", "y" * 36 + " four", "five"]
    assert "".join(parts_of_long) == long
    assert max(map(tokens, parts_of_long)) <= 10
    assert notes == (NOTE,)


def test_a_window_repeats_less_rather_than_hold_nothing_new() -> None:
    text = "a b c d " + "e" * 16 + " " + "f" * 16 + " " + "g" * 12 + " h"  # 1 1 1 1 4 4 3 1 tokens
    chunks = chunker(6, 3, limit=8).chunk(document(text))
    assert texts(chunks) == ["a b c d " + "e" * 16, "e" * 16 + " " + "f" * 16, "f" * 16 + " " + "g" * 12 + " h"]


def test_the_limit_is_that_of_the_embedder_less_its_own_and_the_header() -> None:
    lent = parts("words", max_tokens=103)  # of which 3 are its own
    text = document("word " * 300)
    chunks, notes = build(Options(header_tokens=20), lent).chunk_with_notes(text)
    assert len(chunks[0].text.split()) == 80
    assert notes == (
        "some chunks end before size_words = 500: counting takes no more than 80 tokens beside the header (20)",
    )
    assert len(build(Options(header_tokens=0), lent).chunk(text)[0].text.split()) == 100


def test_an_embedder_that_counts_by_words_gives_the_same_windows() -> None:
    text = document("alpha beta-gamma 知识库检索，文档 delta.\n" * 50)
    by_words = Budget(tokens, 40, 0, 40, lambda words: [tokens(word) for word in words])
    options = Options(size_words=100, overlap_words=20, header_tokens=0)
    assert FixedChunker(options, by_words, "test", NOTE).chunk(text) == chunker(100, 20, limit=40).chunk(text)


def test_the_fingerprint_knows_the_limit_which_shapes_the_windows() -> None:
    options = Options(header_tokens=0)
    budgets = [Budget(tokens, limit, 0, limit) for limit in (100, 200)]
    assert len({FixedChunker(options, budget, "same", NOTE).fingerprint for budget in budgets}) == 2


# Text without spaces


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("知识库检索增强生成", ["知识库检索增", "索增强生成"]),
        ("超过上限，请求会被拒绝。请稍后再试。", ["超过上限，请求", "请求会被拒绝。", "拒绝。请稍后再", "后再试。"]),
        ("トークンの有効期限は三十日です。", ["トークンの有", "の有効期限は", "限は三十日で", "日です。"]),
        ("用 kb.query 检索文档时", ["用 kb.query 检索", "检索文档时"]),
        ("설정 파일을 다시 읽습니다", ["설정 파일을 다시", "다시 읽습니다"]),
    ],
    ids=["Chinese", "Chinese with signs", "Japanese", "mixed", "Korean, which has spaces"],
)
def test_two_characters_count_as_a_word_where_there_are_no_spaces(text: str, expected: list[str]) -> None:
    assert texts(chunker(3, 1).chunk(document(text))) == expected


def test_no_window_begins_with_a_sign_that_closes_what_stands_before() -> None:
    text = "知识库。检索，增强！生成、" * 40
    assert all(chunk.text[0] not in "。，！、" for chunk in chunker(7, 2).chunk(document(text)))


@pytest.mark.parametrize("word", ["word ", "知识", "パス"])
def test_a_window_of_500_words_is_as_many_pairs_of_characters(word: str) -> None:
    chunks = chunker(500, 100).chunk(document(word * 1300))
    assert [len(chunk.text) // len(word.strip()) >= 500 for chunk in chunks] == [True, True, True]
    assert [text.count(word.strip()) for text in texts(chunks)] == [500, 500, 500]


# Settings and cost


@pytest.mark.parametrize(("size", "overlap"), [(10, 10), (10, 12), (10, 6), (1, 1)])
def test_an_overlap_that_would_repeat_most_of_a_window_is_refused(size: int, overlap: int) -> None:
    with pytest.raises(
        ConfigError, match=rf"\[chunking.fixed\] overlap_words = {overlap}; allowed: at most {size // 2}"
    ):
        build(Options(size_words=size, overlap_words=overlap), parts("words"))


def test_a_header_that_leaves_no_room_for_text_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"header_tokens = 500 leaves too little.*lower header_tokens to 493 or less"):
        build(Options(header_tokens=500), parts("words", 512))


HARD = ["wx " * 30_000, "知识" * 30_000, "x" * 60_000, ("y" * 3000 + " ") * 20, "a " * 5000 + "ab.c/" * 8000]


@pytest.mark.parametrize("text", HARD, ids=["words", "Han", "one word", "long words", "both"])
def test_each_character_is_counted_a_few_times_however_long_the_text(text: str) -> None:
    counted = 0

    def count(piece: str) -> int:
        nonlocal counted
        counted += len(piece)
        return tokens(piece)

    def cost(part: str) -> float:
        nonlocal counted
        counted = 0
        chunker(500, 100, limit=443, count=count).chunk(document(part))
        return counted / len(part)

    assert cost(text) <= 12
    assert cost(text) <= 1.2 * cost(text[: len(text) // 4])


word = st.text("ab", min_size=1, max_size=9) | st.text("知识のパ、。", min_size=1, max_size=9) | st.just("z" * 90)
prose = st.lists(st.tuples(word, st.sampled_from([" ", "\n\n", "  ", ""])), max_size=80).map(
    lambda pairs: "".join(part for pair in pairs for part in pair)
)


@settings(max_examples=100)
@given(text=prose, size=st.integers(1, 12), share=st.integers(2, 6), limit=st.integers(4, 40))
def test_windows_are_whole_words_full_and_each_holds_something_new(
    text: str, size: int, share: int, limit: int
) -> None:
    units = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]{1,2}[^\w\s]*|[^\s\u3040-\u30ff\u3400-\u9fff]+")
    found = [match.span() for match in units.finditer(text)]
    chunks = chunker(size, size // share, limit).chunk(document(text))
    giants = [span for span in found if tokens(text[slice(*span)]) > limit]
    starts, ends = [start for start, _ in found], [end for _, end in found]
    for chunk in chunks:
        if any(start <= chunk.start and chunk.end <= end for start, end in giants):
            continue
        first, last = starts.index(chunk.start), ends.index(chunk.end)
        assert last - first < size
        assert tokens(chunk.text) <= limit
        more = text[chunk.start : ends[last + 1]] if last + 1 < len(ends) else None
        assert last - first + 1 == size or more is None or tokens(more) > limit
    for before, after in pairwise(chunks):
        assert before.start < after.start
        assert before.end < after.end
        assert text[before.end : after.start].strip() == ""
