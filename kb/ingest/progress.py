"""Progress on stderr, for a person who waits at a terminal."""

from __future__ import annotations

import sys
from types import TracebackType

# A bar appears only when there is something to wait for.
_DELAY_SECONDS = 2.0


class Progress:
    """A bar of files; nothing when quiet, when stderr is no terminal, or when a run is short."""

    def __init__(self, files: int, *, quiet: bool) -> None:
        self._texts = 0
        self._bar = None
        if files and not quiet and sys.stderr.isatty():
            from tqdm import tqdm

            self._bar = tqdm(
                total=files, unit=" files", delay=_DELAY_SECONDS, dynamic_ncols=True, leave=False, file=sys.stderr
            )

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()

    def embedded(self, texts: int) -> None:
        """Count embedded texts."""
        self._texts += texts
        if self._bar is not None:
            self._bar.set_postfix_str(f"{self._texts} texts embedded", refresh=False)  # else it would show at once

    def done(self, files: int) -> None:
        """Count files that are finished."""
        if self._bar is not None:
            self._bar.update(files)
