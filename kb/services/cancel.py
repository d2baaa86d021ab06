"""Stopping what is under way at a service, from another thread.

A request takes the `Cancellation` of the context that it starts in. Cancelling shuts its socket down, so that a
thread which waits for the service goes on at once, and raises StoppedError; so does one that waits for a rate limit
or for its next try. Only while a connection is being made nothing can be shut down: that ends after
`connect_timeout_seconds`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from kb.errors import StoppedError
from kb.services.clock import LONGEST_SLEEP_SECONDS, Clock


class Cancellation:
    """A question, or another piece of work, that can be stopped from any thread, once and for good."""

    def __init__(self) -> None:
        self._stopped = threading.Event()
        self._guard = threading.Lock()
        self._open: list[Callable[[], None]] = []

    @property
    def stopped(self) -> bool:
        """Whether it was stopped."""
        return self._stopped.is_set()

    def cancel(self) -> None:
        """Stop all that is under way, and whatever begins later; it may be called again."""
        with self._guard:
            self._stopped.set()
            stops = list(self._open)
        for stop in stops:
            stop()

    def check(self) -> None:
        """Raise StoppedError when it was stopped."""
        if self.stopped:
            raise StoppedError

    @contextmanager
    def stopping(self, stop: Callable[[], None]) -> Iterator[None]:
        """Have `stop` called, from the thread that cancels, if that happens before the block ends."""
        with self._guard:
            self._open.append(stop)
        try:
            self.check()
            yield
        finally:
            with self._guard:
                self._open.remove(stop)


class _Never(Cancellation):
    def cancel(self) -> None:
        """Stop nothing: it stands for all that has no cancellation of its own."""


NEVER: Cancellation = _Never()
"""Of what nobody stops."""

_current: ContextVar[Cancellation] = ContextVar("cancellation", default=NEVER)


def current() -> Cancellation:
    """The cancellation of this context; one that nobody cancels where there is none."""
    return _current.get()


@contextmanager
def cancelled_by(cancellation: Cancellation) -> Iterator[None]:
    """Let `cancellation` stop the requests that start in this block.

    A generator keeps the cancellation that its request started with, wherever it is continued.

    Example:
        stop = Cancellation()
        with cancelled_by(stop):
            answer = base.ask(question)  # StoppedError once another thread calls stop.cancel()
    """
    token = _current.set(cancellation)
    try:
        yield
    finally:
        _current.reset(token)


def sleep(clock: Clock, seconds: float, cancellation: Cancellation) -> None:
    """Wait, unless it is stopped; Ctrl-C ends it as well.

    Raises:
        StoppedError: it was stopped.
    """
    until = clock.now() + seconds
    while (left := until - clock.now()) > 0:
        cancellation.check()
        clock.sleep(min(left, LONGEST_SLEEP_SECONDS * clock.speed))
    cancellation.check()
