"""How far an ingest is: a bar on stderr for a person at a terminal, events for the log, and whoever follows it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, TypeAlias

from kb.logs import event

Stage: TypeAlias = Literal["reading", "embedding"]

# A bar appears only when there is something to wait for.
_DELAY_SECONDS = 2.0
_FORM = "{percentage:3.0f}%|{bar}| {n:,.0f}/{total:,} files{postfix} [{elapsed}<{remaining}]"


@dataclass(frozen=True, slots=True)
class Reached:
    """How far the work is."""

    stage: Stage
    done: float
    """Files; within a batch by its share of embedded texts."""
    total: int


_follower: ContextVar[Callable[[Reached], None] | None] = ContextVar("follower", default=None)


@contextmanager
def followed(told: Callable[[Reached], None]) -> Iterator[None]:
    """Tell `told` how far the ingest inside is, at each step, in the ingest's thread."""
    token = _follower.set(told)
    try:
        yield
    finally:
        _follower.reset(token)


class Progress:
    """A bar of files, chunks, rate and time left; none when quiet, without a terminal, or in a short run."""

    def __init__(self, files: int, *, quiet: bool) -> None:
        self._started = time.perf_counter()
        self._chunks = 0
        self._batch_files, self._batch_chunks = 0, 0
        self._moved = 0.0
        """Files of the batch that the bar shows as done already."""
        self._files, self._files_done = files, 0.0
        self._told = _follower.get()
        self._tell("reading")
        self._bar = None
        if files and not quiet and sys.stderr is not None and sys.stderr.isatty():
            from tqdm import tqdm

            self._bar = tqdm(
                total=files,
                bar_format=_FORM,
                delay=_DELAY_SECONDS,
                miniters=0,
                dynamic_ncols=True,
                leave=False,
                file=sys.stderr,
            )

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()

    def begun(self, files: int, chunks: int) -> None:
        """Take note of files that are about to be embedded and written together."""
        self._batch_files, self._batch_chunks, self._moved = files, chunks, 0.0
        self._tell("embedding")

    def embedded(self, texts: int) -> None:
        """Count embedded texts; most of the time goes there, so the bar moves within a batch of files."""
        event("texts embedded", texts=texts)
        if self._batch_chunks:
            share = self._batch_files * texts / self._batch_chunks
            self._move(min(share, self._batch_files - self._moved))
            self._moved = min(self._moved + share, float(self._batch_files))
            self._tell("embedding")

    def done(self, files: int) -> None:
        """Count files that are finished, with the chunks of their batch."""
        self._chunks += self._batch_chunks
        moved, self._moved = self._moved, 0.0
        self._batch_files, self._batch_chunks = 0, 0
        self._move(files - moved)
        self._tell("reading")

    def _tell(self, stage: Stage) -> None:
        if self._told is not None:
            self._told(Reached(stage, self._files_done, self._files))

    def _move(self, files: float) -> None:
        self._files_done += files
        if self._bar is not None:
            rate = self._chunks / max(time.perf_counter() - self._started, 0.001)
            # Without a refresh, else it would show before its time.
            self._bar.set_postfix_str(f"{self._chunks:,} chunks, {rate:,.1f}/s", refresh=False)
            self._bar.update(files)
