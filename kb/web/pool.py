"""Who answers questions: some processes, so many questions at once in each, some waiting, the rest refused."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing

from kb.errors import ConfigError
from kb.logs import note
from kb.processors import processors
from kb.settings import Settings
from kb.web.answer_process import AnswerProcess, Job, Launch, StartFault
from kb.web.answering import Wanted
from kb.web.refusals import Refusal
from kb.web.sse import Event

_MOST_BY_DEFAULT = 4
"""Processes: each holds a model. More are worth setting where that is measured."""
_AT_ONCE = 2
"""While one waits for the disk or for its pipe another computes."""
_AT_ONCE_ASKING_A_SERVICE = 16
"""A chat model answers for seconds, in which its process has nothing to do."""

_LASTED_SECONDS = 10.0
"""A process that ended sooner would soon end again: the next one is started after a pause."""
_MOST_PAUSE_SECONDS = 30.0


class Pool:
    """The processes of a server and the questions that wait for them. For one event loop."""

    def __init__(self, launch: Launch, settings: Settings) -> None:
        """Start nothing yet.

        Args:
            launch: What the processes open.
            settings: Those of the same knowledge base.
        """
        section = settings.web
        self._launch = launch
        self._count = section.workers or min(processors(), _MOST_BY_DEFAULT)
        self._at_once = section.at_once or (
            _AT_ONCE_ASKING_A_SERVICE if settings.generation.use == "openai" else _AT_ONCE
        )
        self._most_waiting = section.waiting
        self._ready: list[AnswerProcess] = []
        self._waiting: deque[asyncio.Future[Job]] = deque()
        self._keepers: list[asyncio.Task[None]] = []
        self._failed: str | None = None
        """Why the last process could not be started; None when one could."""
        self._started = False
        self._closing = False

    @property
    def fault(self) -> str | None:
        """Why no question would be answered now; None when one would."""
        if self._closing:
            return "the server is being shut down"
        return None if self._ready else self._failed or "the processes that answer are being started"

    async def start(self) -> None:
        """Start the processes, and wait until the first can be asked, or fails for another reason than the settings.

        Raises:
            ConfigError: the settings let none answer.
        """
        first = asyncio.get_running_loop().create_future()
        self._keepers = [asyncio.ensure_future(self._keep(first)) for _ in range(self._count)]
        fault = await first
        if fault is not None and fault.is_settings:
            await self.close()
            raise ConfigError(str(fault))
        self._started = True

    async def close(self) -> None:
        """End all processes; who waits is refused."""
        self._closing = True
        while self._waiting:
            if not (coming := self._waiting.popleft()).done():
                coming.set_exception(self._refusal())
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)

    async def stream(self, wanted: Wanted) -> AsyncGenerator[Event, None]:
        """The events of an answer; closing it stops what is under way.

        Raises:
            Refusal: nobody is free, and too many wait.
        """
        async with aclosing(self._events("stream", wanted)) as events:
            async for one in events:
                yield one

    async def search(self, wanted: Wanted) -> Event:
        """`found` or `error`; see `stream`."""
        async with aclosing(self._events("search", wanted)) as events:
            return await anext(events)

    async def _events(self, way: str, wanted: Wanted) -> AsyncGenerator[Event, None]:
        for is_last in (False, True):
            job = await self._job()
            async with aclosing(job.events(way, wanted)) as events:
                first = await anext(events)
                if job.died and not is_last:
                    continue  # nothing was told, so another one may answer; a question that kills kills two at most
                yield first
                async for one in events:
                    yield one
                return

    async def _job(self) -> Job:
        """A place in a process: in the order in which it was asked for."""
        if self._closing or (self._failed is not None and not self._ready):
            raise self._refusal()
        if not self._waiting and (process := self._freest()) is not None:
            return process.job()
        if len(self._waiting) >= self._most_waiting:
            raise Refusal(503, "busy", "too many questions are waiting; ask again in a moment", self._wait_seconds())
        coming: asyncio.Future[Job] = asyncio.get_running_loop().create_future()
        self._waiting.append(coming)
        try:
            return await coming
        except asyncio.CancelledError:
            if coming.done() and not coming.cancelled() and coming.exception() is None:
                coming.result().drop()
            elif coming in self._waiting:
                self._waiting.remove(coming)
            raise

    def _wait_seconds(self) -> float:
        """How long those who wait will probably take."""
        at_once = max(1, len(self._ready)) * self._at_once
        taken = max((process.seconds for process in self._ready), default=1.0)
        return (len(self._waiting) + at_once) / at_once * taken

    def _freest(self) -> AnswerProcess | None:
        process = min(self._ready, key=lambda one: one.busy, default=None)
        return process if process is not None and process.busy < self._at_once else None

    def _hand_out(self) -> None:
        """Let those who wait longest go on as far as there is room."""
        while self._waiting and (process := self._freest()) is not None:
            coming = self._waiting.popleft()
            if not coming.done():
                coming.set_result(process.job())

    def _refusal(self) -> Refusal:
        return Refusal(503, "busy", self.fault or "", 1.0)

    async def _keep(self, first: asyncio.Future[StartFault | None]) -> None:
        """Have one process, and another one when it ends."""
        pause = 0.0
        while True:
            started = time.monotonic()
            try:
                await self._run_one(first)
            except (StartFault, OSError) as error:
                fault = error if isinstance(error, StartFault) else StartFault(f"no process can be started: {error}")
                self._failed = str(fault)
                if self._started or not fault.is_settings:  # else it is the error that ends the command
                    note("worker failed", str(fault))
                if not first.done():
                    first.set_result(fault)
            pause = 0.0 if time.monotonic() - started > _LASTED_SECONDS else min(2 * pause + 1, _MOST_PAUSE_SECONDS)
            await asyncio.sleep(pause)

    async def _run_one(self, first: asyncio.Future[StartFault | None]) -> None:
        process = await AnswerProcess.start(self._launch, self._hand_out)
        try:
            await process.ready()
            self._failed = None
            self._ready.append(process)
            self._hand_out()
            if not first.done():
                first.set_result(None)
            how = await process.ended()
            note("worker died", f"a process that answers {how}; another one is started", pid=process.pid)
        finally:
            if process in self._ready:
                self._ready.remove(process)
            await process.close()
