"""Numbers of sources that last through a conversation, in whole answers and in streamed ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.answers import (
    Answer,
    AnswerReady,
    Citation,
    CitationFound,
    Claim,
    ClaimChecked,
    HitsFound,
    StreamEvent,
    TextPiece,
)
from kb.markers import MarkerFilter, find_markers
from kb.numbering import Numbering, numbered
from kb.records import Chunk, Hit, SearchResult


def hits(*ids: str) -> tuple[Hit, ...]:
    return tuple(Hit(Chunk(i, "doc", f"text of {i}", 0, 9), f"{i}.md", 1.0, "fused", 0.9) for i in ids)


def citation(number: int, chunk_id: str) -> Citation:
    return Citation(number, f"{chunk_id}.md", None, None, 0, 4, "text", chunk_id)


def answer(text: str, found: Sequence[Hit], **more: object) -> Answer:
    cited = {n for marker in find_markers(text) for n in marker.numbers}
    citations = tuple(citation(n, found[n - 1].chunk.id) for n in sorted(cited) if n <= len(found))
    whole = Answer("q", True, text, citations, tuple(found), 0.0, 0.9, "e", "g", 0.1)
    return replace(whole, **more)  # type: ignore[arg-type]


def events(pieces: Sequence[str], found: Sequence[Hit], *between: StreamEvent, **more: object) -> Iterator[StreamEvent]:
    yield HitsFound(SearchResult("q", tuple(found), (), 0.0, 0.9))
    yield from map(TextPiece, pieces)
    yield from between
    yield AnswerReady(answer("".join(pieces), found, **more))


def run(
    pieces: Sequence[str], found: Sequence[Hit], numbering: Numbering, *between: StreamEvent, **more: object
) -> tuple[str, Answer, list[StreamEvent]]:
    seen = list(numbered(events(pieces, found, *between, **more), numbering))
    assert isinstance(seen[-1], AnswerReady)
    return "".join(one.text for one in seen if isinstance(one, TextPiece)), seen[-1].answer, seen


def test_a_chunk_keeps_its_number_and_a_new_one_gets_the_next() -> None:
    numbering = Numbering()
    text, whole, _ = run(["So it is [2]. And so [1][2]."], hits("a", "b", "c"), numbering)
    assert text == whole.text == "So it is [1]. And so [2][1]."
    assert dict(numbering.known) == {"b": 1, "a": 2}, "in the order in which they are cited; c is not"
    text, whole, _ = run(["More [1], less [2]."], hits("c", "b"), numbering)
    assert text == whole.text == "More [3], less [1]."
    assert [(one.number, one.chunk_id) for one in whole.citations] == [(1, "b"), (3, "c")]


def test_a_copy_leaves_the_original_as_it_is() -> None:
    numbering = Numbering()
    numbering.of("a")
    numbering.copy().of("b")
    assert dict(numbering.known) == {"a": 1}


@pytest.mark.parametrize("text", ["`x[1]` and array[1]", "```\ny = days[1]\n```\nso", "see [1](https://example.org/a)"])
def test_what_is_no_marker_stays(text: str) -> None:
    numbering = Numbering({"old": 1, "older": 2})
    assert run([f"{text} then [1]."], hits("a"), numbering)[0] == f"{text} then [3]."


def test_claims_and_citations_move_with_the_text() -> None:
    numbering = Numbering({f"old {n}": n for n in range(1, 12)})
    text = "Leave is 26 days [1]. Refunds take a week [2]."
    first, second = "Leave is 26 days [1].", "Refunds take a week [2]."
    claims = tuple(
        Claim(
            words,
            text.index(words),
            text.index(words) + len(words),
            (n,),
            "supported",
            1.0,
            reasons=(f"90 is not in [{n}]",),
        )
        for n, words in ((1, first), (2, second))
    )
    evidence = replace(claims[1], evidence=(citation(2, "b"), citation(3, "c")))
    between = (CitationFound(citation(1, "a")), ClaimChecked(claims[0]), ClaimChecked(evidence))
    shown, whole, seen = run([text], hits("a", "b", "c"), numbering, *between, claims=(claims[0], evidence))
    assert shown == "Leave is 26 days [12]. Refunds take a week [13]."
    told = [one.claim for one in seen if isinstance(one, ClaimChecked)]
    assert told == list(whole.claims)
    assert [shown[claim.start : claim.end] for claim in told] == ["Leave is 26 days [12].", "Refunds take a week [13]."]
    assert [claim.numbers for claim in told] == [(12,), (13,)]
    assert [claim.reasons for claim in told] == [("90 is not in [12]",), ("90 is not in [13]",)]
    assert [one.number for one in told[1].evidence] == [13, 14]
    assert [one.citation.number for one in seen if isinstance(one, CitationFound)] == [12]


def test_notes_speak_of_the_same_numbers_and_name_what_has_none() -> None:
    notes = ("nothing in [1] was found", "it is in [2]", "the answer cited [9]")
    _, whole, _ = run(["So [1]."], hits("a", "b"), Numbering({"old": 1}), notes=notes)
    assert whole.notes == ("nothing in [2] was found", "it is in “b.md”", "the answer cited [9]")


def test_an_answer_that_is_none_passes_as_it_is() -> None:
    found = hits("a")
    declined = replace(answer("", found), answered=False, text="The documents do not say.")
    told: list[StreamEvent] = [TextPiece(declined.text), AnswerReady(declined)]
    assert list(numbered(told, Numbering())) == told


PARTS = st.sampled_from(
    [
        "[1]",
        "[2]",
        "[3]",
        "[1][2]",
        " word",
        "`x[1]`",
        "array[2]",
        "[",
        "]",
        "`",
        "\n",
        "```\n",
        " [1](a.md/b)",
        "。",
        "days",
    ]
)


@given(st.lists(PARTS, max_size=25).map("".join), st.lists(st.integers(0, 80), max_size=12))
def test_pieces_cut_anywhere_give_the_text_of_the_whole(raw: str, cuts: list[int]) -> None:
    marker_filter = MarkerFilter(3)
    places = sorted({0, len(raw), *(cut for cut in cuts if cut < len(raw))})
    fed = [marker_filter.feed(raw[a:b]) for a, b in pairwise(places)] + [marker_filter.finish()]
    found = hits("a", "b", "c")
    known = {f"old {n}": n for n in range(1, 10)}
    shown, whole, _ = run([piece for piece in fed if piece], found, Numbering(known))
    at_once = run(["".join(fed)], found, Numbering(known))[1]
    assert shown == whole.text == at_once.text
    local = [n for marker in find_markers("".join(fed)) for n in marker.numbers]
    order = list(dict.fromkeys(local))
    assert [n for marker in find_markers(shown) for n in marker.numbers] == [10 + order.index(n) for n in local]


@given(st.lists(PARTS, max_size=20).map("".join), st.integers(1, 5))
def test_a_marker_that_is_cut_is_put_together_again(raw: str, size: int) -> None:
    text = MarkerFilter(3).feed(raw) + " end [2]."
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    shown, _, _ = run(pieces, hits("a", "b", "c"), Numbering({"old": 1}))
    assert "".join(shown.split()).count("[") == "".join(text.split()).count("[")


@given(st.lists(st.tuples(st.sampled_from("abcdefg"), st.integers(-3, 10**12)), max_size=30), st.sets(st.text()))
def test_numbers_that_somebody_else_kept_stay_where_they_can_and_are_never_given_twice(
    kept: list[tuple[str, int]], more: set[str]
) -> None:
    numbering = Numbering.resumed(kept)
    known = dict(numbering.known)
    assert known.items() <= set(kept)
    numbers = [numbering.of(chunk_id) for chunk_id in {*"abcdefg", *more}]
    assert len(set(numbers)) == len(numbers)
    assert known.items() <= numbering.known.items()


def test_a_new_number_is_above_all_that_were_seen() -> None:
    numbering = Numbering.resumed([("a", 3), ("b", 3), ("a", 9), ("c", 7)])
    assert numbering.known == {"a": 3, "c": 7}
    assert [numbering.of(chunk_id) for chunk_id in "bca"] == [8, 7, 3]
    assert [Numbering.resumed([("a", 3)], highest=30).copy().of(chunk_id) for chunk_id in "ba"] == [31, 3]
