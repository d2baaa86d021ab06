"""One worker process: started, asked to read a file, ended; used by one thread at a time."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from kb.errors import KbError, LoadError
from kb.ingest import _worker_main
from kb.ingest._worker_main import DOCUMENT, HEADER, PAGE, READY
from kb.ingest.processes import how_it_ended, module_path, start_helper

if TYPE_CHECKING:
    from kb.ingest.walk import FoundFile
    from kb.settings import LoadingSection

_START_SECONDS = 60.0
"""A busy machine takes seconds for a process and its imports."""

_BYTES_PER_MEGABYTE = 1024 * 1024

_MOST_OF_A_REASON = 2000
"""Bytes; a library's message can quote the file."""

_MOST_OF_A_PAGE = 32 * _BYTES_PER_MEGABYTE
"""Its picture without any compression is smaller."""


def setup_line(section: LoadingSection, options: Mapping[str, Mapping[str, Any]]) -> bytes:
    """What a process is told before its first file; through the pipe, as options may hold passwords."""
    setup = {
        "path": module_path(),
        "options": {name: dict(table) for name, table in options.items()},
        "max_file_bytes": int(section.max_file_megabytes * _BYTES_PER_MEGABYTE),
        "max_text_megabytes": section.max_text_megabytes,
        "max_seconds": section.max_seconds,
        "max_memory_megabytes": section.max_memory_megabytes,
    }
    return json.dumps(setup).encode() + b"\n"


class Worker:
    """A process that reads one file after the other."""

    def __init__(self) -> None:
        """Start the process.

        Raises:
            KbError: the system cannot start it.
        """
        try:
            # Several processes read; none needs threads for its sums.
            self._process = start_helper(_worker_main.__file__, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
        except OSError as error:
            raise _cannot_start(str(error.strerror)) from error
        assert self._process.stdin is not None, "it is a pipe"
        assert self._process.stdout is not None, "it is a pipe"
        self._requests, self._answers = self._process.stdin, self._process.stdout
        self._late = False
        self.can_go_on = False
        """Whether it may be given another file."""

    @property
    def ended(self) -> bool:
        """Whether the process is no more."""
        return self._process.poll() is not None

    def prepare(self, setup: bytes) -> None:
        """Wait until it can read files.

        Raises:
            KbError: it cannot.
        """
        with self._killed_after(_START_SECONDS):
            kind, content = self._ask(setup, _MOST_OF_A_REASON)
        if kind != READY:
            said = content.decode("utf-8", "replace")
            late = f"it was not ready within {_START_SECONDS:g} seconds"
            raise _cannot_start(said or (late if self._late else how_it_ended(self._process)))

    def read(self, file: FoundFile, limits: LoadingSection) -> bytes:
        """Read a file: its document as JSON, not yet checked.

        Raises:
            LoadError: the loader says so, or the process did not survive it; then it can't go on.
        """
        request = [str(file.path), file.relative]
        most = int(limits.max_text_megabytes * _BYTES_PER_MEGABYTE)
        with self._killed_after(limits.max_seconds):
            kind, content = self._ask(_line(request), most)
        if kind == DOCUMENT:
            return content
        if kind:
            reason = content[:_MOST_OF_A_REASON].decode("utf-8", "replace")
        elif self._late:
            reason = f"it was not read within {limits.max_seconds:g} seconds; split it, or raise [loading] max_seconds"
        else:
            reason = (
                f"the process that read it {how_it_ended(self._process)}; open and save it anew, or, if it is very "
                "large, split it or raise [loading] max_memory_megabytes"
            )
        raise LoadError(file.relative, reason)

    def look_at(self, file: FoundFile, page: Mapping[str, Any], seconds: float) -> bytes:
        """Look at a page of a file, within so many seconds: what `kb.loading.look_at_page` gives, not yet checked.

        Raises:
            LoadError: it cannot be shown, or the process did not survive it; then it can't go on.
        """
        with self._killed_after(seconds):
            kind, content = self._ask(_line([str(file.path), file.relative, page]), _MOST_OF_A_PAGE)
        if kind == PAGE:
            return content
        if kind:
            reason = content[:_MOST_OF_A_REASON].decode("utf-8", "replace")
        elif self._late:
            reason = f"the page cannot be shown: it takes more than {seconds:g} seconds"
        else:
            reason = f"the page cannot be shown: the process that looked at it {how_it_ended(self._process)}"
        raise LoadError(file.relative, reason)

    def kill(self) -> None:
        """End the process at once, whichever thread waits for it."""
        self._process.kill()

    def end(self) -> None:
        """End the process, and release what is held of it; no other thread may be waiting for it."""
        self._process.kill()
        self._process.wait()
        self._answers.close()
        with suppress(OSError):  # of what was not sent yet: nobody reads it any more
            self._requests.close()

    def _ask(self, line: bytes, most: int) -> tuple[bytes, bytes]:
        """Send a line: what it answers, and its bytes; nothing when it has ended, or answers beyond measure."""
        self.can_go_on = False
        with suppress(BrokenPipeError):  # it has ended: so the answer is empty
            self._requests.write(line)
            self._requests.flush()
        header = self._answers.read(HEADER.size)
        if len(header) < HEADER.size:
            return b"", b""
        kind, goes_on, length = HEADER.unpack(header)
        content = self._answers.read(length) if length <= max(most, _MOST_OF_A_REASON) else b""
        if len(content) < length:
            return b"", b""
        self.can_go_on = goes_on
        return kind, content

    @contextmanager
    def _killed_after(self, seconds: float) -> Iterator[None]:
        timer = threading.Timer(seconds, self._kill_late)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()  # so that it has killed by now or never will
            self.can_go_on = self.can_go_on and not self._late

    def _kill_late(self) -> None:
        self._late = True
        self._process.kill()


def _line(request: Sequence[Any]) -> bytes:
    return json.dumps(request).encode() + b"\n"


def _cannot_start(reason: str) -> KbError:
    return KbError(
        f"the process that reads files cannot be started: {reason}. Set [loading] isolated = false to read them "
        "without one"
    )
