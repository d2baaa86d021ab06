"""Starting the processes that help an ingest, and saying how one ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

_END_SECONDS = 2.0
"""Between the end of a process's output and its own end."""

_WITHOUT_MEMORY = ("SIGABRT", "SIGTRAP", "SIGILL")
"""How a native library ends itself when it gets none."""

NO_CONSOLE = int(getattr(subprocess, "CREATE_NO_WINDOW", 0))
"""On Windows a process would show a console of its own where the program has none."""


def start_helper(main: str, *, inherit: tuple[int, ...] = (), **environment: str) -> subprocess.Popen[bytes]:
    """Run the file `main` in a process of its own, with pipes to its stdin and from its stdout.

    By its path, not by multiprocessing: that would import the caller's `__main__` a second time, which a
    notebook or stdin does not have, and which a script without a guard runs again.

    Args:
        main: The file. It finds no modules but the standard library's until it is told `module_path()`.
        inherit: Descriptors that stay open in it; none on Windows.
        environment: Variables beside those of this process.

    Raises:
        OSError: the system cannot start it.
    """
    return subprocess.Popen(
        helper_command(main),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # native libraries complain there
        env={**os.environ, **environment},
        creationflags=NO_CONSOLE,
        pass_fds=inherit,
    )


def helper_command(main: str) -> list[str]:
    """What `start_helper` runs."""
    return [sys.executable, "-P", main]  # -P: the file's folder is no place to import from


def module_path() -> list[str]:
    """Where modules are, as here: the program may have been started from its folder, or have put another one there."""
    path = [os.path.abspath(entry) for entry in sys.path]
    home = str(Path(__file__).parents[2])
    return path if home in path else [*path, home]


def how_it_ended(process: subprocess.Popen[bytes]) -> str:
    """Say how a process ended whose output has come to its end."""
    try:
        status = process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        return "gave no answer that makes sense"
    return ended_with(status)


def ended_with(status: int) -> str:
    """Say what a process's exit status, negative for a signal, tells of its end."""
    if status >= 0:
        return f"ended with exit status {status}"
    name = signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"
    if name == "SIGKILL":
        return "was killed (SIGKILL), perhaps because the machine had no memory left"
    return f"crashed ({name})" + ", perhaps for want of memory" * (name in _WITHOUT_MEMORY)
