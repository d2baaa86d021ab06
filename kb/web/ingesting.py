"""One ingest as a server wants it: a whole folder, or some files of it that came or went."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kb.errors import LockedError
from kb.inert import one_line
from kb.ingest.ignore import Selection
from kb.ingest.progress import Reached, followed
from kb.ingest.walk import walk
from kb.loading import document_id, loader_suffixes
from kb.web.collections import Collections
from kb.web.folder import folder_of, found_file, is_same

if TYPE_CHECKING:
    from kb.ingest.report import IngestReport
    from kb.knowledge_base import KnowledgeBase

_PATIENCE_SECONDS = 600.0
"""For an ingest that somebody runs by hand; an upload would otherwise wait for the next start."""
_RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be ingested."""

    collection: str
    rebuild: bool = False
    allow_removals: bool = False
    paths: tuple[str, ...] = ()
    """From the folder of documents; empty for all."""

    def joined(self, other: Wish, most: int) -> Wish | None:
        """Both in one; None when they are of different kinds, or it would look at more than `most` files."""
        if replace(self, paths=()) != replace(other, paths=()) or bool(self.paths) != bool(other.paths):
            return None
        paths = tuple(dict.fromkeys((*self.paths, *other.paths)))
        return replace(self, paths=paths) if len(paths) <= most else None


def ingested(
    collections: Collections, wish: Wish, told: Callable[[Reached], None], waits: Callable[[str], None]
) -> IngestReport | None:
    """Do it; None when there is nothing to do.

    Args:
        collections: The server's.
        wish: What is wanted.
        told: Is told how far it is.
        waits: Is told for whom it waits.

    Raises:
        KbError: it failed; what was done by then is kept.
    """
    base = collections.get(wish.collection)
    until = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            with followed(told):
                return (_some if wish.paths else _all)(base, folder_of(collections, base), wish)
        except LockedError as error:
            if time.monotonic() > until:
                raise
            waits(one_line(str(error)))
        time.sleep(_RETRY_SECONDS)


def _all(base: KnowledgeBase, folder: Path, wish: Wish) -> IngestReport | None:
    if folder.is_dir() and not base.catalogue.page(limit=1).total and not _holds_documents(base, folder):
        return None  # a new server's folder is empty, which is no fault
    return base.ingest(folder, rebuild=wish.rebuild, allow_removals=wish.allow_removals)


def _holds_documents(base: KnowledgeBase, folder: Path) -> bool:
    loading = base.settings.loading
    selection = Selection(folder, include=loading.include, exclude=loading.exclude)
    return bool(walk(folder, loader_suffixes(), exclude=(base.settings.data_dir,), selection=selection).files)


def _some(base: KnowledgeBase, folder: Path, wish: Wish) -> IngestReport | None:
    """Look at some files only. What of them is gone was deleted on purpose, be it all that there was."""
    there = [path for path in wish.paths if found_file(folder, path) or base.catalogue.listed(document_id(path))]
    if not there:
        return None
    # With these patterns a run touches no other document; another folder than the collection's is refused as ever.
    return base.ingest(folder, only=[pattern_of(path) for path in there], allow_removals=is_same(base.root, folder))


def pattern_of(path: str) -> str:
    r"""The pattern in gitignore form that matches this path, from the folder on.

    >>> pattern_of("uploads/a*[1].md")
    '/uploads/a\\*[[]1].md'
    """
    return "/" + re.sub(r"[\\*?\[]", lambda found: "[[]" if found[0] == "[" else f"\\{found[0]}", path)
