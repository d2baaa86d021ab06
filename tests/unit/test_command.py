"""What every command does alike: exit statuses, one line for an error, and output that no character breaks."""

from __future__ import annotations

import argparse
import os
import signal
from collections.abc import Callable
from threading import Thread
from typing import NoReturn

import pytest

from kb import command
from kb.errors import ConfigError


def raising(error: BaseException) -> Callable[[], NoReturn]:
    def work() -> NoReturn:
        raise error

    return work


def test_the_status_of_the_work_is_the_status_of_the_command() -> None:
    assert [command.run(lambda status=status: status) for status in (0, 1)] == [0, 1]  # type: ignore[misc]
    assert command.run(raising(SystemExit(0))) == 0
    assert command.run(raising(SystemExit("words"))) == 2


def test_an_error_of_ours_is_one_line_without_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.run(raising(ConfigError("wrong\n  value \x1b[31m\x9b \ud800"))) == 2
    assert capsys.readouterr() == ("", "error: wrong value [31m \ufffd\n")


class Panic(BaseException):
    """As a library in Rust raises it."""


@pytest.mark.parametrize("error", [RuntimeError("\x1b[2Jno"), Panic("no")])
def test_what_nobody_foresaw_is_shown_whole(error: BaseException, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.run(raising(error)) == 70
    shown = capsys.readouterr().err
    assert shown.startswith("Traceback (most recent call last):")
    assert "\x1b" not in shown


def test_ctrl_c_counts_whatever_a_library_makes_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> int:
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            raise Panic("cannot import datetime") from None
        return 0

    assert command.run(work, interrupted="stopped") == 130
    assert capsys.readouterr() == ("", "stopped\n")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_callers_own_way_with_ctrl_c_is_left_alone() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert command.run(lambda: int(signal.getsignal(signal.SIGINT) is not signal.SIG_IGN)) == 0
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_command_can_run_in_a_thread() -> None:
    statuses: list[int] = []
    thread = Thread(target=lambda: statuses.append(command.run(lambda: 1)))
    thread.start()
    thread.join()
    assert statuses == [1]


def test_wrong_arguments_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    parser = command.Parser(prog="x")
    parser.add_argument("--name", type=command.name)
    for arguments in (["--name", " "], ["--nam\x1be"], ["--name"]):
        assert command.run(lambda arguments=arguments: len(parser.parse_args(arguments).name)) == 2  # type: ignore[misc]
        output, errors = capsys.readouterr()
        assert output == ""
        assert errors.startswith("error: ")
        assert errors.count("\n") == 1


def test_arguments_are_read_as_utf_8_whatever_the_locale_says() -> None:
    assert command.as_text(os.fsdecode("退款".encode())) == "退款"
    assert command.as_text(os.fsdecode(b"a\xff")) == "a\ufffd"
    assert command.as_text("a\ud800b") == "a?b"
    with pytest.raises(argparse.ArgumentTypeError):
        command.name("\u3000")


def test_json_is_ascii_where_stdout_is(capsys: pytest.CaptureFixture[str]) -> None:
    command.write_json({"a": "退"})
    assert capsys.readouterr().out == '{"a": "退"}\n'
