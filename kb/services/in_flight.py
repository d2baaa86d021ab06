"""Several requests on their way at the same time; each result is handed over as soon as it is there.

The caller's thread decides and waits, so that Ctrl-C ends it at once. Requests run in daemon threads: one
that hangs on a socket holds nobody up (a pool of threads would be waited for when Python ends).
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from kb.errors import RefusedError, ServiceError
from kb.logs import event
from kb.records import EmbeddedPart
from kb.services import cancel
from kb.services.batches import Batch, Batches
from kb.services.clock import LONGEST_SLEEP_SECONDS
from kb.services.failures import Failure
from kb.services.limits import Limits, Turn
from kb.services.retry import LONGEST_ASKED_SECONDS, wait_seconds

if TYPE_CHECKING:
    from kb.components import FloatArray

# After an error, answers that were paid for are waited for as long as nobody minds.
GRACE_SECONDS = 1.0
_NOT_FOUND = 404
# A row is not set aside for what may be chance, as long as others pass.
_MORE_TRIES_ALONE = 3

Send = Callable[[Sequence[int], Turn], "FloatArray | Failure"]
"""Sends the given rows, tells the limits, and gives their vectors in order."""


@dataclass(frozen=True, slots=True)
class _Result:
    batch: Batch
    sent_at: float
    outcome: FloatArray | Failure | BaseException


class InFlight:
    """Sends batches, at most so many at a time, until all are done.

    Args:
        send: Sends one request.
        limits: When it may be sent.
        most: Requests at the same time.
        retries: How often a batch is sent again that failed, though another try may help.
    """

    def __init__(self, send: Send, limits: Limits, most: int, retries: int) -> None:
        self._send = send
        self._limits = limits
        self._clock = limits.clock
        self._most = most
        self._retries = retries
        self._results: queue.SimpleQueue[_Result] = queue.SimpleQueue()
        self._running = 0
        self._passed_at = -float("inf")

    def run(self, batches: Batches) -> Iterator[EmbeddedPart]:
        """Yield what is done, in the order of completion.

        Raises:
            ServiceError: the service failed, or refuses the key, the account or the model. What was answered
                by then has been yielded.
        """
        cancellation = cancel.current()
        try:
            while batches or self._running:
                cancellation.check()
                wait = self._start(batches)
                for result in self._arrived(self._clock.real(wait)):
                    yield from self._judge(result, batches)
        except ServiceError:
            yield from self._last_answers()
            raise

    def _start(self, batches: Batches) -> float:
        """Send what may be sent; gives the seconds until more may be."""
        while self._running < self._most:
            now = self._clock.now()
            batch = batches.next(now)
            if batch is None:
                return batches.ready_in(now)
            with self._limits.changed:
                slots = self._limits.slots(self._most - self._running)
                offer = self._limits.offer(batches.first(batch), batches.wanted(batch, slots))
                if not offer.tokens:
                    return offer.wait_seconds
                part = batches.take(batch, offer.tokens)
                turn = self._limits.begin(part.tokens, offer)
            self._running += 1
            work = partial(copy_context().run, self._work, part, turn)  # what stops this stops the requests
            threading.Thread(target=work, name="kb-request", daemon=True).start()
        return float("inf")

    def _work(self, batch: Batch, turn: Turn) -> None:
        outcome: FloatArray | Failure | BaseException
        try:
            outcome = self._send(batch.rows, turn)
        except BaseException as error:  # noqa: BLE001  raised again where it is waited for
            outcome = error
        self._results.put(_Result(batch, turn.begun, outcome))

    def _arrived(self, wait: float) -> Iterator[_Result]:
        """What has been answered; waits for the first, at most so many seconds."""
        try:
            yield self._took(self._results.get(timeout=min(max(wait, 0.001), LONGEST_SLEEP_SECONDS)))
            while True:
                yield self._took(self._results.get_nowait())
        except queue.Empty:
            return

    def _took(self, result: _Result) -> _Result:
        self._running -= 1
        return result

    def _judge(self, result: _Result, batches: Batches) -> Iterator[EmbeddedPart]:
        """Hand over what succeeded, and see to the rest being sent again."""
        batch, outcome = result.batch, result.outcome
        if isinstance(outcome, BaseException):
            raise outcome
        if not isinstance(outcome, Failure):
            self._passed_at = self._clock.now()
            batches.passed(batch)
            yield EmbeddedPart(batch.rows, batch.tokens, outcome)
        elif outcome.rate and outcome.retry:
            if self._limits.stuck() or (outcome.wait_seconds or 0) > LONGEST_ASKED_SECONDS:
                outcome.raised()
            event("rate limited", tokens=batch.tokens, texts=len(batch.rows), asked_seconds=outcome.wait_seconds)
            batches.put_back(batch)
        elif isinstance(outcome.error, RefusedError) and outcome.error.status != _NOT_FOUND:
            yield from self._part(batch, outcome.error, batches)
        else:
            yield from self._try_again(result, outcome, batches)

    def _part(self, batch: Batch, error: RefusedError, batches: Batches) -> Iterator[EmbeddedPart]:
        """Halve a refused batch until the rows that it was refused for stand alone; those are set aside."""
        if len(batch.rows) > 1:
            batches.too_large(batch)
            batches.put_halves(batch)
        else:
            batches.refused_alone()
            yield EmbeddedPart(batch.rows, batch.tokens, None, error)

    def _try_again(self, result: _Result, failure: Failure, batches: Batches) -> Iterator[EmbeddedPart]:
        """Send a failed batch again, later; one that goes on failing while others pass is parted."""
        batch = result.batch
        wait = wait_seconds(batch.tried, failure.wait_seconds)
        if not failure.retry or not self._retries or wait > LONGEST_ASKED_SECONDS:
            failure.raised()
        batch.tried += 1
        batch.failing_since = min(batch.failing_since, result.sent_at)
        tries = self._retries if len(batch.rows) > 1 else _MORE_TRIES_ALONE * self._retries
        if batch.tried <= self._retries or (batch.tried <= tries and self._passed_at >= batch.failing_since):
            event("request failed", status=failure.error.status, tried=batch.tried, wait_seconds=round(wait, 1))
            batch.ready_at = self._clock.now() + wait
            batches.put_failed(batch)
            return
        if self._passed_at < batch.failing_since:
            failure.raised()
        status = failure.error.status
        said = f"{failure.error} (tried {batch.tried} times, while others were answered)"
        yield from self._part(batch, RefusedError(said, service=failure.error.service, status=status), batches)

    def _last_answers(self) -> Iterator[EmbeddedPart]:
        """What is still answered shortly after an error."""
        until = time.monotonic() + GRACE_SECONDS
        while self._running and (left := until - time.monotonic()) > 0:
            for result in self._arrived(left):
                outcome = result.outcome
                if not isinstance(outcome, (Failure, BaseException)):
                    yield EmbeddedPart(result.batch.rows, result.batch.tokens, outcome)
