"""What is too much is refused before it is read, and what never ends is let go."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from kb.web.limits import Limits

UPLOAD_BYTES = 2_000_000


async def _app(scope: Scope, receive: Receive, send: Send) -> None:
    body = await Request(scope, receive).body()
    await JSONResponse({"bytes": len(body)})(scope, receive, send)


async def _app_that_takes_all_faults_for_bad_json(scope: Scope, receive: Receive, send: Send) -> None:
    try:
        await Request(scope, receive).body()
    except Exception:  # noqa: BLE001  as FastAPI does
        await JSONResponse({"detail": "There was an error parsing the body"}, 400)(scope, receive, send)


def sent(
    pieces: Sequence[bytes],
    *,
    path: str = "/ask",
    method: str = "POST",
    headers: Sequence[tuple[bytes, bytes]] = (),
    per_minute: int = 0,
    times: int = 1,
    stalls: bool = False,
    app: ASGIApp = _app,
) -> tuple[list[int], int]:
    """The statuses of the answers, and how many pieces were taken."""
    limits = Limits(app, per_minute=per_minute, upload_bytes=UPLOAD_BYTES, idle_seconds=0.05)
    taken = 0

    async def once() -> int:
        coming = iter(pieces)
        answers: list[Any] = []

        async def receive() -> Any:
            nonlocal taken
            piece = next(coming, None)
            if piece is None:
                if stalls:
                    await asyncio.sleep(10)
                return {"type": "http.request", "body": b"", "more_body": False}
            taken += 1
            return {"type": "http.request", "body": piece, "more_body": True}

        async def send(message: Any) -> None:
            answers.append(message)

        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "headers": list(headers),
            "query_string": b"",
            "client": ("10.0.0.1", 1),
        }
        await limits(scope, receive, send)
        status: int = answers[0]["status"]
        return status

    async def all_of_them() -> list[int]:
        return [await once() for _ in range(times)]

    return asyncio.run(all_of_them()), taken


def test_what_is_within_the_limits_passes() -> None:
    assert sent([b"x" * 500_000, b"x" * 500_000]) == ([200], 2)
    assert sent([b"x" * 1_000_000] * 2, path="/documents") == ([200], 2)


def test_a_length_that_is_too_large_is_refused_before_anything_is_read() -> None:
    assert sent([b"x"], headers=[(b"content-length", b"1000001")]) == ([413], 0)
    assert sent([b"x"], headers=[(b"content-length", b"2100001")], path="/documents") == ([413], 0)
    assert sent([b"x"], headers=[(b"content-length", b"1000001")], path="/documents", method="DELETE") == ([413], 0)


@pytest.mark.parametrize("length", [b"-1", b"1e3", b"9" * 5000, b"\xb2", b"0x10", b" "])
def test_a_length_that_is_none_is_refused(length: bytes) -> None:
    assert sent([b"x"], headers=[(b"content-length", length)]) == ([413], 0)


def test_a_body_without_a_length_is_counted_while_it_comes() -> None:
    statuses, taken = sent([b"x" * 100_000] * 1000)
    assert (statuses, taken) == ([413], 11)


def test_a_body_that_stops_coming_is_let_go() -> None:
    assert sent([b"x"], stalls=True) == ([408], 1)


def test_the_fault_is_told_though_the_application_has_another_explanation() -> None:
    app = _app_that_takes_all_faults_for_bad_json
    assert sent([b"x" * 100_000] * 1000, app=app)[0] == [413]
    assert sent([b"x"], stalls=True, app=app)[0] == [408]


def test_more_requests_than_allowed_are_told_when_to_come_again() -> None:
    assert sent([], per_minute=3, times=5)[0] == [200, 200, 200, 429, 429]


def test_no_limit_is_none() -> None:
    assert sent([], per_minute=0, times=50)[0] == [200] * 50
