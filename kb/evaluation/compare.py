"""Whether a measurement is better or worse than an earlier one, beyond what other questions would have changed.

Both have asked the same questions, so they are compared question by question: the mean of the
differences in nDCG@10, with its interval by bootstrap. An interval without 0 is more than noise.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from kb.errors import ConfigError
from kb.evaluation._measures import interval

_EACH = "ndcg@10_of_each"


@dataclass(frozen=True, slots=True)
class Change:
    """How one system on one data set differs from the earlier measurement, in nDCG@10."""

    dataset: str
    system: str
    before: float
    now: float
    low: float
    high: float
    """The difference lies between these with a probability of 95 %."""

    @property
    def verdict(self) -> str:
        """In a word."""
        if self.low > 0:
            return "better"
        return "worse" if self.high < 0 else "no more than noise"


def read(file: Path) -> list[dict[str, Any]]:
    """What `--out` wrote earlier.

    Raises:
        ConfigError: it cannot be read, or is something else.
    """
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        for one in found:
            if not isinstance(one["dataset"], str) or not all(_EACH in system for system in one["systems"].values()):
                raise KeyError("systems")
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{file} is no result of an evaluation of retrieval; --out writes one") from error
    return list(found)


def changes(before: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> Iterator[Change]:
    """Compare what stands in both: the same data set, the same system, the same questions."""
    known = {(one["dataset"], name): system[_EACH] for one in before for name, system in one["systems"].items()}
    for one in now:
        for name, system in one["systems"].items():
            former, here = known.get((one["dataset"], name), {}), system[_EACH]
            both = sorted(former.keys() & here.keys())
            if both:
                old, new = [former[query] for query in both], [here[query] for query in both]
                low, high = interval([b - a for a, b in zip(old, new, strict=True)])
                yield Change(one["dataset"], name, fmean(old), fmean(new), low, high)
