"""Reciprocal rank fusion, with its scores written as the formula."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.fusion import reciprocal_rank

RANKINGS = st.lists(st.lists(st.sampled_from("abcdefgh"), unique=True), max_size=4)


def test_a_score_is_the_sum_of_reciprocal_ranks() -> None:
    fused = dict(reciprocal_rank([["a", "b"], ["b", "c"]], k=10))
    assert fused == pytest.approx({"a": 1 / 11, "b": 1 / 12 + 1 / 11, "c": 1 / 12})


def test_what_both_found_comes_before_what_one_found_first() -> None:
    assert [item for item, _ in reciprocal_rank([["a", "b"], ["c", "b"]], k=10)] == ["b", "a", "c"]


def test_a_small_k_trusts_the_first_place_more() -> None:
    rankings = [["a", "x", "b"], ["c", "d", "b"]]
    assert reciprocal_rank(rankings, k=0.1)[0][0] == "a"
    assert reciprocal_rank(rankings, k=60)[0][0] == "b"


def test_nothing_gives_nothing() -> None:
    assert reciprocal_rank([], k=10) == []
    assert reciprocal_rank([[], []], k=10) == []


def test_one_ranking_keeps_its_order() -> None:
    assert [item for item, _ in reciprocal_rank([["c", "a", "b"]], k=10)] == ["c", "a", "b"]


def test_ties_keep_the_order_of_first_appearance() -> None:
    assert [item for item, _ in reciprocal_rank([["a", "b"], ["b", "a"]], k=10)] == ["a", "b"]
    assert [item for item, _ in reciprocal_rank([["b"], ["a"]], k=10)] == ["b", "a"]


def test_ties_are_exact_whatever_the_order_of_the_rankings() -> None:
    # With plain sums, 1/1.3 + 1/2.3 + 1/3.3 differs in its last bit from another order of the three.
    rankings = [["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"]]
    for k in (0.3, 1.0, 7.0, 10.0, 60.0):
        for order in permutations(rankings):
            fused = reciprocal_rank(order, k)
            assert len({score for _, score in fused}) == 1
            assert [item for item, _ in fused] == list(order[0])


@given(RANKINGS, st.floats(0.1, 100))
def test_every_id_comes_once_and_scores_fall(rankings: list[list[str]], k: float) -> None:
    fused = reciprocal_rank(rankings, k)
    assert sorted(item for item, _ in fused) == sorted({item for ranking in rankings for item in ranking})
    scores = [score for _, score in fused]
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score <= len(rankings) / (k + 1) + 1e-12 for score in scores)


@given(RANKINGS, st.floats(0.1, 100))
def test_the_order_of_the_rankings_changes_no_score(rankings: list[list[str]], k: float) -> None:
    assert dict(reciprocal_rank(rankings, k)) == dict(reciprocal_rank(rankings[::-1], k))
