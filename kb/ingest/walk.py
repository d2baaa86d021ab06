"""The folder walk: every file below a root, either as a document to read or with the reason why not.

Only regular files are documents. Links to folders are never followed, so no loop can catch the
walk; a link to a file is read when its target lies below the root and is not walked itself (as
Kubernetes mounts its files). Hidden means hidden below the root: the root itself may be anywhere.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import TypeAlias

from kb.errors import ConfigError
from kb.ingest.ignore import IGNORE_FILE, NOT_ASKED_FOR, Selection
from kb.loading import document_id, readable_path, why_not_read

EXCLUDED_FOLDERS = ("node_modules", "__pycache__", "__MACOSX")
"""Folders of installed packages and caches: nobody wrote their text for readers of this base."""

_HIDDEN = "hidden: its name begins with a dot; rename it to have it read"


_Entry: TypeAlias = "os.DirEntry[str]"
_by_name = attrgetter("name")


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A regular file that a loader can read.

    Of most files a run needs nothing but to see that they are as they were: what costs time is made when asked for.
    """

    location: str | Path
    """Where it is."""
    relative: str
    """From the root: NFC, forward slashes, valid Unicode; what a citation shows."""
    size: int
    mtime_ns: int

    @property
    def path(self) -> Path:
        """Where it is."""
        return Path(self.location)

    @property
    def suffix(self) -> str:
        """What decides who reads it: lower case, with the dot; empty when the name has none."""
        return _suffix(self.relative[self.relative.rfind("/") + 1 :])

    @property
    def document_id(self) -> str:
        """The id of the document that this file holds."""
        return document_id(self.relative)


@dataclass(frozen=True, slots=True)
class Walk:
    """All that lies below a root: `files` and `skipped`, both in order of their relative paths."""

    files: tuple[FoundFile, ...]
    skipped: tuple[tuple[str, str], ...]
    """(relative path, reason) of what is no document; a folder that was not entered is one entry."""
    excluded: frozenset[str] = frozenset()
    """Paths among the skipped ones that a pattern excludes: what was read of them is to go, as if it were deleted."""


def walk(
    root: Path,
    suffixes: Collection[str],
    *,
    exclude_folders: Collection[str] = EXCLUDED_FOLDERS,
    exclude: Iterable[Path] = (),
    selection: Selection | None = None,
) -> Walk:
    """Find the documents below a folder.

    Args:
        root: The folder; it may be hidden, or a link.
        suffixes: Lower case, with the dot: what the loaders read.
        exclude_folders: Names of folders that are not entered.
        exclude: Folders that are not entered wherever they are, such as the data folder.
        selection: Patterns of what is read; without it only `.kbignore` files are heeded.

    Raises:
        ConfigError: `root` is not a folder, or cannot be listed, or a `.kbignore` cannot be read.
    """
    if not root.is_dir():
        raise ConfigError(f"documents_dir = {str(root)!r}: there is no such folder; create it, or name another one")
    walker = _Walker(root, suffixes, exclude_folders, exclude, selection or Selection(root))
    walker.run()
    return walker.result()


