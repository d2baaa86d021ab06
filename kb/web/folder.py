"""The folder of documents of a collection, as a server reads it and changes it."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from kb.loading import readable_path
from kb.web.refusals import Refusal

if TYPE_CHECKING:
    from kb.knowledge_base import KnowledgeBase
    from kb.web.collections import Collections


def folder_of(collections: Collections, base: KnowledgeBase) -> Path:
    """The folder that is ingested into a collection: `documents_dir`, or what another collection was made of."""
    root = None if base is collections.default else base.root
    return root or base.folder_to_read()


def changeable_folder(collections: Collections, base: KnowledgeBase) -> Path:
    """The same, to store and delete files in.

    Raises:
        Refusal: the collection's documents come from another folder than an ingest would read.
    """
    folder, root = folder_of(collections, base), base.root
    if is_same(root, folder):
        return folder
    raise Refusal(409, "other_folder", f"the collection holds documents of {root}, and documents_dir is {folder}")


def found_file(folder: Path, relative: str) -> Path | None:
    """The regular file at a document's path, in whatever form of Unicode; None when it, or a folder above, is none."""
    at = folder
    *above, last = relative.split("/")
    for part in above:
        step = _entry(at, part)
        if step is None or not stat.S_ISDIR(_mode(step)):
            return None
        at = step
    file = _entry(at, last)
    return file if file is not None and stat.S_ISREG(_mode(file)) else None


def is_same(root: Path | None, folder: Path) -> bool:
    """Whether a folder is the one that a collection was made of; one of nothing yet takes any."""
    if root is None:
        return True
    try:
        return os.path.samefile(root, folder)
    except OSError:
        return os.path.realpath(root) == os.path.realpath(folder)


def _mode(path: Path) -> int:
    """What it is, a link being a link; 0 when it is not there any more."""
    try:
        return path.lstat().st_mode
    except OSError:
        return 0


def _entry(folder: Path, name: str) -> Path | None:
    if name in ("", ".", "..") or "\0" in name:
        return None
    if os.path.lexists(folder / name):
        return folder / name
    try:
        with os.scandir(folder) as entries:
            return next((folder / entry.name for entry in entries if readable_path(entry.name) == name), None)
    except OSError:
        return None
