"""Everything that is asked of FAISS: indexes are built, written, mapped, verified and searched here.

What FAISS 1.15 maps with `IO_FLAG_MMAP_IFC`, and what it loads: vectors, links of a graph and inverted lists
stay in the file, and the system reads what is looked at; offsets and levels of a graph (12 bytes a row), the
lists' centres and the table row → list (8 bytes a row) are loaded. The older `IO_FLAG_MMAP` maps inverted
lists only. FAISS trusts what it reads: a neighbour's number that is out of range ends the process. So all
of a file but its vectors has a checksum, which is compared first.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import faiss
import numpy as np

from kb.payloads import storable
from kb.store._faiss_files import UNFINISHED
from kb.store._faiss_options import TRAINING_ROWS, Options, lists_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from kb.components import FloatArray
    from kb.store._faiss_state import State

    Rows = NDArray[np.int64]

_CLASSES = {"flat": "IndexFlat", "hnsw": "IndexHNSWFlat", "ivf": "IndexIVFFlat"}

_BLOCK_ROWS = 8_192
"""Rows that are read, and added, at a time: 12 MB of 384 dimensions."""

_CRC_BYTES = 1 << 20

_FEWER_LISTS = 2
"""An index of lists is divided anew, with all rows, when it should have so many times its lists."""


class MappedIndex:
    """An index in a file that is mapped, not loaded."""

    def __init__(self, file: Path, state: State, options: Options) -> None:
        """Map the file, whose length was looked at before.

        Raises:
            ValueError: it is not what was written.
            RuntimeError: FAISS cannot read it.
        """
        if _head_crc(file, state.head_bytes) != state.head_crc:
            raise ValueError("what stands before its vectors has changed")
        self._index = _read(file, faiss.IO_FLAG_MMAP_IFC)
        self._options = options
        kind = _CLASSES[options.index]
        found = type(self._index).__name__, self._index.ntotal, self._index.d, self._index.metric_type
        if not (found[0].startswith(kind) and found[1:] == (state.indexed, state.dimension, _METRIC)):
            raise ValueError(
                f"it is {found[0]} of {found[1]:,} × {found[2]} with metric {found[3]}, not {kind} of "
                f"{state.indexed:,} × {state.dimension} with inner product"
            )

    @property
    def exact(self) -> bool:
        """Whether a search compares every row."""
        return self._options.index == "flat"

    def search(self, queries: FloatArray, count: int, allowed: NDArray[np.bool_] | None) -> tuple[FloatArray, Rows]:
        """The rows of the greatest inner products, falling.

        Args:
            queries: Shape (m, dimension).
            count: So many of each; where there are fewer, row −1 fills up.
            allowed: Which rows count, shape (rows of the index,); None: all.

        Returns:
            Inner products and rows, both of shape (m, count).
        """
        # The selector reads the bitmap, and the parameters the selector: both stay referenced until the end.
        bitmap = None if allowed is None else np.packbits(allowed, bitorder="little")
        selector = None if bitmap is None else faiss.IDSelectorBitmap(bitmap)
        with _threads(1 if len(queries) < _MANY_QUESTIONS else 0):
            products, rows = self._index.search(queries, count, params=self._parameters(count, selector))
        return products, rows

    def vectors(self, rows: Rows) -> FloatArray:
        """The vectors of rows, bit for bit, copied; shape (len(rows), dimension)."""
        found: FloatArray = self._index.reconstruct_batch(np.ascontiguousarray(rows, dtype=np.int64))
        return found

    def _parameters(self, count: int, selector: Any) -> Any:
        chosen = {} if selector is None else {"sel": selector}
        match self._options.index:
            case "flat":
                return faiss.SearchParameters(**chosen)
            case "hnsw":
                return faiss.SearchParametersHNSW(efSearch=max(self._options.ef_search, count), **chosen)
            case "ivf":
                return faiss.SearchParametersIVF(nprobe=self._options.probes, **chosen)


_METRIC = faiss.METRIC_INNER_PRODUCT

_MANY_QUESTIONS = 20
"""From here on FAISS multiplies matrices, which threads divide well. With fewer, they mostly wait for each other: on
two processors that others used, too, one question to 100,000 rows took 60–70 ms with two threads and 20 ms with one."""


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Let FAISS use so many threads in calls of this thread; 0: as many as it likes."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(count or before)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def enough(options: Options, rows: int) -> bool:
    """Whether an index can be made of so many rows."""
    return rows > 0 and (options.index != "ivf" or lists_for(options, rows) > 0)


def write_index(
    file: Path, old: Path | None, state: State, options: Options, read: Callable[[Rows], FloatArray]
) -> State:
    """Write an index of rows [0, indexed) to the disk, whole or not at all.

    Args:
        file: Where to.
        old: An index of the same options, whose rows are the first of these; None: all are new.
        state: `dimension` and `indexed` count.
        options: Which index, and how it is built.
        read: Gives the vectors of rows.

    Returns:
        The state, with what the file has to be like.

    Raises:
        OSError: it cannot be written.
        RuntimeError: FAISS cannot write it, or cannot read `old`.
    """
    rows, dimension = state.indexed, state.dimension
    index = None if old is None else _to_go_on_with(old, options, rows)
    if index is None:
        index = _empty(options, rows, dimension, read)
    for block in _blocks(index.ntotal, rows):
        index.add(read(block))
    unfinished = file.with_name(file.name + UNFINISHED)
    try:
        with unfinished.open("wb") as written:
            faiss.write_index(index, faiss.PyCallbackIOWriter(written.write))
            written.flush()
            os.fsync(written.fileno())
        unfinished.replace(file)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    size = file.stat().st_size
    # The vectors come last in all three; in lists, each with the number of its row.
    of_a_row = state.row_bytes + (8 if options.index == "ivf" else 0)
    head = size - rows * of_a_row
    return replace(state, index_bytes=size, head_bytes=head, head_crc=_head_crc(file, head))


def _empty(options: Options, rows: int, dimension: int, read: Callable[[Rows], FloatArray]) -> Any:
    """An index of nothing; one of lists is trained with the rows that it will have."""
    match options.index:
        case "flat":
            return faiss.IndexFlatIP(dimension)
        case "hnsw":
            graph = faiss.IndexHNSWFlat(dimension, options.max_neighbors, _METRIC)
            graph.hnsw.efConstruction = options.ef_construction
            return graph
        case "ivf":
            lists = lists_for(options, rows)
            index = faiss.IndexIVFFlat(faiss.IndexFlatIP(dimension), dimension, lists, _METRIC)
            index.train(read(np.linspace(0, rows - 1, lists * TRAINING_ROWS, dtype=np.int64)))
            index.make_direct_map()  # row → its place in a list: without it a row's vector could not be read
            return index


def _to_go_on_with(old: Path, options: Options, rows: int) -> Any:
    """The index of a file, loaded to be added to; None when it is better to begin anew."""
    if options.index == "flat":
        return None  # copying from the mapped file is as fast, and needs the memory once
    index = _read(old)
    if options.index == "ivf" and lists_for(options, rows) >= _FEWER_LISTS * index.nlist:
        return None
    return index


def _read(file: Path, flags: int = 0) -> Any:
    """Read or map an index; FAISS takes no path that is no text, so such a file goes by its descriptor."""
    path = str(file)
    if path.isascii() or path == storable(path):
        return faiss.read_index(path, flags)
    with file.open("rb") as opened:
        return faiss.read_index(f"/dev/fd/{opened.fileno()}", flags)


def _blocks(first: int, end: int) -> Iterator[Rows]:
    for start in range(first, end, _BLOCK_ROWS):
        yield np.arange(start, min(start + _BLOCK_ROWS, end), dtype=np.int64)


def _head_crc(file: Path, length: int) -> int:
    found = 0
    with file.open("rb") as opened:
        while length > 0 and (block := opened.read(min(length, _CRC_BYTES))):
            found, length = zlib.crc32(block, found), length - len(block)
    return found
