"""What comes of a stream of events: its first one, which may say that there is none, or its last one, the answer."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Protocol

from starlette.requests import Request

from kb.web.answering import Wanted
from kb.web.refusals import Refusal
from kb.web.sse import Event, unless_gone


class Answers(Protocol):
    """Who answers questions; see `kb.web.pool.Pool`."""

    def stream(self, wanted: Wanted) -> AsyncGenerator[Event, None]:
        """The events of an answer; closing it stops what is under way."""
        ...

    async def search(self, wanted: Wanted) -> Event:
        """`found` or `error`."""
        ...


async def begun(events: AsyncGenerator[Event, None], request: Request) -> AsyncGenerator[Event, None]:
    """A stream whose first event is there: what goes wrong before is an HTTP answer of its own.

    Raises:
        Refusal: it went wrong.
    """
    try:
        first = await unless_gone(request, anext(events))
        told(first)
    except BaseException:
        await events.aclose()
        raise

    async def whole() -> AsyncGenerator[Event, None]:
        async with aclosing(events):
            yield first
            async for one in events:
                yield one

    return whole()


async def whole_answer(events: AsyncGenerator[Event, None]) -> Event:
    """The last event of a stream, `done`.

    Raises:
        Refusal: the stream ended with an error.
    """
    last: Event | None = None
    async with aclosing(events):
        async for one in events:
            last = one
    assert last is not None, "a stream ends with done or error"
    return told(last)


def told(event: Event) -> Event:
    """The event, unless it is an error.

    Raises:
        Refusal: it is one.
    """
    if event.name != "error":
        return event
    body: dict[str, Any] = json.loads(event.data)
    status = body["status"]
    raise Refusal(status, body["error"], body["message"], 1.0 if status in (429, 503) else None)


def question_of(text: str, most: int) -> str:
    """A question without the blanks around it.

    Raises:
        Refusal: it has more characters than `most`, or is none.
    """
    if len(text) > most:
        raise Refusal(422, "bad_request", f"the question has {len(text):,} characters; at most {most:,} are taken")
    # Blanks of any script, a byte order mark and control characters alone are no question.
    if not any(character.isprintable() and not character.isspace() for character in text):
        raise Refusal(422, "bad_request", "the question is empty")
    return text.strip()
