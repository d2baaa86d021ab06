"""Pages of PDFs as pictures, and where quotes stand on them, found out by processes of their own: files may be hostile.

Such a process has the limits of those that read files for an ingest, and less time. It stays for the next page, and is
replaced when it dies, is late, or has kept too much memory.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from kb.errors import KbError, LoadError
from kb.ingest.reading import loader_options
from kb.ingest.worker import Worker, setup_line
from kb.web.refusals import Refusal
from kb.web.source_forms import PlacesOnPage

if TYPE_CHECKING:
    from kb.ingest.walk import FoundFile
    from kb.settings import LoadingSection

MOST_AT_ONCE = 2
"""Processes, each of some 50 MB: a page takes 0.05 to 0.4 s, and a slow one keeps one of them."""
MOST_SECONDS = 15.0
"""For one page; then nobody waits for it any more."""
_MOST_WAITING = 32
_MOST_KEPT_BYTES = 64 * 1024 * 1024
"""Of pictures; one of A4 with text has some 100 KB."""
_PNG = b"\x89PNG\r\n\x1a\n"


class PageImages:
    """Looks at pages. For one event loop; nothing is started before the first page."""

    def __init__(self, section: LoadingSection) -> None:
        """Prepare.

        Args:
            section: How files are read.
        """
        self._seconds = min(MOST_SECONDS, section.max_seconds)
        self._setup = setup_line(section, loader_options(section))
        self._threads = ThreadPoolExecutor(MOST_AT_ONCE, thread_name_prefix="kb-page")
        self._under_way = 0
        self._guard = Lock()
        self._idle: list[Worker] = []
        self._living: set[Worker] = set()
        self._closed = False
        self._kept: OrderedDict[tuple[object, ...], bytes] = OrderedDict()
        """Pictures by what they are of, the one that was asked for last at the end."""

    async def picture(self, file: FoundFile, number: int, width: int) -> bytes:
        """A page as PNG.

        Raises:
            Refusal: it cannot be shown, or too many wait.
        """
        key = (str(file.location), file.size, file.mtime_ns, number, width)
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        picture = await self._look_at(file, {"number": number, "width": width})
        if not picture.startswith(_PNG):
            raise _no_sense(file)
        self._kept[key] = picture
        while sum(map(len, self._kept.values())) > _MOST_KEPT_BYTES:
            self._kept.popitem(last=False)
        return picture

    async def places(self, file: FoundFile, number: int, text: str, start: int, end: int) -> PlacesOnPage:
        """Where a quote stands on a page, whose text is given as it was loaded; see `kb.loading.look_at_page`.

        Raises:
            Refusal: the page cannot be shown, or too many wait.
        """
        found = await self._look_at(file, {"number": number, "text": text, "start": start, "end": end})
        try:
            return PlacesOnPage.model_validate_json(found)
        except ValidationError as error:
            raise _no_sense(file) from error

    def close(self) -> None:
        """End all processes at once, also those that are looking."""
        with self._guard:
            self._closed = True
            for worker in self._living:
                worker.kill()
        self._threads.shutdown(wait=True, cancel_futures=True)
        for worker in tuple(self._living):
            self._end(worker)

    async def _look_at(self, file: FoundFile, page: Mapping[str, Any]) -> bytes:
        if self._under_way >= MOST_AT_ONCE + _MOST_WAITING:
            raise Refusal(503, "busy", "too many pages are being looked at; ask again in a moment", 1.0)
        self._under_way += 1
        try:
            return await asyncio.wrap_future(self._threads.submit(self._looked_at, file, page))
        except LoadError as error:
            raise Refusal(422, "unreadable", f"{error.path}: {error.reason}") from error
        except KbError as error:  # no process can be started
            raise Refusal(503, "busy", str(error), 1.0) from error
        finally:
            self._under_way -= 1

    def _looked_at(self, file: FoundFile, page: Mapping[str, Any]) -> bytes:
        worker = self._free_one()
        try:
            return worker.look_at(file, page, self._seconds)
        finally:
            if worker.can_go_on:
                with self._guard:
                    self._idle.append(worker)
            else:
                self._end(worker)

    def _free_one(self) -> Worker:
        with self._guard:
            while self._idle:
                worker = self._idle.pop()
                if not worker.ended:
                    return worker
                self._living.discard(worker)
                worker.end()
            if self._closed:
                raise KbError("the server is being shut down")
            worker = Worker()
            self._living.add(worker)
        try:
            worker.prepare(self._setup)
        except KbError:
            self._end(worker)
            raise
        return worker

    def _end(self, worker: Worker) -> None:
        with self._guard:
            self._living.discard(worker)
        worker.end()


def _no_sense(file: FoundFile) -> Refusal:
    return Refusal(422, "unreadable", f"{file.relative}: the page cannot be shown; please report this file")
