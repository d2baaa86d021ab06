"""A connection that sends no whole request in time is closed; one that waits for an answer is not."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from kb.web.connections import patient_for

PATIENCE = 0.3
WHOLE = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[[], AbstractAsyncContextManager[Stream]]


async def _slow(scope: Scope, receive: Receive, send: Send) -> None:
    await asyncio.sleep(3 * PATIENCE)
    await PlainTextResponse("answered")(scope, receive, send)


def with_server(work: Callable[[Connect], Awaitable[None]]) -> None:
    """Run `work` with a function that connects to a server which takes three times as long to answer as it waits."""

    async def run() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            config = uvicorn.Config(_slow, http=patient_for(PATIENCE), log_config=None, lifespan="off")
            server = uvicorn.Server(config)
            serving = asyncio.create_task(server.serve(sockets=[listening]))
            try:
                await work(lambda: connected(*listening.getsockname()))
            finally:
                server.should_exit = True
                await serving

    asyncio.run(run())


@asynccontextmanager
async def connected(host: str, port: int) -> AsyncIterator[Stream]:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def whole(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionResetError:  # how a closed connection shows itself to one that was still sending
        return b""


async def seconds_until_closed(reader: asyncio.StreamReader) -> float:
    started = time.monotonic()
    async with asyncio.timeout(20 * PATIENCE):
        assert await whole(reader) == b""
    return time.monotonic() - started


def test_a_connection_that_sends_nothing_is_closed() -> None:
    async def work(connect: Connect) -> None:
        async with connect() as (reader, _):
            assert await seconds_until_closed(reader) >= 0.9 * PATIENCE

    with_server(work)


def test_a_head_that_comes_byte_by_byte_does_not_buy_time() -> None:
    async def work(connect: Connect) -> None:
        async with connect() as (reader, writer):
            closed = asyncio.create_task(whole(reader))
            started = time.monotonic()
            for byte in WHOLE[:-1] * 10:
                if closed.done():
                    break
                writer.write(bytes((byte,)))
                await asyncio.sleep(PATIENCE / 20)
            assert await closed == b""
            assert time.monotonic() - started < 10 * PATIENCE

    with_server(work)


def test_who_waits_for_an_answer_is_waited_for_and_may_ask_again() -> None:
    async def work(connect: Connect) -> None:
        async with connect() as (reader, writer):
            for _ in range(2):
                writer.write(WHOLE)
                assert (await reader.readuntil(b"answered")).startswith(b"HTTP/1.1 200")
            writer.write(WHOLE[:10])  # a third one that never ends
            await seconds_until_closed(reader)

    with_server(work)
