"""One ingest at a time into a collection, held by the operating system.

Two writers on one vector index damage it without an error. The lock is the kernel's, on the open
file `lock`, so it ends with the process that holds it, however that ends; the file itself stays.
Who holds it stands in a small file beside it, for the message.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from kb.errors import LockedError, StoreError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_LOCK_FILE = "lock"
_HOLDER_FILE = "lock.holder"

_UNNAMED = "a process that has only just begun or is about to end"

_LOOK_SECONDS = 0.05
"""`lock_state` holds the lock for a moment when it looks; after this it has let go."""

_LEFT_BEHIND_SECONDS = 10.0
"""A process that a holder had started to write for it ends after the holder, when it was killed; at once on Linux."""


@dataclass(frozen=True, slots=True)
class LockState:
    """Who writes to a collection."""

    held: bool
    holder: str | None
    """Who holds it; if nobody does, who died while holding it."""
    work: str | None = None
    """What it does or did: `ingest`, `repair` …"""
    since: str | None = None
    """UTC."""


FREE = LockState(held=False, holder=None)


@dataclass(frozen=True, slots=True)
class HeldLock:
    """The right to write to a collection."""

    died: LockState
    """Who held it last and never let go of it, killed or lost with its machine; `FREE` when nobody did."""
    file: int
    """The descriptor that the lock is on: a process that inherits it keeps others out until both have ended."""


def lock_state(folder: Path) -> LockState:
    """Look who holds the lock of a collection, without waiting and without keeping anybody out."""
    try:
        content = (folder / _HOLDER_FILE).read_text(encoding="utf-8")
        file = (folder / _LOCK_FILE).open("rb")
    except OSError:  # whoever holds it says so, so nobody does
        return FREE
    with file:
        try:
            held = not _try_lock(file)
        except OSError:  # the file system cannot lock, so nobody could take it
            held = False
        if not held:
            _unlock(file)
    return LockState(held, *_in_words(content))


@contextmanager
def write_lock(folder: Path, work: str = "ingest") -> Iterator[HeldLock]:
    """Hold the right to write to the collection in `folder`, which is created.

    It excludes other processes and other threads alike. A child made by fork inherits it, and keeps
    it until it ends: start worker processes by spawn.

    Args:
        folder: The collection's folder.
        work: What it is held for, in a word.

    Raises:
        LockedError: someone else holds it; told at once, without waiting.
        StoreError: the file system cannot lock, or the folder cannot be written.
    """
    real = Path(os.path.realpath(folder))
    holder = real / _HOLDER_FILE
    with _open(real) as file:
        try:
            locked = _lock(file, holder)
        except OSError as error:
            raise StoreError(
                f"{real / _LOCK_FILE} cannot be locked: {error}. Choose a data_dir on a local disk"
            ) from error
        # A lock on a file that was deleted with its collection in between keeps nobody out.
        if not locked or not _same_file(file, real / _LOCK_FILE):
            raise LockedError(_read_holder(holder))
        try:
            before = _left(holder)
            _write_holder(holder, work)
            yield HeldLock(before, file.fileno())
        finally:
            with suppress(OSError):  # it is only a message; the next holder overwrites it
                holder.unlink(missing_ok=True)
            _unlock(file)


def _open(real: Path) -> IO[bytes]:
    try:
        real.mkdir(parents=True, exist_ok=True)
        return (real / _LOCK_FILE).open("a+b")
    except OSError as error:
        raise StoreError(
            f"{real} cannot be written: {error.strerror}. Mend that, or choose another data_dir"
        ) from error


def _same_file(file: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except OSError:
        return False


def _write_holder(holder: Path, work: str) -> None:
    content = {
        "work": work,
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "started": datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
    }
    unfinished = holder.with_suffix(".unfinished")
    try:
        unfinished.write_text(json.dumps(content), encoding="utf-8")
        unfinished.replace(holder)
    except OSError as error:
        raise StoreError(f"{holder} cannot be written: {error.strerror}. Make room, or mend its permissions") from error


def _read_holder(holder: Path) -> str:
    try:
        holder_in_words, work, _ = _in_words(holder.read_text(encoding="utf-8"))
    except OSError:  # it has the lock, and has not yet written, or has just removed, its name
        return _UNNAMED
    return holder_in_words if work in (None, "ingest") else f"{work} by {holder_in_words}"


def _lock(file: IO[bytes], holder: Path) -> bool:
    """Take the lock: who only looks lets go in a moment, and what a killed holder has left behind ends soon."""
    until = time.monotonic() + _LEFT_BEHIND_SECONDS
    while not _try_lock(file):
        time.sleep(_LOOK_SECONDS)
        if _try_lock(file):
            break
        if not _is_dead(holder) or time.monotonic() > until:
            return False
    return True


def _is_dead(holder: Path) -> bool:
    """Whether the process that took the lock is no more, on this machine."""
    if sys.platform == "win32":  # there a signal to look would end it
        return False
    try:
        told = json.loads(holder.read_text(encoding="utf-8"))
        if told["host"] != socket.gethostname():
            return False
        os.kill(int(told["pid"]), 0)
    except ProcessLookupError:
        return True
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return False
    return False


def _left(holder: Path) -> LockState:
    """What a holder left that did not come to its end."""
    try:
        return LockState(False, *_in_words(holder.read_text(encoding="utf-8")))
    except OSError:
        return FREE


def _in_words(content: str) -> tuple[str, str | None, str | None]:
    """A holder as it wrote itself down, its work, and since when."""
    try:
        told = json.loads(content)
        started = str(told["started"])
        return f"process {told['pid']} on {told['host']}, since {started}", str(told.get("work", "ingest")), started
    except (ValueError, KeyError, TypeError):
        return _UNNAMED, None, None


if sys.platform == "win32":

    def _try_lock(file: IO[bytes]) -> bool:
        file.seek(0)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        return True

    def _unlock(file: IO[bytes]) -> None:
        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, 1)

else:

    def _try_lock(file: IO[bytes]) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _unlock(file: IO[bytes]) -> None:
        fcntl.flock(file, fcntl.LOCK_UN)
