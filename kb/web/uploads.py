"""Files that clients send: stored below the folder of documents, whole or not at all, and never over another file."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Self

from kb.errors import ConfigError, KbError
from kb.inert import one_line
from kb.ingest.ignore import Selection
from kb.loading import document_id, loader_suffixes, readable_path, why_not_read
from kb.logs import note
from kb.web.folder import changeable_folder, folder_of, found_file
from kb.web.incoming import INCOMING, Incoming, hash_of, is_left_over, sync, told
from kb.web.refusals import Refusal
from kb.web.safe_names import safe_name, suffix_of

if TYPE_CHECKING:
    from kb.knowledge_base import KnowledgeBase
    from kb.web.collections import Collections
    from kb.web.jobs import Jobs

_BYTES_PER_MEGABYTE = 1024 * 1024

CHANGING = Lock()
"""Held by whoever adds or deletes a file: else two equal uploads at once were two documents."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A file that was uploaded and is not in the collection yet."""

    file: Path
    path: str
    """From the folder of documents."""

    @property
    def id(self) -> str:
        """Of the document that it will be."""
        return document_id(self.path)


@dataclass(frozen=True, slots=True)
class Shelf:
    """Where uploads of one collection are stored."""

    base: KnowledgeBase
    root: Path
    """The folder of documents."""

    @classmethod
    def of(cls, collections: Collections, base: KnowledgeBase) -> Self:
        """That of a collection, to be read."""
        return cls(base, folder_of(collections, base))

    @property
    def name(self) -> str:
        """The folder's, below the root."""
        return self.base.settings.web.uploads

    @property
    def folder(self) -> Path:
        """The folder of uploads."""
        return self.root / self.name

    @property
    def most_bytes(self) -> int:
        """Of one file."""
        settings = self.base.settings
        most = min(settings.web.max_upload_megabytes, settings.loading.max_file_megabytes)
        return int(most * _BYTES_PER_MEGABYTE)

    def holds(self, path: str) -> bool:
        """Whether a document's file lies in it."""
        return path.startswith(f"{readable_path(self.name)}/")

    def name_for(self, given: str) -> str:
        """The name under which a client's file would be stored, if no other one has it.

        Raises:
            Refusal: no name is left of it, or no ingest would read it.
        """
        name = safe_name(given)
        if not name:
            raise Refusal(422, "bad_name", "the file's name has no character that a name may have")
        suffix = suffix_of(name)
        if suffix not in loader_suffixes():
            raise Refusal(415, "unsupported", why_not_read(suffix, loader_suffixes()))
        if not _reads(self._selection(), f"{self.name}/{name}"):
            raise Refusal(422, "excluded", "[loading] include or exclude, or a .kbignore, keep such a file out")
        return name

    def ready(self) -> Path:
        """The folder of uploads, made if it is not there.

        Raises:
            Refusal: it cannot be, or is something else.
        """
        with told(self.root):
            if not self.root.is_dir():
                if self.base.root is not None:
                    raise Refusal(409, "no_folder", "the folder of documents is not there (is a disk not mounted?)")
                self.root.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                self.folder.mkdir()
                sync(self.root)
            if not stat.S_ISDIR(self.folder.lstat().st_mode):
                raise Refusal(409, "no_folder", f"{self.name} in the folder of documents is no folder of its own")
        return self.folder

    def keep(self, incoming: Incoming, name: str) -> tuple[str, bool]:
        """Store a file that was received; its path from the root, and whether it was there already.

        Raises:
            Refusal: it cannot be stored.
        """
        digest = incoming.finish()
        with CHANGING, told(self.folder):
            known = self._known(digest, incoming.size)
            if known is not None:
                return known, True
            stored = incoming.keep_as(name)
        return readable_path(f"{self.name}/{stored}"), False

    def waiting(self) -> list[Waiting]:
        """Files in it that no ingest has met, by path; those that none would read are left out."""
        found = {(path := readable_path(f"{self.name}/{file.name}")): Waiting(file, path) for file in self._files()}
        known = self.base.catalogue.known([one.id for one in found.values()])
        selection = self._selection()
        return [one for _, one in sorted(found.items()) if one.id not in known and _reads(selection, one.path)]

    def clear(self) -> None:
        """Delete what was being received when a server was killed."""
        for file in self._entries(INCOMING):
            with suppress(OSError):
                if is_left_over(file):
                    file.unlink()

    def _known(self, digest: str, size: int) -> str | None:
        """The path of a file with this content that is there, and is in the collection or waits for it."""
        catalogue = self.base.catalogue
        for document in map(catalogue.listed, catalogue.of_content(digest)):
            file = None if document is None else found_file(self.root, document.path)
            if document is not None and file is not None and _has_content(file, digest, size):
                return document.path
        if not any(_has_content(file, digest, size) for file in self._files()):
            return None
        return next((one.path for one in self.waiting() if _has_content(one.file, digest, size)), None)

    def _selection(self) -> Selection:
        loading = self.base.settings.loading
        return Selection(self.root, include=loading.include, exclude=loading.exclude)

    def _files(self) -> Iterator[Path]:
        suffixes = loader_suffixes()
        for file in self._entries():
            if not file.name.startswith((".", "~$")) and suffix_of(file.name) in suffixes:
                yield file

    def _entries(self, start: str = "") -> Iterator[Path]:
        """Regular files in it; none when it is not there, or is only a link."""
        if self.folder.is_symlink():
            return
        try:
            with os.scandir(self.folder) as entries:
                names = [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
        except OSError:
            return
        yield from (self.folder / name for name in names if name.startswith(start))


def go_on(collections: Collections, jobs: Jobs) -> None:
    """At a server's start: forget what was being received when the last one ended, ingest what had been stored."""
    for name in collections.names():
        try:
            shelf = Shelf.of(collections, collections.get(name))
            shelf.clear()
            for waiting in shelf.waiting():
                jobs.look_at(name, waiting.path)
        except (KbError, Refusal) as error:  # the other collections are served all the same
            note("uploads", f"uploads of the collection {name!r}: {one_line(str(error))}")


def delete_file(collections: Collections, base: KnowledgeBase, path: str) -> None:
    """Delete a document's file, if it is there.

    Raises:
        Refusal: it is no regular file below the folder, or cannot be deleted.
    """
    with CHANGING:
        root = changeable_folder(collections, base)
        file = found_file(root, path)
        if file is None:
            if os.path.lexists(root / path):
                raise Refusal(409, "no_file", f"{path} is a link, or lies behind one; what it leads to is not deleted")
            return
        with told(file.parent):
            with suppress(FileNotFoundError):
                file.unlink()
            sync(file.parent)


def _reads(selection: Selection, path: str) -> bool:
    try:
        return selection.reads(path)
    except ConfigError:  # of a .kbignore, of which the ingest will complain
        return True


def _has_content(file: Path, digest: str, size: int) -> bool:
    try:
        return file.lstat().st_size == size and hash_of(file) == digest
    except OSError:
        return False
