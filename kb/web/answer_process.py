"""A process that answers questions, as the server sees it; what runs in it is `kb.web._answer_main`."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import count
from typing import Any, Self

from kb.ingest.processes import NO_CONSOLE, ended_with, helper_command, module_path
from kb.logs import LOGGER, event, note
from kb.web import _answer_main
from kb.web._answer_main import EVENT, FAULT, HEADER, LOGGED, READY
from kb.web.answering import Wanted
from kb.web.refusals import Refusal
from kb.web.sse import Event
from kb.web.sse import event as stream_event

_NEWEST_COUNTS = 0.1
"""Of the time that a question takes, beside nine tenths for those before."""

_END_SECONDS = 2.0
"""For a process whose stdin has ended."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How another process opens the same knowledge base."""

    config: str | None = None
    overrides: dict[str, Any] = field(default_factory=dict)


class StartFault(Exception):
    """A process could not be made ready."""

    def __init__(self, message: str, *, is_settings: bool = False) -> None:
        super().__init__(message)
        self.is_settings = is_settings
        """Trying it again is of no use."""


class Job:
    """A question's place in a process: taken when it is made, free again when the process has ended its work."""

    def __init__(self, process: AnswerProcess, number: int) -> None:
        self._process = process
        self._number = number
        self.told: asyncio.Queue[Event | None] = asyncio.Queue()
        """Events as they come; None: that was the last. An answer is some kilobytes, however slowly it is read."""
        self.taken = time.monotonic()
        self.died = False
        """Whether the process has died with it."""

    async def events(self, way: str, wanted: Wanted) -> AsyncGenerator[Event, None]:
        """Ask, and give what is told; leaving it stops the answer.

        Args:
            way: A key of `kb.web.answering.WAYS`.
            wanted: What is asked.
        """
        self._process.say({"question": self._number, "way": way, "wanted": asdict(wanted)})
        told: Event | None = None
        try:
            while (told := await self.told.get()) is not None:
                yield told
            self._number = 0
        finally:
            if self._number:
                self._process.say({"question": self._number})

    def drop(self) -> None:
        """Give the place back before anything was asked."""
        self._process.forget(self._number)


class AnswerProcess:
    """One process. For one event loop."""

    def __init__(self, process: Process, on_free: Callable[[], None]) -> None:
        self._process = process
        self._on_free = on_free
        self._numbers = count(1)
        self.seconds = 0.0
        """What a question takes, on the average of the last ones."""
        self._jobs: dict[int, Job] = {}
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Looked at: who waits for it may have been cancelled.
        self._ready.add_done_callback(lambda ready: ready.cancelled() or ready.exception())
        self._reading = asyncio.ensure_future(self._read())

    @classmethod
    async def start(cls, launch: Launch, on_free: Callable[[], None]) -> Self:
        """Start one; it is to be asked once it is `ready`.

        Args:
            launch: What it opens.
            on_free: Called each time that it can take one more question.

        Raises:
            OSError: the system starts no process.
        """
        process = await asyncio.create_subprocess_exec(
            *helper_command(_answer_main.__file__),
            stdin=PIPE,
            stdout=PIPE,
            stderr=asyncio.subprocess.DEVNULL,  # native libraries complain there
            creationflags=NO_CONSOLE,
        )
        one = cls(process, on_free)
        one.say({"path": module_path(), "log_level": LOGGER.getEffectiveLevel(), **asdict(launch)})
        return one

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    @property
    def busy(self) -> int:
        """Questions that it has taken and not ended."""
        return len(self._jobs)

    async def ready(self) -> None:
        """Wait until it can be asked.

        Raises:
            StartFault: it can't.
        """
        await asyncio.shield(self._ready)

    async def ended(self) -> str:
        """Wait for its end, and say how it ended."""
        await asyncio.shield(self._reading)
        return ended_with(await self._process.wait())

    def job(self) -> Job:
        """Take a place."""
        number = next(self._numbers)
        self._jobs[number] = Job(self, number)
        return self._jobs[number]

    def forget(self, number: int) -> None:
        """Free a place."""
        if (job := self._jobs.pop(number, None)) is not None:
            self.seconds += _NEWEST_COUNTS * (time.monotonic() - job.taken - self.seconds)
            self._on_free()

    def say(self, message: dict[str, Any]) -> None:
        """Send a line; one that has died reads none, which `ended` tells."""
        stdin = self._process.stdin
        assert stdin is not None, "it is a pipe"
        if not stdin.is_closing():
            stdin.write(json.dumps(message).encode() + b"\n")

    async def close(self) -> None:
        """End it."""
        stdin = self._process.stdin
        assert stdin is not None, "it is a pipe"
        stdin.close()
        try:
            async with asyncio.timeout(_END_SECONDS):
                await self._process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                self._process.kill()
        await self.ended()

    async def _read(self) -> None:
        """Read what it tells until it has ended."""
        stdout = self._process.stdout
        assert stdout is not None, "it is a pipe"
        try:
            while True:
                kind, number, length = HEADER.unpack(await stdout.readexactly(HEADER.size))
                self._take(kind, number, await stdout.readexactly(length))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # it has ended
        finally:
            with suppress(ProcessLookupError):
                self._process.kill()
            self._died(ended_with(await self._process.wait()))

    def _died(self, how: str) -> None:
        if not self._ready.done():
            self._ready.set_exception(StartFault(f"the process that answers {how}"))
        died = Refusal(503, "worker_died", f"the process that was answering {how}; ask again", 1.0)
        for number, job in tuple(self._jobs.items()):
            job.died = True
            job.told.put_nowait(stream_event("error", {**died.body, "status": died.status}))
            job.told.put_nowait(None)
            self.forget(number)

    def _take(self, kind: bytes, number: int, payload: bytes) -> None:
        if kind == READY:
            self._ready.set_result(None)
        elif kind == FAULT:
            fault = json.loads(payload)
            self._ready.set_exception(StartFault(fault["message"], is_settings=fault["is_settings"]))
        elif kind == LOGGED:
            name, level, message, fields = json.loads(payload)
            if level >= logging.WARNING:
                note(name, message, **fields)
            else:
                event(name, **fields)
        elif kind == EVENT:
            name, _, data = payload.decode().partition("\n")
            self._jobs[number].told.put_nowait(Event(name, data))
        else:
            self._jobs[number].told.put_nowait(None)
            self.forget(number)
