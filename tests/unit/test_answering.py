"""Hits → answer: what is shown while it is written, what is checked, and what becomes of claims without support."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.answering import Answerer
from kb.answers import (
    Answer,
    AnswerReady,
    CitationFound,
    Claim,
    ClaimChecked,
    Generated,
    HitsFound,
    Quote,
    StreamEvent,
    TextPiece,
)
from kb.prompts import not_found_text
from kb.records import Chunk, Hit, SearchResult
from kb.settings import OnUnsupported

TEXTS = (
    "Refunds are paid within 30 days. You need the receipt. Shipping is not refunded.",
    "退款申请在七个工作日内处理。需要提供订单号。运费不退。",
    "返金は三十日以内に行われます。領収書が必要です。",
)
SUPPORTED = (
    "Refunds are paid within 30 days. [1]",
    "You need the receipt [1].",
    "退款申请在七个工作日内处理。[2]",
    "領収書が必要です。[3]",
)
UNSUPPORTED = (
    "Bananas grow on Jupiter in winter. [1]",
    "火星上的香蕉非常好吃。[2]",
    "木星のバナナはとても甘いです。[3]",
)


def hit(number: int, text: str) -> Hit:
    chunk = Chunk(f"c{number}", f"d{number}", text, 10, 10 + len(text), heading_path=("Policy",))
    return Hit(chunk, f"{number}.md", 0.9, "fused", 0.8)


HITS = tuple(hit(number, text) for number, text in enumerate(TEXTS, start=1))
RESULT = SearchResult("When are refunds paid?", HITS, (), 0.3, 0.8)


@dataclass
class Scripted:
    """A generator that says what it is told, in pieces of a size; a second time what `again` says."""

    text: str
    size: int = 5
    answered: bool = True
    name: str = "scripted"

    def generate(self, question: str, hits: Sequence[Hit]) -> Generated:
        return Generated(self.text, self.answered)

    def stream(self, question: str, hits: Sequence[Hit]) -> Generator[str | Quote, None, Generated]:
        for at in range(0, len(self.text), self.size):
            yield self.text[at : at + self.size]
        return self.generate(question, hits)


@dataclass
class Revising(Scripted):
    again: str = ""
    asked: list[str] = field(default_factory=list)

    def revise(
        self, question: str, hits: Sequence[Hit], text: str, unsupported: Sequence[Claim]
    ) -> Generator[str | Quote, None, Generated]:
        self.asked += [claim.text for claim in unsupported]
        return Scripted(self.again, self.size).stream(question, hits)


def events(generator: Scripted, on_unsupported: OnUnsupported = "flag") -> list[StreamEvent]:
    answerer = Answerer(generator, lambda _: None, "e5", 5, on_unsupported=on_unsupported)
    return list(answerer.stream(RESULT, 0.0))


def answered(generator: Scripted, on_unsupported: OnUnsupported = "flag") -> tuple[Answer, str]:
    """The answer, and the text that was shown before it."""
    found = events(generator, on_unsupported)
    assert isinstance(found[0], HitsFound)
    assert isinstance(found[-1], AnswerReady)
    answer = found[-1].answer
    shown = [event.text for event in found if isinstance(event, TextPiece)]
    citations = {event.citation for event in found if isinstance(event, CitationFound)}
    claims = [event.claim for event in found if isinstance(event, ClaimChecked)]
    assert citations == set(answer.citations)
    assert claims == list(answer.claims)
    return answer, "".join(shown)


def test_text_flows_at_once_and_verdicts_follow_when_their_sentence_is_over() -> None:
    found = events(Scripted(" ".join(SUPPORTED[:2]), size=200))
    kinds = [type(event).__name__ for event in found]
    assert kinds == [
        "HitsFound", "TextPiece", "CitationFound", "ClaimChecked", "CitationFound", "ClaimChecked", "AnswerReady"
    ]  # fmt: skip
    by_letters = events(Scripted(" ".join(SUPPORTED[:2]), size=1))
    first_verdict = next(at for at, event in enumerate(by_letters) if isinstance(event, ClaimChecked))
    last_text = max(at for at, event in enumerate(by_letters) if isinstance(event, TextPiece))
    assert first_verdict < last_text


def test_each_claim_has_its_place_its_verdict_and_its_evidence() -> None:
    answer, shown = answered(Scripted(f"{SUPPORTED[0]} {UNSUPPORTED[0]} {SUPPORTED[2]}"))
    assert shown == answer.text
    assert [claim.verdict for claim in answer.claims] == ["supported", "unsupported", "supported"]
    assert answer.support == 2 / 3
    for claim in answer.claims:
        assert claim.text.split()[0] in answer.text[claim.start : claim.end]
        assert all(evidence.number in claim.numbers for evidence in claim.evidence)
    assert answer.claims[0].evidence[0].quote == "Refunds are paid within 30 days."
    assert (answer.claims[0].evidence[0].start, answer.claims[0].evidence[0].heading) == (10, "Policy")
    assert any("Bananas grow on Jupiter" in note for note in answer.notes)


@pytest.mark.parametrize(
    ("text", "verdicts"),
    [
        ("You need the receipt. Refunds are paid within 30 days. [1]", ["supported", "supported"]),
        ("Refunds are paid within 30 days. [1]\n\nYou need the receipt.", ["supported", "partly"]),
        ("Refunds are paid within 30 days. [1]\n\nBananas grow on Jupiter in winter.", ["supported", "unsupported"]),
        ("Yes. [1] You need the receipt. [1]", ["partly", "supported"]),
    ],
)
def test_what_cites_nothing_is_at_best_partly_supported_unless_the_next_citation_covers_it(
    text: str, verdicts: list[str]
) -> None:
    answer, _ = answered(Scripted(text))
    assert [claim.verdict for claim in answer.claims] == verdicts
    assert all(claim.reasons for claim in answer.claims if claim.verdict != "supported")


def test_without_support_a_sentence_can_be_left_out() -> None:
    text = f"The rules are these:\n- {SUPPORTED[0]}\n- {UNSUPPORTED[0]}\n- {SUPPORTED[1]}\n\n{UNSUPPORTED[1]}\n"
    answer, shown = answered(Scripted(text), "drop")
    assert shown == answer.text == f"The rules are these:\n- {SUPPORTED[0]}\n- {SUPPORTED[1]}"
    assert answer.support == 1
    assert [answer.text[claim.start : claim.end] for claim in answer.claims] == [
        f"- {SUPPORTED[0]}", f"- {SUPPORTED[1]}"
    ]  # fmt: skip
    assert "sentences left out, as nothing that they cite supports them: 2" in answer.notes


def test_an_answer_of_which_nothing_stays_is_none_and_shows_nothing_before() -> None:
    answer, shown = answered(Scripted(f"Here is what I know:\n{UNSUPPORTED[0]}"), "drop")
    assert not answer.answered
    assert shown == answer.text == not_found_text("en")
    assert (answer.citations, answer.claims, answer.hits) == ((), (), HITS)


@pytest.mark.parametrize("mode", ["flag", "drop", "regenerate"])
def test_with_support_all_modes_show_the_same(mode: OnUnsupported) -> None:
    text = "\n".join(SUPPORTED)
    answer, shown = answered(Revising(text, again="never asked"), mode)
    assert shown == answer.text == text
    assert answer.support == 1
    assert answer.notes == ()


def test_the_answer_is_written_again_once_and_the_first_is_never_shown() -> None:
    generator = Revising(f"{SUPPORTED[0]} {UNSUPPORTED[0]}", again=SUPPORTED[1])
    answer, shown = answered(generator, "regenerate")
    assert shown == answer.text == SUPPORTED[1]
    assert generator.asked == ["Bananas grow on Jupiter in winter."]
    assert "the answer was written again, as 1 of its claims had no support" in answer.notes


def test_what_is_still_not_supported_after_that_is_flagged() -> None:
    answer, shown = answered(Revising(UNSUPPORTED[0], again=f"{SUPPORTED[0]} {UNSUPPORTED[1]}"), "regenerate")
    assert shown == answer.text
    assert [claim.verdict for claim in answer.claims] == ["supported", "unsupported"]


@pytest.mark.parametrize("mode", ["flag", "drop", "regenerate"])
def test_a_refusal_is_no_claim(mode: OnUnsupported) -> None:
    answer, shown = answered(Scripted(not_found_text("zh"), answered=False), mode)
    assert not answer.answered
    assert shown == answer.text == not_found_text("zh")
    assert answer.claims == ()
    assert answer.citations == ()
    assert answer.support is None


SENTENCES = st.lists(
    st.sampled_from([*SUPPORTED, *UNSUPPORTED, "\n\n", "\n- ", "## Refunds\n", " ", "Note: "]), max_size=8
)


@given(SENTENCES.map("".join), st.integers(1, 30), st.sampled_from(["flag", "drop", "regenerate"]))
def test_a_stream_cut_anywhere_gives_the_same_answer(text: str, size: int, mode: OnUnsupported) -> None:
    whole, _ = answered(Revising(text, size=10_000, again=SUPPORTED[0]), mode)
    cut, shown = answered(Revising(text, size=size, again=SUPPORTED[0]), mode)
    assert shown == cut.text
    assert (cut.text, cut.claims, cut.citations, cut.notes, cut.answered) == (
        whole.text, whole.claims, whole.citations, whole.notes, whole.answered
    )  # fmt: skip
    for claim in cut.claims:
        assert cut.text[claim.start : claim.end].strip()
    if mode == "drop":
        assert all(claim.verdict != "unsupported" for claim in cut.claims)
