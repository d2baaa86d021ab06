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

from kb.errors import ConfigError, KbError, ServiceError
from kb.ingest.engine import local
from kb.ingest.engine._bench import Bench, bench_for, is_service, setup_for
from kb.ingest.engine._helped import HelpedEngine, HelperDiedError, SpreadEmbedder
from kb.ingest.engine._sent import Difference, SentVectors, Setup, as_json

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
        except (OSError, ValueError, TypeError, RuntimeError) as error:
            raise ServiceError(
                f"{self._name} does not answer within {table.connect_seconds:g} seconds ({_brief(error)}): start it "
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
        with suppress(OSError, RuntimeError, concurrent.futures.CancelledError, asyncio.CancelledError):
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
            self._client.wait_for_workers(1, timeout=self._table.connect_seconds)
        except TimeoutError as error:
            raise self._no_workers(self._table.connect_seconds) from error
        seen = next(filter(None, map(_seen, due)), None)
        answers = self._client.run(_look, self._setup, *(seen or ()), on_error="return")
        for address, found in answers.items():
            if isinstance(found, BaseException):
                raise _unfit(address, found) from found
            if found:
                raise ConfigError(_differs(address, found))

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
        try:
            future = self._client.submit(task, self._setup, *given, key=key, pure=False, priority=priority)
        except Exception as error:  # the client has closed itself, which each version says otherwise
            raise self._gone() from error
        result: Future[_Result] = Future()
        future.add_done_callback(partial(self._fetch, result))
        return result

    def _fetch(self, result: Future[Any], future: Any) -> None:
        """Fetch what a task gave, now that it is done, in the client's own thread, many at the same time."""
        if future.status == "finished":
            # Not while it is pending: what waits for it inside would complain when the run is ended.
            gathered = self._client.gather(future, asynchronous=True)
            fetched = asyncio.run_coroutine_threadsafe(gathered, self._client.loop.asyncio_loop)
            fetched.add_done_callback(partial(self._hand_over, result))
        elif result.set_running_or_notify_cancel():
            result.set_exception(self._told(future.exception()) if future.status == "error" else self._gone())

    def _hand_over(self, result: Future[Any], fetched: Future[Any]) -> None:
        if not result.set_running_or_notify_cancel():
            return
        if fetched.cancelled():
            result.set_exception(self._gone())
        elif (error := fetched.exception()) is not None:
            result.set_exception(self._told(error))
        else:
            result.set_result(fetched.result())

    def _told(self, error: BaseException) -> BaseException:
        """What a task's error means here."""
        if isinstance(error, KilledWorker):
            return HelperDiedError(f"the last was {error.last_worker.address}")
        if isinstance(error, KbError):
            return error
        if isinstance(error, (asyncio.CancelledError, concurrent.futures.CancelledError)):
            return self._gone()
        return KbError(
            f"a worker of {self._name} failed ({_brief(error)}); look into its log, and whether its packages are those "
            "of this machine"
        )

    def _count(self) -> None:
        try:
            threads = sum(self._client.nthreads().values())
        except Exception as error:  # the connection is lost, which each version says otherwise
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


def _look(setup: Setup, path: str = "", size: str = "", changed: str = "") -> tuple[Difference, ...]:
    """What differs on this worker; beside settings, how a file looks."""
    found = bench_for(setup).differences
    if path:
        there = _seen_at(path)
        if isinstance(there, OSError):
            found = (*found, Difference(f"the file {path}", "is there", str(there.strerror)))
        elif there != (size, changed):
            found = (*found, Difference(f"the file {path}", f"{size}, {changed}", ", ".join(there)))
    return found


def _prepare(setup: Setup, file: FoundFile) -> tuple[str, bytes]:
    """Read and cut a file: this worker's address, and a `Sent` as JSON."""
    return get_worker().address, as_json(_fit_bench(setup).prepare(file))


def _embed(setup: Setup, texts: Sequence[str], keeping: bool) -> SentVectors:
    return _fit_bench(setup).embed(texts, keeping=keeping)


def _fit_bench(setup: Setup) -> Bench:
    """The bench; of a worker that came later than the check, it is looked at here."""
    bench = bench_for(setup)
    if bench.differences:
        raise ConfigError(_differs(get_worker().address, bench.differences))
    return bench


# ── words ──


def _seen(file: FoundFile) -> tuple[str, str, str] | None:
    """Path, size and time of a file, as it is now; None when it has just gone."""
    found = _seen_at(str(file.location))
    return None if isinstance(found, OSError) else (str(file.location), *found)


def _seen_at(path: str) -> tuple[str, str] | OSError:
    try:
        status = os.stat(path)
    except OSError as error:
        return error
    # Whole seconds: some network file systems keep no more.
    return f"{status.st_size} bytes", f"changed at {int(status.st_mtime)}"


def _differs(address: str, found: Sequence[Difference]) -> str:
    first = found[0]
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return (
        f"the worker {address} differs from this machine in {first.what}{more}: {first.here!r} here, {first.there!r} "
        "there. Give it the same kb, packages and folder of documents, or take it off the scheduler; nothing was "
        "prepared by it"
    )


def _unfit(address: str, error: BaseException) -> KbError:
    return ConfigError(
        f"the worker {address} cannot help ({_brief(error)}): install the same kb and packages there, or take it off "
        "the scheduler"
    )


def _brief(error: BaseException) -> str:
    """An error in one line; ours as it is."""
    said = " ".join(str(error).split())
    return said if isinstance(error, KbError) else f"{type(error).__name__}: {said[:300]}"


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
