"""A process that answers questions for a server; `kb.web.answer_process` starts it by this file's path.

The first line on stdin says where modules are and what to open. Each line after it is JSON: a question under a number,
or the number alone, when its answer is not wanted any more. What comes back is a header and so many bytes: an event of
a question, or that it has ended. The end of stdin, however the server ended, ends this process.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import sys
from contextlib import closing
from threading import Lock, Thread
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from logging import LogRecord

    from kb.services.cancel import Cancellation
    from kb.web.collections import Collections
    from kb.web.sse import Event

HEADER = struct.Struct("!cQI")
"""What follows, of which question, and how many bytes follow."""

READY, FAULT, EVENT, END, LOGGED = b"R", b"F", b"E", b"Z", b"L"


class Frames:
    """What is told to the server; for any number of threads."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._guard = Lock()

    def send(self, kind: bytes, question: int = 0, payload: bytes = b"") -> None:
        """Send one frame. Ends the process when nobody reads it."""
        try:
            with self._guard:
                self._stream.write(HEADER.pack(kind, question, len(payload)) + payload)
                self._stream.flush()
        except OSError:
            os._exit(0)

    def event(self, question: int, told: Event) -> None:
        """Send an event: its name, a line feed, its JSON."""
        self.send(EVENT, question, f"{told.name}\n{told.data}".encode())


def main() -> None:
    """Answer until stdin ends."""
    # Ctrl-C and an orderly end reach the server as well, which lets answers come to their end first.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    requests = sys.stdin.buffer
    setup = json.loads(requests.readline())
    sys.path[:] = setup["path"]
    frames = Frames(os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)  # whatever a library prints is no answer
    collections = _opened(setup, frames)
    if collections is not None:
        frames.send(READY)
        _serve(requests, frames, collections)
    os._exit(0)  # threads of answers that nobody waits for any more are not waited for either


def _opened(setup: dict[str, Any], frames: Frames) -> Collections | None:
    """All that questions need, loaded; None when that failed, which is told."""
    try:
        _log_to(frames, setup["log_level"])
        from kb.web.answering import prepared

        return prepared(setup["config"], setup["overrides"])
    except Exception as error:  # noqa: BLE001  the server has to say it, whatever it is
        from kb.errors import ConfigError, KbError

        told = str(error) if isinstance(error, KbError) else f"{type(error).__name__}: {error}"
        fault = {"message": told, "is_settings": isinstance(error, ConfigError)}
        frames.send(FAULT, payload=json.dumps(fault).encode())
        return None


def _serve(requests: IO[bytes], frames: Frames, collections: Collections) -> None:
    from kb.services.cancel import Cancellation

    running: dict[int, Cancellation] = {}
    for line in requests:
        asked = json.loads(line)
        question = asked["question"]
        if "wanted" in asked:
            running[question] = Cancellation()
            arguments = (asked, frames, collections, running)
            Thread(target=_answer, args=arguments, name=f"kb-answer-{question}", daemon=True).start()
        elif (cancellation := running.get(question)) is not None:
            cancellation.cancel()


def _answer(asked: dict[str, Any], frames: Frames, collections: Collections, running: dict[int, Cancellation]) -> None:
    from kb.services.cancel import cancelled_by
    from kb.web.answering import WAYS, Wanted, broken

    question = asked["question"]
    cancellation = running[question]
    try:
        with cancelled_by(cancellation), closing(WAYS[asked["way"]](collections, Wanted(**asked["wanted"]))) as events:
            for told in events:
                if cancellation.stopped:
                    break
                frames.event(question, told)
    except Exception as error:  # noqa: BLE001  who asked must learn that no answer comes
        frames.event(question, broken(error))
    finally:
        del running[question]
        frames.send(END, question)


def _log_to(frames: Frames, level: int) -> None:
    """Let the server write what is logged here."""
    import logging

    from kb.logs import LOGGER

    class ToServer(logging.Handler):
        def emit(self, record: LogRecord) -> None:
            told = [
                getattr(record, "event", "log"),
                record.levelno,
                record.getMessage(),
                getattr(record, "fields", {}),
            ]
            frames.send(LOGGED, payload=json.dumps(told, default=str).encode())

    LOGGER.addHandler(ToServer())
    LOGGER.setLevel(level)


if __name__ == "__main__":
    main()
