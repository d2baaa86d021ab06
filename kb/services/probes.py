"""When to try whether more passes than a service's refusals have taught."""

from __future__ import annotations

import math
import random

FIRST_WAIT_SECONDS = 0.5
LONGEST_WAIT_SECONDS = 60.0
# Where a service let pass again after some time, the next wait for it starts with this share of that time, so that a
# shorter one is found, and goes on in steps of this share, so that little is waited too long.
_FIRST_SHARE = 0.75
_STEP_SHARE = 0.125
_LONGEST_FIRST_WAIT_SECONDS = 15.0
_GROWTH = 1.5


class Probes:
    """Plans probes: one at a time, in growing intervals while they are refused, at once while they pass."""

    def __init__(self) -> None:
        self.at = -math.inf
        self.under_way = False
        self._wait = FIRST_WAIT_SECONDS
        self._step = FIRST_WAIT_SECONDS
        self._last_recovery = 0.0

    def refused(self, now: float, asked: float | None, *, probe: bool, known: bool) -> None:
        """Plan the next probe after a refusal.

        Args:
            now: The time.
            asked: How long the service asks to wait.
            probe: A probe was refused.
            known: What was sent had room by what was learned; it was not just tried how much passes.
        """
        if probe:
            self._wait = self._step
            self._step = min(self._step * _GROWTH, LONGEST_WAIT_SECONDS)
        elif not known:
            first = min(_FIRST_SHARE * self._last_recovery, _LONGEST_FIRST_WAIT_SECONDS)
            self._wait = max(FIRST_WAIT_SECONDS, first)
            self._step = max(FIRST_WAIT_SECONDS, _STEP_SHARE * self._last_recovery)
        # A little at random, so that clients that were refused together spread.
        self.at = now + (self._wait * random.uniform(0.75, 1.0) if asked is None else asked)

    def passed(self, now: float, refused_since: float | None) -> None:
        """Note that a probe passed; another one may follow at once."""
        self.at = now
        if refused_since is not None:
            self._last_recovery = now - refused_since
            self._step = max(FIRST_WAIT_SECONDS, _STEP_SHARE * self._last_recovery)
