"""Doing what a plan says, in an order that survives an interruption anywhere.

For each batch of documents: vectors into the ledger → new chunks into the store → the ledger flips
which chunks are live → stale chunks out of the store. Until the flip, questions see the old state.
A store in a process of its own is written while the next batch is read and embedded.
"""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from kb.abilities import LoadsAhead
from kb.components import StoreRow
from kb.errors import KbError, LoadError
from kb.ingest.batch import Batch, Begun, Prepared, Tally, UnderWay
from kb.ingest.engine import Cut, cut
from kb.ingest.report import Problem
from kb.ledger.documents import SourceRow
from kb.ledger.hashes import hashed
from kb.ledger.set_aside import Passage
from kb.logs import event

if TYPE_CHECKING:
    from kb.ingest.engine import Engine, Preparing
    from kb.ingest.job import Job
    from kb.ingest.paid_embedding import PaidEmbedding
    from kb.ingest.progress import Progress
    from kb.ingest.synced_store import SyncedStore
    from kb.ingest.walk import FoundFile
    from kb.ledger.generations import Generation
    from kb.ledger.ledger import Ledger
    from kb.records import Chunk

_Item = TypeVar("_Item")

_FIRST_BATCH = 512
"""Chunks written at a time at first; twice as many after each batch that took less than `_QUICK_SECONDS`."""
_QUICK_SECONDS = 10.0


