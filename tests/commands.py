"""The real commands, as people start them: with pipes, or on a terminal of a given width."""

from __future__ import annotations

import errno
import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from tests.command_server import CommandServer

ROOT = Path(__file__).parents[1]
QUERY, INGEST = "kb.query", "pipelines.ingest"
SECONDS = 60.0
"""A busy machine is slow; a command that hangs is found out all the same."""

SERVER = CommandServer()

FAST = {"KB_EMBEDDING__USE": "hashing", "KB_STORE__USE": "memory"}


def environment(**variables: str | None) -> dict[str, str]:
    """The environment of a command: the fast parts and no taste of this terminal; None takes a variable away."""
    ours = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "LINES", "TERM")}
    ours.update(FAST, PYTHONPATH=str(ROOT), TERM="xterm-256color")
    ours.update({name: value for name, value in variables.items() if value is not None})
    return {name: value for name, value in ours.items() if name not in variables or variables[name] is not None}


def command(module: str, *arguments: str) -> list[str]:
    return [sys.executable, "-W", "error", "-m", module, *arguments]


def run(
    module: str,
    *arguments: str,
    cwd: Path,
    stdin: str | bytes = "",
    env: Mapping[str, str | None] | None = None,
    **variables: str | None,
) -> subprocess.CompletedProcess[str]:
    """Run a command with pipes; what it writes must be UTF-8. `env` and `variables` are the same."""
    changed = {**(env or {}), **variables}
    given = environment(**changed)
    content = stdin.encode() if isinstance(stdin, str) else stdin
    line = command(module, *arguments)
    if any(name.startswith("PYTHON") for name in changed):  # only a new interpreter looks at those
        done = subprocess.run(
            line, cwd=cwd, env=given, input=content, capture_output=True, timeout=2 * SECONDS, check=False
        )
        status, out, said = done.returncode, done.stdout, done.stderr
    else:
        status, out, said = SERVER.run(module, arguments, cwd, given, content, 2 * SECONDS)
    return subprocess.CompletedProcess(line, status, out.decode(), said.decode())


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    """The only line on stderr."""
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    return lines[0]


class Screen:
    """A command on a pseudo-terminal, both its outputs together."""

    def __init__(self, arguments: Sequence[str], cwd: Path, columns: int, variables: Mapping[str, str | None]) -> None:
        self._terminal, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        self._process = subprocess.Popen(
            arguments,
            cwd=cwd,
            env=environment(**variables),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            preexec_fn=_own_terminal,
        )
        os.close(slave)
        self._seen = b""

    def type(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())

    def wait_for(self, text: str, after: int = 0) -> int:
        """Read until `text` stands behind position `after`; give the position behind it."""
        wanted = text.encode()
        while (at := self._seen.find(wanted, after)) < 0:
            if not self._read():
                self._give_up(f"it ended before {text!r} came")
        return at + len(wanted)

    def end(self, insisting: str = "") -> tuple[int, str]:
        """Read to the end; the exit status, and everything that was on the screen.

        `insisting` is typed each second until then: readline loses a Ctrl-C between its prompt and its waiting.
        """
        while True:
            while insisting and not select.select([self._terminal], [], [], 1.0)[0]:
                self.type(insisting)
            if not self._read():
                break
        os.close(self._terminal)
        return self._process.wait(SECONDS), self._seen.decode().replace("\r\n", "\n")

    def _read(self) -> bool:
        if not select.select([self._terminal], [], [], SECONDS)[0]:
            self._give_up("nothing more came")
        try:
            more = os.read(self._terminal, 65536)
        except OSError as error:
            if error.errno != errno.EIO:  # what Linux says at the end
                raise
            more = b""
        self._seen += more
        return bool(more)

    def _give_up(self, reason: str) -> NoReturn:
        self._process.kill()
        self._process.wait()
        os.close(self._terminal)
        raise AssertionError(f"{reason}: {self._seen.decode(errors='replace')}")


def _own_terminal() -> None:
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # so that Ctrl-C reaches the command


def on_terminal(module: str, *arguments: str, cwd: Path, columns: int = 80, **variables: str | None) -> Screen:
    return Screen(command(module, *arguments), cwd, columns, variables)


def screen(module: str, *arguments: str, cwd: Path, columns: int = 80, **variables: str | None) -> tuple[int, str]:
    """Run a command on a terminal to its end."""
    return on_terminal(module, *arguments, cwd=cwd, columns=columns, **variables).end()
