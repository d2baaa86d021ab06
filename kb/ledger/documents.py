"""Sources and their documents: what was read, when, and with what result."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from kb.errors import LedgerError
from kb.ledger.hashes import DIRTY, HashedChunk
from kb.ledger.schema import pack, unpack
from kb.ledger.words import Words
from kb.records import Chunk, Document, Heading, Page

_READ_AHEAD = 500
"""Sources that are read at once when all are walked through."""

SourceStatus: TypeAlias = Literal["indexed", "skipped", "failed"]


@dataclass(frozen=True, slots=True)
class SourceRow:
    """One file as it was when it was last looked at."""

    document_id: str
    path: str
    size: int
    mtime_ns: int
    content_hash: str
    status: SourceStatus
    reason: str = ""
    """Why it was skipped or failed; one sentence."""
    pipeline: str = ""
    """The fingerprints of the loader and the chunker; another one means that the file is due again."""
    warnings: tuple[str, ...] = ()


class Documents(Words):
    """The part of the ledger that keeps sources and documents."""

    def sources(self, generation: int) -> dict[str, SourceRow]:
        """All sources by document id."""
        with self.snapshot():
            rows = self._rows(
                "SELECT document_id, path, size, mtime_ns, content_hash, status, reason, pipeline, warnings "
                "FROM sources WHERE generation = ? ORDER BY document_id",
                (generation,),
            )
        return {row[0]: _source_row(row) for row in rows}

    def walk_sources(self, generation: int) -> Iterator[SourceRow]:
        """All sources by document id, read ahead in pages."""
        last = ""
        while True:
            with self.snapshot():
                rows = self._rows(
                    "SELECT document_id, path, size, mtime_ns, content_hash, status, reason, pipeline, warnings "
                    "FROM sources WHERE generation = ? AND document_id > ? ORDER BY document_id LIMIT ?",
                    (generation, last, _READ_AHEAD),
                )
            yield from map(_source_row, rows)
            if len(rows) < _READ_AHEAD:
                return
            last = rows[-1][0]

    def document_ids(self, generation: int) -> set[str]:
        """The documents that can be found, also those whose source failed since."""
        with self.snapshot():
            rows = self._rows("SELECT document_id FROM documents WHERE generation = ?", (generation,))
        return {row[0] for row in rows}

    def chunk_ids(self, generation: int, document_ids: Sequence[str]) -> list[str]:
        """The ids of the documents' live chunks, in no order."""
        with self.snapshot():
            return self._live_chunks(generation, document_ids)

    def touch_source(self, generation: int, document_id: str, *, size: int, mtime_ns: int) -> None:
        """Remember new file times of a source whose content is the same.

        Raises:
            LedgerError: there is no such source.
        """
        with self.transaction():
            touched = self._connection.execute(
                "UPDATE sources SET size = ?, mtime_ns = ? WHERE generation = ? AND document_id = ?",
                (size, mtime_ns, generation, document_id),
            ).rowcount
            if not touched:
                raise LedgerError(f"{document_id} is not a source of generation {generation} in {self._file}")

    def replace_documents(
        self, generation: int, states: Iterable[tuple[SourceRow, Document, Sequence[HashedChunk]]]
    ) -> list[str]:
        """Flip documents to their new states: sources, texts, chunks and store rows, all at once.

        By now the vector store must hold every chunk as it is here (see `needing_upsert` and `mark_dirty`).

        Args:
            generation: Where they are found.
            states: Each one's source, document and chunks.

        Returns:
            The ids of chunks that are live no longer: to be deleted from the store, then forgotten.

        Raises:
            LedgerError: a chunk is no span of its document, or was never marked.
        """
        gone: list[str] = []
        indexed: list[Chunk] = []
        with self.transaction():
            for source, document, hashed_chunks in states:
                chunks = [one.chunk for one in hashed_chunks]
                _check_spans(document, chunks)
                former = self._live_chunks(generation, [document.id])
                self._unindex_words(generation, former)
                indexed += chunks
                self._delete_chunks(generation, former)
                self._write_source(generation, source)
                self._write_document(generation, document)
                self._write_chunks(generation, hashed_chunks)
                live = {chunk.id for chunk in chunks}
                now_gone = [chunk_id for chunk_id in former if chunk_id not in live]
                self._unlist(generation, now_gone)
                gone += now_gone
            self._index_words(generation, indexed)
        return gone

    def remove_documents(self, generation: int, document_ids: Sequence[str]) -> list[str]:
        """Remove documents and their sources; unknown ids are ignored.

        Returns:
            The ids of chunks that are live no longer: to be deleted from the store, then forgotten.
        """
        with self.transaction():
            former = self._live_chunks(generation, document_ids)
            self._unindex_words(generation, former)
            self._delete_chunks(generation, former)
            for table in ("sources", "documents", "set_aside"):
                self._connection.executemany(
                    f"DELETE FROM {table} WHERE generation = ? AND document_id = ?",
                    [(generation, document_id) for document_id in document_ids],
                )
            self._unlist(generation, former)
        return former

    def record_failure(self, generation: int, source: SourceRow) -> None:
        """Remember that a source was skipped or failed; a document read earlier stays as it was.

        Raises:
            LedgerError: the row says `indexed`.
        """
        if source.status == "indexed":
            raise LedgerError(f"{source.path}: an indexed source is recorded with its document, by replace_document")
        with self.transaction():
            self._write_source(generation, source)

    def document(self, generation: int, document_id: str) -> Document | None:
        """A document as it was loaded, without its blocks, which only chunking needs."""
        with self.snapshot():
            rows = self._rows(
                "SELECT s.path, d.text, d.title, d.kind, d.metadata, d.pages, d.headings, s.warnings "
                "FROM documents d JOIN sources s USING (generation, document_id) "
                "WHERE d.generation = ? AND d.document_id = ?",
                (generation, document_id),
            )
        if not rows:
            return None
        path, text, title, kind, metadata, pages, headings, warnings = rows[0]
        return Document(
            id=document_id,
            path=path,
            text=unpack(text),
            title=title,
            kind=kind,
            metadata=json.loads(metadata),
            pages=tuple(Page(*page) for page in json.loads(pages)),
            headings=tuple(Heading(*heading) for heading in json.loads(headings)),
            warnings=tuple(json.loads(warnings)),
        )

    def _live_chunks(self, generation: int, document_ids: Sequence[str]) -> list[str]:
        rows = self._rows_of(
            "SELECT chunk_id FROM chunks WHERE generation = ? AND document_id IN (?)", (generation,), document_ids
        )
        return [row[0] for row in rows]

    def _delete_chunks(self, generation: int, chunk_ids: Sequence[str]) -> None:
        for table in ("chunks", "chunk_texts"):
            self._connection.executemany(
                f"DELETE FROM {table} WHERE generation = ? AND chunk_id = ?",
                [(generation, chunk_id) for chunk_id in chunk_ids],
            )

    def _unlist(self, generation: int, chunk_ids: Sequence[str]) -> None:
        """Note that these chunks are live no longer, and that what can be found has changed."""
        # Dirty at once: a crash may come between their delete from the store and forget_rows, and
        # a chunk that comes back later must not be taken for stored.
        self._connection.executemany(
            "UPDATE store_rows SET payload_hash = ? WHERE generation = ? AND chunk_id = ?",
            [(DIRTY, generation, chunk_id) for chunk_id in chunk_ids],
        )
        self._changed()

    def _write_chunks(self, generation: int, chunks: Sequence[HashedChunk]) -> None:
        self._connection.executemany(
            "INSERT INTO chunks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(generation, *_chunk_row(position, one)) for position, one in enumerate(chunks)],
        )
        self._connection.executemany(
            "INSERT INTO chunk_texts VALUES (?, ?, ?)",
            [(generation, one.chunk.id, pack(one.chunk.text)) for one in chunks],
        )
        marked = self._connection.executemany(
            "UPDATE store_rows SET payload_hash = ? WHERE generation = ? AND chunk_id = ?",
            [(one.payload_hash, generation, one.chunk.id) for one in chunks],
        ).rowcount
        if chunks and marked != len(chunks):
            raise LedgerError(
                f"{chunks[0].source}: {len(chunks) - marked} of its chunks were not marked before they were written to "
                "the vector store, so a crash could have lost sight of them. This is a fault of the ingest"
            )

    def _write_source(self, generation: int, source: SourceRow) -> None:
        try:
            self._connection.execute(
                "INSERT OR REPLACE INTO sources VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    generation,
                    source.document_id,
                    _showable(source.path),
                    source.size,
                    source.mtime_ns,
                    source.content_hash,
                    source.status,
                    _showable(source.reason),
                    source.pipeline,
                    json.dumps([_showable(warning) for warning in source.warnings], ensure_ascii=False),
                ),
            )
        except UnicodeEncodeError as error:
            raise LedgerError(f"{source.path!r}: an id in the ledger has to be valid Unicode text: {error}") from error

    def _write_document(self, generation: int, document: Document) -> None:
        self._connection.execute(
            "INSERT OR REPLACE INTO documents VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                generation,
                document.id,
                pack(document.text),
                document.title,
                document.kind,
                json.dumps(dict(document.metadata), ensure_ascii=False),
                json.dumps([(page.number, page.start, page.end) for page in document.pages]),
                json.dumps([(h.level, h.text, h.start, h.end) for h in document.headings], ensure_ascii=False),
            ),
        )


