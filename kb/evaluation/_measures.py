"""What rankings are worth, measured by trec_eval's code, with intervals by bootstrap over the questions.

nDCG: Järvelin and Kekäläinen 2002, doi:10.1145/582415.582418. Bootstrap: Efron 1979, doi:10.1214/aos/1176344552.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from kb.errors import ConfigError

MEASURES = {
    "ndcg@10": "ndcg_cut_10",
    "recall@1": "recall_1",
    "recall@5": "recall_5",
    "recall@10": "recall_10",
    "recall@100": "recall_100",
    "mrr@10": "recip_rank",
}
"""As they are shown, and as trec_eval names them."""
DEPTH = 100
"""Documents of a ranking that are looked at."""
_MRR_DEPTH = 10
RESAMPLES = 1_000
INTERVAL = 0.95
SEED = 1
_NORMAL_95 = 1.959964

Rankings: TypeAlias = dict[str, list[str]]
"""Document ids, best first, by question."""


def measuring() -> Any:
    """The package that measures.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        import pytrec_eval
    except ModuleNotFoundError as error:
        raise ConfigError(
            "retrieval is measured by trec_eval's code, which is not installed: pip install 'kb[evaluation]'"
        ) from error
    return pytrec_eval


def measures(rankings: Rankings, relevant: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, float]]:
    """Every measure of every question."""
    judge = {query: dict(documents) for query, documents in relevant.items()}
    package = measuring()
    whole = package.RelevanceEvaluator(judge, {"ndcg_cut.10", "recall.1,5,10,100"})
    short = package.RelevanceEvaluator(judge, {"recip_rank"})
    measured = whole.evaluate(_run(rankings, DEPTH))
    for query, values in short.evaluate(_run(rankings, _MRR_DEPTH)).items():
        measured[query] |= values
    none = dict.fromkeys(MEASURES.values(), 0.0)  # nothing was found
    return {
        query: {name: float(measured.get(query, none)[theirs]) for name, theirs in MEASURES.items()}
        for query in relevant
    }


def _run(rankings: Rankings, depth: int) -> dict[str, dict[str, float]]:
    """As trec_eval takes rankings: by scores, which fall."""
    return {
        query: {document: float(-rank) for rank, document in enumerate(documents[:depth])}
        for query, documents in rankings.items()
    }


def share_interval(found: int, of: int) -> tuple[float, float]:
    """Where a share lies with a probability of 95 %, also near 0 and 1 (Wilson 1927, doi:10.2307/2276774).

    >>> [round(end, 3) for end in share_interval(0, 100)]
    [0.0, 0.037]
    """
    share, spread = found / of, _NORMAL_95**2 / of
    middle = (share + spread / 2) / (1 + spread)
    half = (spread * (share * (1 - share) + spread / 4)) ** 0.5 / (1 + spread)
    return max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half))


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Where the mean lies with a probability of `INTERVAL`, by resampling the questions (Efron 1979)."""
    import numpy as np

    every = np.asarray(values)
    picked = np.random.default_rng(SEED).integers(0, len(every), (RESAMPLES, len(every)))
    means = np.sort(every[picked].mean(axis=1))
    outside = (1 - INTERVAL) / 2
    return float(np.quantile(means, outside)), float(np.quantile(means, 1 - outside))
