"""Exact search in memory with NumPy: the reference that the other stores are compared with.

Everything is one file, `rows.npz`, read when the store is opened and written anew, as a whole, by
every change. That is simple and safe, and slow beyond some ten thousand chunks: use it for tests
and small collections.
"""

from __future__ import annotations

import io
import json
import os
import threading
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from kb.components import Parts, StorePlace, StoreRow
from kb.errors import StoreError
from kb.payloads import StoredRow, payload, storable, stored_row
from kb.settings import ComponentOptions
from kb.store._rows import (
    check_fingerprint,
    filters,
    last_of_each,
    nearest,
    place_of,
    query_matrix,
    row_matrix,
)

if TYPE_CHECKING:
    from kb.components import FloatArray
    from kb.records import Scalar

_FILE = "rows.npz"


class Options(ComponentOptions):
    """This store has no options."""


def build(options: Options, parts: Parts) -> MemoryStore:
    """Open the store, or create an empty one.

    Raises:
        IndexMismatchError: it holds vectors of another embedder.
        StoreError: its file cannot be read.
    """
    return MemoryStore(place_of("memory", parts))


class MemoryStore:
    """Rows in a dictionary, and the same as a matrix for searching."""

    def __init__(self, place: StorePlace) -> None:
        self._place = place
        self._file = place.folder / _FILE
        self._guard = threading.RLock()
        self._closed = False
        self._payloads: dict[str, dict[str, Any]] = {}
        self._ids: list[str] = []
        """Rising; row i of the matrix is the vector of id i."""
        self._matrix: FloatArray = np.empty((0, place.dimension), dtype=np.float32)
        if self._file.exists():
            self._read()

    def upsert(self, rows: Sequence[StoreRow]) -> None:
        """Add rows, or replace those of the same chunk id."""
        rows = last_of_each(rows)
        matrix = row_matrix(rows, self._place)
        with self._usable():
            if rows:
                vectors = dict(zip(self._ids, self._matrix, strict=True))
                payloads = dict(self._payloads)
                for row, vector in zip(rows, matrix, strict=True):
                    vectors[row.chunk.id] = vector
                    payloads[row.chunk.id] = {**payload(row), "text": storable(row.chunk.text)}
                self._replace(vectors, payloads)

    def delete(self, chunk_ids: Sequence[str]) -> None:
        """Remove chunks; unknown ids are ignored."""
        with self._usable():
            gone = set(chunk_ids) & self._payloads.keys()
            if gone:
                kept = {i: vector for i, vector in zip(self._ids, self._matrix, strict=True) if i not in gone}
                self._replace(kept, {i: self._payloads[i] for i in kept})

    def delete_document(self, document_id: str) -> None:
        """Remove all chunks of one document."""
        with self._usable():
            self.delete(self._matching({"document_id": storable(document_id)}))

    def search(
        self, vectors: FloatArray, limit: int, where: Mapping[str, Scalar] | None = None
    ) -> list[list[tuple[str, float]]]:
        """Find the nearest chunks of each row, exactly; equal similarities are ordered by id."""
        queries = query_matrix(vectors, self._place)
        conditions = filters(where)
        with self._usable():
            ids, matrix = self._ids, self._matrix
            if conditions:
                wanted = set(self._matching(conditions))
                chosen = [index for index, chunk_id in enumerate(ids) if chunk_id in wanted]
                ids, matrix = [ids[index] for index in chosen], matrix[chosen]
            return [nearest(ids, matrix, query, max(limit, 0)) for query in queries]

    def vectors(self, chunk_ids: Sequence[str]) -> dict[str, FloatArray]:
        """The stored vectors of those ids that exist."""
        with self._usable():
            wanted = set(chunk_ids)
            return {i: vector.copy() for i, vector in zip(self._ids, self._matrix, strict=True) if i in wanted}

    def rows(self, chunk_ids: Sequence[str]) -> dict[str, StoredRow]:
        """What is stored of those ids that exist."""
        found = self.vectors(chunk_ids)
        payloads = self._payloads
        return {i: stored_row(payloads[i], payloads[i]["text"], vector) for i, vector in found.items()}

    def chunk_ids(self) -> Iterator[str]:
        """All ids; they may be deleted while they are walked through."""
        with self._usable():
            return iter(list(self._ids))

    def count(self) -> int:
        """The number of rows."""
        with self._usable():
            return len(self._ids)

    def close(self) -> None:
        """Let go of everything; it is on the disk already."""
        with self._guard:
            self._closed = True

    @contextmanager
    def _usable(self) -> Iterator[None]:
        with self._guard:
            if self._closed:
                raise StoreError(f"the store of collection {self._place.collection!r} is closed")
            yield

    def _matching(self, conditions: Mapping[str, str | int]) -> list[str]:
        return [
            chunk_id
            for chunk_id, stored in self._payloads.items()
            if all(stored[key] == value for key, value in conditions.items())
        ]

    def _replace(self, vectors: Mapping[str, FloatArray], payloads: dict[str, dict[str, Any]]) -> None:
        ids = sorted(vectors)
        matrix = np.empty((len(ids), self._place.dimension), dtype=np.float32)
        for index, chunk_id in enumerate(ids):
            matrix[index] = vectors[chunk_id]
        # First the disk: after an error the memory still says what the file says.
        self._write(ids, matrix, payloads)
        self._ids, self._matrix, self._payloads = ids, matrix, payloads

    def _write(self, ids: list[str], matrix: FloatArray, payloads: Mapping[str, dict[str, Any]]) -> None:
        content = {
            "collection": storable(self._place.collection),
            "fingerprint": self._place.fingerprint,
            "dimension": self._place.dimension,
            "rows": [[chunk_id, payloads[chunk_id]] for chunk_id in ids],
        }
        buffer = io.BytesIO()
        np.savez(buffer, vectors=matrix, content=np.frombuffer(json.dumps(content).encode("ascii"), dtype=np.uint8))
        unfinished = self._file.with_suffix(".unfinished")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with unfinished.open("wb") as file:
                file.write(buffer.getbuffer())
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(self._file)
        except OSError as error:
            raise StoreError(f"{self._file} could not be written: {error}; it is as it was before") from error

    def _read(self) -> None:
        try:
            with np.load(self._file, allow_pickle=False) as arrays:
                self._matrix = arrays["vectors"]
                content = json.loads(arrays["content"].tobytes())
            rows, fingerprint, dimension = content["rows"], content["fingerprint"], content["dimension"]
        except (OSError, EOFError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
            raise StoreError(
                f"{self._file} cannot be read: {error}. Mend it (nothing is embedded): {self._place.repair_command}"
            ) from error
        check_fingerprint(self._place, fingerprint, dimension)
        self._ids = [chunk_id for chunk_id, _ in rows]
        self._payloads = dict(rows)
