"""Server-sent events: a stream of named JSON objects, kept alive, and ended when its reader has gone.

Source: WHATWG HTML Living Standard, section "Server-sent events",
https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from kb.inert import json_text
from kb.web.refusals import unforeseen

_Result = TypeVar("_Result")

_PING = b": ping\n\n"
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",  # nginx would collect the stream
}


class ClientGone(Exception):
    """Nobody waits for the answer any more."""


class Event(NamedTuple):
    """One event of a stream."""

    name: str
    """Empty: the stream has only one kind, which is told by its data."""
    data: str
    """On one line; mostly a JSON object."""


def event(name: str, data: dict[str, Any]) -> Event:
    """An event of plain values."""
    return Event(name, json_text(data))


def described(*names: str, body: str = "") -> dict[int | str, dict[str, Any]]:
    """How a stream stands in the API's description.

    Args:
        names: Of its events, in the order in which they first come.
        body: The model that all their data are of; empty when they differ.
    """
    data: dict[str, Any] = {"type": "string", "contentMediaType": "application/json"}
    if body:
        data["contentSchema"] = {"$ref": f"#/components/schemas/{body}"}
    one = {
        "type": "object",
        "required": ["event", "id", "data"],
        "properties": {"event": {"enum": [*names]}, "id": {"type": "string"}, "data": data},
    }
    return {200: {"description": "Events as they come", "content": {"text/event-stream": {"itemSchema": one}}}}


class _Coming:
    """Events that are to be sent: those that come at once go out in one piece."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.more = asyncio.Event()
        """Set when there is something to send, or nothing more will come."""
        self.ended = False
        self._number = 0

    async def collect(self, events: AsyncGenerator[Event, None]) -> None:
        """Write down all events."""
        try:
            async for told in events:
                self._write(told)
        except Exception as error:  # noqa: BLE001  a client must learn that the rest is missing
            self._write(event("error", unforeseen(error, "stream").body))
        finally:
            self.ended = True
            self.more.set()

    def take(self) -> bytes:
        """What has come since the last time."""
        body = bytes(self.written)
        self.written.clear()
        if not self.ended:
            self.more.clear()
        return body

    def _write(self, told: Event) -> None:
        self._number += 1
        named = f"event: {told.name}\nid: {self._number}\n" if told.name else ""
        self.written += f"{named}data: {told.data}\n\n".encode()
        self.more.set()


class EventStream(Response):
    """Sends the events of a generator as they come; closes it when the client goes away, or is too slow."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncGenerator[Event, None], heartbeat_seconds: float, stalled_seconds: float) -> None:
        """Prepare.

        Args:
            events: What is sent.
            heartbeat_seconds: A silent stream shows so often that it is alive.
            stalled_seconds: A client that takes nothing for so long is let go.
        """
        super().__init__(headers=_HEADERS)
        del self.headers["content-length"]
        self._events = events
        self._heartbeat = heartbeat_seconds
        self._stalled = stalled_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the events end."""
        sending = asyncio.ensure_future(self._send_all(send))
        try:
            await first_of(sending, gone(receive))
        finally:
            await _ended(sending)
            await self._events.aclose()

    async def _send_all(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        coming = _Coming()
        collecting = asyncio.ensure_future(coming.collect(self._events))
        try:
            while not (coming.ended and not coming.written):
                try:
                    async with asyncio.timeout(self._heartbeat):
                        await coming.more.wait()
                except TimeoutError:
                    await self._give(send, _PING)
                    continue
                if body := coming.take():
                    await self._give(send, body)
        finally:
            await _ended(collecting)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _give(self, send: Send, body: bytes) -> None:
        async with asyncio.timeout(self._stalled):
            await send({"type": "http.response.body", "body": body, "more_body": True})


async def gone(receive: Receive) -> None:
    """Wait until the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def unless_gone(request: Request, work: Awaitable[_Result]) -> _Result:
    """The result of `work`, which is cancelled when the client goes away.

    Raises:
        ClientGone: it went away.
    """
    working = asyncio.ensure_future(work)
    try:
        await first_of(working, gone(request.receive))
    finally:
        await _ended(working)
    if working.cancelled():
        raise ClientGone
    return working.result()


async def first_of(work: asyncio.Future[Any], other: Awaitable[None]) -> None:
    """Wait until one of the two has ended; the other one is cancelled, `work` only if it goes on."""
    waiting = asyncio.ensure_future(other)
    try:
        await asyncio.wait([work, waiting], return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting


async def _ended(work: asyncio.Future[Any]) -> None:
    """See to it that it has ended; what it raises is its own concern."""
    if not work.done():
        work.cancel()
    await asyncio.wait([work])
    if not work.cancelled():
        work.exception()
