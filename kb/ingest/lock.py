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
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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


@contextmanager
def write_lock(folder: Path) -> Iterator[str | None]:
    """Hold the right to write to the collection in `folder`, which is created.

    What is given is who held it last and never let go of it: killed, or lost with its machine.

    It excludes other processes and other threads alike. A child made by fork inherits it, and keeps
    it until it ends: start worker processes by spawn.

    Raises:
        LockedError: someone else holds it; told at once, without waiting.
        StoreError: the file system cannot lock, or the folder cannot be written.
    """
    real = Path(os.path.realpath(folder))
    holder = real / _HOLDER_FILE
    try:
        real.mkdir(parents=True, exist_ok=True)
        file = (real / _LOCK_FILE).open("a+b")
    except OSError as error:
        raise StoreError(
            f"{real} cannot be written: {error.strerror}. Mend that, or choose another data_dir"
        ) from error
    with file:
        try:
            locked = _try_lock(file)
        except OSError as error:
            raise StoreError(
                f"{real / _LOCK_FILE} cannot be locked: {error}. Choose a data_dir on a local disk"
            ) from error
        if not locked:
            raise LockedError(_read_holder(holder))
        died = _read_holder(holder) if holder.exists() else None
        try:
            _write_holder(holder)
            yield died
        finally:
            with suppress(OSError):  # it is only a message; the next holder overwrites it
                holder.unlink(missing_ok=True)
            _unlock(file)


def _write_holder(holder: Path) -> None:
    content = {
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
        content = json.loads(holder.read_text(encoding="utf-8"))
        return f"process {content['pid']} on {content['host']}, since {content['started']}"
    except (OSError, ValueError, KeyError, TypeError):
        # It has the lock, and has not yet written, or has just removed, its name.
        return "a process that has only just begun or is about to end"


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
