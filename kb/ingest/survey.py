"""What a run finds before it does anything: the collection, the folder, and what is to be done.

It only reads, so it serves a run and a dry run alike; and it refuses what either must not do.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kb.errors import ConfigError, IndexMismatchError
from kb.ingest.ignore import Selection
from kb.ingest.plan import Plan, changes_in_words, check_removals, check_root, make_plan
from kb.ingest.walk import Walk, walk
from kb.loading import loader_suffixes

if TYPE_CHECKING:
    from kb.ingest.job import Job
    from kb.ledger.documents import SourceRow
    from kb.ledger.generations import Generation
    from kb.ledger.ledger import Ledger
    from kb.settings import LoadingSection


@dataclass(frozen=True, slots=True)
class Survey:
    """The collection and its folder, compared."""

    current: Generation | None
    """What answers questions now."""
    documents: Set[str]
    """The ids of the documents that it holds."""
    selection: Selection
    found: Walk
    skipped: tuple[tuple[str, str], ...]
    """What the walk skipped, with the reason, as far as it is this run's business."""
    plan: Plan
    """What is to be done in the current generation, or, without one, in the first."""


def check_data_folder(job: Job) -> None:
    """Refuse to make the data folder inside a root that is not there: it would be taken for the root.

    Raises:
        ConfigError: nothing was changed.
    """
    inside = Path(os.path.abspath(job.folder)).is_relative_to(os.path.abspath(job.root))
    if inside and not job.root.is_dir():
        raise ConfigError(
            f"the folder of documents {job.root} does not exist (is a disk not mounted?), and data_dir lies in it; "
            "nothing was changed"
        )


def survey(ledger: Ledger, job: Job) -> Survey:
    """Look at the collection and the folder.

    Raises:
        ConfigError: nothing was ingested before, and the folder is missing or holds no document; or `only`
            matches nothing, or comes with `rebuild`.
        RemovalRefusedError: the folder is another one, missing or empty, or has lost much.
        IndexMismatchError: the collection was built with another embedder, and `rebuild` is not set.
    """
    if job.only and job.rebuild:
        raise ConfigError("--only and --rebuild don't go together: what was not looked at would be missing")
    selection = Selection(job.root, include=job.include, exclude=job.exclude, only=job.only)
    current = ledger.current_generation()
    documents = ledger.document_ids(current.number) if current else set()
    if current is not None and documents and not job.rebuild and current.fingerprint != job.embedder.fingerprint:
        mend = job.store.ingest_command(ledger.root(), rebuild=True)
        raise IndexMismatchError(current.fingerprint, job.embedder.fingerprint, mend)
    check_root(job.root, ledger.root(), len(documents), allow_removals=job.allow_removals)
    found = _walk(job, selection)
    skipped = tuple(
        (path, reason)
        for path, reason in found.skipped
        if selection.asked_for(path) or selection.asked_for(path, is_folder=True)
    )
    plan = plan_for(ledger, current.number if current else None, found, selection, job)
    if job.only and not (found.files or plan.removed or plan.hidden or skipped):
        patterns = " and ".join(map(repr, job.only))
        raise ConfigError(
            f"--only: nothing in {job.root} matches {patterns}; a pattern has gitignore's form and starts from that "
            "folder, as in '/handbook/' or '*.md'"
        )
    check_removals(
        job.root,
        found,
        plan,
        documents & plan.sources.keys() if job.only else documents,
        job.limits,
        allow_removals=job.allow_removals,
        partial=bool(job.only),
    )
    return Survey(current, documents, selection, found, skipped, plan)


def plan_for(ledger: Ledger, generation: int | None, found: Walk, selection: Selection, job: Job) -> Plan:
    """What is to be done in a generation; what the run does not look at stays as it is there."""
    sources = {} if generation is None else ledger.sources(generation)
    if job.only:
        sources = {key: source for key, source in sources.items() if selection.asked_for(source.path)}
    return make_plan(found, sources, job.pipelines)


def changed_since(
    root: Path | None, sources: Mapping[str, SourceRow], data_dir: Path, loading: LoadingSection
) -> str | None:
    """Say in a few words how a folder differs from what was read of it; None when it does not.

    Args:
        root: The collection's folder.
        sources: What was read, by document id.
        data_dir: Never looked into.
        loading: Which files are read.

    Raises:
        ConfigError: the folder or a `.kbignore` cannot be read.
    """
    if root is None or not root.is_dir():
        return f"the folder {root} is not there" if root else None
    selection = Selection(root, include=loading.include, exclude=loading.exclude)
    found = walk(root, suffixes=frozenset(loader_suffixes()), exclude=(data_dir,), selection=selection)
    return changes_in_words(found, sources)


def _walk(job: Job, selection: Selection) -> Walk:
    if not os.path.exists(job.root):  # allowed to be missing, so all of it has gone
        return Walk((), ())
    suffixes = frozenset(job.pipelines)
    return walk(job.root, suffixes=suffixes, exclude=(job.data_dir, job.folder), selection=selection)
