"""What a collection holds and how it is: files, chunks, what is missing of it, disk, lock, last run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kb.errors import KbError, NothingIngestedError, StoreError
from kb.ingest.lock import FREE, LockState, lock_state
from kb.ledger.copies import StoreCopy
from kb.ledger.in_step import filled_store
from kb.ledger.ledger import Ledger
from kb.ledger.runs import LastRun
from kb.ledger.schema import LEDGER_FILE
from kb.ledger.set_aside import Passage
from kb.ledger.upkeep import VectorUse

if TYPE_CHECKING:
    from kb.ledger.documents import SourceRow
    from kb.ledger.generations import Generation
    from kb.opening import CollectionStore

_NO_VECTORS = VectorUse(0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class FailedFile:
    """A file that is not, or not wholly, what answers come from."""

    path: str
    reason: str
    kept: bool
    """Whether text of it can be found all the same: what was read before, or the rest of its passages."""


@dataclass(frozen=True, slots=True)
class SetAsidePassage:
    """A passage that the embedding service refused for good."""

    path: str
    passage: Passage


@dataclass(frozen=True, slots=True)
class Building:
    """A generation that was begun beside the current one and is not complete: a rebuild goes on, or was interrupted."""

    number: int
    embedder: str
    created: str
    chunks: int


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes on the disk."""

    ledger: int = 0
    store: int = 0
    """The current generation's files; a server keeps its own elsewhere."""
    other_generations: int = 0
    """Of one that is being built, and of what a run left that died."""
    free: int = 0
    """What the disk has left."""


@dataclass(frozen=True, slots=True)
class Status:
    """What a collection holds, and how it is."""

    collection: str
    folder: Path
    root: Path | None
    documents: int
    chunks: int
    """Those that can be found."""
    failed: int
    embedder: str | None
    """The fingerprint of the embedder that it was built with; None before the first ingest."""
    dimension: int | None = None
    files: int = 0
    """Known to the ledger: indexed or failed."""
    failures: tuple[FailedFile, ...] = ()
    set_aside: tuple[SetAsidePassage, ...] = ()
    with_vector: int = 0
    """Chunks whose vector is in the ledger."""
    vectors: VectorUse = _NO_VECTORS
    store: str = ""
    """The configured one."""
    store_fault: str | None = None
    """What is wrong with it at first sight, and what mends it; `check` looks closer."""
    copy: StoreCopy | None = None
    """A copy in another store that is in step, and is used once that store is configured."""
    sizes: Sizes = Sizes()
    lock: LockState = FREE
    building: Building | None = None
    last_run: LastRun | None = None
    """The last one that could say how it ended. One that died since is named by `lock`."""

    @property
    def coverage(self) -> float:
        """The share, 0 to 1, of the chunks that should be there and have a vector; 1 when there should be none."""
        wanted = self.chunks + len(self.set_aside)
        return self.with_vector / wanted if wanted else 1.0

    @property
    def died(self) -> bool:
        """Whether whoever wrote last was killed while writing."""
        return not self.lock.held and self.lock.holder is not None

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        plain = asdict(self)
        plain["folder"] = str(self.folder)
        plain["root"] = None if self.root is None else str(self.root)
        plain["set_aside"] = [{"path": one.path, **asdict(one.passage)} for one in self.set_aside]
        return {**plain, "coverage": self.coverage, "died": self.died}


def read_status(store: CollectionStore) -> Status:
    """The status of the collection that `store` is configured for; loads no store and no embedder.

    Raises:
        LedgerError: the ledger is damaged, or of another version.
    """
    folder = store.folder
    lock, sizes = lock_state(folder), Sizes(free=_free_bytes(folder))
    try:
        ledger = Ledger(folder, read_only=True)
    except NothingIngestedError:
        name = store.settings.collection
        return Status(name, folder, None, 0, 0, 0, None, store=store.name, lock=lock, sizes=sizes)
    with ledger, ledger.snapshot():
        return _of_ledger(ledger, store, lock)


