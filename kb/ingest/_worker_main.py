"""A process that reads files for an ingest; `kb.ingest.workers` starts it by this file's path.

Before the first line on stdin, which says where modules are and what the limits are, nothing but the
standard library is imported. Then each line is a request, a path and the name to show, and what is wanted of a
page when not the document; each answer a header and so many bytes.

What this process writes is not trusted: a file may have taken it over. So a document travels as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import sys
from collections.abc import Mapping
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kb.records import Document

HEADER = struct.Struct("!c?Q")
"""What follows, whether this process can go on with other files, and how many bytes follow."""

READY, DOCUMENT, PAGE, REASON = b"R", b"D", b"P", b"E"

_BYTES_PER_MEGABYTE = 1024 * 1024

_GRACE_SECONDS = 5.0
"""The parent ends a file that takes too long; so much later the kernel does, in case there is no parent any more."""

_SHARE_KEPT = 0.5
"""A process that holds more of its memory limit after a file is replaced: the next file has a right to the whole."""

_LEAST_KEPT_BYTES = 100 * _BYTES_PER_MEGABYTE
"""So much the loaders' packages may hold, however low the limit is."""


def main() -> None:
    """Read files until stdin ends."""
    if sys.platform != "win32":
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent as well, which ends this process
    requests, answers = _pipes()
    setup = json.loads(requests.readline())
    sys.path[:] = setup["path"]
    waiting: SimpleQueue[bytes] = SimpleQueue()
    Thread(target=_receive, args=(requests, waiting), daemon=True).start()
    try:
        import kb.loading

        kb.loading.loader_suffixes()
    except Exception as error:  # noqa: BLE001  whatever it is, the parent has to say it
        _send(answers, REASON, f"{type(error).__name__}: {error}".encode("utf-8", "replace"), goes_on=False)
        return
    _limit(setup["max_memory_megabytes"])
    _send(answers, READY, b"", goes_on=True)
    while True:
        path, relative, *wanted = json.loads(waiting.get())
        _alarm(setup["max_seconds"] + _GRACE_SECONDS)
        kind, payload, goes_on = _read(Path(path), relative, setup, *wanted)
        _alarm(0)
        _send(answers, kind, payload, goes_on=goes_on and _resident_bytes() <= _most_kept(setup))


def _pipes() -> tuple[IO[bytes], IO[bytes]]:
    """Take stdin and stdout away from everything else: a library that prints must not write into an answer."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)
    return requests, answers


def _receive(requests: IO[bytes], waiting: SimpleQueue[bytes]) -> None:
    for line in requests:
        waiting.put(line)
    os._exit(0)  # the parent has gone, however it ended, so nobody waits for what is being read


def _send(answers: IO[bytes], kind: bytes, payload: bytes, *, goes_on: bool) -> None:
    answers.write(HEADER.pack(kind, goes_on, len(payload)))
    answers.write(payload)
    answers.flush()


def _read(
    path: Path, relative: str, setup: Mapping[str, Any], page: Mapping[str, Any] | None = None
) -> tuple[bytes, bytes, bool]:
    """Read one file, or look at a page of it: what comes, its bytes, and whether memory has held out."""
    from kb.errors import LoadError
    from kb.loading import load_document, look_at_page

    try:
        if page is not None:
            options, most = setup["options"], setup["max_file_bytes"]
            return PAGE, look_at_page(path, relative, page, options=options, max_bytes=most), True
        document = load_document(path, relative, options=setup["options"], max_bytes=setup["max_file_bytes"])
        return DOCUMENT, _as_json(document, setup["max_text_megabytes"]), True
    except (LoadError, MemoryError) as error:
        if isinstance(error, LoadError) and not _for_want_of_memory(error):
            return REASON, error.reason.encode("utf-8", "replace"), True
        return REASON, _memory_reason(setup["max_memory_megabytes"]).encode(), False


def _as_json(document: Document, max_megabytes: float) -> bytes:
    from pydantic_core import to_json

    from kb.errors import LoadError

    most = int(max_megabytes * _BYTES_PER_MEGABYTE)
    # Characters first: what has exploded should not be copied once more.
    if len(document.text) <= most:
        try:
            content: bytes = to_json(document, inf_nan_mode="constants")
        except ValueError as error:  # half a surrogate pair, or metadata that is no plain value
            reason = f"the loader {document.kind} gave what is no text ({error}); please report this file"
            raise LoadError(document.path, reason) from error
        if len(content) <= most:
            return content
    raise LoadError(
        document.path,
        f"its text has more than {max_megabytes:g} MB, headings included; split it, or raise [loading] "
        "max_text_megabytes",
    )


def _for_want_of_memory(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, MemoryError):
        error = error.__cause__ or error.__context__
    return error is not None


def _memory_reason(max_megabytes: float) -> str:
    return (
        f"reading it takes more than {max_megabytes:g} MB of memory; split it, or raise [loading] max_memory_megabytes"
    )


def _limit(max_megabytes: float) -> None:
    """Limit what this process can take: on Linux all of its data, elsewhere what the system counts."""
    if sys.platform == "win32":
        return
    import resource

    most = int(max_megabytes * _BYTES_PER_MEGABYTE)
    for kind, limit in ((resource.RLIMIT_DATA, most), (resource.RLIMIT_CORE, 0)):
        try:
            resource.setrlimit(kind, (limit, limit))
        except (OSError, ValueError):  # a lower one is set already, or the system has none
            continue


def _alarm(seconds: float) -> None:
    """Let the kernel end this process in so many seconds; 0 takes that back."""
    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_REAL, seconds)


def _resident_bytes() -> int:
    """The memory held now; 0 where the system does not say."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    except OSError:
        return 0
    return int(pages) * os.sysconf("SC_PAGESIZE")


def _most_kept(setup: Mapping[str, Any]) -> int:
    half = int(_SHARE_KEPT * setup["max_memory_megabytes"] * _BYTES_PER_MEGABYTE)
    return max(half, _LEAST_KEPT_BYTES)


if __name__ == "__main__":
    main()
