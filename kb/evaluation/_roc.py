"""How well a number parts two kinds of questions: the area under the ROC curve, whatever threshold one would choose.

Hanley and McNeil 1982, doi:10.1148/radiology.143.1.7063747; by ranks: Mann and Whitney 1947.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from kb.evaluation._measures import INTERVAL, RESAMPLES, SEED

if TYPE_CHECKING:
    from numpy.typing import NDArray


def area(values: Sequence[float], positive: Sequence[bool]) -> float:
    """The probability that a positive has a higher value than a negative, both picked at random; ties count half.

    .5 is chance, 1 a number that parts them without an error; without one of both kinds it is nan.

        >>> area([0.9, 0.6, 0.6, 0.1], [True, True, False, False])
        0.875
    """
    return _area(np.asarray(values, np.float64), np.asarray(positive, bool))


def area_interval(values: Sequence[float], positive: Sequence[bool]) -> tuple[float, float]:
    """Where the area lies with a probability of 95 %, by resampling the questions of each kind."""
    every, kinds = np.asarray(values, np.float64), np.asarray(positive, bool)
    high, low = every[kinds], every[~kinds]
    if not len(high) or not len(low):
        return float("nan"), float("nan")
    generator = np.random.default_rng(SEED)
    areas = [_area_of(generator.choice(high, len(high)), generator.choice(low, len(low))) for _ in range(RESAMPLES)]
    outside = (1 - INTERVAL) / 2
    return float(np.quantile(areas, outside)), float(np.quantile(areas, 1 - outside))


def _area(values: NDArray[np.float64], positive: NDArray[np.bool_]) -> float:
    return _area_of(values[positive], values[~positive])


def _area_of(high: NDArray[np.float64], low: NDArray[np.float64]) -> float:
    if not len(high) or not len(low):
        return float("nan")
    falling_behind = np.sort(low)
    below = np.searchsorted(falling_behind, high, side="left").sum()
    at_most = np.searchsorted(falling_behind, high, side="right").sum()
    return float(below + at_most) / (2 * len(high) * len(low))