class Applier:
    """Writes documents into one generation; what cannot be read comes from the former one, if there is one."""

    def __init__(
        self,
        job: Job,
        engine: Engine,
        ledger: Ledger,
        generation: Generation,
        former: Generation | None,
        embedding: PaidEmbedding,
        store: SyncedStore,
        progress: Progress,
    ) -> None:
        self._job = job
        self._engine = engine
        self._ledger = ledger
        self._generation = generation.number
        self._former = former
        self._embedding = embedding
        self._store = store
        self._progress = progress
        self._batch = Batch()
        self._under_way: UnderWay | None = None
        self._stale: Sequence[str] = ()
        """Chunks that are live no longer, and still in the store."""
        self._batch_size = min(_FIRST_BATCH, job.limits.batch_chunks)
        self.tally = Tally()

    def add(self, files: Iterable[FoundFile], sources: Mapping[str, SourceRow]) -> None:
        """Read, cut, embed and store files that differ from their sources."""
        try:
            with self._engine.preparing() as preparing:
                begun = (self._begin(file, sources.get(file.document_id), preparing) for file in files)
                for one in _ahead(begun, preparing.ahead):
                    self._read(one)
                    self._finished_one()
            self._write()
        except KbError:
            self._settle()  # what failed is a later batch
            raise
        self._settle()

    def keep(self, hidden: Iterable[tuple[SourceRow, str]], sources: Mapping[str, SourceRow]) -> None:
        """Report sources that could not be looked at, with the reason; what was read of them before stays."""
        for source, reason in hidden:
            self._fail(replace(source, status="failed", reason=reason), sources.get(source.document_id))
            self._finished_one()
        self._write()
        self._settle()

    def remove(self, sources: Sequence[SourceRow]) -> None:
        """Take documents out of the collection."""
        if sources:
            stale = self._ledger.remove_documents(self._generation, [source.document_id for source in sources])
            self.tally.chunks_removed += len(stale)
            self._store.discard(stale)
            for source in sources:
                event("file", path=source.path, outcome="removed")

    def _begin(self, file: FoundFile, known: SourceRow | None, preparing: Preparing) -> Begun:
        """Have a file prepared, unless its content is known."""
        pipeline = self._job.pipelines[file.suffix]
        row = SourceRow(file.document_id, file.relative, file.size, file.mtime_ns, "", "indexed", "", pipeline)
        try:
            row = replace(row, content_hash=_file_hash(file))
        except LoadError as error:
            return Begun(row, known, error)
        if known is not None and _same_content(known, row):
            return Begun(row, known, None)
        embedder = self._engine.embedder
        if isinstance(embedder, LoadsAhead):
            embedder.load_ahead()  # while the file is read
        return Begun(row, known, preparing.begin(file, row.content_hash))

    def _read(self, begun: Begun) -> None:
        row, known, started = begun.row, begun.known, time.perf_counter()
        if begun.cut is None:
            self._batch.touched.append(row)
            return
        try:
            if isinstance(begun.cut, LoadError):
                raise begun.cut
            done = begun.cut()
        except LoadError as error:
            warnings = known.warnings if known is not None else ()
            self._fail(replace(row, status="failed", reason=error.reason, warnings=warnings), known)
            return
        self._take(_prepared(replace(row, warnings=done.document.warnings), done, time.perf_counter() - started))

    def _fail(self, row: SourceRow, known: SourceRow | None) -> None:
        """Note a source that cannot be read now; a new generation takes its text from the former one."""
        document = None
        if self._former is not None:
            document = self._ledger.document(self._former.number, row.document_id)
        if document is not None:
            self._take(_prepared(row, cut(self._job.chunker, document)))
            return
        self._count(row)
        if row != known:
            self._batch.failures.append(row)

    def _take(self, prepared: Prepared) -> None:
        self._batch.prepared.append(prepared)
        self._batch.size += len(prepared.chunks)

    def _finished_one(self) -> None:
        self._batch.files += 1
        self._batch.size += 1
        if self._batch.size >= self._batch_size:
            started = time.monotonic()
            self._write()
            # Large batches are written faster, but what is in one can be found only when all of it is embedded.
            if time.monotonic() - started < _QUICK_SECONDS:
                self._batch_size = min(2 * self._batch_size, self._job.limits.batch_chunks)

    def _write(self) -> None:
        """Embed what has been read by now, and begin to store it."""
        batch, self._batch = self._batch, Batch()
        self._progress.begun(batch.files, sum(len(prepared.chunks) for prepared in batch.prepared))
        self._embedding.embed(chunk for prepared in batch.prepared for chunk in prepared.chunks)
        written = [self._without_refused(prepared) for prepared in batch.prepared]
        rows = self._rows(written)
        before = self._taken()
        try:
            self._under_way = UnderWay(batch, written, self._store.begin(rows))
        finally:
            if before is not None:
                self._flip(before)  # while the store takes the next one
        if not self._store.beside:
            self._settle()

    def _settle(self) -> None:
        """Wait for the store, and have questions see all that was given to it."""
        before = self._taken()
        if before is not None:
            self._flip(before)
            self._discard_stale()

    def _taken(self) -> UnderWay | None:
        """The batch that was under way, once the store has taken it and let go of what the one before made stale."""
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            under_way.wait()
            self._discard_stale()
        return under_way

    def _discard_stale(self) -> None:
        stale, self._stale = self._stale, ()
        self._store.discard(stale)

    def _flip(self, taken: UnderWay) -> None:
        """Have questions see a batch."""
        batch, written = taken.batch, taken.written
        with self._ledger.transaction():
            for row in batch.touched:
                self._ledger.touch_source(self._generation, row.document_id, size=row.size, mtime_ns=row.mtime_ns)
            for row in batch.failures:
                self._ledger.record_failure(self._generation, row)
            self._stale = self._ledger.replace_documents(
                self._generation, ((one.source, one.document, one.chunks) for one in written)
            )
            self._ledger.set_aside(self._generation, {one.document.id: one.set_aside for one in written})
        self.tally.unchanged += len(batch.touched)
        self.tally.chunks_removed += len(self._stale)
        for one in written:
            self._count(one.source, one.notes, chunks=len(one.chunks), seconds=round(one.seconds, 3))
        for row in batch.touched:
            event("file", path=row.path, outcome="unchanged")
        self._progress.done(batch.files)

    def _rows(self, written: Sequence[Prepared]) -> list[StoreRow]:
        """Store rows for chunks that the store lacks or holds otherwise."""
        wanted = self._ledger.needing_upsert(self._generation, [one for prepared in written for one in prepared.chunks])
        vectors = self._embedding.vectors([one.text_hash for one in wanted])
        return [StoreRow(one.chunk, one.source, vectors[one.text_hash]) for one in wanted]

    def _without_refused(self, prepared: Prepared) -> Prepared:
        """A document without the chunks that the embedding service refused; it counts as failed."""
        refused = self._embedding.refused
        parts = [(one.chunk, refused[one.text_hash]) for one in prepared.chunks if one.text_hash in refused]
        if not parts:
            return prepared
        reason = "; ".join(f"{_place(chunk)} is left out, the rest is indexed: {said}" for chunk, said in parts)
        kept = tuple(one for one in prepared.chunks if one.text_hash not in refused)
        set_aside = tuple(Passage(chunk.start, chunk.end, chunk.page, said) for chunk, said in parts)
        source = replace(prepared.source, status="failed", reason=reason)
        return replace(prepared, source=source, chunks=kept, set_aside=set_aside)

    def _count(self, source: SourceRow, notes: Sequence[str] = (), **counts: float) -> None:
        reason = {"reason": source.reason} if source.reason else {}
        event("file", path=source.path, outcome=source.status, **counts, **reason)
        if source.status == "failed":
            self.tally.failed += 1
            self.tally.problems.append(Problem(source.path, "failed", source.reason))
            return
        self.tally.indexed += 1
        self.tally.problems += [Problem(source.path, "warning", warning) for warning in (*source.warnings, *notes)]


def _prepared(row: SourceRow, done: Cut, seconds: float = 0.0) -> Prepared:
    chunks = tuple(hashed(chunk, row.path) for chunk in done.chunks)
    return Prepared(row, done.document, chunks, done.notes, seconds=seconds)


def _ahead(items: Iterable[_Item], count: int) -> Iterator[_Item]:
    """The same items in the same order, each taken from `items` when it is `count` places from its turn."""
    waiting: deque[_Item] = deque()
    for item in items:
        waiting.append(item)
        if len(waiting) > count:
            yield waiting.popleft()
    yield from waiting


def _place(chunk: Chunk) -> str:
    page = "" if chunk.page is None else f"page {chunk.page}, "
    return f"the passage at {page}characters {chunk.start}-{chunk.end}"


def _same_content(known: SourceRow, now: SourceRow) -> bool:
    return known.status == "indexed" and (known.content_hash, known.pipeline) == (now.content_hash, now.pipeline)


def _file_hash(file: FoundFile) -> str:
    try:
        with file.path.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise LoadError(file.relative, f"cannot be read: {error.strerror}") from error
