"""BM25 over posting lists: the highest scores, without scoring what cannot be among them.

BM25: Robertson and Zaragoza 2009, doi:10.1561/1500000019; k1 = 0.6, b = 0.75. Leaving out what cannot win is
MaxScore: Turtle and Flood 1995, doi:10.1016/0306-4573(95)00020-H.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kb.ledger.postings import PostingList

    Scores: TypeAlias = NDArray[np.float64]
    Rows: TypeAlias = NDArray[np.int64]

_K1, _B = 0.6, 0.75
# A weight is never quite nothing: a word that stands in most chunks still counts among equals.
_LEAST_WEIGHT = 1e-6
# To look whether a list can be left out takes a tenth of the time of scoring as many rows as there are.
_LONG = 0.1


def inverse_frequency(documents: int, total: int) -> float:
    """What a word weighs that so many of `total` documents hold."""
    return max(_LEAST_WEIGHT, math.log((total - documents + 0.5) / (documents + 0.5)))


def unreachable(weight: float) -> float:
    """What the score of a word with this weight stays below, however often a document holds it."""
    return (_K1 + 1) * weight


def highest(
    lists: Sequence[tuple[float, PostingList]], average: float, limit: int, gone: Rows, among: Rows | None = None
) -> tuple[dict[int, float], float]:
    """The `limit` rows with the highest scores and all that are as high as the last of them; and the highest of all.

    Args:
        lists: For each word of the question its weight and who holds it; no list is empty.
        average: Words of a document.
        limit: From 1.
        gone: Rows that don't count.
        among: The rows that are looked at, except for the highest of all; None looks at all.
    """
    import numpy as np

    # The heaviest first: what the lighter ones can add is soon less than what the best have already.
    lists = sorted(lists, key=lambda pair: -pair[0])
    first = min(int(held.rows[0]) for _, held in lists)
    end = max(int(held.rows[-1]) for _, held in lists) + 1
    scores = np.zeros(end - first)
    gone = gone[(gone >= first) & (gone < end)] - first
    looked_at = None if among is None else among[(among >= first) & (among < end)] - first
    candidates: Rows | None = None
    for number, (weight, held) in enumerate(lists):
        if candidates is None and len(held) > _LONG * len(scores):
            scores[gone] = 0
            missing = unreachable(sum(weight for weight, _ in lists[number:]))
            candidates = _candidates(scores, looked_at, limit, missing)
        if candidates is None:
            scores[held.rows - first] += _parts(weight, held.counts, held.lengths, average)
        else:
            places, there = held.places_of(candidates + first)
            places = places[there]
            scores[candidates[there]] += _parts(weight, held.counts[places], held.lengths[places], average)
    scores[gone] = 0
    return _best(scores, first, limit, candidates, looked_at)


def _parts(weight: float, counts: NDArray[np.uint8], lengths: NDArray[np.uint16], average: float) -> Scores:
    """What one word adds to the score of each that holds it."""
    import numpy as np

    parts: Scores = counts.astype(np.float64) * unreachable(weight)
    parts /= lengths * (_K1 * _B / average) + _K1 * (1 - _B) + counts
    return parts


def _candidates(scores: Scores, looked_at: Rows | None, limit: int, missing: float) -> Rows | None:
    """The places that can still be among the best when less than `missing` is added; None when others can, too."""
    import numpy as np

    least = _least(scores if looked_at is None else scores[looked_at], limit)
    # A little less, as sums of rounded numbers may be.
    return np.flatnonzero(scores >= (least - missing) * (1 - 1e-9)) if least > missing else None


def _least(scores: Scores, limit: int) -> float:
    """The last of the `limit` highest scores; 0 when there are fewer."""
    import numpy as np

    scores = scores[scores > 0]
    return float(np.partition(scores, len(scores) - limit)[len(scores) - limit]) if len(scores) >= limit else 0.0


def _best(
    scores: Scores, first: int, limit: int, candidates: Rows | None, looked_at: Rows | None
) -> tuple[dict[int, float], float]:
    import numpy as np

    places = np.flatnonzero(scores > 0) if candidates is None else candidates
    highest = float(scores[places].max(initial=0))
    if looked_at is not None:
        among = np.zeros(len(scores), dtype=bool)
        among[looked_at] = True
        places = places[among[places]]
    found = scores[places]
    places = places[(found > 0) & (found >= _least(found, limit))]
    return dict(zip((places + first).tolist(), scores[places].tolist(), strict=True)), highest