class _Walker:
    def __init__(
        self,
        root: Path,
        suffixes: Collection[str],
        exclude_folders: Collection[str],
        exclude: Iterable[Path],
        selection: Selection,
    ) -> None:
        self._root = os.fspath(root)
        self._real_root = os.path.realpath(root)
        self._suffixes = frozenset(suffixes)
        self._folders = frozenset(exclude_folders)
        self._excluded = {os.path.realpath(path) for path in exclude}
        self._selection = selection
        self._by_pattern: set[str] = set()
        self._files: dict[str, FoundFile] = {}
        self._skipped: dict[str, str] = {}

    def run(self) -> None:
        folders = [(self._root, "")]  # each with what its names are put behind to be relative
        while folders:
            folder, above = folders.pop()
            try:
                with os.scandir(folder) as listed:
                    # Sorted, so that of two spellings of a name always the same one wins.
                    entries = sorted(listed, key=_by_name)
            except OSError as error:
                self._folder_error(folder, above, error)
                continue
            inner: list[_Entry] = []
            files: list[_Entry] = []
            for entry in entries:
                (inner if _is_folder(entry) else files).append(entry)
                if entry.name == IGNORE_FILE and not _is_folder(entry):
                    self._selection.read_file(readable_path(above.removesuffix("/")))
            entered = [(entry.path, f"{above}{entry.name}/") for entry in inner if self._enters(entry, above)]
            folders += reversed(entered)
            for entry in files:
                self._look_at(entry, above)

    def result(self) -> Walk:
        return Walk(
            files=tuple(self._files[relative] for relative in sorted(self._files)),
            skipped=tuple(sorted(self._skipped.items())),
            excluded=frozenset(self._by_pattern),
        )

    def _skip(self, name: str, reason: str) -> None:
        """Note why what has this relative name is no document."""
        relative = readable_path(name)
        if relative in self._skipped or relative in self._files:
            relative = _told_apart(relative, self._skipped)
        self._skipped[relative] = reason

    def _folder_error(self, folder: str, above: str, error: OSError) -> None:
        if folder == self._root:
            raise ConfigError(f"documents_dir = {folder!r} cannot be listed: {error.strerror}") from error
        self._skip(above.removesuffix("/"), f"the folder cannot be listed ({error.strerror}); change its permissions")

    def _enters(self, folder: _Entry, above: str) -> bool:
        """Whether to walk into a folder; the reason why not is noted."""
        if self._selection.active and self._leaves_out(above + folder.name, self._selection.why_not_entered):
            return False
        if folder.is_symlink():
            reason = "a link to a folder is not followed; copy or move the folder itself below the root"
        elif self._excluded and os.path.realpath(folder.path) in self._excluded:
            reason = "the folder where this program keeps its data"
        elif folder.name.startswith("."):
            reason = _HIDDEN
        elif folder.name in self._folders:
            reason = f"folders called {folder.name} are not read"
        else:
            return True
        self._skip(above + folder.name, reason)
        return False

    def _leaves_out(self, name: str, why_not: Callable[[str], str | None]) -> bool:
        """Whether patterns leave out this relative name; noted with the reason, but for what nobody asked for."""
        reason = why_not(readable_path(name))
        if reason is not None and reason != NOT_ASKED_FOR:
            self._skip(name, reason)
            self._by_pattern.add(readable_path(name))
        return reason is not None

    def _look_at(self, entry: _Entry, above: str) -> None:
        name = above + entry.name
        if self._selection.active and self._leaves_out(name, self._selection.why_not_read):
            return
        reason = self._no_document(entry.name)
        if reason:
            self._skip(name, reason)
            return
        try:
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode):
                reason = self._link_reason(entry.path)
                status = os.stat(entry.path)
        except OSError as error:
            if entry.is_symlink() and error.errno in (errno.ENOENT, errno.ELOOP):
                self._skip(name, "a link whose target does not exist; remove or mend it")
                return
            self._skip(name, f"the system cannot read it ({error.strerror})")
            return
        if not stat.S_ISREG(status.st_mode):
            reason = "not a file but a pipe, socket or device"
        relative = readable_path(name)
        if not reason and relative in self._files:
            reason = f"the same name as {relative} in another Unicode spelling; rename one of them"
        if reason:
            self._skip(name, reason)
        else:
            self._files[relative] = FoundFile(entry.path, relative, status.st_size, status.st_mtime_ns)

    def _no_document(self, name: str) -> str | None:
        """Why a file of this name is no document; None when it is one."""
        if name.startswith("~$"):
            return "the lock file of a document that is open in Word; close it there"
        if name == IGNORE_FILE:
            return "it holds patterns of what is not read"
        if name.startswith("."):
            return _HIDDEN
        suffix = _suffix(name)
        return None if suffix in self._suffixes else why_not_read(suffix, self._suffixes)

    def _link_reason(self, link: str) -> str | None:
        """Why a link to a file is not read; None when its target is reached in no other way."""
        target = os.path.realpath(link)
        if not _is_below(target, self._real_root):
            return "a link to a file outside of the folder is not followed; copy the file itself below the root"
        inside = Path(target).relative_to(self._real_root)
        if any(_is_below(target, folder) for folder in self._excluded):
            return "a link into the folder where this program keeps its data"
        name = readable_path(inside.as_posix())
        walked = self._no_document(inside.name) is None and not any(map(self._is_skipped_name, inside.parts))
        if walked and (not self._selection.active or self._selection.reads(name)):
            return f"a link to {name}, which is read itself"
        return None

    def _is_skipped_name(self, name: str) -> bool:
        return name.startswith(".") or name in self._folders


def _suffix(name: str) -> str:
    """As `os.path.splitext` has it, in a fifth of the time, for a name that begins with no dot; lower case."""
    dot = name.rfind(".")
    return name[dot:].lower() if dot > 0 else ""


def _is_folder(entry: _Entry) -> bool:
    """Whether an entry is a folder, or a link to one."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _told_apart(relative: str, taken: Collection[str]) -> str:
    """A name for a second entry of the same spelling, so that no skipped file vanishes."""
    return next(name for name in _numbered(relative) if name not in taken)


def _numbered(relative: str) -> Iterator[str]:
    number = 2
    while True:
        yield f"{relative} ({number})"
        number += 1
