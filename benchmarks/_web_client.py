"""A client for streams that costs little: beside the server on one machine, what it takes is missing there."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import Any, Self


@dataclass(slots=True)
class Outcome:
    """What came of one question."""

    status: int
    hits_seconds: float = 0.0
    """Until the event that tells what was found."""
    seconds: float = 0.0
    done: dict[str, Any] | None = None
    retry_after: float | None = None
    faults: list[str] = field(default_factory=list)


class Connection:
    """One connection of HTTP/1.1 that is kept open."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str) -> None:
        self._reader = reader
        self._writer = writer
        self._host = host

    @classmethod
    async def open(cls, host: str, port: int) -> Self:
        """Connect."""
        return cls(*await asyncio.open_connection(host, port), f"{host}:{port}")

    def close(self) -> None:
        """Close."""
        self._writer.close()

    async def ask(self, question: str) -> Outcome:
        """Ask by POST /ask/stream, and read to the end."""
        body = json.dumps({"question": question}).encode()
        head = (
            f"POST /ask/stream HTTP/1.1\r\nHost: {self._host}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        started = time.perf_counter()
        self._writer.write(head.encode() + body)
        status, headers = await self._head()
        outcome = Outcome(status)
        if "content-length" in headers:
            await self._reader.readexactly(int(headers["content-length"]))
        else:
            await self._events(outcome, started)
        outcome.seconds = time.perf_counter() - started
        if "retry-after" in headers:
            outcome.retry_after = float(headers["retry-after"])
        return outcome

    async def _head(self) -> tuple[int, dict[str, str]]:
        lines = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in lines[1:] if line)
        return int(lines[0].split()[1]), {name.lower(): value.strip() for name, _, value in pairs}

    async def _events(self, outcome: Outcome, started: float) -> None:
        kept = b""
        while size := int(await self._reader.readuntil(b"\r\n"), 16):
            kept += (await self._reader.readexactly(size + 2))[:-2]
            *events, kept = kept.split(b"\n\n")
            for event in events:
                self._take(event, outcome, started)
        await self._reader.readexactly(2)

    def _take(self, event: bytes, outcome: Outcome, started: float) -> None:
        if event.startswith(b"event: hits\n"):
            outcome.hits_seconds = time.perf_counter() - started
        elif event.startswith(b"event: done\n"):
            outcome.done = json.loads(event.partition(b"\ndata: ")[2])
        elif event.startswith(b"event: error\n"):
            outcome.faults.append(event.decode())
