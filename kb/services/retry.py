"""Trying again: as long as it can help, as long as the service asks, and not for ever."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from kb.services.failures import Failure

FIRST_WAIT_SECONDS = 0.5
LONGEST_WAIT_SECONDS = 8.0
# A service that asks for more than this is down for the day; better to stop, resumable, than to hang.
LONGEST_ASKED_SECONDS = 90.0

T = TypeVar("T")


def with_retries(
    attempt: Callable[[], T],
    explain: Callable[[Exception], tuple[Failure, Exception | None]],
    errors: tuple[type[Exception], ...],
    retries: int,
) -> T:
    """Call `attempt` until it succeeds, at most 1 + `retries` times.

    Args:
        attempt: the call; its result is given back.
        explain: turns an error of `attempt` into ours, and into the error to chain it from.
        errors: which errors of `attempt` to explain; others pass.
        retries: how often to try again where that may help.

    Raises:
        ServiceError: the explained error of the last try.
    """
    tried = 0
    while True:
        try:
            return attempt()
        except errors as error:
            failure, cause = explain(error)
            wait = wait_seconds(tried, failure.wait_seconds)
            if not failure.retry or tried >= retries or wait > LONGEST_ASKED_SECONDS:
                raise failure.error from cause
        tried += 1
        time.sleep(wait)


def wait_seconds(tried: int, asked: float | None) -> float:
    """What the service asks for, else twice as long each time, a little at random so that clients spread."""
    if asked is not None:
        return asked
    return float(min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2**tried) * random.uniform(0.75, 1.0))
