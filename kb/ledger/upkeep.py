"""What it takes to look after a ledger: what is used and what is not, whether the file is sound, and its size."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kb.errors import LedgerError
from kb.ledger.chunks import Chunks
from kb.ledger.generations import Generations
from kb.ledger.schema import EVEN_SAMPLE
from kb.ledger.vectors import Vectors

if TYPE_CHECKING:
    from kb.ledger.vectors import FloatArray
    from kb.records import Chunk

# One pass over the chunks, kept as a sorted set: asking for each vector would read all chunks each time.
_UNUSED = (
    "(fingerprint, text_hash) NOT IN (SELECT g.fingerprint, c.text_hash FROM chunks c "
    "JOIN generations g ON g.number = c.generation)"
)
_USED = (
    "FROM vectors v WHERE v.fingerprint = (SELECT fingerprint FROM generations WHERE number = ?) "
    "AND v.text_hash IN (SELECT text_hash FROM chunks WHERE generation = ?)"
)
_READ_AHEAD = 900
"""Vectors that are read at once when all are walked through: 1.4 MB of 384 dimensions."""
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_RENUMBERED = ("sources", "documents", "chunks", "chunk_texts", "word_rows", "word_segments", "word_gone", "set_aside")


@dataclass(frozen=True, slots=True)
class VectorUse:
    """All vectors that are kept, of every embedder."""

    vectors: int
    bytes: int
    """With the token vectors that were kept beside them."""
    unused: int
    """Those that no live chunk uses: of texts that have gone, or of another embedder."""
    unused_bytes: int


class Upkeep(Generations, Chunks, Vectors):
    """The part of the ledger that status, check, repair and prune need."""

    def vector_use(self) -> VectorUse:
        """Count the vectors, and those that no live chunk of any generation uses."""
        with self.snapshot():
            vectors, size = self._count_and_size("TRUE")
            unused, unused_size = self._count_and_size(_UNUSED)
        return VectorUse(vectors, size, unused, unused_size)

    def _count_and_size(self, condition: str) -> tuple[int, int]:
        ((vectors, size),) = self._rows(f"SELECT COUNT(*), TOTAL(LENGTH(vector)) FROM vectors WHERE {condition}")
        ((more,),) = self._rows(f"SELECT TOTAL(LENGTH(states)) FROM token_vectors WHERE {condition}")
        return vectors, int(size + more)

    def chunks_with_vector(self, generation: int) -> int:
        """How many live chunks have the vector of their text."""
        with self.snapshot():
            ((count,),) = self._rows(
                "SELECT COUNT(*) FROM chunks c JOIN generations g ON g.number = c.generation "
                "JOIN vectors v ON v.fingerprint = g.fingerprint AND v.text_hash = c.text_hash WHERE c.generation = ?",
                (generation,),
            )
        return int(count)

    def drop_unused_vectors(self) -> int:
        """Forget the vectors that no live chunk uses, with their token vectors; the texts would be embedded again.

        Returns:
            How many there were. The file keeps its size until `compact`.
        """
        with self.transaction():
            self._connection.execute(f"DELETE FROM token_vectors WHERE {_UNUSED}")
            return self._connection.execute(f"DELETE FROM vectors WHERE {_UNUSED}").rowcount

    def compact(self) -> None:
        """Write the file anew without its free pages; readers go on, an interruption changes nothing.

        Raises:
            LedgerError: the disk has no room for a second copy, which is needed meanwhile.
        """
        size, free = self.file_bytes(), shutil.disk_usage(self.folder).free
        # VACUUM copies the file into a temporary one and that into the log.
        if free < 2 * size:
            raise LedgerError(
                f"the ledger {self._file} cannot be made smaller: that needs {2 * size:,} bytes of free disk, and "
                f"{free:,} are there. Its free pages are used again by later ingests"
            )
        with self._guard, self._translated():
            self._connection.execute("VACUUM")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def free_pages(self) -> int:
        """Pages of the file that hold nothing."""
        with self._guard, self._translated():
            return int(self._rows("PRAGMA freelist_count")[0][0])

    def file_bytes(self) -> int:
        """The size of the ledger's file with its log."""
        names = (self._file, *(self._file.with_name(self._file.name + end) for end in ("-wal", "-shm")))
        return sum(os.path.getsize(name) for name in names if os.path.exists(name))

    def faults(self, most: int = 10) -> list[str]:
        """What SQLite finds damaged in the file, at most `most` lines; nothing when it is sound."""
        with self._guard, self._translated():
            try:
                rows = self._rows(f"PRAGMA quick_check({int(most)})")
            except sqlite3.DatabaseError as error:
                if error.sqlite_errorcode & 0xFF not in _DAMAGED:
                    raise
                return [str(error)]
        return [str(row[0]) for row in rows if row[0] != "ok"]

    def sample_ids(self, generation: int, limit: int) -> list[str]:
        """Live chunks, at most `limit`: an even sample, the same each time."""
        with self.snapshot():
            rows = self._rows(EVEN_SAMPLE, (generation, limit))
        return [row[0] for row in rows]

    def reserve_generation(self) -> int:
        """A number that no generation had or will have, for a store that is built beside the one in use."""
        with self.transaction():
            self._connection.execute("UPDATE sqlite_sequence SET seq = seq + 1 WHERE name = 'generations'")
            return int(self._rows("SELECT seq FROM sqlite_sequence WHERE name = 'generations'")[0][0])

    def renumber_generation(self, old: int, new: int) -> None:
        """Go over to the store that was filled under a reserved number with every live chunk that has a vector.

        All at once: from now on the generation has the new number, and questions open its store. The
        caller holds the write lock since before the store was filled.
        """
        with self.transaction():
            for table in _RENUMBERED:
                self._connection.execute(f"UPDATE {table} SET generation = ? WHERE generation = ?", (new, old))
            self._connection.execute("DELETE FROM store_rows WHERE generation = ?", (old,))
            self._connection.execute("UPDATE generations SET number = ? WHERE number = ?", (new, old))
            self.mark_filled(new)
            self._changed()

    def mark_filled(self, generation: int) -> None:
        """Say that the store was empty and now holds every live chunk that has a vector, as it is here."""
        with self.transaction():
            self._connection.execute("DELETE FROM store_rows WHERE generation = ?", (generation,))
            self._connection.execute(
                "INSERT INTO store_rows SELECT c.generation, c.chunk_id, c.payload_hash FROM chunks c "
                "JOIN generations g ON g.number = c.generation "
                "JOIN vectors v ON v.fingerprint = g.fingerprint AND v.text_hash = c.text_hash WHERE c.generation = ?",
                (generation,),
            )

    def drop_building(self) -> None:
        """Forget a generation that is not complete; the vectors stay, and its folder is left over."""
        with self.transaction():
            for generation in self.generations():
                if generation.state == "building":
                    self._drop(generation.number)

    def chunks_of(self, generation: int, document_id: str) -> list[Chunk]:
        """The live chunks of a document, in reading order."""
        with self.snapshot():
            rows = self._rows(
                "SELECT chunk_id FROM chunks WHERE generation = ? AND document_id = ? ORDER BY position",
                (generation, document_id),
            )
            ids = [row[0] for row in rows]
            found = self.live_chunks(generation, ids)
        return [found[chunk_id].chunk for chunk_id in ids]

    def count_used_vectors(self, generation: int) -> int:
        """How many vectors the generation's live chunks use, those of equal texts once."""
        with self.snapshot():
            ((count,),) = self._rows(f"SELECT COUNT(*) {_USED}", (generation, generation))
        return int(count)

    def walk_used_vectors(self, generation: int) -> Iterator[tuple[str, FloatArray]]:
        """Those vectors by the hashes of their texts, rising, read ahead in pages; inside a snapshot of the caller."""
        ((fingerprint,),) = self._rows("SELECT fingerprint FROM generations WHERE number = ?", (generation,))
        hashes = self._connection.execute(f"SELECT v.text_hash {_USED} ORDER BY v.text_hash", (generation, generation))
        with self._translated():
            while page := [text for (text,) in hashes.fetchmany(_READ_AHEAD)]:
                known = self.known_vectors(fingerprint, page)
                yield from ((text, known[text]) for text in page)
