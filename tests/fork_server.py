"""Child processes that cost milliseconds: a server imports what is heavy once, and forks itself for each task.

The server opens nothing itself, for an open Chroma does not survive a fork. A task is a function of a module,
called as `module:function`; its arguments and what it gives are JSON.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

ROOT = Path(__file__).parents[1]
MOST_SECONDS = 120
"""A task that takes longer is ended by the kernel, so that nothing waits for it for ever."""


class Child:
    """A task in a process of its own."""

    def __init__(self, server: ForkServer, pid: int, answer: Path) -> None:
        self._server = server
        self._answer = answer
        self.pid = pid

    def signal(self, number: int) -> None:
        """Send a signal; until `wait` the process id is not used again, so it can meet nobody else."""
        os.kill(self.pid, number)

    def wait(self) -> tuple[int, Any]:
        """Its exit status, negative for a signal, and what the task gave; None when it did not come to that."""
        code = os.waitstatus_to_exitcode(self._server.ask({"wait": self.pid}))
        given = json.loads(self._answer.read_text("utf-8")) if self._answer.exists() else None
        self._answer.unlink(missing_ok=True)
        return code, given

    def result(self) -> Any:
        """What the task gave, which has to end well."""
        code, given = self.wait()
        assert code == 0, f"the task ended with {code}"
        return given


class ForkServer:
    """The server, which has imported `modules`."""

    def __init__(self, *modules: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="kb-fork-")
        self._started = 0
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.fork_server", *modules],
            cwd=ROOT,
            # A fork copies one thread only: no library may have started others by then.
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, task: str, **arguments: Any) -> Child:
        """Begin a task."""
        self._started += 1
        answer = Path(self._folder.name, str(self._started))
        return Child(self, self.ask({"task": task, "arguments": arguments, "answer": str(answer)}), answer)

    def call(self, task: str, **arguments: Any) -> Any:
        """Do a task, and give what it gives."""
        return self.start(task, **arguments).result()

    def ask(self, request: dict[str, Any]) -> int:
        """Send one request; each is answered by a number."""
        assert self._process.stdin is not None, "it is a pipe"
        assert self._process.stdout is not None, "it is a pipe"
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._process:
            self._process.kill()
        self._folder.cleanup()


def _serve(modules: list[str]) -> None:
    for name in modules:
        importlib.import_module(name)
    answers = os.dup(1)
    os.dup2(2, 1)  # what a task prints is no answer
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            number = os.waitpid(request["wait"], 0)[1]
        else:
            number = os.fork()
            if not number:
                _do(request)
        os.write(answers, f"{number}\n".encode())


def _do(request: dict[str, Any]) -> NoReturn:
    signal.alarm(MOST_SECONDS)
    status = 1
    try:
        module, _, function = request["task"].partition(":")
        given = getattr(importlib.import_module(module), function)(**request["arguments"])
        Path(request["answer"]).write_text(json.dumps(given), "utf-8")
        status = 0
    except BaseException:  # noqa: BLE001  whatever it is, this process must not go on as a second server
        traceback.print_exc()
    finally:
        os._exit(status)


if __name__ == "__main__":
    _serve(sys.argv[1:])
