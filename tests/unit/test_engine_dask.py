"""In which shapes a scheduler that has gone shows itself, and which errors are a worker's own."""

from __future__ import annotations

import asyncio
import concurrent.futures
import ssl
import sys

import pytest
from distributed.client import FutureCancelledError
from distributed.comm.core import CommClosedError, FatalCommClosedError
from distributed.core import RPCClosed

from kb.ingest.engine.dask import cut_off

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="as the engine's other tests")

CANCELLED = [
    asyncio.CancelledError(),
    concurrent.futures.CancelledError(),
    FutureCancelledError("a key", "scheduler-connection-lost"),
    FutureCancelledError("a key", "scheduler-restart"),
    CommClosedError("in <TCP (closed) ConnectionPool.gather>: Connection reset by peer"),
    FatalCommClosedError("the certificate is another one"),
]
LOST = [
    RPCClosed("RPC Closed: while trying to call remote method 'gather'"),
    ConnectionResetError(104, "Connection reset by peer"),
    OSError("Timed out trying to connect to tcp://127.0.0.1:8786 after 30 s"),
    TimeoutError(),
    ssl.SSLError("closed"),
    RuntimeError("Event loop is closed"),
]
OTHER = [ValueError("x"), ModuleNotFoundError("No module named 'kb'"), MemoryError(), TypeError("of unpickling")]


@pytest.mark.parametrize("error", [*CANCELLED, *LOST], ids=repr)
def test_when_a_result_cannot_be_fetched_for_want_of_a_connection_the_scheduler_has_gone(error: BaseException) -> None:
    assert cut_off(error, of_task=False)


@pytest.mark.parametrize("error", CANCELLED, ids=repr)
def test_a_task_that_was_cancelled_was_not_done_by_its_worker(error: BaseException) -> None:
    assert cut_off(error, of_task=True)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), RuntimeError("no thread"), *OTHER], ids=repr)
def test_what_a_task_raised_is_its_workers_trouble(error: BaseException) -> None:
    assert not cut_off(error, of_task=True)


@pytest.mark.parametrize("error", OTHER, ids=repr)
def test_what_cannot_be_read_here_is_no_lost_connection(error: BaseException) -> None:
    assert not cut_off(error, of_task=False)
