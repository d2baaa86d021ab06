"""Several questions to a chat model, some of them on their way at the same time."""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence

from kb.components import Chat, Message
from kb.errors import RefusedError, ServiceError


def complete_all(chat: Chat, asked: Sequence[Sequence[Message]], at_once: int) -> list[str | ServiceError]:
    """The whole reply to each, or its error, in the order of `asked`.

    What a service refuses (a content filter, say) concerns one of them alone. After another error nothing more
    is sent, as it would fail too, only later: what was not sent has the same error. The threads are daemons: one
    that hangs on a socket holds up neither Ctrl-C nor the end of Python.

    Args:
        chat: The model.
        asked: The messages of each.
        at_once: So many are on their way at the same time at most.
    """
    places = queue.SimpleQueue[int]()
    results = queue.SimpleQueue[tuple[int, str | BaseException]]()
    for place in range(len(asked)):
        places.put(place)

    def work() -> None:
        failed: BaseException | None = None
        while True:
            try:
                place = places.get_nowait()
            except queue.Empty:
                return
            try:
                results.put((place, failed or chat.complete(asked[place])))
            except BaseException as error:  # noqa: BLE001  handed over, or raised again, where it is waited for
                failed = None if isinstance(error, RefusedError) else error
                results.put((place, error))

    for _ in range(min(at_once, len(asked))):
        threading.Thread(target=work, name="kb-request", daemon=True).start()
    replies: dict[int, str | ServiceError] = {}
    while len(replies) < len(asked):
        place, reply = results.get()
        if isinstance(reply, BaseException) and not isinstance(reply, ServiceError):
            raise reply
        replies[place] = reply
    return [replies[place] for place in range(len(asked))]
