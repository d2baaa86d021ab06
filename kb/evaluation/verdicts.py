"""How well verdicts without a model tell claims that a source supports from those that it doesn't.

Measured are the area under the ROC curve of the score, and of each kind of claim the share that is called
anything but "supported": few of the right ones, most of those that are changed on purpose.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kb.evaluation._measures import share_interval
from kb.evaluation._retrieval_data import Half
from kb.evaluation._rewording import Language
from kb.evaluation._roc import area, area_interval
from kb.evaluation._verdict_pairs import ABSTRACTS, Kind, Pair, load_pairs
from kb.verdicts import Judgement, Nearness, judge

__all__ = ["Area", "Share", "VerdictResult", "evaluate", "load_pairs"]

RIGHT: frozenset[Kind] = frozenset(("right", "about"))
CHANGED: frozenset[Kind] = frozenset(("number", "name", "negation"))


@dataclass(frozen=True, slots=True)
class Share:
    """How many claims of a kind are not called supported."""

    language: Language
    kind: Kind
    variety: str
    """"" for all of the kind."""
    claims: int
    flagged: float
    between: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Area:
    """How well the score tells right claims from others."""

    name: str
    right: int
    others: int
    area: float
    between: tuple[float, float]


@dataclass(frozen=True, slots=True)
class VerdictResult:
    """All pairs with their judgements."""

    half: Half
    seconds: float
    nearness: str
    """What similarities were asked of, or "none"."""
    judged: tuple[tuple[Pair, Judgement], ...]

    def areas(self) -> Iterator[Area]:
        """Of English and Chinese together, of each language, and without the claims that may be refuted."""
        languages: tuple[tuple[str, frozenset[str]], ...] = (
            ("English and Chinese", frozenset(("en", "zh"))),
            ("English", frozenset(("en",))),
            ("Chinese", frozenset(("zh",))),
            ("Japanese", frozenset(("ja",))),
        )
        for name, wanted in languages:
            some = [(pair, one) for pair, one in self.judged if pair.language in wanted]
            yield from _areas(name, some)
            if any(pair.kind == "about" for pair, _ in some):
                yield from _areas(
                    f"{name}, evidence only", [(pair, one) for pair, one in some if pair.variety not in ABSTRACTS]
                )

    def shares(self) -> Iterator[Share]:
        """Of each language and kind, and of each variety of those that have several."""
        groups: dict[tuple[Language, Kind, str], list[bool]] = {}
        for pair, judgement in self.judged:
            for variety in ("", pair.variety):
                groups.setdefault((pair.language, pair.kind, variety), []).append(judgement.verdict != "supported")
        several = {key[:2]: len({other[2] for other in groups if other[:2] == key[:2]}) > 2 for key in groups}
        for (language, kind, variety), flags in sorted(groups.items(), key=_order):
            if not variety or several[language, kind]:
                share = sum(flags) / len(flags)
                yield Share(language, kind, variety, len(flags), share, share_interval(sum(flags), len(flags)))

    def as_dict(self) -> dict[str, Any]:
        """One object: the figures, then every claim."""
        return {
            "half": self.half,
            "claims": len(self.judged),
            "seconds": self.seconds,
            "nearness": self.nearness,
            "auc": {
                one.name: {"value": one.area, "interval": list(one.between), "right": one.right, "others": one.others}
                for one in self.areas()
            },
            "flagged": [
                {
                    "language": one.language,
                    "kind": one.kind,
                    "variety": one.variety,
                    "claims": one.claims,
                    "value": one.flagged,
                    "interval": list(one.between),
                }
                for one in self.shares()
            ],
            "each": [
                {
                    "id": pair.id,
                    "kind": pair.kind,
                    "variety": pair.variety,
                    "claim": pair.claim,
                    "verdict": one.verdict,
                    "score": one.score,
                    "reasons": list(one.reasons),
                }
                for pair, one in self.judged
            ],
        }


_LANGUAGES: tuple[Language, ...] = ("en", "zh", "ja")
_KINDS: tuple[Kind, ...] = ("right", "about", "wrong", "number", "name", "negation")


def _order(group: tuple[tuple[Language, Kind, str], list[bool]]) -> tuple[int, int, str]:
    (language, kind, variety), _ = group
    return _LANGUAGES.index(language), _KINDS.index(kind), variety


def _areas(name: str, judged: Sequence[tuple[Pair, Judgement]]) -> Iterator[Area]:
    right = [pair.kind in RIGHT for pair, _ in judged]
    if not any(right) or all(right):
        return
    scores = [judgement.score for _, judgement in judged]
    yield Area(name, sum(right), len(right) - sum(right), area(scores, right), area_interval(scores, right))


def evaluate(
    pairs: Sequence[Pair], half: Half = "all", nearness: Nearness | None = None, asked: str = "none"
) -> VerdictResult:
    """Judge every claim against the text that it cites."""
    started = time.perf_counter()
    judged = tuple((pair, judge(pair.claim, [pair.source], nearness)) for pair in pairs)
    return VerdictResult(half, round(time.perf_counter() - started, 3), asked, judged)
