"""How much a client may send: so many requests a minute, bodies so large, and nothing that never ends."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kb.web.refusals import Refusal, answered

_JSON_BYTES = 1_000_000
"""Of a request in JSON: a question and a conversation, which both have limits of their own."""
_FORM_BYTES = 100_000
"""What a form adds to its file."""
_MOST_CLIENTS = 10_000
"""Clients that are remembered; some 2 MB."""
_MOST_DIGITS = 15
"""Of a length; Python refuses to read a number of some thousand."""

UPLOAD_PATH = "/documents"


def client_of(scope: Scope) -> str:
    """Whom the limits count: the address, as all who hold the token hold the same one."""
    client = scope.get("client")
    return client[0] if client else "?"


class Bucket:
    """A token bucket for each client: so many a minute, a minute's worth at once.

    Source: J. Turner, New directions in communications, IEEE Communications Magazine 24(10), 1986.
    """

    def __init__(self, per_minute: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = per_minute
        self._rate = per_minute / 60
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """Of each client what is left, and when that was so; the latest seen last."""

    def wait(self, client: str) -> float:
        """Seconds until the client may do one more; 0 when it may now."""
        return max(0.0, (1 - self._now(client)) / self._rate)

    def take(self, client: str) -> float:
        """Count one more, if it may be; the seconds to wait otherwise."""
        left = self._now(client)
        if left < 1:
            return (1 - left) / self._rate
        self._left[client] = (left - 1, self._clock())
        self._left.move_to_end(client)
        while len(self._left) > _MOST_CLIENTS:
            self._left.popitem(last=False)
        return 0.0

    def _now(self, client: str) -> float:
        left, at = self._left.get(client, (self._most, 0.0))
        return min(self._most, left + (self._clock() - at) * self._rate)


class _BodyFault(Exception):
    """Nothing more is read of a request."""


class Limits:
    """Refuses what is too much, before it is read as far as possible."""

    def __init__(self, app: ASGIApp, *, per_minute: int, upload_bytes: int, idle_seconds: float) -> None:
        self._app = app
        self._requests = Bucket(per_minute) if per_minute else None
        self._upload_bytes = upload_bytes
        self._idle_seconds = idle_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI has it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._rate_fault(scope) or self._announced_fault(scope)
        if refusal is not None:
            await _refuse(refusal, scope, receive, send)
            return
        begun = False
        faults: list[Refusal] = []

        async def noting(message: Message) -> None:
            nonlocal begun
            if faults and not begun:
                return  # whoever reads JSON takes every fault for JSON that is none
            begun = True
            await send(message)

        with suppress(_BodyFault):
            await self._app(scope, self._limited(scope, receive, faults), noting)
        if faults and not begun:
            await _refuse(faults[0], scope, receive, send)

    def _rate_fault(self, scope: Scope) -> Refusal | None:
        wait = self._requests.take(client_of(scope)) if self._requests else 0.0
        return Refusal(429, "too_many", "too many requests; wait a moment", wait) if wait else None

    def _announced_fault(self, scope: Scope) -> Refusal | None:
        headers = Headers(scope=scope)
        if "content-length" in headers and "transfer-encoding" in headers:  # a proxy in front may have read the other
            return Refusal(400, "bad_request", "a request has one length, not two", headers={"Connection": "close"})
        length = headers.get("content-length", "0")
        is_number = length.isascii() and length.isdigit() and len(length) <= _MOST_DIGITS
        return None if is_number and int(length) <= self._most(scope) else self._too_large(scope)

    def _most(self, scope: Scope) -> int:
        if scope["path"].rstrip("/") == UPLOAD_PATH and scope["method"] == "POST":
            return self._upload_bytes + _FORM_BYTES
        return _JSON_BYTES

    def _too_large(self, scope: Scope) -> Refusal:
        return Refusal(
            413, "too_large", f"the request is larger than {self._most(scope):,} bytes", headers={"Connection": "close"}
        )

    def _limited(self, scope: Scope, receive: Receive, faults: list[Refusal]) -> Receive:
        """What receives within the limits; raises otherwise, with the reason added to `faults`."""
        most, taken, whole = self._most(scope), 0, False

        async def counting() -> Message:
            nonlocal taken, whole
            if whole:  # what comes now is that the client has gone, however long that takes
                return await receive()
            try:
                async with asyncio.timeout(self._idle_seconds):
                    message = await receive()
            except TimeoutError:
                late = Refusal(408, "too_slow", "the rest of the request did not come", headers={"Connection": "close"})
                faults.append(late)
                raise _BodyFault from None
            if message["type"] == "http.request":
                taken += len(message.get("body", b""))
                whole = not message.get("more_body", False)
            if taken > most:
                faults.append(self._too_large(scope))
                raise _BodyFault
            return message

        return counting


async def _refuse(refusal: Refusal, scope: Scope, receive: Receive, send: Send) -> None:
    await answered(refusal, scope["path"])(scope, receive, send)
