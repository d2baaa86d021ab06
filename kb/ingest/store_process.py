"""A store that another process has open, so that it is written while the next documents are read, cut and embedded.

Chroma holds Python's global lock as long as it writes: beside it, no thread of its process does anything.
An ingest that is interrupted does not wait for it either.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kb.errors import KbError, StoreDiedError
from kb.ingest import _store_main
from kb.ingest.processes import how_it_ended, module_path, start_helper

if TYPE_CHECKING:
    from kb.components import StorePlace, StoreRow

AVAILABLE = sys.platform != "win32"
"""On Windows a process cannot inherit the collection's lock."""

_GRACE_SECONDS = 0.5
"""What a write gets to come to its end, when an ingest ends without waiting for it."""

_CLOSE_SECONDS = 60.0


class StoreProcess:
    """What an ingest needs of a store, done by a process of its own; for one thread, one call at a time."""

    def __init__(self, use: str, options: Mapping[str, Any], place: StorePlace, lock: int) -> None:
        """Start the process and open the store there.

        Args:
            use: The store's name.
            options: Its table of options.
            place: Where it keeps its data.
            lock: The descriptor of the collection's lock, which the process keeps until it ends.

        Raises:
            OSError: the system starts no process.
            StoreDiedError: it has died; so in every other call.
            KbError: see the component's `build`.
        """
        self._process = start_helper(_store_main.__file__, inherit=(lock,))
        assert self._process.stdin is not None, "it is a pipe"
        assert self._process.stdout is not None, "it is a pipe"
        self._requests, self._answers = self._process.stdin, self._process.stdout
        self._asked = False
        # For an interrupt that comes while `close` does it.
        self._at_last = weakref.finalize(self, _end, self._process)
        try:
            self._requests.write(json.dumps({"path": module_path(), "parent": os.getpid()}).encode() + b"\n")
            self._ask((use, dict(options), place))
            self._answer()
        except BaseException:
            self._at_last()
            raise

    def begin_upsert(self, rows: Sequence[StoreRow]) -> Callable[[], None]:
        """As `upsert`, at once; what is given waits until it is done, before anything else is asked."""
        self._ask(("upsert", (list(rows),)))
        return self._done

    def upsert(self, rows: Sequence[StoreRow]) -> None:
        """As `Store`."""
        self._call("upsert", list(rows))

    def delete(self, chunk_ids: Sequence[str]) -> None:
        """As `Store`."""
        self._call("delete", list(chunk_ids))

    def chunk_ids(self) -> Iterator[str]:
        """As `Store`."""
        return iter(self._call("chunk_ids"))

    def count(self) -> int:
        """As `Store`."""
        return int(self._call("count"))

    def close(self) -> None:
        """End the process. A write that was not waited for is soon broken off; the next ingest does it again."""
        timer = threading.Timer(_GRACE_SECONDS if self._asked else _CLOSE_SECONDS, self._process.kill)
        timer.daemon = True
        timer.start()
        try:
            # What was answered is on the disk, however the process ends.
            with suppress(KbError):
                if self._asked:
                    self._answer()
                self._call("close")
        finally:
            timer.cancel()
            self._at_last()

    def _call(self, name: str, *arguments: Any) -> Any:
        self._ask((name, arguments))
        return self._answer()

    def _done(self) -> None:
        self._answer()

    def _ask(self, request: tuple[Any, ...]) -> None:
        assert not self._asked, "one call at a time"
        self._asked = True
        with suppress(BrokenPipeError):  # it has ended, which the answer will say
            pickle.dump(request, self._requests)
            self._requests.flush()

    def _answer(self) -> Any:
        try:
            done, given = pickle.load(self._answers)
        except Exception as error:
            raise StoreDiedError(
                f"the process that writes the index {how_it_ended(self._process)}. Start the ingest again: it goes on "
                "from here, and nothing is embedded twice"
            ) from error
        self._asked = False
        if not done:
            raise given
        return given


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        with suppress(OSError):  # of what was not sent yet: nobody reads it any more
            if pipe is not None:
                pipe.close()
