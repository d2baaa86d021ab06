"""Citations: quotes that are really there, and notes on what cannot be confirmed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.answers import Citation, Quote
from kb.citations import Checker
from kb.markers import find_markers
from kb.records import Chunk, Hit

N_HITS = 3


def hit(text: str, number: int = 1, start: int = 0, page: int | None = None, headings: tuple[str, ...] = ()) -> Hit:
    chunk = Chunk(f"c{number}", f"d{number}", text, start, start + len(text), page, headings)
    return Hit(chunk, f"file{number}.md", 0.9, "dense", 0.9)


def resolve(
    text: str, hits: Sequence[Hit], given_quotes: Iterable[tuple[int, int, int]] = ()
) -> tuple[list[Citation], list[str]]:
    """The citations of a whole answer, in the order of an Answer, and the notes."""
    checker = Checker(hits, lambda citation, _: citation)
    for quote in given_quotes:
        checker.quoted(Quote(*quote))
    checked = [*checker.feed(text), *checker.finish()]
    found = {citation for one in checked for citation in one.citations}
    return sorted(found, key=lambda c: (c.number, c.start, c.end)), checker.notes


REFUNDS = hit("# Refunds\n\nRefunds are paid within 30 days. You need the receipt. Shipping is not refunded.", 1, 100)
TUIKUAN = hit("退款申请在七个工作日内处理。需要提供订单号。运费不退。", 2, 50, page=3, headings=("政策", "退款"))


def quotes(text: str, *hits: Hit) -> list[tuple[int, str]]:
    citations, _ = resolve(text, hits or (REFUNDS, TUIKUAN))
    return [(citation.number, citation.quote) for citation in citations]


def test_a_citation_carries_source_page_heading_offsets_and_a_verbatim_quote() -> None:
    citations, notes = resolve("运费不退[2]。", (REFUNDS, TUIKUAN))
    start = 50 + len("退款申请在七个工作日内处理。需要提供订单号。")
    assert citations == [Citation(2, "file2.md", 3, "政策 › 退款", start, start + 5, "运费不退。", "c2")]
    assert notes == []


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
        ("运费不退[2]，需要提供订单号[2]。", [(2, "需要提供订单号。"), (2, "运费不退。")]),
        (
            "Refunds paid within 30 days need the receipt [1].",
            [(1, "Refunds are paid within 30 days."), (1, "You need the receipt.")],
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
    assert notes == []


@pytest.mark.parametrize("quote", [(1, 0, 10_000), (1, 5, 5), (1, -1, 4), (9, 0, 4)])
def test_a_quote_outside_its_source_is_not_shown(quote: tuple[int, int, int]) -> None:
    citations, notes = resolve("Keep the receipt [1].", (REFUNDS,), [quote])
    assert [citation.quote for citation in citations] == ["You need the receipt."]
    assert "lies outside its source" in notes[0]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Bananas are yellow and sweet [1].", "nothing in [1] was found to support: Bananas are yellow and sweet"),
        ("He wrote “You need a blue receipt” [1].", "the quotation “You need a blue receipt” is not in [1]"),
        ("“Refunds are paid Shipping is not refunded” [1].", "is not in [1]"),
        ("“You need the receipt” [2].", "“You need the receipt” is not in [2]; it is in [1]"),
        ("规定「运费由我们承担」[2]。", "the quotation “运费由我们承担” is not in [2]"),
    ],
)
def test_what_cannot_be_confirmed_is_said(text: str, says: str) -> None:
    notes = resolve(text, (REFUNDS, TUIKUAN))[1]
    assert any(says in note for note in notes), notes


def test_a_claim_in_another_language_is_not_called_unsupported_and_its_numbers_are_compared() -> None:
    checker = Checker((REFUNDS, TUIKUAN), lambda citation, _: citation)
    claims = [one.claim for one in [*checker.feed("Refunds take 30 days [2]. 退款很快[1]。"), *checker.finish()]]
    assert [claim.verdict for claim in claims if claim] == ["partly", "partly"]
    assert any("30 days" in reason for reason in (claims[0].reasons if claims[0] else ()))


def test_a_claim_in_other_words_of_the_source_is_not_flagged() -> None:
    assert resolve("Money comes back within 30 days [1]; the receipt is necessary [1].", (REFUNDS,))[1] == []


ANSWERS = st.lists(
    st.sampled_from(
        ["[1]", "[2][3]", "[9]", "Refunds are paid ", "退款很快", "。", ". ", "\n", "- ", "「引用」", "`[1]`"]
    ),
    max_size=15,
).map("".join)
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
    assert citations == sorted(citations, key=lambda citation: (citation.number, citation.start))