def _source_row(row: Sequence[Any]) -> SourceRow:
    document_id, path, size, mtime_ns, content_hash, status, reason, pipeline, warnings = row
    told = tuple(json.loads(warnings)) if warnings != "[]" else ()  # most have none, and every run reads all
    return SourceRow(document_id, path, size, mtime_ns, content_hash, status, reason, pipeline, told)


def _chunk_row(position: int, hashed_chunk: HashedChunk) -> tuple[Any, ...]:
    chunk = hashed_chunk.chunk
    return (
        chunk.id,
        chunk.document_id,
        position,
        chunk.start,
        chunk.end,
        chunk.page,
        json.dumps(chunk.heading_path, ensure_ascii=False),
        chunk.header,
        hashed_chunk.script,
        hashed_chunk.text_hash,
        hashed_chunk.payload_hash,
    )


def _check_spans(document: Document, chunks: Sequence[Chunk]) -> None:
    # A citation's span has to lead to its text, in the document as it is kept.
    for chunk in chunks:
        if chunk.document_id != document.id or document.text[chunk.start : chunk.end] != chunk.text:
            raise LedgerError(
                f"{document.path}: chunk {chunk.id} is not the text from {chunk.start} to {chunk.end} of it. "
                "This is a fault of the chunker"
            )


def _showable(text: str) -> str:
    """Replace lone surrogates, which a file name that is no text brings, for nothing can store them."""
    return text.encode("utf-8", "replace").decode("utf-8")
