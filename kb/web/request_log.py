"""What was asked of the server, for the log: method, path, status and time. Never a query, a body or a header."""

from __future__ import annotations

import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kb.logs import event

_MOST_OF_A_PATH = 200


class RequestLog:
    """Records each request once it has been answered, or its client has gone."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI has it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), 0

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noting)
        finally:
            path = scope["path"][:_MOST_OF_A_PATH]
            seconds = round(time.perf_counter() - started, 4)
            event("request", method=scope["method"], path=path, status=status, seconds=seconds)
