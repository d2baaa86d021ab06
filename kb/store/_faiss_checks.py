"""What the FAISS store compares: vectors with what FAISS needs, files with the book."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from kb.errors import StoreError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kb.components import FloatArray, StoreRow
    from kb.store._faiss_book import Book
    from kb.store._faiss_view import View

    Rows = NDArray[np.int64]

_UNIT = 1e-3
"""By how much a vector's length may differ from 1: that of an embedder that computes in half precision stays below."""


def unit_slack(rows: Sequence[StoreRow], matrix: FloatArray) -> float:
    """The most by which the length of a row's vector differs from 1.

    Raises:
        StoreError: one is of another length, so that an inner product would be no cosine.
    """
    if not len(matrix):
        return 0.0
    off = np.abs(np.linalg.norm(matrix.astype(np.float64), axis=1) - 1.0)
    worst = int(np.argmax(off))
    if off[worst] > _UNIT:
        raise StoreError(
            f"chunk {rows[worst].chunk.id} of {rows[worst].source}: its vector is not of length 1, and FAISS compares "
            "by inner product, which would then be no cosine; nothing of this batch was stored. Choose an embedder "
            "that gives unit vectors, or another [store]"
        )
    return float(off[worst])


def checksum(vector: FloatArray) -> int:
    """Of a vector's bytes."""
    return zlib.crc32(vector.tobytes())


def changed_row(rows: Rows, vectors: FloatArray, stored: Mapping[int, int]) -> int | None:
    """The first row whose vector has not the checksum that was stored; None when all have."""
    pairs = zip(rows.tolist(), vectors, strict=True)
    return next((row for row, vector in pairs if checksum(vector) != stored.get(row)), None)


def difference(book: Book, view: View) -> str | None:
    """Say where the files are not what the book says; None when nothing is seen.

    Counts are compared, and the checksums of some rows, the first and the last among them.
    """
    state = view.state
    count, end = book.count()
    if count != state.live or end > state.rows:
        return f"its book lists {count:,} rows, and {state.live:,} were stored"
    if not count:
        return None
    rows = book.sample(state.rows)
    row = changed_row(rows, view.vectors(rows), book.checksums(rows))
    return None if row is None else f"row {row} is not the vector that was stored"
