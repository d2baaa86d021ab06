"""How long to wait before another try."""

from __future__ import annotations

import random

FIRST_WAIT_SECONDS = 0.5
LONGEST_WAIT_SECONDS = 8.0
# A service that asks for more than this is down for the day; better to stop, resumable, than to hang.
LONGEST_ASKED_SECONDS = 90.0


def wait_seconds(tried: int, asked: float | None) -> float:
    """What the service asks for, else twice as long each time, a little at random so that clients spread."""
    if asked is not None:
        return asked
    return float(min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2**tried) * random.uniform(0.75, 1.0))
