"""A generator of ours, as an asynchronous one: the same code runs in a thread, one step at a time.

So there is one logic, and nothing in it that has to be written twice. Cancelling the task, or leaving the loop over
the events, stops what is under way at a service at once; a step that computes here, such as embedding the
question, is let go to its end.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing
from functools import partial
from typing import Any, TypeVar

from kb.services.cancel import Cancellation, cancelled_by

_Event = TypeVar("_Event")
_Result = TypeVar("_Result")

_ENDED: Any = object()


async def iterated(begin: Callable[[], Generator[_Event, None, None]]) -> AsyncGenerator[_Event, None]:
    """Yield what the generator that `begin` makes yields; raise what it raises.

    Example:
        async for event in iterated(lambda: base.stream("What does a 429 mean?")):
            ...
    """
    cancellation = Cancellation()
    generator = begin()
    step: asyncio.Future[Any] | None = None
    try:
        while True:
            step = _in_thread(partial(next, generator, _ENDED), cancellation)
            event = await asyncio.shield(step)
            if event is _ENDED:
                return
            yield event
    finally:
        cancellation.cancel()
        if step is not None and not step.done():
            await asyncio.wait([step])
            step.exception()  # looked at: what a stopped step raises is nobody's concern
        await _in_thread(generator.close, cancellation)


async def computed(work: Callable[[], _Result]) -> _Result:
    """Give what `work` gives; raise what it raises."""

    def once() -> Generator[_Result, None, None]:
        yield work()

    async with aclosing(iterated(once)) as results:
        async for result in results:
            return result
    raise AssertionError("a generator of one step yields once")


def _in_thread(step: Callable[[], Any], cancellation: Cancellation) -> asyncio.Future[Any]:
    """One step in a thread of the loop's own, with the variables of this context."""

    def stoppable() -> Any:
        with cancelled_by(cancellation):
            return step()

    return asyncio.get_running_loop().run_in_executor(None, contextvars.copy_context().run, stoppable)
