"""What an ingest does, as records of the standard library's logger `kb`: each an event with fields.

Nobody sees them until somebody asks: a program by a handler on that logger, whose records hold the
fields as `record.fields`; the command by `--log-json FILE`, one JSON object a line. They hold paths,
counts, times and messages, never a document's text and never a key.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from kb.errors import KbError
from kb.inert import json_text, one_line

LOGGER = logging.getLogger("kb")
# Else Python itself prints warnings of a program that has set up no logging.
LOGGER.addHandler(logging.NullHandler())


def event(name: str, /, **fields: object) -> None:
    """Record that something happened.

    Args:
        name: What, always in the same words: `file`, `texts embedded`.
        fields: Numbers, strings, and lists or dicts of them.
    """
    if LOGGER.isEnabledFor(logging.INFO):
        LOGGER.info("%s", name, extra={"event": name, "fields": fields})


def note(name: str, message: str, /, **fields: object) -> None:
    """Record something that a command shows to a person as well, by `message`."""
    LOGGER.warning("%s", message, extra={"event": name, "fields": fields})


class JsonFormatter(logging.Formatter):
    """One line of JSON for each record: time (UTC), level, event, its fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Give the line; a record of somebody else below `kb` has its message as event."""
        name = getattr(record, "event", record.getMessage())
        content = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": name,
            **getattr(record, "fields", {}),
        }
        if record.getMessage() != name:
            content["message"] = record.getMessage()
        return json_text(content)


class _LogFile(logging.StreamHandler[TextIO]):
    """Writes to a file; when that is no longer possible, says so once, and the ingest goes on."""

    def handleError(self, record: logging.LogRecord) -> None:
        error = sys.exc_info()[1]
        LOGGER.removeHandler(self)
        note("log lost", f"the log {self.stream.name} cannot be written any more ({error}); the work goes on without")


class _Notes(logging.StreamHandler[TextIO]):
    """Shows warnings to the person at the command."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)
        self.setLevel(logging.WARNING)

    def format(self, record: logging.LogRecord) -> str:
        return f"note: {one_line(record.getMessage())}"


@contextmanager
def logged(file: str | None, *, quiet: bool) -> Iterator[None]:
    """Log what a command does, and the error that ends it.

    Args:
        file: Where lines of JSON are appended, also a device or a pipe; None for nowhere.
        quiet: Show no notes on stderr.

    Raises:
        KbError: the file cannot be opened.
    """
    handlers: list[logging.Handler] = [] if quiet or sys.stderr is None else [_Notes()]
    stream = _opened(Path(file)) if file is not None else None
    if stream is not None:
        handlers.append(_LogFile(stream))
        handlers[-1].setFormatter(JsonFormatter())
    level = LOGGER.level
    LOGGER.setLevel(logging.WARNING if stream is None else logging.INFO)
    for handler in handlers:
        LOGGER.addHandler(handler)
    try:
        yield
    except KeyboardInterrupt:
        event("interrupted")
        raise
    except BaseException as error:
        event("error", error=type(error).__name__, said=one_line(str(error)))
        raise
    finally:
        for handler in handlers:
            LOGGER.removeHandler(handler)
        LOGGER.setLevel(level)
        if stream is not None:
            with suppress(OSError):  # of what could not be written; that was said
                stream.close()


def _opened(file: Path) -> TextIO:
    try:
        return file.open("a", encoding="utf-8", buffering=1)
    except OSError as error:
        raise KbError(f"the log {file} cannot be opened: {error.strerror}. Give --log-json another file") from error
