"""Ingest again whenever a folder in use has changed, by the operating system's own notices (watchfiles)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from threading import Event
from types import ModuleType

from kb.errors import ConfigError
from kb.ingest.ignore import IGNORE_FILE
from kb.ingest.walk import EXCLUDED_FOLDERS
from kb.ledger.ledger import file_identity

_REST_MS, _LONGEST_MS = 400, 10_000
"""Changes are taken together until nothing has changed for so long, or for so long at most: a program writes a file in
several steps, and a copied folder comes file by file."""
_TICK_MS = 500
"""So often it is looked whether the folder is still the same one: an unmounted disk sends no notice."""
RETRY_SECONDS = 60.0
"""What failed (the lock, a service, a disk) is tried again after so long, also without a change."""


def watch_folder(
    root: Path,
    not_in: Iterable[Path],
    work: Callable[[], bool],
    *,
    stop: Event | None = None,
    retry_seconds: float = RETRY_SECONDS,
) -> None:
    """Call `work` now, and whenever something below `root` has changed and come to rest, until it is stopped.

    Also when the folder itself goes, comes back, or another one takes its place. What changes while
    `work` is at it counts for the next time.

    Args:
        root: The folder; it may be missing for a while.
        not_in: Folders whose changes don't count, such as the data folder.
        work: Says whether it succeeded; otherwise it is called again after `retry_seconds`.
        stop: Ends it within a second; without one only Ctrl-C does.
        retry_seconds: See `work`.

    Raises:
        ConfigError: the package watchfiles is not installed, or the system watches no more folders.
        KeyboardInterrupt: Ctrl-C.
    """
    ticks = _ticks(_watchfiles(), root, _Counts(root, not_in), stop or Event())
    due, retry_at = True, None
    for changed in ticks:
        if due or changed or (retry_at is not None and time.monotonic() >= retry_at):
            due, retry_at = False, None if work() else time.monotonic() + retry_seconds


def _watchfiles() -> ModuleType:
    try:
        import watchfiles
    except ModuleNotFoundError as error:
        raise ConfigError(
            "to watch a folder needs the package watchfiles, which is not installed: pip install 'kb[watch]'"
        ) from error
    return watchfiles


def _ticks(watchfiles: ModuleType, root: Path, counts: _Counts, stop: Event) -> Iterator[bool]:
    """Every now and then: whether something has changed since the last time."""
    while not stop.is_set():
        identity = file_identity(root)
        if identity is None:
            yield False
            stop.wait(_TICK_MS / 1000)
            continue
        fresh = True  # what happened before this watcher began went unseen
        try:
            with closing(_notices(watchfiles, root, counts, stop)) as notices:
                for changes in notices:
                    yield fresh or bool(changes)
                    fresh = False
                    if file_identity(root) != identity:
                        break
        except FileNotFoundError:  # gone between the look and the watch
            continue
        except OSError as error:
            raise ConfigError(
                f"{root} cannot be watched: {error}. Let it be looked at every now and then instead, by "
                "WATCHFILES_FORCE_POLLING=true in the environment, or let the system watch more folders "
                "(on Linux fs.inotify.max_user_watches)"
            ) from error
        if file_identity(root) is None:
            yield True


def _notices(watchfiles: ModuleType, root: Path, counts: _Counts, stop: Event) -> Generator[set[object], None, None]:
    notices: Generator[set[object], None, None] = watchfiles.watch(
        root,
        watch_filter=counts,
        debounce=_LONGEST_MS,
        step=_REST_MS,
        rust_timeout=_TICK_MS,
        yield_on_timeout=True,
        stop_event=stop,
        ignore_permission_denied=True,
    )
    return notices


class _Counts:
    """Which changes count: of what a walk would look at, by its name."""

    def __init__(self, root: Path, not_in: Iterable[Path]) -> None:
        self._roots = {os.path.abspath(root), os.path.realpath(root)}
        folders = {name for folder in not_in for name in (os.path.abspath(folder), os.path.realpath(folder))}
        # A data folder around the root is not below it.
        self._not_in = {folder for folder in folders if not any(_is_below(at, folder) for at in self._roots)}

    def __call__(self, change: object, path: str) -> bool:
        if any(_is_below(path, folder) for folder in self._not_in):
            return False
        inside = next((os.path.relpath(path, root) for root in self._roots if _is_below(path, root)), path)
        return not any(map(_is_passed_over, inside.split(os.sep)))


def _is_passed_over(name: str) -> bool:
    # Names with two dots count: Kubernetes changes mounted files by exchanging a link called ..data
    hidden = name.startswith(".") and not name.startswith("..") and name not in (".", IGNORE_FILE)
    return hidden or name.startswith("~$") or name in EXCLUDED_FOLDERS


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
