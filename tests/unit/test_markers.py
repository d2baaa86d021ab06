"""Markers found, and filtered while streaming."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kb.markers import MarkerFilter, find_markers

N_HITS = 3


def filtered(text: str, n_hits: int = N_HITS) -> tuple[str, tuple[int, ...]]:
    marker_filter = MarkerFilter(n_hits)
    whole = marker_filter.feed(text) + marker_filter.finish()
    assert "".join(marker_filter.passed) == whole
    return whole, marker_filter.removed


# ── markers ──


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("a [1][2] b", [(1,), (2,)]),
        ("a [1, 3-5].", [(1, 3, 4, 5)]),
        ("a【1】b［２、３］", [(1,), (2, 3)]),
        ("Tokyo[1] and 東京[2] and 30 days[3]. ERR_429[4]", [(1,), (2,), (3,), (4,)]),
        ("[2–4] [1；2] [ 1 ] [3-1] [190-224]", [(2, 3, 4), (1, 2), (1,), (3, 1), (190, 224)]),
        ("[1](see page 3)", [(1,)]),
        ("a ` b [1]\nc ` d", [(1,)]),
        ("text ``` [1]", [(1,)]),
        ("[x] [^a] [] [1.5] [a1] [-1] [1-] 1] [1", []),
    ],
)
def test_every_form_of_a_marker_is_found(text: str, numbers: list[tuple[int, ...]]) -> None:
    found = find_markers(text)
    assert [marker.numbers for marker in found] == numbers
    assert all(text[marker.start] in "[【［(（" and text[marker.end - 1] in "]】］)）" for marker in found)


@pytest.mark.parametrize(
    "text",
    [
        "array[2]",
        "use array[2] and list[1][2].",
        "x[0] + y[1]",
        "$rows[1]",
        "total[2] = 3",
        "days[1].count()",
        "`a[1]` and ``b ` [2]``",
        "```py\na [1]\n```",
        "~~~\n[1]\n~~",
        "- item\n  ```\n  [1]\n  ```",
        "```\n[1]\n``\n[2]\n````",
        "[1](https://example.com) and ![2](a.png) and [3](guide.md#top)",
    ],
)
def test_code_links_and_subscripts_are_left_alone(text: str) -> None:
    assert find_markers(text) == []
    assert filtered(text, n_hits=0) == (text, ())


@pytest.mark.parametrize(
    ("text", "expected", "removed"),
    [
        ("So [1, 3]. And【2】!", "So [1][3]. And [2]!", ()),
        ("退款【2】需要［１］天", "退款[2]需要[1]天", ()),
        ("Yes [99]. No [2][99]. [98] Ok", "Yes. No [2]. Ok", (99, 98)),
        ("Yes [99] and [0] more", "Yes and more", (99, 0)),
        ("so[9]b", "so b", (9,)),
        ("[9](source 2)", "…[2]", (9,)),
        ("[1-9]", "[1][2][3]", (4, 5, 6, 7, 8, 9)),
        ("[9]\nnext", "\nnext", (9,)),
        ("[224] was good", "… was good", (224,)),
        ("[2024] was good", "[2024] was good", ()),
        ("[[9]1] [9]```\ncode", "[…1] …```\ncode", (9,)),
        ("`[99]` stays, array[99] too", "`[99]` stays, array[99] too", ()),
    ],
)
def test_markers_get_one_form_and_those_without_a_hit_go(text: str, expected: str, removed: tuple[int, ...]) -> None:
    assert filtered(text) == (expected, removed)


PIECES = st.sampled_from([
    "[", "]", "【", "】", "［", "］", "1", "2", "9", "１", ",", " ", "-", "–", "`", "``", "```", "~~~", "\n", "(", ")",
    "\t", "http://", "a", "array", "days", ".", "=", ":", "/", "[1]", "[9]", "[2, 9]", "【3】", "退款", "- ", "!", "$",
    "source ", "sources", "see ", "参考", "资料", "（", "）", "^", "#", "†", " and ", "と", "一", "0", "p. ", "a.md",
    "range ",
    "[[", "]]", "(source 2)", "[^9]", "【1†x】", "[来源：9]", "[0, 1]", "[2024]", "{", "+",
])  # fmt: skip
ANSWERS = st.lists(PIECES, max_size=30).map("".join)


@given(ANSWERS | st.text(max_size=80), st.data())
@example("`" + "a [1] " * 60 + "`", None)
@example("[1](" + "a" * 400, None)
@example("[" + "1" * 60 + "]", None)
def test_a_stream_cut_anywhere_gives_the_same_text_as_the_whole(text: str, data: st.DataObject | None) -> None:
    whole = filtered(text)
    sizes = [1, 2, 3] if data is None else [1, data.draw(st.integers(2, 9))]
    for size in sizes:
        marker_filter = MarkerFilter(N_HITS)
        pieces = [marker_filter.feed(text[at : at + size]) for at in range(0, len(text), size)]
        assert ("".join([*pieces, marker_filter.finish()]), marker_filter.removed) == whole


@given(ANSWERS)
def test_a_stream_cut_once_at_every_position_gives_the_same_text(text: str) -> None:
    whole = filtered(text)
    for at in range(len(text) + 1):
        marker_filter = MarkerFilter(N_HITS)
        joined = marker_filter.feed(text[:at]) + marker_filter.feed(text[at:]) + marker_filter.finish()
        assert (joined, marker_filter.removed) == whole


@given(ANSWERS)
def test_what_has_passed_cites_the_same_hits_and_nothing_else(text: str) -> None:
    passed, removed = filtered(text)
    left = [number for marker in find_markers(passed) for number in marker.numbers]
    assert left == [number for marker in find_markers(text) for number in marker.numbers if 1 <= number <= N_HITS]
    assert all(not 1 <= number <= N_HITS for number in removed)


@given(st.lists(st.sampled_from(["plain text, ", "です。", "word ", "(x) ", "1.5 "]), max_size=20).map("".join))
def test_text_without_markers_passes_at_once(text: str) -> None:
    marker_filter = MarkerFilter(N_HITS)
    assert marker_filter.feed(text) == text.removesuffix(" ")  # one blank may precede a marker that is dropped
    assert marker_filter.feed("") + marker_filter.finish() == text[len(text.removesuffix(" ")) :]


def test_what_is_held_back_is_bounded() -> None:
    for opening in ("[1", "`", "[1](h", "a[1].", "```", "~~~\n", "~~~\n~", " " * 300, "- " * 100):
        marker_filter = MarkerFilter(N_HITS)
        given_back = marker_filter.feed(opening + "x" * 2_000)
        assert len(opening) + 2_000 - len(given_back) <= 400, opening


@pytest.mark.parametrize("unit", ["[", "`x ", "[1", "[1]", "`\n", "[1](a", "`a``", "array[1]", " [9]"])
def test_the_time_grows_with_the_length_and_not_with_its_square(unit: str) -> None:
    started = time.process_time()
    filtered(unit * (100_000 // len(unit)))
    assert time.process_time() - started < 10  # a square of this length would take hours
