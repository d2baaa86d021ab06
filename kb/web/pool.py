"""Who answers questions: so many at once, some waiting, the rest refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from kb.asynchronous import computed, iterated
from kb.knowledge_base import KnowledgeBase
from kb.settings import Settings
from kb.web.answering import Wanted, events_of, search
from kb.web.collections import Collections
from kb.web.refusals import Refusal
from kb.web.sse import Event


@dataclass(frozen=True, slots=True)
class Launch:
    """How another process opens the same knowledge base."""

    config: str | None = None
    overrides: dict[str, Any] = field(default_factory=dict)


class Pool:
    """Answers in threads of this process."""

    def __init__(self, launch: Launch, settings: Settings) -> None:
        self._launch = launch
        self._section = settings.web
        self._collections: Collections | None = None
        self._free = asyncio.Semaphore(2)
        self._waiting = 0
        self.fault: str | None = "the workers are being started"
        """Why no question would be answered now; None when one would."""

    async def start(self) -> None:
        """Start."""
        self._collections = Collections(KnowledgeBase.open(self._launch.config, **self._launch.overrides))
        self.fault = None

    async def close(self) -> None:
        """End."""
        self.fault = "the server is being shut down"
        if self._collections is not None:
            self._collections.close()

    async def stream(self, wanted: Wanted) -> AsyncGenerator[Event, None]:
        """The events of an answer; closing it stops what is under way.

        Raises:
            Refusal: nobody is free, and too many wait.
        """
        async with (
            self._turn() as collections,
            aclosing(iterated(lambda: events_of(collections, wanted))) as events,
        ):
            async for one in events:
                yield one

    async def search(self, wanted: Wanted) -> Event:
        """`found` or `error`; see `stream`."""
        async with self._turn() as collections:
            return await computed(lambda: search(collections, wanted))

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[Collections]:
        if self.fault is not None or self._collections is None:
            raise Refusal(503, "busy", self.fault or "", 1.0)
        if self._free.locked() and self._waiting >= self._section.waiting:
            raise Refusal(503, "busy", "too many questions are waiting; ask again in a moment", 1.0)
        self._waiting += 1
        try:
            await self._free.acquire()
        finally:
            self._waiting -= 1
        try:
            yield self._collections
        finally:
            self._free.release()
