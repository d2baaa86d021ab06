"""What every reranker promises. A new one is in this suite as soon as its file is in kb/rerank."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import pytest

from kb.records import Chunk, Hit, Step
from kb.settings import component_names
from tests.contracts._rerankers import SERVICES, Setup, setup_for

TEXTS = (
    "The reading room closes at six.",
    "Refunds are paid within 30 days.",
    "退款在三十天内支付。",
    "返金は三十日以内に行われます。",
    "Refunds are paid within 30 days.",
    "Requests per minute are limited.",
    "x",
)
QUESTIONS = ("When are refunds paid?", "退款什么时候支付？", "返金はいつ行われますか。", "?")


def hit(number: int, text: str) -> Hit:
    chunk = Chunk(f"c{number}", f"d{number}", text, 0, len(text), header="Rules")
    return Hit(chunk, f"{number}.md", 0.9 - number / 100, "fused", 0.5, 0.25, (Step("fused", number + 1, 0.9),))


HITS = tuple(hit(number, text) for number, text in enumerate(TEXTS))


@pytest.fixture(params=component_names("rerank"))
def named(request: pytest.FixtureRequest) -> Iterator[tuple[str, Setup]]:
    with setup_for(request.param) as setup:
        yield request.param, setup


@pytest.mark.parametrize("question", QUESTIONS)
def test_hits_come_back_best_first_with_nothing_but_their_scores_changed(
    named: tuple[str, Setup], question: str
) -> None:
    name, setup = named
    reranked = setup.build(name).rerank(question, HITS)
    assert reranked.notes == ()
    there = {found.chunk.id: found for found in HITS}
    ids = [found.chunk.id for found in reranked.hits]
    assert ids
    assert len(set(ids)) == len(ids)
    for found in reranked.hits:
        assert replace(found, score=0.0, scored_by="fused") == replace(there[found.chunk.id], score=0.0)
    if reranked.scale is None:
        assert reranked.hits == HITS[: len(ids)], "without scores of its own, retrieval's order stays"
    assert all(better.score >= worse.score for better, worse in pairwise(reranked.hits))
    assert len({found.scored_by for found in reranked.hits}) == 1


def test_no_hits_give_none_and_ask_nobody(named: tuple[str, Setup]) -> None:
    name, setup = named
    reranked = setup.build(name).rerank("When are refunds paid?", [])
    assert (reranked.hits, reranked.notes, reranked.scale, setup.requests) == ((), (), None, 0)


def test_one_hit_comes_back(named: tuple[str, Setup]) -> None:
    name, setup = named
    assert [found.chunk.id for found in setup.build(name).rerank("When are refunds paid?", HITS[:1]).hits] == ["c0"]


def test_the_same_hits_are_ranked_in_the_same_way_again(named: tuple[str, Setup]) -> None:
    name, setup = named
    reranker = setup.build(name)
    first = reranker.rerank(QUESTIONS[0], HITS)
    assert reranker.rerank(QUESTIONS[0], HITS) == first
    assert setup.build(name).rerank(QUESTIONS[0], HITS) == first


def test_equal_hits_keep_retrievals_order(named: tuple[str, Setup]) -> None:
    name, setup = named
    equal = [replace(hit(number, TEXTS[1]), score=0.5) for number in (5, 1, 4, 2, 3)]
    assert [found.chunk.id for found in setup.build(name).rerank(QUESTIONS[0], equal).hits] == [
        found.chunk.id for found in equal
    ]


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_that_fails_leaves_retrievals_order_with_one_note(name: str) -> None:
    with setup_for(name) as setup:
        reranker = setup.build(name)
        setup.fail()
        reranked = reranker.rerank(QUESTIONS[0], HITS)
    assert (reranked.hits, reranked.scale) == (HITS, None)
    assert len(reranked.notes) == 1
    assert "overloaded" in reranked.notes[0]
