"""The real commands in processes that cost milliseconds: a server imports what they import, and forks itself for each.

What is forked runs the module as `python -m` does, with arguments, folder, environment, outputs and exit
status of its own, and ends as an interpreter ends. Only the imports are there already, which tests of the
start-up are about.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
MODULES = (
    "kb.query",
    "kb.serve",
    "kb.mcp",
    "pipelines.ingest",
    "pipelines.status",
    "pipelines.export",
    "pipelines.import",
    "pipelines.copy",
    "kb.knowledge_base",
    "kb.web.server",
    "kb.web.agents",
    "kb.ingest.run",
    "kb.ingest.reading",
    "kb.ingest.engine.local",
    "kb.ingest.workers",
    "kb.ingest.estimate",
    "kb.maintenance.upkeep",
    "kb.chunking.recursive",
    "kb.embedding.hashing",
    "kb.store.memory",
    "kb.rerank.none",
    "kb.generation.extractive",
    "kb.loading.markdown",
    "kb.loading.text",
)


class CommandServer:
    """The server, started when the first command is run."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int | None:
        """None before the first command."""
        return None if self._process is None else self._process.pid

    def run(
        self, module: str, arguments: Sequence[str], cwd: Path, env: Mapping[str, str], stdin: bytes, seconds: float
    ) -> tuple[int, bytes, bytes]:
        """Run a command to its end: exit status, stdout and stderr."""
        if self._process is None or self._process.poll() is not None:
            self._process = self._start(env)
        with tempfile.TemporaryDirectory(prefix="kb-command-") as folder:
            given, out, err = (Path(folder, name) for name in ("in", "out", "err"))
            given.write_bytes(stdin)
            request = {
                "module": module,
                "arguments": list(arguments),
                "cwd": str(cwd),
                "env": dict(env),
                "files": [str(given), str(out), str(err)],
                "seconds": seconds,
            }
            assert self._process.stdin is not None, "it is a pipe"
            assert self._process.stdout is not None, "it is a pipe"
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            code = os.waitstatus_to_exitcode(int(self._process.stdout.readline()))
            return code, out.read_bytes(), err.read_bytes()

    def _start(self, env: Mapping[str, str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "tests.command_server"],
            cwd=ROOT,
            env={**env, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )


def _serve() -> tuple[str, list[str]] | None:
    """Fork for each request; in the child, what it has to run."""
    gc.freeze()
    answers = os.dup(1)
    with os.fdopen(os.dup(0)) as requests:  # the child has to find stdin as it was
        while line := requests.readline():
            request = json.loads(line)
            pid = os.fork()
            if not pid:
                os.close(answers)
                return _prepare(request)
            os.write(answers, f"{os.waitpid(pid, 0)[1]}\n".encode())
    return None


def _prepare(request: dict[str, Any]) -> tuple[str, list[str]]:
    """Make this process what the shell would have made it."""
    signal.alarm(int(request["seconds"]))
    modes = (os.O_RDONLY, os.O_WRONLY | os.O_CREAT, os.O_WRONLY | os.O_CREAT)
    for number, (name, mode) in enumerate(zip(request["files"], modes, strict=True)):
        opened = os.open(name, mode)
        os.dup2(opened, number)
        os.close(opened)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.path[0] = request["cwd"]
    return request["module"], request["arguments"]


if __name__ == "__main__":
    for name in MODULES:
        importlib.import_module(name)
    if (wanted := _serve()) is not None:
        sys.argv[1:] = wanted[1]
        sys.modules.pop(wanted[0], None)  # it is run, not imported
        runpy.run_module(wanted[0], run_name="__main__", alter_sys=True)
