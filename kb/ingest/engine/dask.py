"""On many machines: the workers of a Dask scheduler read, cut and embed; this process keeps the ledger and the store.

Every worker has kb installed and sees the folder of documents at the same path. What a worker does changes
nothing, so when one dies, another does it again.

Rocklin, Dask: Parallel Computation with Blocked Algorithms and Task Scheduling, 2015, doi:10.25080/Majora-7b98e3ed-013.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import os
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from distributed import Client, KilledWorker, Security, get_worker
from distributed.comm.core import CommClosedError

from kb.errors import ConfigError, KbError, ServiceError
from kb.ingest.engine import local
from kb.ingest.engine._bench import Bench, bench_for, is_service, setup_for
from kb.ingest.engine._fit import brief, differs, look, seen, unfit
from kb.ingest.engine._helped import HelpedEngine, HelperDiedError, SpreadEmbedder
from kb.ingest.engine._sent import SentVectors, Setup, as_json

if TYPE_CHECKING:
    from kb.ingest.engine import Engine, Means
    from kb.ingest.walk import FoundFile
    from kb.settings import DaskTable

_Result = TypeVar("_Result")

_Client: Any = Client
_Security: Any = Security
"""Half of what they offer has no types."""

_LOOK_SECONDS = 1.0
"""Between two looks whether there are workers, while nothing comes."""

_COUNT_SECONDS = 5.0
"""Between two counts of the workers' threads; who joins is given work from the next one on."""

_CLOSE_SECONDS = 1.0
"""For saying goodbye to the scheduler; Ctrl-C ends a run within two seconds, also when the scheduler is stuck."""

_CANCELLED = (asyncio.CancelledError, concurrent.futures.CancelledError)

_WITHOUT_WORKERS = {"NoValidWorkerError", "NoWorkerError"}
"""By name, as not every version has both: of a scheduler that was told to wait only so long for workers."""

_FIRST = 1
"""The priority of texts to embed: a batch of documents waits for them, while files are prepared ahead."""


