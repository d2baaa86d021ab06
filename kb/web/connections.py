"""Connections that don't wait for ever: one that sends no whole request in time is closed.

uvicorn closes a connection that is silent behind an answer, but not one whose first request never comes, or comes by a
byte a minute; a thousand of those would keep everybody else out (slowloris).
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol


def patient_for(seconds: float) -> type[H11Protocol]:
    """A protocol that waits so long for the head of a request; its body has a limit of its own (`kb.web.limits`)."""

    class Patient(H11Protocol):
        _late: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._wait_if_idle()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._wait_if_idle()

        def connection_lost(self, exc: Exception | None) -> None:
            self._wait_no_more()
            super().connection_lost(exc)

        def _wait_if_idle(self) -> None:
            """Wait from the first byte of a head, or from the beginning; not while a request is being answered."""
            idle = self.cycle is None or self.cycle.response_complete
            if not idle:
                self._wait_no_more()
            elif self._late is None:
                self._late = self.loop.call_later(seconds, self._give_up)

        def _wait_no_more(self) -> None:
            if self._late is not None:
                self._late.cancel()
                self._late = None

        def _give_up(self) -> None:
            self._late = None
            answering: Any = self.cycle is not None and not self.cycle.response_complete
            if not answering and not self.transport.is_closing():
                self.transport.close()

    return Patient
