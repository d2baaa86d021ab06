"""The time that limits and waits go by."""

from __future__ import annotations

import time
from dataclasses import dataclass

LONGEST_SLEEP_SECONDS = 0.1
"""Of the machine. Then is looked again: others may use the same limits, and not everywhere does Ctrl-C end a wait."""


@dataclass(frozen=True, slots=True)
class Clock:
    """A clock of seconds; with a `speed`, a test lets a minute of a service pass in a second."""

    speed: float = 1.0
    """Seconds of this clock in one of the machine's."""

    def now(self) -> float:
        """Seconds since some moment that stays the same."""
        return time.monotonic() * self.speed

    def real(self, seconds: float) -> float:
        """How long that is for the machine."""
        return seconds / self.speed

    def sleep(self, seconds: float) -> None:
        """Wait; Ctrl-C ends it."""
        time.sleep(self.real(seconds))


REAL_TIME = Clock()