@contextmanager
def open_engine(means: Means, due: Sequence[FoundFile]) -> Iterator[Engine]:
    """Connect to the scheduler, and see that its workers are fit; nothing is asked when no file is due.

    Raises:
        ConfigError: no scheduler is set, a file of TLS is missing, or a worker differs from this machine.
        ServiceError: no scheduler answers there, or it has no workers.
    """
    if not due:
        with local.open_engine(means, due) as engine:
            yield engine
        return
    embedder = means.lent.embedder
    with _quiet(), _Cluster(means.settings.ingest.dask, setup_for(means)) as cluster:
        cluster.check(due)
        yield HelpedEngine(
            cluster, embedder if is_service(embedder) else SpreadEmbedder(embedder, cluster), means.chunker
        )


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Dask from writing about lost workers on stderr: what matters of it ends up in the report or an error."""
    loggers = [logging.getLogger(name) for name in ("distributed", "distributed.client")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def cut_off(error: BaseException, *, of_task: bool) -> bool:
    """Whether an error means that the scheduler has gone, or forgotten what it was asked.

    Args:
        error: What came instead of a result.
        of_task: Whether a task raised it on its worker, or fetching what the task gave did here. There, an error of
            the system is the worker's own trouble; here, a lost, refused or late connection is an OSError, a client
            that has given up a RuntimeError, and what it still waited for is cancelled.
    """
    if isinstance(error, (*_CANCELLED, CommClosedError)):
        return True
    return not of_task and isinstance(error, (OSError, RuntimeError))


class _Cluster:
    """A scheduler with its workers, for one ingest."""

    def __init__(self, table: DaskTable, setup: Setup) -> None:
        if not table.scheduler:
            raise ConfigError('[ingest] engine = "dask" needs [ingest.dask] scheduler, such as "tcp://host:8786"')
        self.files_ahead = table.files_ahead
        self._table = table
        self._setup = setup
        self._name = f"the Dask scheduler at {table.scheduler}"
        security = _security(table)
        try:
            self._client = _Client(
                table.scheduler, timeout=table.connect_seconds, security=security, set_as_default=False
            )
        except Exception as error:  # whatever is at that address, and whatever it answers
            raise ServiceError(
                f"{self._name} does not answer within {table.connect_seconds:g} seconds ({brief(error)}): start it "
                "with `dask scheduler`, or mend [ingest.dask] scheduler",
                service=self._name,
            ) from error
        self._threads = 1
        self._counted = 0.0
        self._last_seen = time.monotonic()

    def __enter__(self) -> _Cluster:
        return self

    def __exit__(self, *raised: object) -> None:
        """Leave the scheduler, which then drops what was asked of it."""
        with suppress(Exception, *_CANCELLED):
            self._client.close(timeout=_CLOSE_SECONDS)

    @property
    def threads(self) -> int:
        """How many things the workers do at the same time; at least 1."""
        if time.monotonic() - self._counted > _COUNT_SECONDS:
            self._count()
        return self._threads

    def check(self, due: Sequence[FoundFile]) -> None:
        """See that there are workers, and that each is as this machine and sees the files.

        Raises:
            ServiceError: there are none.
            ConfigError: one differs; which, and both values.
        """
        try:
            with self._asking():
                self._client.wait_for_workers(1, timeout=self._table.connect_seconds)
        except TimeoutError as error:
            raise self._no_workers(self._table.connect_seconds) from error
        shown = next(filter(None, map(seen, due)), None)
        with self._asking():
            answers = self._client.run(look, self._setup, *(shown or ()), on_error="return")
        for address, found in answers.items():
            if isinstance(found, OSError):
                continue  # it has just died: another one does its work, or it is looked at when it is back
            if isinstance(found, BaseException):
                raise unfit(address, found) from found
            if found:
                raise differs(address, found)

    def prepare(self, file: FoundFile) -> Future[tuple[str, bytes]]:
        """Have a file prepared."""
        return self._submit("prepare", _prepare, file, priority=0)

    def embed(self, texts: Sequence[str], *, keeping: bool) -> Future[SentVectors]:
        """Have texts embedded."""
        return self._submit("embed", _embed, list(texts), keeping, priority=_FIRST)

    def wait(self, futures: Sequence[Future[Any]]) -> set[Future[Any]]:
        """Wait until one of them is done: all that are.

        Raises:
            ServiceError: the scheduler has gone, or there was no worker for `no_workers_seconds`.
        """
        self._last_seen = time.monotonic()
        while True:
            done = concurrent.futures.wait(futures, _LOOK_SECONDS, FIRST_COMPLETED).done
            if done:
                return done
            self._count()
            without = time.monotonic() - self._last_seen
            if without > self._table.no_workers_seconds:
                raise self._no_workers(without)

    def _submit(self, what: str, task: Callable[..., _Result], *given: Any, priority: int) -> Future[_Result]:
        """Have a task done, and its result fetched as soon as it is there."""
        key = f"kb-{what}-{uuid.uuid4().hex}"
        with self._asking():
            future = self._client.submit(task, self._setup, *given, key=key, pure=False, priority=priority)
        result: Future[_Result] = Future()
        future.add_done_callback(partial(self._fetch, result))
        return result

    def _fetch(self, result: Future[Any], future: Any) -> None:
        """Fetch what a task gave, now that it is done, in the client's own thread, many at the same time."""
        if future.status == "finished":
            # Not while it is pending: what waits for it inside would complain when the run is ended.
            gathered = self._client.gather(future, asynchronous=True)
            try:
                fetched = asyncio.run_coroutine_threadsafe(gathered, self._client.loop.asyncio_loop)
            except RuntimeError as error:  # the client has ended
                gathered.close()
                self._failed(result, error, future.status)
                return
            fetched.add_done_callback(partial(self._hand_over, result, future))
            return
        erred = future.exception() if future.status == "error" else None
        self._failed(result, erred or concurrent.futures.CancelledError(), future.status)

    def _hand_over(self, result: Future[Any], future: Any, fetched: Future[Any]) -> None:
        if fetched.cancelled():
            self._failed(result, concurrent.futures.CancelledError(), future.status)
        elif (error := fetched.exception()) is not None:
            self._failed(result, error, future.status)
        elif result.set_running_or_notify_cancel():
            result.set_result(fetched.result())

    def _failed(self, result: Future[Any], error: BaseException, status: str) -> None:
        if result.set_running_or_notify_cancel():
            result.set_exception(self._told(error, of_task=status == "error"))

    def _told(self, error: BaseException, *, of_task: bool) -> Exception:
        """What an error means here: of a task, or of fetching what it gave."""
        if isinstance(error, KilledWorker):
            return HelperDiedError(f"the last was {error.last_worker.address}")
        if isinstance(error, KbError):
            return error
        if type(error).__name__ in _WITHOUT_WORKERS:
            return self._no_workers(time.monotonic() - self._last_seen)
        if cut_off(error, of_task=of_task) or not self._connected:
            return self._gone()
        return KbError(
            f"a worker of {self._name} failed ({brief(error)}); look into its log, and whether its packages are those "
            "of this machine"
        )

    @property
    def _connected(self) -> bool:
        return bool(self._client.status == "running")

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Whatever goes wrong while the scheduler is asked means that it has gone, but for waiting in vain."""
        try:
            yield
        except _CANCELLED as error:
            raise self._gone() from error
        except Exception as error:  # each version of Dask says it otherwise
            if isinstance(error, TimeoutError) and self._connected:
                raise
            raise self._gone() from error

    def _count(self) -> None:
        if not self._connected:
            raise self._gone()  # it would be sought for long, and one that began anew knows nothing of this ingest
        try:
            with self._asking():
                threads = sum(self._client.nthreads().values())
        except TimeoutError as error:
            raise self._gone() from error
        self._counted = time.monotonic()
        if threads:
            self._threads, self._last_seen = threads, self._counted

    def _gone(self) -> ServiceError:
        return ServiceError(
            f"{self._name} has dropped the tasks of this ingest: it ended or began anew, or somebody cancelled them. "
            "What was done is kept; start the ingest again",
            service=self._name,
        )

    def _no_workers(self, seconds: float) -> ServiceError:
        return ServiceError(
            f"{self._name} has had no worker for {seconds:.0f} seconds: start some with `dask worker "
            f"{self._table.scheduler} --nthreads 1`, and ingest again; what was done is kept",
            service=self._name,
        )


# ── what a worker does ──


def _prepare(setup: Setup, file: FoundFile) -> tuple[str, bytes]:
    """Read and cut a file: this worker's address, and a `Sent` as JSON."""
    return get_worker().address, as_json(_fit_bench(setup).prepare(file))


def _embed(setup: Setup, texts: Sequence[str], keeping: bool) -> SentVectors:
    return _fit_bench(setup).embed(texts, keeping=keeping)


def _fit_bench(setup: Setup) -> Bench:
    """The bench; of a worker that came later than the check, it is looked at here."""
    bench = bench_for(setup)
    if bench.differences:
        raise differs(get_worker().address, bench.differences)
    return bench


def _security(table: DaskTable) -> Any:
    files = {"tls_ca_file": table.tls_ca_file, "tls_client_cert": table.tls_cert_file}
    files["tls_client_key"] = table.tls_key_file
    given = {name: str(Path(path).expanduser()) for name, path in files.items() if path}
    if given and not table.scheduler.startswith("tls://"):
        raise ConfigError(
            f"[ingest.dask] scheduler = {table.scheduler!r}: with files of TLS it should begin with tls://"
        )
    for path in given.values():
        if not os.access(path, os.R_OK):
            raise ConfigError(f"[ingest.dask]: the file of TLS {path} is not there, or cannot be read")
    return _Security(require_encryption=True, **given) if given else None
