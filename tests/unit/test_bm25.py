"""Leaving out what cannot win changes nothing: the same rows and scores as when every row is scored."""

from collections.abc import Mapping

import numpy as np
import pytest

from kb.ledger.bm25 import highest, inverse_frequency
from kb.ledger.postings import PostingList

ROWS = 5_000
AVERAGE = 40.0
NONE = np.array([], dtype=np.int64)


def lists(seed: int, sizes: tuple[int, ...], kind: type[PostingList] = PostingList) -> list[tuple[float, PostingList]]:
    """Made-up words with as many holders each as `sizes` says."""
    dice = np.random.default_rng(seed)
    made = []
    for size in sizes:
        postings = np.empty(size, [("row", "<u4"), ("count", "u1"), ("length", "<u2")])
        postings["row"] = np.sort(dice.choice(ROWS, size, replace=False)) + 7
        postings["count"] = dice.geometric(0.7, size).clip(max=255)
        postings["length"] = 20 + postings["row"] % 50
        made.append((inverse_frequency(size, ROWS), kind(postings.tobytes())))
    return made


def by_hand(
    words: list[tuple[float, PostingList]], limit: int, gone: np.ndarray, among: np.ndarray | None
) -> tuple[dict[int, float], float]:
    """Every row scored."""
    scores: dict[int, float] = {}
    for weight, held in sorted(words, key=lambda pair: -pair[0]):
        for row, count, length in zip(held.rows.tolist(), held.counts.tolist(), held.lengths.tolist(), strict=True):
            part = weight * 1.6 * count / (count + 0.6 * (0.25 + 0.75 * length / AVERAGE))
            scores[row] = scores.get(row, 0.0) + part
    scores = {row: score for row, score in scores.items() if row not in set(gone.tolist())}
    looked_at = scores if among is None else {row: scores[row] for row in among.tolist() if row in scores}
    ranking = sorted(looked_at.values(), reverse=True)
    least = ranking[limit - 1] if len(ranking) >= limit else 0.0
    best = {row: score for row, score in looked_at.items() if score >= least * (1 - 1e-12)}
    return best, max(scores.values(), default=0.0)


def rounded(best: Mapping[int, float]) -> dict[int, float]:
    return {row: round(score, 9) for row, score in best.items()}


@pytest.mark.parametrize("sizes", [(3, 30), (80, 900, 4_000), (5, 5, 4_900, 4_999), (700, 800, 900), (4_999,)])
@pytest.mark.parametrize("limit", [1, 10, 50, 6_000])
@pytest.mark.parametrize("filtered", [False, True])
@pytest.mark.parametrize("removed", [0, 400])
def test_what_is_left_out_could_not_win(sizes: tuple[int, ...], limit: int, filtered: bool, removed: int) -> None:
    words = lists(len(sizes) * 10 + limit, sizes)
    dice = np.random.default_rng(3)
    gone = np.sort(dice.choice(ROWS, removed, replace=False)) + 7
    among = dice.choice(ROWS + 100, 800, replace=False) if filtered else None
    best, highest_of_all = highest(words, AVERAGE, limit, gone, among)
    expected, expected_highest = by_hand(words, limit, gone, among)
    assert rounded(best) == rounded(expected)
    assert highest_of_all == pytest.approx(expected_highest)


def test_long_lists_are_left_out_when_others_decide() -> None:
    """Else the test above would show nothing."""

    class Watched(PostingList):
        read = 0

        def places_of(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            Watched.read += len(rows)
            return super().places_of(rows)

    highest(lists(1, (80, 4_900), Watched), AVERAGE, 10, NONE)
    assert 10 <= Watched.read <= 80
