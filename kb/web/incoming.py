"""One file while it is received: on the disk piece by piece, then under its name, never over another file."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from kb.web.refusals import Refusal
from kb.web.safe_names import folded, numbered

if sys.platform != "win32":
    import fcntl

INCOMING = ".incoming-"
"""How its name begins meanwhile; an ingest passes over hidden files."""

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
"""What a file system says that has no hard links."""


class Incoming:
    """A file while it is received, beside where it will stand. It has to be closed."""

    def __init__(self, folder: Path, most: int) -> None:
        """Begin.

        Args:
            folder: Where; it exists.
            most: Bytes.

        Raises:
            Refusal: nothing can be written there.
        """
        self.file = folder / f"{INCOMING}{secrets.token_hex(8)}"
        self.size = 0
        self._most = most
        self._hash = hashlib.sha256()
        with told(folder):
            self._opened = self.file.open("xb", buffering=0)
            _claim(self._opened.fileno())

    def close(self) -> None:
        """Delete what was not kept."""
        with suppress(OSError):
            self._opened.close()
        with suppress(OSError):
            self.file.unlink()

    def write(self, content: bytes) -> None:
        """Take more of it.

        Raises:
            Refusal: it is too large, or the disk is full.
        """
        self.size += len(content)
        if self.size > self._most:
            raise Refusal(413, "too_large", f"the file is larger than {self._most:,} bytes")
        self._hash.update(content)
        left = memoryview(content)
        with told(self.file.parent):
            while left:
                left = left[self._opened.write(left) :]

    def finish(self) -> str:
        """Have it on the disk, whatever happens to the machine; its hash.

        Raises:
            Refusal: it is empty, or the disk is full.
        """
        if not self.size:
            raise Refusal(422, "empty", "the file is empty")
        with told(self.file.parent):
            os.fsync(self._opened.fileno())
        return self._hash.hexdigest()

    def keep_as(self, name: str) -> str:
        """Give it its name, or that name with a number when another file has it; what it is now."""
        folder = self.file.parent
        while True:
            taken = {folded(entry) for entry in os.listdir(folder)}
            names = (name if number == 1 else numbered(name, number) for number in count(1))
            free = next(one for one in names if folded(one) not in taken)
            try:
                _move(self.file, folder / free)
            except FileExistsError:
                continue  # it came just now
            sync(folder)
            return free


def hash_of(file: Path) -> str:
    """The hash of a file's content, as the ledger has it."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _move(received: Path, to: Path) -> None:
    try:
        os.link(received, to)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        to.open("xb").close()  # so the name is ours
        try:
            received.replace(to)
        except OSError:
            to.unlink()
            raise


def sync(folder: Path) -> None:
    """Have a folder's entries on the disk."""
    if sys.platform == "win32":
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _claim(opened: int) -> None:
    """Show other servers that the file is being written, as long as this process lives."""
    if sys.platform != "win32":
        with suppress(OSError):  # a file system that cannot lock
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)


def is_left_over(file: Path) -> bool:
    """Whether nobody writes an incoming file any more: its server was killed."""
    if sys.platform == "win32":  # there a file that is open cannot be deleted
        return True
    with file.open("rb") as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


@contextmanager
def told(folder: Path) -> Iterator[None]:
    """Turn what the system says into an answer."""
    try:
        yield
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise Refusal(507, "no_room", "the server's disk has no room for it; nothing was stored") from error
        reason = f"{folder.name} cannot be written: {error.strerror}"
        raise Refusal(500, "storage", f"the server's folder {reason}") from error
