"""Live chunks, and what the vector store holds of them.

A chunk is live if and only if the ledger lists it. The vector store is a cache: `store_rows` says
what may be in it, and is written before the store is. So after a crash anywhere

- a store row without a chunk is stale: delete it from the store, then forget it;
- a chunk whose store row is missing, dirty or of another payload is unsynced: upsert it again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from kb.ledger.connection import LedgerConnection, pages
from kb.ledger.hashes import DIRTY, HashedChunk
from kb.ledger.schema import unpack
from kb.records import Chunk

_READ_AHEAD = 256
"""Chunks that are read at once when all are walked through: a few hundred kilobytes of text."""


class Chunks(LedgerConnection):
    """The part of the ledger that keeps chunks and store rows."""

    def chunks(self, generation: int, chunk_ids: Sequence[str]) -> dict[str, tuple[Chunk, str]]:
        """Those of the chunks that are live, each with its source's path, all read at one moment."""
        found = self.live_chunks(generation, chunk_ids)
        return {chunk_id: (live.chunk, live.source) for chunk_id, live in found.items()}

    def live_chunks(self, generation: int, chunk_ids: Sequence[str]) -> dict[str, HashedChunk]:
        """The same with hashes."""
        with self.snapshot():
            rows = self._rows_of(
                "SELECT c.chunk_id, c.document_id, c.span_start, c.span_end, c.page, c.heading_path, c.header, "
                "s.path, c.text_hash, c.payload_hash, c.script, t.text FROM chunks c "
                "JOIN sources s USING (generation, document_id) JOIN chunk_texts t USING (generation, chunk_id) "
                "WHERE c.generation = ? AND c.chunk_id IN (?)",
                (generation,),
                chunk_ids,
            )
        return {row[0]: _live_chunk(row) for row in rows}

    def live_ids(self, generation: int) -> set[str]:
        """The ids of all live chunks."""
        with self.snapshot():
            rows = self._rows("SELECT chunk_id FROM chunks WHERE generation = ?", (generation,))
        return {row[0] for row in rows}

    def few_ids(self, generation: int, most: int) -> list[str] | None:
        """The ids of all live chunks, rising; None when there are more than `most`."""
        with self.snapshot():
            rows = self._rows(
                "SELECT chunk_id FROM chunks WHERE generation = ? ORDER BY chunk_id LIMIT ?", (generation, most + 1)
            )
        return [row[0] for row in rows] if len(rows) <= most else None

    def has_chunks(self, generation: int) -> bool:
        """Whether any chunk is live."""
        with self.snapshot():
            return bool(self._rows("SELECT 1 FROM chunks WHERE generation = ? LIMIT 1", (generation,)))

    def all_chunks(self, generation: int) -> Iterator[HashedChunk]:
        """Every live chunk, document by document in reading order, read ahead in pages.

        The ledger may change meanwhile: a chunk that has gone by then is left out.
        """
        with self.snapshot():
            ids = self._rows(
                "SELECT chunk_id FROM chunks WHERE generation = ? ORDER BY document_id, position", (generation,)
            )
        return self._walk(generation, [row[0] for row in ids])

    def unsynced_chunks(self, generation: int) -> Iterator[HashedChunk]:
        """Live chunks that the vector store lacks or may hold with another payload, as `all_chunks`."""
        with self.snapshot():
            ids = self._rows(
                "SELECT c.chunk_id FROM chunks c LEFT JOIN store_rows r USING (generation, chunk_id) "
                "WHERE c.generation = ? AND r.payload_hash IS NOT c.payload_hash ORDER BY c.document_id, c.position",
                (generation,),
            )
        return self._walk(generation, [row[0] for row in ids])

    def in_step(self, generation: int) -> bool:
        """Whether the store holds what is live, by the ledger's book: nothing is stale and nothing unsynced.

        Counting takes a twentieth of the time of looking for the rows, and every run asks. It tells the same: a row
        that is not dirty says what its live chunk does, for both are written in one transaction.
        """
        with self.snapshot():
            ((rows, dirty),) = self._rows(
                "SELECT COUNT(*), COUNT(CASE payload_hash WHEN ? THEN 1 END) FROM store_rows WHERE generation = ?",
                (DIRTY, generation),
            )
            ((live,),) = self._rows("SELECT COUNT(*) FROM chunks WHERE generation = ?", (generation,))
        return not dirty and rows == live

    def needing_upsert(self, generation: int, chunks: Sequence[HashedChunk]) -> list[HashedChunk]:
        """Those of the chunks that the store does not hold exactly as they are here."""
        with self.snapshot():
            rows = self._rows_of(
                "SELECT chunk_id, payload_hash FROM store_rows WHERE generation = ? AND chunk_id IN (?)",
                (generation,),
                [one.chunk.id for one in chunks],
            )
        stored = dict(rows)
        return [one for one in chunks if stored.get(one.chunk.id) != one.payload_hash]

    def mark_dirty(self, generation: int, chunk_ids: Sequence[str]) -> None:
        """Say that these rows are about to be written to the store; call it before every upsert."""
        with self.transaction():
            self._put_rows(generation, dict.fromkeys(chunk_ids, DIRTY))

    def mark_stored(self, generation: int, payloads: Mapping[str, str]) -> None:
        """Say which payload the store now holds for these chunks, after an upsert of live chunks.

        They can be found from now on, so the revision rises.
        """
        with self.transaction():
            self._put_rows(generation, payloads)
            self._changed()

    def written_rows(self, generation: int) -> int:
        """How many rows the store holds at least: those of live chunks whose last write was acknowledged.

        While the revision stays, no ingest takes any of them out of the store.
        """
        with self.snapshot():
            ((count,),) = self._rows(
                "SELECT COUNT(*) FROM store_rows WHERE generation = ? AND payload_hash <> ?", (generation, DIRTY)
            )
        return int(count)

    def stale_rows(self, generation: int) -> list[str]:
        """Ids that may be in the store and are not live."""
        with self.snapshot():
            rows = self._rows(
                "SELECT r.chunk_id FROM store_rows r LEFT JOIN chunks c USING (generation, chunk_id) "
                "WHERE r.generation = ? AND c.chunk_id IS NULL",
                (generation,),
            )
        return [row[0] for row in rows]

    def forget_rows(self, generation: int, chunk_ids: Sequence[str]) -> None:
        """Say that these ids are no longer in the store, after their delete."""
        with self.transaction():
            self._connection.executemany(
                "DELETE FROM store_rows WHERE generation = ? AND chunk_id = ?",
                [(generation, chunk_id) for chunk_id in chunk_ids],
            )

    def forget_all_rows(self, generation: int) -> None:
        """Say that nobody knows what the store holds: all live chunks become unsynced."""
        with self.transaction():
            self._connection.execute("DELETE FROM store_rows WHERE generation = ?", (generation,))

    def _put_rows(self, generation: int, payloads: Mapping[str, str]) -> None:
        self._connection.executemany(
            "INSERT OR REPLACE INTO store_rows VALUES (?, ?, ?)",
            [(generation, chunk_id, payload) for chunk_id, payload in payloads.items()],
        )

    def _walk(self, generation: int, chunk_ids: Sequence[str]) -> Iterator[HashedChunk]:
        for page in pages(chunk_ids, _READ_AHEAD):
            found = self.live_chunks(generation, page)
            yield from (found[chunk_id] for chunk_id in page if chunk_id in found)


def _live_chunk(row: Sequence[Any]) -> HashedChunk:
    chunk_id, document_id, start, end, page, heading_path, header, source, text_key, payload, script, text = row
    chunk = Chunk(
        id=chunk_id,
        document_id=document_id,
        text=unpack(text),
        start=start,
        end=end,
        page=page,
        heading_path=_headings(heading_path),
        header=header,
    )
    return HashedChunk(chunk, source, text_key, payload, script)


@lru_cache(maxsize=4096)
def _headings(path: str) -> tuple[str, ...]:
    """A heading path as it is kept; the chunks under a heading share it."""
    return tuple(json.loads(path))
