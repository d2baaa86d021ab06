"""What a run has to do: the folder as it is now against the sources that the ledger knows."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
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

    sources: Mapping[str, SourceRow]
    """What the folder was compared with, by document id."""

    due: tuple[FoundFile, ...]
    """New, changed by size or time, to be read or cut otherwise, or failed last time: what a file
    failed by is often not in the file (a permission, a password, a limit, a service), so it is tried
    again, and reported again, in every run."""
    unchanged: tuple[FoundFile, ...]
    removed: tuple[SourceRow, ...]
    """Sources whose files are gone, or are excluded by a pattern now."""
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
    # An id is a hash of the path, and takes longer to make than all else that is looked at here.
    missing = {source.path: source for source in sources.values()}
    for file in walk.files:
        source = missing.pop(file.relative, None)
        same = (
            source is not None
            and source.mtime_ns == file.mtime_ns
            and source.size == file.size
            and source.status == "indexed"
            and source.pipeline == pipelines[file.suffix]
        )
        (unchanged if same else due).append(file)
    removed, hidden = [], []
    skipped = _not_by_choice(walk)
    for source in missing.values():
        reason = _why_hidden(source.path, skipped)
        if reason is None:
            removed.append(source)
        else:
            hidden.append((source, reason))
    return Plan(sources, tuple(due), tuple(unchanged), tuple(removed), tuple(hidden))


def hidden_sources(*plans: Plan) -> list[tuple[SourceRow, str]]:
    """Sources that could not be looked at in any of the plans, each once, with the reason."""
    return list({source.document_id: (source, reason) for plan in plans for source, reason in plan.hidden}.values())


def _not_by_choice(walk: Walk) -> dict[str, str]:
    """What was skipped though nobody said so, with the reason: documents read from there stay."""
    return {path: reason for path, reason in walk.skipped if path not in walk.excluded}


def _why_hidden(path: str, skipped: Mapping[str, str]) -> str | None:
    """Why a known source was not among the files, when it was skipped by itself or with its folder."""
    above = (path[:end] for end in range(len(path)) if path[end] == "/")
    return next((skipped[name] for name in (path, *above) if name in skipped), None)


def check_root(root: Path, known_root: Path | None, documents: int, *, allow_removals: bool) -> None:
    """Refuse a root that is missing, or another one than the collection's.

    With `allow_removals` another folder is taken, and one that was lost counts as empty. A folder
    that is neither there nor the collection's is most likely misspelt, so it is refused all the same.

    Raises:
        ConfigError: the folder is missing and nothing was ingested before.
        RemovalRefusedError: taking it would remove what the collection holds.
    """
    there, folder = os.path.exists(root), os.path.isdir(root)
    what = "is not a folder" if there else "does not exist"
    if not documents:
        if folder:
            return
        raise ConfigError(f"the folder of documents {root} {what}; give it behind the command, or set documents_dir")
    same = known_root is None or _same_folder(known_root, root)
    if not folder and not (allow_removals and same and not there):
        raise RemovalRefusedError(
            f"the folder of documents {root} {what} (is a disk not mounted?); nothing was changed, the collection "
            f"keeps its {documents} documents",
            removed=documents,
            total=documents,
        )
    if not same and not allow_removals:
        raise RemovalRefusedError(
            f"this collection holds {documents} documents of {known_root}, and {root} is another folder; nothing was "
            "changed. Give it a collection of its own (--collection NAME), or, if the folder has moved, say "
            "--allow-removals",
            removed=documents,
            total=documents,
        )


def _same_folder(known: Path, root: Path) -> bool:
    """Whether both names lead to one folder: through links, or in another spelling where the system allows it."""
    if os.path.exists(known) and os.path.exists(root):
        return os.path.samefile(known, root)
    return os.path.realpath(known) == os.path.realpath(root)


def check_removals(
    root: Path,
    walk: Walk,
    plan: Plan,
    documents: Collection[str],
    limits: IngestSection,
    *,
    allow_removals: bool,
    partial: bool = False,
) -> None:
    """Refuse an empty folder, and a run that would remove much of the collection.

    Args:
        root: The folder.
        walk: What is in it.
        plan: What is to be done.
        documents: The ids of the documents that the collection holds; in a partial run of those it looks at.
        limits: How much may go.
        allow_removals: Whether all may go.
        partial: Whether the run looks at some files only, which may then well be gone.

    Raises:
        ConfigError: the folder holds no document and nothing was ingested before.
        RemovalRefusedError: with the counts.
    """
    total = len(documents)
    if not total:
        if not walk.files and not plan.removed and not partial:
            raise ConfigError(f"{root} holds no document that can be read (and {len(walk.skipped)} other files)")
        return
    # Sources that never became a document can go without a loss.
    removed = sum(source.document_id in documents for source in plan.removed)
    if allow_removals or not removed:
        return
    by_pattern = sum(_is_excluded(source.path, walk) for source in plan.removed if source.document_id in documents)
    excluded = f" ({by_pattern} of them excluded by patterns now)" if by_pattern else ""
    if removed == total and not (os.listdir(root) if partial else walk.files):
        raise RemovalRefusedError(
            f"{root} holds no document now, and the collection has {total}{excluded}; nothing was changed. If they "
            "are really to go, say --allow-removals",
            removed=total,
            total=total,
        )
    if total >= limits.max_removal_from and removed > total * limits.max_removal_share:
        raise RemovalRefusedError(
            f"{removed} of {total} documents are no longer in {root}{excluded}; nothing was changed. If they are "
            "really to go, say --allow-removals",
            removed=removed,
            total=total,
        )


def _is_excluded(path: str, walk: Walk) -> bool:
    return bool(walk.excluded) and _why_hidden(path, dict.fromkeys(walk.excluded, "")) is not None


def changes_in_words(walk: Walk, sources: Mapping[str, SourceRow]) -> str | None:
    """What has changed since the sources were read, in a few words; None when nothing has.

    Files that failed and have not changed since are no news.
    """
    missing = {source.path: source for source in sources.values()}
    known = [(file, missing.pop(file.relative, None)) for file in walk.files]
    skipped = _not_by_choice(walk)
    new = sum(source is None for _, source in known)
    gone = sum(_why_hidden(path, skipped) is None for path in missing)
    changed = sum(
        source is not None and (source.size, source.mtime_ns) != (file.size, file.mtime_ns) for file, source in known
    )
    parts = [f"{count} {word}" for count, word in ((new, "new"), (changed, "changed"), (gone, "gone")) if count]
    return f"the folder has changed since the last ingest (files: {', '.join(parts)})" if parts else None
