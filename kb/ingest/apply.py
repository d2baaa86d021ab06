"""Doing what a plan says, in an order that survives an interruption anywhere.

For each batch of documents: vectors into the ledger → new chunks into the store → the ledger flips
which chunks are live → stale chunks out of the store. Until the flip, questions see the old state.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from kb.components import CountsRequests, CountsTokens, StoreRow
from kb.errors import LoadError
from kb.ingest.report import Problem
from kb.ledger.documents import SourceRow
from kb.ledger.hashes import text_hash

if TYPE_CHECKING:
    from kb.components import Chunker, Embedder, Store
    from kb.ingest.walk import FoundFile
    from kb.ledger.ledger import Ledger
    from kb.records import Chunk, Document
    from kb.settings import IngestSection

_Item = TypeVar("_Item")


@dataclass(slots=True)
class Tally:
    """Counts of a run, while it goes on."""

    indexed: int = 0
    unchanged: int = 0
    failed: int = 0
    chunks_added: int = 0
    chunks_removed: int = 0
    embedded: int = 0
    embedding_calls: int = 0
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Prepared:
    """A document that has been read and cut, not yet written."""

    source: SourceRow
    document: Document
    chunks: tuple[Chunk, ...]


class Applier:
    """Writes documents into one generation."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        generation: int,
        former_generation: int | None,
        open_store: Callable[[], Store],
        embedder: Embedder,
        chunker: Chunker,
        load: Callable[[FoundFile], Document],
        pipelines: Mapping[str, str],
        limits: IngestSection,
        embedded: Callable[[int], None],
    ) -> None:
        self._ledger = ledger
        self._generation = generation
        self._former_generation = former_generation
        self._open_store = open_store
        self._embedder = embedder
        self._chunker = chunker
        self._load = load
        self._pipelines = pipelines
        self._limits = limits
        self._embedded = embedded
        self.tally = Tally()
        self.problems: list[Problem] = []

    def reconcile(self) -> None:
        """Finish what an interrupted run left: stale rows out of the store, missing ones in."""
        stale = self._ledger.stale_rows(self._generation)
        if stale:
            self._open_store().delete(stale)
            self._ledger.forget_rows(self._generation, stale)
        for batch in batches(self._ledger.unsynced_chunks(self._generation), self._limits.batch_chunks):
            self._embed([live.chunk for live in batch])
            vectors = self._ledger.known_vectors(self._embedder.fingerprint, [live.text_hash for live in batch])
            self._ledger.mark_dirty(self._generation, [live.chunk.id for live in batch])
            self._open_store().upsert([StoreRow(b.chunk, b.source, vectors[b.text_hash]) for b in batch])
            self._ledger.mark_stored(self._generation, {live.chunk.id: live.payload_hash for live in batch})

    def add(self, files: Iterable[FoundFile], sources: Mapping[str, SourceRow], done: Callable[[], None]) -> None:
        """Read, cut, embed and store files; `done` is called once for each."""
        waiting: list[Prepared] = []
        for file in files:
            prepared = self._prepare(file, sources.get(file.document_id))
            if prepared is not None:
                waiting.append(prepared)
            if sum(len(p.chunks) for p in waiting) >= self._limits.batch_chunks:
                self._write(waiting)
                waiting = []
            done()
        self._write(waiting)

    def remove(self, sources: Sequence[SourceRow]) -> None:
        """Take documents out of the collection."""
        if sources:
            stale = self._ledger.remove_documents(self._generation, [source.document_id for source in sources])
            self.tally.chunks_removed += len(stale)
            self._forget(stale)

    def fail(self, source: SourceRow, reason: str) -> None:
        """Report a source that could not be read; what was read of it before stays."""
        self.tally.failed += 1
        self.problems.append(Problem(source.path, "failed", reason))
        self._ledger.record_failure(self._generation, replace(source, status="failed", reason=reason))

    def _prepare(self, file: FoundFile, source: SourceRow | None) -> Prepared | None:
        """Read and cut a file; None when nothing is to be written."""
        pipeline = self._pipelines[file.path.suffix.lower()]
        row = SourceRow(file.document_id, file.relative, file.size, file.mtime_ns, "", "indexed", "", pipeline)
        try:
            row = replace(row, content_hash=_file_hash(file))
            if source is not None and _same_content(source, row):
                self._ledger.touch_source(self._generation, row.document_id, size=row.size, mtime_ns=row.mtime_ns)
                self.tally.unchanged += 1
                return None
            document = self._load(file)
        except LoadError as error:
            self.fail(row, error.reason)
            return self._from_former(row, error.reason)
        self.problems += [Problem(file.relative, "warning", warning) for warning in document.warnings]
        self.tally.indexed += 1
        return Prepared(replace(row, warnings=document.warnings), document, self._chunker.chunk(document))

    def _from_former(self, row: SourceRow, reason: str) -> Prepared | None:
        """The text that an earlier generation holds of a file that cannot be read now."""
        if self._former_generation is None:
            return None
        document = self._ledger.document(self._former_generation, row.document_id)
        if document is None:
            return None
        return Prepared(replace(row, status="failed", reason=reason), document, self._chunker.chunk(document))

    def _write(self, batch: Sequence[Prepared]) -> None:
        """Embed, store and flip a batch of documents."""
        if not batch:
            return
        self._embed([chunk for prepared in batch for chunk in prepared.chunks])
        rows = list(self._rows(batch))
        if rows:
            self._ledger.mark_dirty(self._generation, [row.chunk.id for row in rows])
            self._open_store().upsert(rows)
        stale: list[str] = []
        with self._ledger.transaction():
            before = self._ledger.counts(self._generation).chunks
            for prepared in batch:
                stale += self._ledger.replace_document(
                    self._generation, prepared.source, prepared.document, prepared.chunks
                )
            after = self._ledger.counts(self._generation).chunks
        self.tally.chunks_added += after - before + len(stale)
        self.tally.chunks_removed += len(stale)
        self._forget(stale)

    def _rows(self, batch: Sequence[Prepared]) -> Iterator[StoreRow]:
        """Store rows for chunks that the store lacks or holds otherwise."""
        for prepared in batch:
            chunks = self._ledger.needing_upsert(self._generation, prepared.source.path, prepared.chunks)
            keys = [text_hash(chunk.embedded_text) for chunk in chunks]
            vectors = self._ledger.known_vectors(self._embedder.fingerprint, keys)
            for chunk, key in zip(chunks, keys, strict=True):
                yield StoreRow(chunk, prepared.source.path, vectors[key])

    def _forget(self, stale: Sequence[str]) -> None:
        if stale:
            self._open_store().delete(stale)
            self._ledger.forget_rows(self._generation, stale)

    def _embed(self, chunks: Sequence[Chunk]) -> None:
        """Embed texts that were never embedded; each slice is kept as soon as it is there."""
        texts = {text_hash(chunk.embedded_text): chunk.embedded_text for chunk in chunks}
        unknown = self._ledger.unknown_texts(self._embedder.fingerprint, list(texts))
        for keys in batches(unknown, self._embedder.batch_texts):
            slice_texts = [texts[key] for key in keys]
            requests = self._embedder.requests if isinstance(self._embedder, CountsRequests) else None
            vectors = self._embedder.embed_documents(slice_texts)
            self._ledger.put_vectors(self._embedder.fingerprint, zip(keys, vectors, strict=True))
            self.tally.embedded += len(keys)
            self.tally.embedding_calls += (
                self._embedder.requests - requests
                if requests is not None and isinstance(self._embedder, CountsRequests)
                else 1
            )
            if isinstance(self._embedder, CountsTokens):
                self.tally.tokens += sum(map(self._embedder.count_tokens, slice_texts))
            self._embedded(len(keys))


def batches(items: Iterable[_Item], size: int) -> Iterator[list[_Item]]:
    """Cut `items` into lists of at most `size`."""
    batch: list[_Item] = []
    for item in items:
        batch.append(item)
        if len(batch) >= size:
            yield batch
            batch = []
    if batch:
        yield batch


def _same_content(known: SourceRow, now: SourceRow) -> bool:
    return known.status == "indexed" and (known.content_hash, known.pipeline) == (now.content_hash, now.pipeline)


def _file_hash(file: FoundFile) -> str:
    try:
        with file.path.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise LoadError(file.relative, f"cannot be read: {error.strerror}") from error
