"""Markers found, filtered while streaming, and resolved to quotes that are really there."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kb.answers import Citation
from kb.citations import MarkerFilter, find_markers, resolve
from kb.records import Chunk, Hit

N_HITS = 3


def filtered(text: str, n_hits: int = N_HITS) -> tuple[str, tuple[int, ...]]:
    marker_filter = MarkerFilter(n_hits)
    whole = marker_filter.feed(text) + marker_filter.finish()
    assert "".join(marker_filter.passed) == whole
    return whole, marker_filter.removed


def hit(text: str, number: int = 1, start: int = 0, page: int | None = None, headings: tuple[str, ...] = ()) -> Hit:
    chunk = Chunk(f"c{number}", f"d{number}", text, start, start + len(text), page, headings)
    return Hit(chunk, f"file{number}.md", 0.9, "dense", 0.9)


# ── markers ──


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("a [1][2] b", [(1,), (2,)]),
        ("a [1, 3-5].", [(1, 3, 4, 5)]),
        ("a【1】b［２、３］", [(1,), (2, 3)]),
        ("Tokyo[1] and 東京[2] and 30 days[3]. ERR_429[4]", [(1,), (2,), (3,), (4,)]),
        ("[2–4] [1；2] [ 1 ] [3-1] [1900-2024]", [(2, 3, 4), (1, 2), (1,), (3, 1), (1900, 2024)]),
        ("[1](see page 3)", [(1,)]),
        ("a ` b [1]\nc ` d", [(1,)]),
        ("text ``` [1]", [(1,)]),
        ("[x] [^1] [] [1.5] [a1] [-1] [1-] 1] [1", []),
    ],
)
def test_every_form_of_a_marker_is_found(text: str, numbers: list[tuple[int, ...]]) -> None:
    found = find_markers(text)
    assert [marker.numbers for marker in found] == numbers
    assert all(text[marker.start] in "[【［" and text[marker.end - 1] in "]】］" for marker in found)


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
        ("[1-9]", "[1][2][3]", (4, 5, 6, 7, 8, 9)),
        ("[9]\nnext", "\nnext", (9,)),
        ("[2024] was good", "… was good", (2024,)),
        ("[[9]1] [9]```\ncode", "[…1] …```\ncode", (9,)),
        ("`[99]` stays, array[99] too", "`[99]` stays, array[99] too", ()),
    ],
)
def test_markers_get_one_form_and_those_without_a_hit_go(text: str, expected: str, removed: tuple[int, ...]) -> None:
    assert filtered(text) == (expected, removed)


PIECES = st.sampled_from([
    "[", "]", "【", "】", "［", "］", "1", "2", "9", "１", ",", " ", "-", "–", "`", "``", "```", "~~~", "\n", "(", ")",
    "\t", "http://", "a", "array", "days", ".", "=", ":", "/", "[1]", "[9]", "[2, 9]", "【3】", "退款", "- ", "!", "$",
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


# ── citations ──

REFUNDS = hit("# Refunds\n\nRefunds are paid within 30 days. You need the receipt. Shipping is not refunded.", 1, 100)
TUIKUAN = hit("退款申请在七个工作日内处理。需要提供订单号。运费不退。", 2, 50, page=3, headings=("政策", "退款"))


def quotes(text: str, *hits: Hit) -> list[tuple[int, str]]:
    citations, _ = resolve(text, hits or (REFUNDS, TUIKUAN))
    return [(citation.number, citation.quote) for citation in citations]


def test_a_citation_carries_source_page_heading_offsets_and_a_verbatim_quote() -> None:
    citations, notes = resolve("运费不退[2]。", (REFUNDS, TUIKUAN))
    start = 50 + len("退款申请在七个工作日内处理。需要提供订单号。")
    assert citations == (Citation(2, "file2.md", 3, "政策 › 退款", start, start + 5, "运费不退。", "c2"),)
    assert notes == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A refund is paid in 30 days [1].", [(1, "Refunds are paid within 30 days.")]),
        (
            "Keep the receipt [1]! Shipping is not refunded [1].",
            [(1, "You need the receipt."), (1, "Shipping is not refunded.")],
        ),
        (
            "Shipping is not refunded[1], and 退款七个工作日内处理[2]。",
            [(1, "Shipping is not refunded."), (2, "退款申请在七个工作日内处理。")],
        ),
        (
            "You need the receipt. [1] Shipping costs stay. [1]",
            [(1, "You need the receipt."), (1, "Shipping is not refunded.")],
        ),
        ("According to [1], the receipt is needed.", [(1, "You need the receipt.")]),
        ("The receipt is needed [1]. Yes, the receipt [1].", [(1, "You need the receipt.")]),
        ("运费不退[2]，退款需要订单号[2]。", [(2, "需要提供订单号。"), (2, "运费不退。")]),
        (
            "Refunds paid within 30 days need the receipt [1].",
            [(1, "Refunds are paid within 30 days. You need the receipt.")],
        ),
        ("It says “Refunds are  paid within 30” [1].", [(1, "Refunds are paid within 30")]),
        ("Nothing is cited, array[1].", []),
    ],
)
def test_the_quote_is_what_supports_the_claim_before_the_marker(text: str, expected: list[tuple[int, str]]) -> None:
    assert quotes(text) == expected


def test_quotes_of_the_generator_win_and_are_ordered_by_number_and_place() -> None:
    first = REFUNDS.chunk.text.index("You need")
    given_quotes = [(2, 0, 14), (1, first, first + 21), (1, 11, 43), (1, 11, 43)]
    citations, notes = resolve("Both [2][1].", (REFUNDS, TUIKUAN), given_quotes)
    assert [(c.number, c.quote, c.start) for c in citations] == [
        (1, "Refunds are paid within 30 days.", 100 + 11),
        (1, "You need the receipt.", 100 + first),
        (2, "退款申请在七个工作日内处理。", 50),
    ]
    assert notes == ()


@pytest.mark.parametrize("quote", [(1, 0, 10_000), (1, 5, 5), (1, -1, 4), (9, 0, 4)])
def test_a_quote_outside_its_source_is_not_shown(quote: tuple[int, int, int]) -> None:
    citations, notes = resolve("Keep the receipt [1].", (REFUNDS,), [quote])
    assert [citation.quote for citation in citations] == ["You need the receipt."]
    assert "lies outside its source" in notes[0]


def test_the_page_is_that_of_the_quote() -> None:
    long = hit("On page three. " + "Filler words here. " * 20 + "The receipt is blue.", 1, 1_000, page=3)

    def page_of(document_id: str, offset: int) -> int | None:
        assert document_id == "d1"
        return 3 if offset < 1_100 else 4

    assert [c.page for c in resolve("The receipt is blue [1].", (long,), page_of=page_of)[0]] == [4]
    assert [c.page for c in resolve("The receipt is blue [1].", (long,), page_of=lambda *_: None)[0]] == [3]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Bananas are yellow and sweet [1].", "nothing in [1] was found to support: Bananas are yellow and sweet"),
        ("Refunds take 30 days [2].", "[2] is in another language"),
        ("He wrote “You need a blue receipt” [1].", "the quotation “You need a blue receipt” is not in [1]"),
        ("“Refunds are paid Shipping is not refunded” [1].", "is not in [1]"),
        ("“You need the receipt” [2].", "“You need the receipt” is not in [2]; it is in [1]"),
        ("规定「运费由我们承担」[2]。", "the quotation “运费由我们承担” is not in [2]"),
        ("Keep the receipt [1][7].", "cited [7], which is none of the sources"),
    ],
)
def test_what_cannot_be_confirmed_is_said(text: str, says: str) -> None:
    notes = resolve(text, (REFUNDS, TUIKUAN))[1]
    assert any(says in note for note in notes), notes


def test_a_claim_in_other_words_of_the_source_is_not_flagged() -> None:
    assert resolve("Money comes back within 30 days [1]; the receipt is necessary [1].", (REFUNDS,))[1] == ()


SENTENCES = st.sampled_from(
    ["Refunds are paid. ", "退款很快。", "\n\n", "The receipt is needed", "! ", "- x\n", "運費", "「引用」"]
)


@given(st.lists(SENTENCES, min_size=1, max_size=12).map("".join), ANSWERS, st.integers(0, 500))
def test_every_quote_stands_in_its_document_where_the_citation_says(chunk: str, answer: str, start: int) -> None:
    if not chunk.strip():
        chunk += "x"
    hits = tuple(hit(chunk, number, start) for number in range(1, N_HITS + 1))
    document = "#" * start + chunk
    citations, _ = resolve(answer, hits)
    assert all(document[citation.start : citation.end] == citation.quote for citation in citations)
    assert all(citation.quote.strip() for citation in citations)
    cited = {number for marker in find_markers(answer) for number in marker.numbers if 1 <= number <= N_HITS}
    assert {citation.number for citation in citations} == cited
    assert list(citations) == sorted(citations, key=lambda citation: (citation.number, citation.start))
