"""Generators of ours as asynchronous ones: the same values and errors, and closed when nobody listens any more."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import AsyncGenerator, Generator

import pytest

from kb.asynchronous import computed, iterated
from kb.services.cancel import current

HELD = contextvars.ContextVar("held", default="nothing")


async def listed(values: AsyncGenerator[int, None]) -> list[int]:
    return [value async for value in values]


def test_it_yields_the_same_in_a_thread() -> None:
    threads: set[int] = set()

    def numbers() -> Generator[int, None, None]:
        for number in range(5):
            threads.add(threading.get_ident())
            yield number

    assert asyncio.run(listed(iterated(numbers))) == [0, 1, 2, 3, 4]
    assert threading.get_ident() not in threads


def test_what_it_raises_is_raised() -> None:
    def failing() -> Generator[int, None, None]:
        yield 1
        raise ValueError("broken")

    found: list[int] = []

    async def read() -> None:
        async for value in iterated(failing):
            found.append(value)

    with pytest.raises(ValueError, match="broken"):
        asyncio.run(read())
    assert found == [1]


def test_the_loop_goes_on_meanwhile_and_variables_of_the_context_are_seen() -> None:
    async def both() -> tuple[str, int]:
        HELD.set("something")
        ticks = 0

        def slow() -> str:
            time.sleep(0.2)
            return HELD.get()

        work = asyncio.ensure_future(computed(slow))
        while not work.done():
            ticks += 1
            await asyncio.sleep(0.01)
        return await work, ticks

    held, ticks = asyncio.run(both())
    assert held == "something"
    assert ticks >= 5


def test_leaving_the_loop_closes_the_generator() -> None:
    closed = threading.Event()

    def numbers() -> Generator[int, None, None]:
        try:
            while True:
                yield 1
        finally:
            closed.set()

    async def read() -> bool:
        values = iterated(numbers)
        async for _ in values:
            break
        await values.aclose()
        return closed.is_set()

    assert asyncio.run(read())


def test_cancelling_the_task_stops_a_step_that_waits() -> None:
    released = threading.Event()
    closed = threading.Event()

    def waiting() -> Generator[int, None, None]:
        try:
            with current().stopping(released.set):
                yield 1
                assert released.wait(30), "nobody stopped it"
                yield 2
        finally:
            closed.set()

    async def cancelled() -> float:
        task = asyncio.ensure_future(listed(iterated(waiting)))
        await asyncio.sleep(0.1)
        began = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - began

    assert asyncio.run(cancelled()) < 5
    assert released.is_set()
    assert closed.is_set()