def _of_ledger(ledger: Ledger, store: CollectionStore, lock: LockState) -> Status:
    current = ledger.current_generation()
    sources = ledger.sources(current.number) if current else {}
    documents = ledger.document_ids(current.number) if current else set()
    failures = tuple(_failures(sources.values(), documents))
    set_aside = ledger.passages_set_aside(current.number) if current else []
    return Status(
        collection=ledger.collection_name() or store.settings.collection,
        folder=ledger.folder,
        root=ledger.root(),
        documents=len(documents),
        chunks=ledger.counts(current.number).chunks if current else 0,
        failed=len(failures),
        embedder=current.fingerprint if current else None,
        dimension=current.dimension if current else None,
        files=len(sources),
        failures=failures,
        set_aside=tuple(SetAsidePassage(path, passage) for path, passage in set_aside),
        with_vector=ledger.chunks_with_vector(current.number) if current else 0,
        vectors=ledger.vector_use(),
        store=store.name,
        store_fault=store_fault(ledger, current, store) if current else None,
        copy=ledger.copy_in_step(),
        sizes=_sizes(ledger, current, store),
        lock=lock,
        building=_building(ledger),
        last_run=ledger.last_run(),
    )


def store_fault(ledger: Ledger, generation: Generation, store: CollectionStore) -> str | None:
    """What can be told of a generation's store without opening it."""
    folder = ledger.generation_folder(store.held(ledger, generation))
    try:
        store.check_files(folder)
        filled = filled_store(folder)
    except StoreError as error:
        return str(error)
    if filled == store.name or not ledger.has_chunks(generation.number):
        return None
    where = f"what was filled is in {filled!r}" if filled else "it was not filled to the end, or has been deleted"
    return f"the store {store.name!r} does not hold the collection: {where}. {store.fill_advice}"


def _failures(sources: Iterable[SourceRow], documents: Collection[str]) -> Iterator[FailedFile]:
    for source in sorted(sources, key=lambda source: source.path):
        if source.status == "failed":
            yield FailedFile(source.path, source.reason, source.document_id in documents)


def _building(ledger: Ledger) -> Building | None:
    for one in ledger.generations():
        if one.state == "building":
            return Building(one.number, one.fingerprint, one.created, ledger.counts(one.number).chunks)
    return None


def _sizes(ledger: Ledger, current: Generation | None, store: CollectionStore) -> Sizes:
    folders = folder_bytes(ledger.folder)
    held = folder_bytes(ledger.generation_folder(store.held(ledger, current))) if current else 0
    ledger_bytes = ledger.file_bytes()
    return Sizes(ledger_bytes, held, max(0, folders - held - ledger_bytes), _free_bytes(ledger.folder))


def folder_bytes(folder: Path) -> int:
    """The bytes of all files below a folder; what vanishes meanwhile counts as nothing."""
    total = 0
    for at, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(at, name), follow_symlinks=False).st_size
            except OSError:  # an ingest goes on
                continue
    return total


def _free_bytes(folder: Path) -> int:
    """What the disk has left on which the folder is, or would be."""
    there = next(above for above in (folder, *folder.absolute().parents) if above.exists())
    return shutil.disk_usage(there).free


def read_all(store: CollectionStore) -> tuple[list[Status], list[str]]:
    """The statuses of all collections in `data_dir` by name, and what is wrong with those that cannot be read."""
    statuses, unreadable = [], []
    for file in sorted(store.settings.data_dir.glob(f"*/{LEDGER_FILE}")):
        try:
            with Ledger(file.parent, read_only=True) as ledger:
                name = ledger.collection_name() or file.parent.name
            one = replace(store, settings=store.settings.model_copy(update={"collection": name}))
            if one.folder.name == file.parent.name:
                statuses.append(read_status(one))
            else:
                unreadable.append(f"{file.parent} holds the collection {name!r}, whose folder is {one.folder}")
        except KbError as error:
            unreadable.append(str(error))
    return sorted(statuses, key=lambda status: status.collection), unreadable
