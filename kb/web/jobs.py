"""Ingests in the background, one after the other."""

from __future__ import annotations

from threading import Thread

from kb.errors import KbError
from kb.logs import note
from kb.web.collections import Collections


class Jobs:
    """The ingests of a server."""

    def __init__(self, collections: Collections) -> None:
        self._collections = collections
        self._thread: Thread | None = None

    @property
    def busy(self) -> bool:
        """Whether an ingest goes on."""
        return self._thread is not None and self._thread.is_alive()

    def bring_in_step(self) -> None:
        """Ingest the configured collection's folder."""
        self._thread = Thread(target=self._ingest, name="kb-ingest", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Begin nothing more."""

    def _ingest(self) -> None:
        try:
            self._collections.default.ingest()
        except KbError as error:
            note("ingest failed", str(error))
