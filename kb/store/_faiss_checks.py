"""What the FAISS store compares: vectors with what FAISS needs, files with the book."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from kb.errors import StoreError

if TYPE_CHECKING:
    from kb.components import FloatArray, StoreRow
    from kb.store._faiss_book import Book
    from kb.store._faiss_view import View

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


def difference(book: Book, view: View) -> str | None:
    """Say where the files are not what the book says; None when nothing is seen.

    Counts are compared, and the checksums of some rows, the first and the last among them.
    """
    state = view.state
    count, end = book.count()
    if count != state.live or end > state.rows:
        return f"its book lists {count:,} rows, and {state.live:,} were stored"
    sample = book.sample(state.rows) if count else {}
    vectors = view.vectors(np.fromiter(sample, dtype=np.int64))
    for (row, stored), vector in zip(sample.items(), vectors, strict=True):
        if checksum(vector) != stored:
            return f"row {row} is not the vector that was stored"
    return None
