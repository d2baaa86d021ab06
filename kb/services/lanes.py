"""The real client, once for each request that is under way, so that each can be stopped without the others.

A lane is a client with a connection of its own. It takes one request at a time and is kept for the next, so the
connection is used again as it would be in a pool. The client's library tells of each socket that it opens (its
`trace` extension); stopping a request is shutting down the sockets of its lane, which wakes the thread that reads
from one.
"""

from __future__ import annotations

import socket
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias

import openai

from kb.services.cancel import Cancellation, current

OpenClient: TypeAlias = "Callable[[dict[str, list[Any]]], openai.OpenAI]"
"""Opens a client whose HTTP requests pass the hooks it is given."""
_OPENED = ("connect_tcp.complete", "start_tls.complete")


class Lane:
    """A client for one request at a time."""

    def __init__(self, open_client: OpenClient) -> None:
        self.client = open_client({"request": [self._watch]})
        self.cancellation: Cancellation = current()
        self._sockets: list[socket.socket] = []

    def check(self) -> None:
        """Raise StoppedError when its request was stopped."""
        self.cancellation.check()

    def stop(self) -> None:
        """Shut its sockets down; whoever waits for one goes on with an error."""
        for one in list(self._sockets):
            with suppress(OSError):  # closed already, or not connected any more
                # Of the socket below TLS: an SSLSocket's own would take the cipher from the thread that reads.
                socket.socket.shutdown(one, socket.SHUT_RDWR)

    def _watch(self, request: Any) -> None:
        request.extensions["trace"] = self._traced

    def _traced(self, event: str, info: dict[str, Any]) -> None:
        if not event.endswith(_OPENED):
            return
        opened = info["return_value"].get_extra_info("socket")
        if isinstance(opened, socket.socket):
            self._sockets = [one for one in self._sockets if one.fileno() >= 0] + [opened]
            if self.cancellation.stopped:  # while it was being opened
                self.stop()


class Lanes:
    """Lanes to one service, as many as there are requests at the same time."""

    def __init__(self, open_client: OpenClient) -> None:
        self._open_client = open_client
        self._idle: deque[Lane] = deque()
        # Sockets are closed with this object, not whenever the garbage collector comes by.
        weakref.finalize(self, _close, self._idle)

    @contextmanager
    def one(self) -> Iterator[Lane]:
        """A lane for one request, which the cancellation of this context stops.

        Raises:
            StoppedError: it was stopped already.
        """
        try:
            lane = self._idle.pop()
        except IndexError:
            lane = Lane(self._open_client)
        lane.cancellation = current()
        try:
            with lane.cancellation.stopping(lane.stop):
                yield lane
        finally:
            if lane.cancellation.stopped:
                lane.client.close()
            else:
                self._idle.append(lane)


def _close(idle: deque[Lane]) -> None:
    while idle:
        idle.pop().client.close()
