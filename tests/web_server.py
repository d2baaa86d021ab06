"""A real server on a free port: `python -m kb.serve` in a process of its own, with its folder of documents."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.commands import command, environment

SECONDS = 60.0


@dataclass
class WebServer:
    """One server and a client for it."""

    url: str
    process: subprocess.Popen[str]
    folder: Path
    """Where config.toml, the documents and the data are."""
    client: httpx.Client
    log: list[str] = field(default_factory=list)
    """What it wrote to stderr, line by line, as it comes."""

    def settled(self, seconds: float = SECONDS) -> None:
        """Wait until no ingest goes on or waits."""
        self.wait_until(lambda: not self.client.get("/status").json()["ingesting"], "no ingest goes on", seconds)

    def wait_until(self, holds: Any, what: str, seconds: float = SECONDS) -> None:
        deadline = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < deadline, f"after {seconds} s still not: {what}"
            time.sleep(0.05)

    def events(self, response: httpx.Response) -> Iterator[tuple[str, dict[str, Any]]]:
        """The named events of a stream as they come."""
        name = ""
        for line in response.iter_lines():
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                yield name, json.loads(line.removeprefix("data: "))

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        """End it; its exit status."""
        self.process.send_signal(how)
        return self.process.wait(SECONDS)


@contextmanager
def serving(
    folder: Path,
    config: str = "",
    *,
    arguments: tuple[str, ...] = (),
    env: Mapping[str, str | None] | None = None,
    headers: Mapping[str, str] | None = None,
    verify: Any = True,
) -> Iterator[WebServer]:
    """Serve a folder until the block ends.

    Args:
        folder: Gets a config.toml, and `documents` when it is not there.
        config: More of config.toml; tables only.
        arguments: More of the command line.
        env: More environment; None takes a variable away. Without it the parts are the fast ones.
        headers: What the client always sends.
        verify: As `httpx.Client` takes it.
    """
    documents = folder / "documents"
    documents.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(f'documents_dir = "documents"\ndata_dir = "data"\n{config}\n', encoding="utf-8")
    process = subprocess.Popen(
        command("kb.serve", "--port", "0", *arguments),
        cwd=folder,
        env=environment(**(env or {})),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    log: list[str] = []
    reader = threading.Thread(target=_read, args=(process, log), daemon=True)
    reader.start()
    try:
        url = _address(process, log)
        with httpx.Client(base_url=url, timeout=SECONDS, headers=headers, verify=verify, trust_env=False) as client:
            server = WebServer(url, process, folder, client, log)
            server.wait_until(lambda: client.get("/readyz").status_code == 200, "ready")
            yield server
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(SECONDS)
            except subprocess.TimeoutExpired:
                os.kill(process.pid, signal.SIGKILL)
                process.wait()
        reader.join(SECONDS)
        assert process.stderr is not None, "it is a pipe"
        process.stderr.close()


def _read(process: subprocess.Popen[str], log: list[str]) -> None:
    assert process.stderr is not None, "it is a pipe"
    log.extend(iter(process.stderr.readline, ""))  # extend takes each line as it comes


def _address(process: subprocess.Popen[str], log: list[str]) -> str:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        for line in log:
            if found := re.search(r"kb answers at (\S+)", line):
                return found[1].rstrip("/").replace("//0.0.0.0", "//127.0.0.1")
        assert process.poll() is None or not log, "".join(log)
        time.sleep(0.02)
    raise AssertionError(f"the server did not start: {''.join(log)}")
