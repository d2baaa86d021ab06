"""Where a quote stands among a page's characters, whatever was mended between them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.loading._pdf_quotes import find_quote


def found(text: str, quote: str, drawn: str) -> str:
    """What the found characters are."""
    start = text.index(quote)
    return "".join(drawn[at] for at in find_quote(text, start, start + len(quote), drawn))


@pytest.mark.parametrize(
    ("text", "quote", "drawn", "expected"),
    [
        ("Parcels over two metres go by lorry.", "two metres", "Parcels over two\r\nmetres go by lorry.", "twometres"),
        ("An extraordinary parcel.", "extraordinary", "An extraor\x02dinary parcel.", "extraordinary"),
        ("An extraordinary parcel.", "extraordinary", "An extraor-\r\ndinary parcel.", "extraordinary"),
        ("state-of-the-art lifts", "of-the-art", "state-of-the\x02art lifts", "oftheart"),
        ("the first office", "first office", "the ﬁrst oﬃce", "ﬁrstoﬃce"),
        ("Café à Orléans", "Café à", "Cafe\u0301 a\u0300 Orle\u0301ans", "Cafea"),
        ("包裹超过两米时由卡车运送。", "两米时由卡车", "包裹超过两米\r\n时由卡车运送。", "两米时由卡车"),
        ("高さが二メートルを超える", "二メートル", "高さが二メ\r\nー\r\nトルを超える", "二メートル"),
        ("荷物はがっちり", "がっちり", "荷物はか\u3099っちり", "かっちり"),
        ("見る", "見る", "⾒る", "⾒る"),
        ("كلا نعم", "كلا", "كال نعم", "كال"),
    ],
)
def test_a_quote_is_found_whatever_mending_changed(text: str, quote: str, drawn: str, expected: str) -> None:
    assert found(text, quote, drawn) == expected


@pytest.mark.parametrize("sentence", ["Wait a day. ", "等一天。", "一日待ちます。"])
@pytest.mark.parametrize("nth", [0, 1, 2])
def test_of_equal_sentences_the_one_that_is_meant_is_found(sentence: str, nth: int) -> None:
    parts = ["first A ", "第二 B ", "三番目 C "]
    text = "".join(part + sentence for part in parts)
    drawn = text.replace(" ", "\n")
    start = text.index(parts[nth]) + len(parts[nth])
    places = find_quote(text, start, start + len(sentence), drawn)
    assert places[0] == start


def test_of_equal_sentences_without_any_difference_around_the_nearest_place_is_taken() -> None:
    text = "da " * 300
    start = 3 * 200
    assert find_quote(text, start, start + 2, text) == [start, start + 1]


def test_a_quote_around_a_header_that_was_taken_out_is_found_on_both_sides_of_it() -> None:
    text = "The lorry leaves at nine in the morning and comes back at noon."
    drawn = "The lorry leaves at nine in the Handbook, page 7 morning and comes back at noon."
    places = find_quote(text, 0, len(text), drawn)
    shown = "".join(drawn[at] for at in places)
    assert shown.startswith("Thelorryleavesatnine")
    assert shown.endswith("andcomesbackatnoon.")
    assert "7" not in shown


@pytest.mark.parametrize(
    "quote", ["a sentence that is on no such page at all", "没有这句话在这一页上", "この文はどこにもありません"]
)
def test_a_quote_that_is_not_drawn_is_not_found(quote: str) -> None:
    assert find_quote(quote, 0, len(quote), "Something else stands here. 这里是别的。別の文です。") == []


@pytest.mark.parametrize("quote", ["", " ", "\n\n", "-"])
def test_a_quote_without_letters_is_not_looked_for(quote: str) -> None:
    text = f"before {quote} after"
    assert find_quote(text, 7, 7 + len(quote), text) == []


def test_the_second_half_of_a_character_of_two_counts_as_none() -> None:
    assert find_quote("𠮷野家です", 0, 3, ["𠮷", "", "野", "家", "で", "す"]) == [0, 2, 3]


@given(st.text(max_size=60), st.integers(0, 60), st.integers(0, 60), st.text(max_size=80))
def test_whatever_is_asked_places_rise_and_are_on_the_page(text: str, one: int, other: int, drawn: str) -> None:
    start, end = sorted((min(one, len(text)), min(other, len(text))))
    places = find_quote(text, start, end, drawn)
    assert places == sorted(set(places))
    assert all(0 <= place < len(drawn) for place in places)


@given(st.text(max_size=60), st.integers(0, 60), st.integers(0, 60))
def test_a_quote_of_a_page_on_which_nothing_was_mended_is_found_itself(text: str, one: int, other: int) -> None:
    start, end = sorted((min(one, len(text)), min(other, len(text))))
    places = find_quote(text, start, end, text)
    everywhere = find_quote(text, 0, len(text), text)
    quoted = [place for place in everywhere if start <= place < end]
    assert [text[place] for place in places] == [text[place] for place in quoted]
