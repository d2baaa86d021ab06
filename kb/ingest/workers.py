"""Files read ahead in worker processes: what a file does to its parser costs that file and nothing else.

A file that hangs, takes too much memory, or crashes the process that reads it is one LoadError. Each
document is had by whoever began its file, so their order does not depend on the processes' timing.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from queue import Empty, LifoQueue
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from kb.errors import KbError, LoadError
from kb.ingest.worker import Worker, setup_line
from kb.processors import processors
from kb.records import Document

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from kb.ingest.walk import FoundFile
    from kb.settings import LoadingSection

MOST_BY_DEFAULT = 4
"""`workers = 0` starts no more on any machine: embedding is slower than so many, and each takes some 40 MB."""

_AHEAD = 2
"""Files for each worker: one that it reads, and one that waits for it, or to be taken."""

_SECONDS_ALONE = 2.0
"""The first worker is alone for so long: another takes 0.4 s of a processor to start, too much for a small folder."""


class Workers:
    """Reads files by their loaders in processes of their own, which are started when there is something to read.

    A thread for each process waits for it, so that files are read while the caller embeds. Those
    threads start the processes: no Ctrl-C comes there, between a start and its being noted.
    """

    def __init__(self, section: LoadingSection, options: Mapping[str, Mapping[str, Any]]) -> None:
        """Prepare; nothing is started yet.

        Args:
            section: How many processes, and their limits.
            options: Options tables by the loader's name.
        """
        self._section = section
        self._setup = setup_line(section, options)
        self._most = section.workers or min(processors(), MOST_BY_DEFAULT)
        self._threads = ThreadPoolExecutor(self._most, thread_name_prefix="kb-read")
        self._idle: LifoQueue[Worker | None] = LifoQueue()
        self._guard = threading.Lock()
        self._others_from: float | None = None
        self._closed = False
        self._living: set[Worker] = set()
        # For an interrupt that comes while `__exit__` does it.
        self._at_last = weakref.finalize(self, _end_all, self._living)

    @property
    def ahead(self) -> int:
        """So many files may be begun before the first one's document is asked for; more would fill the memory."""
        return _AHEAD * self._most

    def begin(self, file: FoundFile) -> Callable[[], Document]:
        """Have a file read; what is given waits for its document, and raises what kept it from being read.

        LoadError is about the file. Any other KbError means that no process can be started.
        """
        return self._threads.submit(self._read, file).result

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End all processes at once, also those that are reading."""
        with self._guard:
            self._closed = True
            for worker in self._living:
                worker.kill()
        for _ in range(self._most):  # threads that wait for one to be free
            self._idle.put(None)
        self._threads.shutdown(wait=True, cancel_futures=True)
        _end_all(self._living)
        self._at_last.detach()

    def _read(self, file: FoundFile) -> Document:
        worker = self._free_one()
        try:
            content = worker.read(file, self._section)
            try:
                return _document(content, file)
            except LoadError:
                worker.can_go_on = False  # a file has taken it over, perhaps: no other is entrusted to it
                raise
        finally:
            if worker.can_go_on:
                self._idle.put(worker)
            else:
                self._end(worker)

    def _free_one(self) -> Worker:
        """A worker that is idle, else another one; at first the only one is waited for."""
        with self._guard:
            now = time.monotonic()
            alone = 0.0 if self._others_from is None else max(self._others_from - now, 0.0)
            self._others_from = self._others_from or now + _SECONDS_ALONE
        try:
            worker = self._idle.get(timeout=alone)
        except Empty:
            return self._start()
        if worker is not None and worker.ended:  # killed while it had nothing to do
            self._end(worker)
            worker = None
        return worker or self._start()

    def _start(self) -> Worker:
        with self._guard:
            if self._closed:
                raise KbError("the ingest has ended; start it again")
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


def _end_all(living: set[Worker]) -> None:
    for worker in tuple(living):
        worker.end()
        living.discard(worker)


def _document(content: bytes, file: FoundFile) -> Document:
    """What a worker sent, when it is this file's document.

    A file may have taken the worker over, and pickle would let it run code here as well. Checked JSON
    can't, and takes some 15 ms a megabyte.

    Raises:
        LoadError: it is none.
    """
    no_document = LoadError(
        file.relative, "the process that read it gave what is no document of it; please report this file"
    )
    try:
        document = _document_type().validate_json(content, strict=True)
    except ValueError as error:
        raise no_document from error
    if not is_sound(document, file):
        raise no_document
    return document


@cache
def _document_type() -> TypeAdapter[Document]:
    from pydantic import TypeAdapter

    return TypeAdapter(Document)


def is_sound(document: Document, file: FoundFile) -> bool:
    """Whether a document can be this file's, and all that it marks lies in its text."""
    if (document.id, document.path) != (file.document_id, file.relative):
        return False
    length = len(document.text)
    marked = (document.pages, document.headings, document.blocks)
    return all(0 <= span.start <= span.end <= length for spans in marked for span in spans)
