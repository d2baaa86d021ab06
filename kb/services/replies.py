"""Replies of a chat model to many prompts, several asked at the same time."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import TYPE_CHECKING, TypeVar

from kb.errors import RefusedError
from kb.services import cancel
from kb.services.clock import LONGEST_SLEEP_SECONDS

if TYPE_CHECKING:
    from kb.components import Chat, Message

_Reply = TypeVar("_Reply")


def replies(chat: Chat, prompts: Sequence[Sequence[Message]], in_flight: int) -> list[str]:
    """Ask each prompt by a request of its own, at most `in_flight` at the same time; replies in the order of prompts.

    Requests run in daemon threads, so that Ctrl-C ends the wait, and one that hangs holds nobody up.

    Raises:
        ServiceError: a request failed; no further ones are begun then.
        StoppedError: it was stopped.
    """
    return _all(chat.complete, prompts, in_flight)


def replies_or_refusals(chat: Chat, prompts: Sequence[Sequence[Message]], in_flight: int) -> list[str | RefusedError]:
    """The same, but a prompt that the service refuses (by a content filter, say) leaves the others alone.

    Raises:
        ServiceError: a request failed otherwise; no further ones are begun then.
    """

    def ask(messages: Sequence[Message]) -> str | RefusedError:
        try:
            return chat.complete(messages)
        except RefusedError as error:
            return error

    return _all(ask, prompts, in_flight)


def _all(
    ask: Callable[[Sequence[Message]], _Reply], prompts: Sequence[Sequence[Message]], in_flight: int
) -> list[_Reply]:
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    for place in range(len(prompts)):
        waiting.put(place)
    found: dict[int, _Reply] = {}
    arrived: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            try:
                place = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                found[place] = ask(prompts[place])
                arrived.put(None)
            except BaseException as error:  # noqa: BLE001  raised again where it is waited for
                over.set()
                arrived.put(error)

    for _ in range(min(in_flight, len(prompts))):
        # In this context: its meter counts what they use, and its cancellation stops them.
        threading.Thread(target=copy_context().run, args=(work,), name="kb-chat", daemon=True).start()
    left = len(prompts)
    try:
        while left:
            cancel.current().check()
            try:
                error = arrived.get(timeout=LONGEST_SLEEP_SECONDS)
            except queue.Empty:
                continue
            if error is not None:
                raise error
            left -= 1
    finally:
        over.set()
    return [found[place] for place in range(len(prompts))]
