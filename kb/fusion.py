"""Several rankings into one: by score, or by reciprocal rank.

Cormack, Clarke and Büttcher 2009, doi:10.1145/1571941.1572114.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence


def reciprocal_rank(rankings: Sequence[Sequence[str]], k: float) -> list[tuple[str, float]]:
    """Fuse rankings of ids, each best first.

    An id's score is the sum over rankings of 1 / (k + rank), rank from 1; a smaller `k` trusts the
    first places more. Ties keep the order of first appearance. No ranking gives an empty list.

    Example:
        >>> reciprocal_rank([["a", "b"], ["b", "c"]], k=1)
        [('b', 0.8333333333333333), ('a', 0.5), ('c', 0.3333333333333333)]
    """
    shares: dict[str, list[float]] = {}
    for ranking in rankings:
        for rank, item in enumerate(ranking, start=1):
            shares.setdefault(item, []).append(1.0 / (k + rank))
    # fsum, as a plain sum depends on the order of its terms, and ties would be told apart by that.
    scores = [(item, math.fsum(terms)) for item, terms in shares.items()]
    return sorted(scores, key=lambda pair: -pair[1])


def weighted_sum(
    similarity: Mapping[str, float], coverage: Mapping[str, float], weight: float
) -> list[tuple[str, float]]:
    """Fuse by score: similarity + weight × coverage.

    Coverage is a keyword score relative to the highest that the question can reach, so a question
    whose words hardly occur (it may be in another language) is ranked by similarity alone. The
    weights were chosen on odd-numbered questions and the development questions; docs/decisions/0005
    has the figures, also of reciprocal rank.

    Args:
        similarity: Of every id that is to be ranked.
        coverage: In [0, 1]; an id without one has 0.
        weight: How much full coverage counts against a similarity of 1.

    Returns:
        (id, score), falling; ties by id.
    """
    fused = {item: value + weight * coverage.get(item, 0.0) for item, value in similarity.items()}
    return sorted(fused.items(), key=lambda pair: (-pair[1], pair[0]))
