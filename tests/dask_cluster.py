"""A real Dask scheduler and real workers on free ports of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.chroma_server import free_port

_SECONDS = 90.0
"""A busy machine takes long for a process and its imports."""

_SOONER = {
    # Two workers that die of a task are enough to tell; Dask itself waits for four.
    "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1",
    # A nanny starts its workers from a process that has imported Dask, and a killed one is back at once.
    "DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD": "forkserver",
}
"""Settings of Dask that change nothing but how long a test takes."""


class Cluster:
    """A scheduler, and the workers that are started for it; all are ended with the fixture that made it."""

    def __init__(
        self, folder: Path, processes: ExitStack, environment: Mapping[str, str], certificate: Path | None
    ) -> None:
        self.folder = folder
        """Where scheduler and workers run."""
        options = ("--tls-ca-file", "--tls-cert", "--tls-key")
        self._tls = [] if certificate is None else [word for name in options for word in (name, str(certificate))]
        self._ending = processes
        self.processes: list[subprocess.Popen[bytes]] = []
        """The scheduler and all workers that were started."""
        self._environment = {**os.environ, **_SOONER, **environment}
        protocol = "tls" if self._tls else "tcp"
        self.address = f"{protocol}://127.0.0.1:{free_port()}"
        place = ["--protocol", protocol, "--host", "127.0.0.1", "--port", self.address.rpartition(":")[2]]
        self.scheduler = self._start("scheduler", *place, "--no-dashboard")

    def add_workers(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start workers; `wait_for` says when they are there."""
        return self._start("worker", self.address, "--nthreads", "1", "--no-dashboard", *arguments)

    def settings(self, **more: Any) -> dict[str, Any]:
        """The section `[ingest]` for it."""
        return {"engine": "dask", "dask": {"scheduler": self.address, "connect_seconds": 60, **more}}

    def variables(self, **more: str) -> dict[str, str]:
        """The same as variables."""
        named = {f"KB_INGEST__DASK__{name.upper()}": value for name, value in more.items()}
        return {
            "KB_INGEST__ENGINE": "dask",
            "KB_INGEST__DASK__SCHEDULER": self.address,
            "KB_INGEST__DASK__CONNECT_SECONDS": "60",
            **named,
        }

    def wait_for(self, workers: int) -> None:
        """Wait until so many workers have registered, since the scheduler was started."""
        self._wait_for_line(b"Register worker", workers)

    def wait_until_it_listens(self) -> None:
        """Wait for the scheduler itself."""
        self._wait_for_line(b"Scheduler at:", 1)

    def _wait_for_line(self, text: bytes, times: int) -> None:
        deadline = time.monotonic() + _SECONDS
        while (self._log("scheduler").read_bytes()).count(text) < times:
            assert self.scheduler.poll() is None, self._log("scheduler").read_text()
            assert time.monotonic() < deadline, self._log("scheduler").read_text()
            time.sleep(0.05)

    def _log(self, kind: str) -> Path:
        return self.folder / f"{kind}.log"

    def _start(self, kind: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.dask_{kind}", *self._tls, *arguments]
        with self._log(kind).open("ab") as log:
            process = subprocess.Popen(
                command, cwd=self.folder, env=self._environment, stdout=log, stderr=log, start_new_session=True
            )
        self._ending.callback(_end, process)
        self.processes.append(process)
        return process


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and all that it has started: nobody waits for what they were doing."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextmanager
def dask_cluster(folder: Path, *, certificate: Path | None = None, **environment: str) -> Iterator[Cluster]:
    """A scheduler without workers; what is started for it runs in `folder`.

    With a certificate that is its own authority, key included, all of them speak TLS and want to see it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as processes:
        yield Cluster(folder, processes, environment, certificate)


def worker_of(reader: int) -> int:
    """The worker that has started a process which reads."""
    status = Path("/proc", str(reader), "stat").read_text(encoding="utf-8")
    return int(status.rpartition(")")[2].split()[1])
