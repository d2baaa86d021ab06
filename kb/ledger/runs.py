"""How the last ingest went, kept for whoever asks later."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal, TypeAlias

from kb.ledger.generations import Generations

Ending: TypeAlias = Literal["done", "failed", "interrupted", "died"]

_KEY = "last_run"


@dataclass(frozen=True, slots=True)
class LastRun:
    """One run of an ingest; `died` when it was killed, which is only noticed later, or who wrote its store."""

    began: str
    """UTC, ISO 8601."""
    seconds: float
    ended: Ending
    error: str = ""
    """What ended it; empty when it was done."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Those of its report, by their names; empty when it was not done."""


class Runs(Generations):
    """The part of the ledger that knows the last run."""

    def set_last_run(self, run: LastRun) -> None:
        """Remember a run instead of the one before."""
        self._set_meta(_KEY, json.dumps(asdict(run), ensure_ascii=True))

    def last_run(self) -> LastRun | None:
        """The last run that could still say how it ended; one that was killed could not."""
        kept = self._meta(_KEY)
        return None if kept is None else LastRun(**json.loads(kept))
