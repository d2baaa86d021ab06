"""How the FAISS store's files grow: rows are appended to the tail, the tail is folded into an index, dead rows go.

Each writes a file that nobody reads yet, or behind the rows that count, and gives the state that makes it count.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kb.store._faiss_files import index_file, tail_file
from kb.store._faiss_index import enough, write_index
from kb.store._faiss_options import shape

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kb.components import FloatArray
    from kb.store._faiss_options import Options
    from kb.store._faiss_state import State
    from kb.store._faiss_view import View

    Rows = NDArray[np.int64]

_TAIL_SHARE = {"flat": 1 / 2, "hnsw": 1 / 8, "ivf": 1 / 8}
"""The tail is folded when it has so many rows for each of the index. Writing an index again and again while it
grows by a half writes it three times in all, by an eighth nine times. A tail is compared as fast as a flat index,
but much slower than the others are searched: 12,500 rows of 384 dimensions take some 2 ms."""

_DEAD_SHARE = 1 / 4
"""Rows are numbered anew when so many are dead: four times as many were changed as are written then."""

_BLOCK_ROWS = 8_192


@dataclass(frozen=True, slots=True)
class Change:
    """Files that are written, and what makes them count."""

    state: State
    anew: bool
    """Whether the live rows get the numbers from 0 on, in their order."""


def append(folder: Path, state: State, vectors: FloatArray) -> None:
    """Write vectors behind the rows of the tail that count, to the disk.

    Raises:
        OSError: the disk is full, or the file cannot be written.
    """
    if not len(vectors):
        return
    file = tail_file(folder, state.serial)
    created = not file.exists()
    with file.open("w+b" if created else "r+b") as opened:
        # What an interrupted write left there counts for nobody, and is written over.
        opened.seek(state.tail_rows * state.row_bytes)
        opened.write(vectors.tobytes())
        opened.flush()
        os.fsync(opened.fileno())
    if created:
        keep_names(folder)


def folded(folder: Path, view: View, options: Options) -> Change | None:
    """Write an index of all rows, when the tail has grown beyond its share; None when it has not.

    Raises:
        OSError: the disk is full, or the file cannot be written.
    """
    state = view.state
    due = max(options.fold_rows, int(state.indexed * _TAIL_SHARE[options.index]))
    if state.tail_rows < due or not enough(options, state.rows):
        return None
    old = index_file(folder, state.serial) if state.indexed else None
    new = replace(state, shape=shape(options), serial=state.serial + 1, indexed=state.rows)
    new = write_index(index_file(folder, new.serial), old, new, options, view.vectors)
    keep_names(folder)
    return Change(replace(new, revision=state.revision + 1), anew=False)


def compacted(folder: Path, view: View, options: Options, live: Rows) -> Change | None:
    """Write the live rows alone, as an index, or as a tail when they are few.

    Raises:
        OSError: the disk is full, or the file cannot be written.
    """
    state = view.state
    new = replace(
        state,
        shape=shape(options),
        revision=state.revision + 1,
        serial=state.serial + 1,
        rows=len(live),
        dead=0,
        indexed=0,
        index_bytes=0,
        head_bytes=0,
        head_crc=0,
    )
    if len(live) >= options.fold_rows and enough(options, len(live)):
        file = index_file(folder, new.serial)
        new = write_index(file, None, replace(new, indexed=len(live)), options, lambda rows: view.vectors(live[rows]))
        keep_names(folder)
        return Change(new, anew=True)
    for start in range(0, len(live), _BLOCK_ROWS):
        append(folder, replace(new, rows=start), view.vectors(live[start : start + _BLOCK_ROWS]))
    return Change(new, anew=True)


def worth_compacting(state: State, options: Options) -> bool:
    """Whether so many rows are dead that the others should be numbered anew."""
    return state.dead > 0 and (state.live == 0 or state.dead >= max(options.fold_rows, state.rows * _DEAD_SHARE))


def keep_names(folder: Path) -> None:
    """Put a folder's list of names on the disk: a new file may otherwise be lost with a power cut."""
    if os.name == "nt":  # a folder cannot be opened there
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
