"""A service with a limit on tokens a minute, in a time that runs faster; clients are not told how it is set up.

It counts by a sliding window, in UTF-8 bytes, as a client does that does not know the model's vocabulary.
"""

from __future__ import annotations

import collections
import math
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from kb.services.clock import Clock
from tests.llm_server import Reply, Request, chat_reply, embedding_rows, embeddings_reply, error_reply, scripted_server

DIMENSION = 8


def tokens_of(request: Request) -> int:
    """What a request counts for: its inputs, or its messages and what may be answered."""
    if "messages" in request.body:
        content = "".join(message["content"] for message in request.body["messages"])
        return len(content.encode()) // 3 + int(request.body["max_tokens"])
    return sum(len(text.encode()) for text in request.body["input"])


@dataclass
class Limited:
    """A script for a server, and what it has seen.

    Args:
        clock: The time that its window is measured in.
        tokens: Tokens within a window; refused requests don't count.
        requests: Requests within a window.
        window_seconds: A minute, as the world has it, or something else.
        retry_after: Say when the refused request will fit.
        tells: Send `x-ratelimit-*` headers.
        failures: This share of the requests fails: 429, 500, dropped, truncated, in equal parts.
        work_seconds: What a request takes.
    """

    clock: Clock
    tokens: int = 20_000
    requests: int = 10**9
    window_seconds: float = 60.0
    retry_after: bool = False
    tells: bool = False
    failures: float = 0.0
    work_seconds: float = 0.2
    seed: int = 5
    answered: list[str] = field(default_factory=list)
    """Texts of requests whose answers arrived whole, in order."""
    statuses: collections.Counter[int] = field(default_factory=collections.Counter)
    largest: int = 0
    """The largest request in tokens, answered or not."""

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._random = random.Random(self.seed)
        self._window: collections.deque[tuple[float, int]] = collections.deque()

    def __call__(self, request: Request) -> Reply:
        with self._lock:
            size = tokens_of(request)
            self.largest = max(self.largest, size)
            reply = self._refusal(size) or self._fault(request)
            if reply is None:
                self.answered += request.body.get("input", ())
                reply = self._answer(request)
            self.statuses[reply.status] += 1
            headers = {**reply.headers, **(self._headers() if self.tells else {})}
        return Reply(
            reply.status, reply.pieces, reply.content_type, headers, reply.drops, self.clock.real(self.work_seconds)
        )

    def _refusal(self, size: int) -> Reply | None:
        now = self.clock.now()
        while self._window and self._window[0][0] + self.window_seconds <= now:
            self._window.popleft()
        if self._used() + size <= self.tokens and len(self._window) < self.requests:
            self._window.append((now, size))
            return None
        if not self.retry_after:
            return error_reply(429, "Rate limit reached", "rate_limit_exceeded")
        return error_reply(429, "Rate limit reached", "rate_limit_exceeded", Retry_After=str(self._fits_in(size, now)))

    def _used(self) -> int:
        return sum(size for _, size in self._window)

    def _fits_in(self, size: int, now: float) -> int:
        used, count = self._used(), len(self._window)
        for at, passed in self._window:
            used, count = used - passed, count - 1
            if used + size <= self.tokens and count < self.requests:
                return math.ceil(at + self.window_seconds - now)
        return math.ceil(self.window_seconds)

    def _fault(self, request: Request) -> Reply | None:
        if self._random.random() >= self.failures:
            return None
        kind = self._random.choice(["rate", "error", "dropped", "truncated"])
        if kind == "rate":
            return error_reply(429, "Rate limit reached", "rate_limit_exceeded")
        if kind == "error":
            return error_reply(500, "overloaded")
        whole = b"".join(self._answer(request).pieces)
        return Reply(200, [whole[: len(whole) // 2]], drops=kind == "dropped")

    def _answer(self, request: Request) -> Reply:
        if "messages" in request.body:
            return chat_reply("fine")
        return embeddings_reply(request, embedding_rows(request, DIMENSION))

    def _headers(self) -> dict[str, str]:
        reset = self._window[-1][0] + self.window_seconds - self.clock.now() if self._window else 0.0
        return {
            "x-ratelimit-limit-tokens": str(self.tokens),
            "x-ratelimit-remaining-tokens": str(self.tokens - self._used()),
            "x-ratelimit-reset-tokens": f"{max(0.0, reset):.2f}s",
        }


@contextmanager
def limited_server(limited: Limited) -> Iterator[str]:
    """Run it; gives its base URL."""
    with scripted_server(limited) as server:
        yield server.base_url
