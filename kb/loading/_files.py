"""Reading a file's bytes, and a document's name and id."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import unicodedata
from pathlib import Path

from kb.errors import LoadError

ID_LENGTH = 32
"""Hex digits of a document id: 128 bits, so two paths never share one by chance."""

BYTES_PER_MEGABYTE = 1024 * 1024

_OTHER_SURROGATE = re.compile("[\ud800-\udc7f\udd00-\udfff]")
"""Half a surrogate pair that stands for no byte."""


def readable_path(relative: str) -> str:
    r"""Give a relative path as it is stored and shown: NFC, forward slashes, valid Unicode.

    A name whose bytes are not UTF-8 reaches Python with lone surrogates, which neither a terminal
    nor a database takes; they are written as `\xff`.
    """
    if os.sep != "/":
        relative = relative.replace(os.sep, "/")
    if relative.isascii():  # as most names: a walk asks for every file
        return relative
    raw = relative.encode("utf-8", "surrogateescape" if _escaped(relative) else "surrogatepass")
    return unicodedata.normalize("NFC", raw.decode("utf-8", "backslashreplace"))


def _escaped(name: str) -> bool:
    """Whether every lone surrogate in `name` stands for one byte, as os.fsdecode makes them."""
    return _OTHER_SURROGATE.search(name) is None


def document_id(relative: str) -> str:
    """The id of the document at a relative path; NFC and NFD spellings give the same one."""
    return hashlib.sha256(readable_path(relative).encode("utf-8")).hexdigest()[:ID_LENGTH]


def check_file(path: Path, relative: str, max_bytes: int) -> None:
    """Refuse what cannot or should not be opened.

    Raises:
        LoadError: the file is missing, not a regular file, or larger than `max_bytes`.
    """
    try:
        status = path.stat()
    except (OSError, ValueError) as error:
        raise LoadError(relative, _os_reason(error)) from error
    if not stat.S_ISREG(status.st_mode):
        kind = "a folder" if stat.S_ISDIR(status.st_mode) else "a pipe, socket or device"
        raise LoadError(relative, f"this is {kind}, not a file; only regular files are read")
    if status.st_size > max_bytes:
        raise LoadError(
            relative,
            f"the file has {status.st_size / BYTES_PER_MEGABYTE:.1f} MB, more than the limit of "
            f"{max_bytes / BYTES_PER_MEGABYTE:.1f} MB; split it, or raise [loading] max_file_megabytes",
        )


def read_bytes(path: Path, relative: str) -> bytes:
    """Read a regular file.

    Raises:
        LoadError: it cannot be opened or read.
    """
    try:
        if not path.is_file():  # opening a pipe would wait for its other end for ever
            check_file(path, relative, 0)
        return path.read_bytes()
    except (OSError, ValueError) as error:
        raise LoadError(relative, _os_reason(error)) from error


def _os_reason(error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError):
        return "the file does not exist (any more)"
    if isinstance(error, PermissionError):
        return "no permission to read it; change its permissions and ingest again"
    if isinstance(error, OSError):
        return f"the system cannot read it: {error.strerror or error}"
    return f"its name cannot be used as a path: {error}"
