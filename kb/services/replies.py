"""Replies of a chat model to many prompts, several asked at the same time."""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kb.services.clock import LONGEST_SLEEP_SECONDS

if TYPE_CHECKING:
    from kb.components import Chat, Message


def replies(chat: Chat, prompts: Sequence[Sequence[Message]], in_flight: int) -> list[str]:
    """Ask each prompt by a request of its own, at most `in_flight` at the same time; replies in the order of prompts.

    Requests run in daemon threads, so that Ctrl-C ends the wait, and one that hangs holds nobody up.

    Raises:
        ServiceError: a request failed; no further ones are begun then.
    """
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    for place in range(len(prompts)):
        waiting.put(place)
    arrived: queue.SimpleQueue[tuple[int, str | BaseException]] = queue.SimpleQueue()
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            try:
                place = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                arrived.put((place, chat.complete(prompts[place])))
            except BaseException as error:  # noqa: BLE001  raised again where it is waited for
                over.set()
                arrived.put((place, error))

    for _ in range(min(in_flight, len(prompts))):
        threading.Thread(target=work, name="kb-chat", daemon=True).start()
    found: dict[int, str] = {}
    try:
        while len(found) < len(prompts):
            try:
                place, outcome = arrived.get(timeout=LONGEST_SLEEP_SECONDS)
            except queue.Empty:
                continue
            if isinstance(outcome, BaseException):
                raise outcome
            found[place] = outcome
    finally:
        over.set()
    return [found[place] for place in range(len(prompts))]
