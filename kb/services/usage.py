"""What chat models were asked: tokens and dollars, added up over the requests of one question.

A reply carries its own usage. A `Meter` adds up those of a block: it is for calls that give their caller nothing but
a text, such as a judge's. It lives in the context, so it does not hold over a generator's yields, which may be
continued in another context; what is streamed hands its usage on explicitly.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict
from typing import Any

from kb.answers import Usage


def usage_told(usage: Usage | None) -> dict[str, Any]:
    """Its counts by name, as spans have them; none of None."""
    return {} if usage is None else asdict(usage)


def together(one: Usage | None, other: Usage | None) -> Usage | None:
    """The sum of two; its dollars are known when both are."""
    if one is None or other is None:
        return one or other
    known = one.dollars is not None and other.dollars is not None
    return Usage(
        one.requests + other.requests,
        one.prompt_tokens + other.prompt_tokens,
        one.completion_tokens + other.completion_tokens,
        (one.dollars or 0.0) + (other.dollars or 0.0) if known else None,
        estimated=one.estimated or other.estimated,
    )


class Meter:
    """Adds up what is used, from any thread."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._sum: Usage | None = None

    @property
    def usage(self) -> Usage | None:
        """The sum so far; None when no chat model has replied."""
        return self._sum

    def add(self, usage: Usage | None) -> None:
        """Add what one or more requests used."""
        with self._guard:
            self._sum = together(self._sum, usage)


_current: ContextVar[Meter | None] = ContextVar("meter", default=None)


@contextmanager
def metered() -> Iterator[Meter]:
    """Add up what is used in this block; a meter around it counts that as well."""
    outer, meter = _current.get(), Meter()
    token = _current.set(meter)
    try:
        yield meter
    finally:
        _current.reset(token)
        if outer is not None:
            outer.add(meter.usage)


def count(usage: Usage) -> None:
    """Add to the meter of this context, if there is one."""
    if (meter := _current.get()) is not None:
        meter.add(usage)
