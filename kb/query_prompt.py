"""The prompt of `python -m kb.query`: a conversation with a person, or the lines of a file, each asked by itself."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from kb import command

if TYPE_CHECKING:
    from kb.conversation import Conversation

_COMMAND = re.compile(r"/[a-z]+")
"""A path such as /v1/labels is none."""
_HELP = """\
Ask a question, then ask on: "And in Japan?", "Who approves it?". Sources keep their numbers.
  /sources  all sources so far, by number
  /new      begin anew
  /help     this
Ctrl-D ends."""


def is_interactive() -> bool:
    """Whether a person types the questions."""
    return sys.stdin is not None and sys.stdin.isatty()


def converse(session: Conversation, ask: Callable[[str], int], after_first: Callable[[], None]) -> None:
    """Ask what is typed until Ctrl-D; an error of one question does not end it.

    Args:
        session: The conversation.
        ask: Asks it, and shows the answer.
        after_first: What there is to say once, below the first answer.
    """
    if command.on_terminal():
        with suppress(ImportError):  # not on every system; then lines are edited as the terminal does it
            import readline  # noqa: F401  importing it is what makes input() edit lines and keep a history
    command.say("Ask a question; /help shows what else there is, Ctrl-D ends.")
    asked = False
    for line in _typed():
        if _COMMAND.fullmatch(line):
            _obey(line, session)
        elif _status(ask, line) < command.ERROR and not asked:
            asked = True
            after_first()
        if command.on_terminal():
            command.write("\n")


def ask_each(ask: Callable[[str], int], after_first: Callable[[], None]) -> int:
    """Ask every line of stdin that is not blank, and give the highest exit status."""
    statuses: list[int] = []
    for line in sys.stdin or ():
        if line.strip():
            statuses.append(_status(ask, line.strip()))
            if len(statuses) == 1 and statuses[0] < command.ERROR:
                after_first()
    return max(statuses) if statuses else command.report(_no_question())


def _no_question() -> Exception:
    from kb.errors import KbError

    return KbError("there is no question; write it behind the command, in quotes")


def _status(ask: Callable[[str], int], question: str) -> int:
    try:
        return ask(question)
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001  it is shown, and the next question may go well
        return command.report(error)


def _obey(line: str, session: Conversation) -> None:
    if line == "/new":
        session.reset()
        command.say("A new conversation.")
    elif line == "/sources":
        from kb.conversation import sources_as_text

        command.write((sources_as_text(session.sources) or "No source has been cited yet.") + "\n")
    elif line == "/help":
        for one in _HELP.splitlines():
            command.say_on(f"{one}\n")
    else:
        command.say(f"there is no {line}; /help shows what there is")


def _typed() -> Iterator[str]:
    """The lines that are typed and not blank."""
    while True:
        try:
            if command.on_terminal():
                line = input("? ")
            else:
                command.say_on("? ")
                line = input()
        except EOFError:
            command.say_on("\n")
            return
        if line.strip():
            yield line.strip()
