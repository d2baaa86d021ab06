"""What a run has to do: the folder as it is now against the sources that the ledger knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kb.errors import ConfigError, RemovalRefusedError

if TYPE_CHECKING:
    from kb.ingest.walk import FoundFile, Walk
    from kb.ledger.documents import SourceRow
    from kb.settings import IngestSection


@dataclass(frozen=True, slots=True)
class Plan:
    """Files by what is to be done with them; `due` is in the walk's order."""

    due: tuple[FoundFile, ...]
    """New, changed by size or time, failed last time, or read by another loader or chunker."""
    unchanged: tuple[FoundFile, ...]
    removed: tuple[SourceRow, ...]
    hidden: tuple[tuple[SourceRow, str], ...]
    """Sources that could not be looked at, with the reason; they stay as they are."""


def make_plan(walk: Walk, sources: Mapping[str, SourceRow], pipelines: Mapping[str, str]) -> Plan:
    """Compare a walk with the ledger.

    Args:
        walk: The folder as it is.
        sources: By document id, as they were.
        pipelines: The fingerprint of loader and chunker by suffix.
    """
    due: list[FoundFile] = []
    unchanged: list[FoundFile] = []
    found = set()
    for file in walk.files:
        found.add(file.document_id)
        source = sources.get(file.document_id)
        same = source is not None and (source.size, source.mtime_ns, source.pipeline, source.status) == (
            file.size,
            file.mtime_ns,
            pipelines[file.path.suffix.lower()],
            "indexed",
        )
        (unchanged if same else due).append(file)
    removed, hidden = [], []
    for document_id, source in sources.items():
        if document_id in found:
            continue
        reason = _why_hidden(source.path, walk)
        if reason is None:
            removed.append(source)
        else:
            hidden.append((source, reason))
    return Plan(tuple(due), tuple(unchanged), tuple(removed), tuple(hidden))


def _why_hidden(path: str, walk: Walk) -> str | None:
    """Why a known source was not among the files, when it was skipped by itself or with its folder."""
    for skipped, reason in walk.skipped:
        if path == skipped or path.startswith(skipped.rstrip("/") + "/"):
            return reason
    return None


def check_root(root: Path, known_root: Path | None, documents: int) -> None:
    """Refuse a root that is missing, or another one than the collection's.

    Raises:
        ConfigError: the folder is missing and nothing was ingested before.
        RemovalRefusedError: taking it would remove what the collection holds.
    """
    if not root.is_dir():
        what = "is not a folder" if root.exists() else "does not exist"
        if not documents:
            raise ConfigError(
                f"the folder of documents {root} {what}; give it behind the command, or set documents_dir"
            )
        raise RemovalRefusedError(
            f"the folder of documents {root} {what} (is a disk not mounted?); nothing was changed, the collection "
            f"keeps its {documents} documents",
            removed=documents,
            total=documents,
        )
    if known_root is not None and documents and known_root.resolve() != root.resolve():
        raise RemovalRefusedError(
            f"this collection holds {documents} documents of {known_root}, and {root} is another folder. Give it a "
            "collection of its own (--collection NAME), or, if the folder has moved, say --allow-removals",
            removed=documents,
            total=documents,
        )


def check_removals(root: Path, walk: Walk, plan: Plan, documents: int, limits: IngestSection) -> None:
    """Refuse an empty folder, and a run that would remove much of the collection.

    Raises:
        ConfigError: the folder holds no document and nothing was ingested before.
        RemovalRefusedError: with the counts.
    """
    removed = len(plan.removed)
    if not walk.files and not documents:
        raise ConfigError(f"{root} holds no document that can be read (walked: {len(walk.skipped)} other files)")
    if not walk.files and not plan.hidden:
        raise RemovalRefusedError(
            f"{root} holds no document now, and the collection has {documents}; nothing was changed. If they are "
            "really to go, say --allow-removals",
            removed=documents,
            total=documents,
        )
    if documents >= limits.max_removal_from and removed > documents * limits.max_removal_share:
        raise RemovalRefusedError(
            f"{removed} of {documents} documents are no longer in {root}; nothing was changed. If they are really "
            "to go, say --allow-removals",
            removed=removed,
            total=documents,
        )


def changes_in_words(walk: Walk, sources: Mapping[str, SourceRow]) -> str | None:
    """What has changed since the sources were read, in a few words; None when nothing has.

    Files that failed and have not changed since are no news.
    """
    files = {file.document_id: file for file in walk.files}
    new = sum(document_id not in sources for document_id in files)
    gone = sum(document_id not in files and _why_hidden(s.path, walk) is None for document_id, s in sources.items())
    changed = sum(
        document_id in sources
        and (sources[document_id].size, sources[document_id].mtime_ns) != (file.size, file.mtime_ns)
        for document_id, file in files.items()
    )
    parts = [f"{count} {word}" for count, word in ((new, "new"), (changed, "changed"), (gone, "gone")) if count]
    return f"the folder has changed since the last ingest (files: {', '.join(parts)})" if parts else None
