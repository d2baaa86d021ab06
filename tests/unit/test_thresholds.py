from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from kb.records import Chunk, Hit, Scale
from kb.thresholds import relative


def hits(scores: Sequence[float]) -> list[Hit]:
    return [Hit(Chunk(f"c{n}", "d", f"text {n}", 0, 6), "a.md", score, "judge", 0.5) for n, score in enumerate(scores)]


MANY = hits([0.9, 0.6, 0.5, 0.3, 0.2, 0.2, 0.1, 0.1, 0.1, 0.1, 0.1])


@pytest.mark.parametrize(
    ("scale", "scores", "threshold", "kept"),
    [
        ("ratio", [8, 6, 2, 1.9, 0], 0.25, 3),
        ("ratio", [0.0029, 0.0028, 0.0001], 0.25, 2),
        ("ratio", [5], 0.25, 1),
        ("ratio", [5, 5, 5], 1.0, 3),
        ("ratio", [0, 0], 0.25, 2),  # nothing is better than the best
        ("logit", [6, 2, -1, -8], 0.25, 3),
        ("logit", [-8, -8.5, -12], 0.25, 2),
        ("logit", [900, -900], 0.25, 1),
    ],
)
def test_so_much_of_the_best_is_enough_on_scales_that_have_a_ratio(
    scale: Scale, scores: list[float], threshold: float, kept: int
) -> None:
    ranked = hits(scores)
    near, dropped = relative(ranked, scale, threshold, MANY)
    assert near == ranked[:kept]
    assert [drop.hit for drop in dropped] == ranked[kept:]
    assert all(f"below {threshold:g}" in drop.reason for drop in dropped)


@pytest.mark.parametrize("shift", [0.0, 100.0, -3.0])
def test_without_a_zero_the_height_above_the_middle_candidate_is_compared(shift: float) -> None:
    candidates = hits([hit.score + shift for hit in MANY])
    near, _ = relative(candidates, None, 0.25, candidates)
    assert [round(hit.score - shift, 6) for hit in near] == [0.9, 0.6, 0.5], (
        "the middle is 0.2, a quarter above it .375"
    )


def test_a_reranker_without_a_zero_is_cut_by_what_retrieval_said() -> None:
    turned = [Hit(hit.chunk, "a.md", -n, "maxsim", 0.5) for n, hit in enumerate(MANY[::-1])]
    near, _ = relative(turned, "interval", 0.25, MANY)
    assert {hit.chunk.id for hit in near[1:]} == {"c0", "c1", "c2"}
    assert near[0] == turned[0], "what the reranker puts first stays"
    assert near == [hit for hit in turned if hit in near], "in the reranker's order"


@pytest.mark.parametrize("scale", [None, "interval", "ratio", "logit"])
def test_nothing_is_dropped_at_zero_or_of_nothing_or_of_too_few(scale: Scale | None) -> None:
    assert relative(MANY, scale, 0.0, MANY) == (MANY, [])
    assert relative([], scale, 0.25, MANY) == ([], [])
    if scale in (None, "interval"):
        assert relative(MANY[:9], scale, 0.25, MANY[:9]) == (MANY[:9], [])
    assert math.isfinite(relative(MANY, scale, 1.0, MANY)[0][0].score)
