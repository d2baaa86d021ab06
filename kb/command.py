"""What every command does alike: exit statuses, errors as one line, output that no character and no reader can break.

0 and 1 are a command's own. 2 is an error with a message, 70 what nobody foresaw (EX_SOFTWARE of sysexits.h), 130
Ctrl-C, as shells have it. stdout carries what was asked for, stderr everything else.
"""

from __future__ import annotations

import argparse
import codecs
import io
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType
from typing import NoReturn

ERROR, UNFORESEEN, INTERRUPTED = 2, 70, 130


class Parser(argparse.ArgumentParser):
    """Says what is wrong with the arguments on one line, as all other errors."""

    def error(self, message: str) -> NoReturn:
        """End the command."""
        say(f"error: {message} (--help shows how it is used)")
        raise SystemExit(ERROR)


def run(work: Callable[[], int], interrupted: str = "interrupted") -> int:
    """Do a command's work and give its exit status; whatever is raised becomes a message on stderr."""
    _prepare_streams()
    status = 0
    with _noted_interrupts() as interrupts:
        try:
            try:
                status = work()
            except SystemExit as ended:  # argparse, after its help or its message
                status = ended.code if isinstance(ended.code, int) else ERROR
            if sys.stdout is not None:
                sys.stdout.flush()
        except BrokenPipeError:  # the reader, such as `head`, has seen enough
            _discard_stdout()
        except BaseException as error:  # noqa: BLE001  the last resort; a panic in a library in Rust is no Exception
            if not interrupts and not isinstance(error, KeyboardInterrupt):
                return report(error)
            say(interrupted, new_line=True)
            return INTERRUPTED
    return status


def leave(status: int) -> NoReturn:
    """End the process; after Ctrl-C at once, whatever other threads still compute."""
    if status == INTERRUPTED:
        os._exit(status)
    sys.exit(status)


@contextmanager
def _noted_interrupts() -> Iterator[list[int]]:
    """Note each Ctrl-C: what is raised then can come out of a library as some other error, or as a panic."""
    seen: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        seen.append(number)
        raise KeyboardInterrupt

    # A job in the background ignores Ctrl-C, and a program that calls a command has its own way.
    ours = current_thread() is main_thread() and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ours:
        signal.signal(signal.SIGINT, note)
    try:
        yield seen
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def report(error: BaseException) -> int:
    """Say what went wrong and give its exit status: a line for what kb raises, a traceback for what nobody foresaw."""
    from kb.errors import KbError

    if isinstance(error, KbError):
        say(f"error: {error}")
        return ERROR
    import traceback

    from kb.inert import safe

    if sys.stderr is not None:
        sys.stderr.write(safe("".join(traceback.format_exception(error))))
    return UNFORESEEN


def say(message: str, *, new_line: bool = False) -> None:
    """Write one line to stderr; `new_line` when a terminal may stand in the middle of one."""
    from kb.inert import one_line

    if sys.stderr is not None:
        start = "\n" if new_line and sys.stderr.isatty() else ""
        sys.stderr.write(f"{start}{one_line(message)}\n")


def say_on(text: str) -> None:
    """Write to stderr without ending the line, for a prompt."""
    if sys.stderr is not None:
        sys.stderr.write(text)
        sys.stderr.flush()


def agreed(question: str, *, yes: bool) -> bool:
    """Ask on the terminal, and take nothing but `y` or `yes` for one; `yes` is the answer that was given beforehand.

    Raises:
        KbError: nobody is there to be asked.
    """
    from kb.errors import KbError
    from kb.inert import one_line

    if yes:
        return True
    if sys.stdin is None or not sys.stdin.isatty():
        raise KbError(f"{one_line(question)} Nobody can be asked here: say --yes")
    say_on(f"{one_line(question)} [y/N] ")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def write(text: str) -> None:
    """Write to stdout at once.

    Raises:
        KbError: it cannot be written, for example because the disk is full.
        BrokenPipeError: nobody reads any more.
    """
    from kb.errors import KbError

    if sys.stdout is None:  # closed by the caller
        return
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _discard_stdout()
        raise KbError(f"the output cannot be written: {error.strerror}") from error


def write_json(value: object) -> None:
    """Write one line of JSON to stdout, in ASCII where stdout takes nothing else."""
    from kb.inert import json_text

    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    write(json_text(value, ascii_only=codecs.lookup(encoding).name != "utf-8") + "\n")


def on_terminal() -> bool:
    """Whether stdout is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


def as_text(argument: str) -> str:
    """An argument as it was typed: UTF-8 whatever the locale says; bytes that are none become U+FFFD."""
    try:
        return os.fsencode(argument).decode("utf-8", "replace")
    except UnicodeEncodeError:  # half a surrogate pair, which only a program can type
        return argument.encode("utf-8", "replace").decode("utf-8")


def not_blank(argument: str) -> str:
    """For argparse: a variable of a script that was not set must not mean the default."""
    if not argument.strip():
        raise argparse.ArgumentTypeError("should not be blank; leave it out for the default")
    return argument


def name(argument: str) -> str:
    """For argparse: a name in any script."""
    return as_text(not_blank(argument))


def _prepare_streams() -> None:
    """Let no character that a stream does not know end a command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if isinstance(sys.stdin, io.TextIOWrapper):
        # Nothing but ASCII is said of stdin by a locale that says nothing: then questions come as UTF-8.
        ascii_only = codecs.lookup(sys.stdin.encoding).name == "ascii"
        sys.stdin.reconfigure(encoding="utf-8" if ascii_only else None, errors="replace")


def _discard_stdout() -> None:
    """Send what is still buffered nowhere: the interpreter would complain about it at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
