"""What tests of the FAISS store share: rows, a place, and a change at a chosen step of which a process dies."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kb.components import Parts, StorePlace, StoreRow
from kb.records import Chunk
from kb.store.faiss import FaissStore, Options, build

DIMENSION = 16

_CALLS = {"execute", "executemany", "fsync", "write", "flush", "replace", "unlink", "write_index", "connect", "close"}
"""Of SQLite, of the system and of FAISS: what is on the disk changes between these, and nowhere else."""


def place_in(folder: Path) -> StorePlace:
    return StorePlace(folder, "知识库", "kb", "embedder", DIMENSION)


def open_store(folder: Path, **options: Any) -> FaissStore:
    return build(Options(**options), Parts(place=place_in(folder)))


def made_vectors(count: int, seed: int = 0) -> NDArray[np.float32]:
    """Around 20 centres, as texts are around topics."""
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(20, DIMENSION))
    rows = centres[random.integers(0, 20, count)] + 0.4 * random.normal(size=(count, DIMENSION))
    made: NDArray[np.float32] = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return made


def made_rows(names: Sequence[str], seed: int = 0, documents: int = 3) -> list[StoreRow]:
    """A row of each name; its document is the number at its end modulo `documents`."""
    vectors = made_vectors(len(names), seed)
    rows = []
    for number, (name, vector) in enumerate(zip(names, vectors, strict=True)):
        document = f"d{number % documents}"
        text = f"{name}: 退款 リファンド refund"
        rows.append(StoreRow(Chunk(name, document, text, 0, len(text), number % 5 + 1), f"{document}.md", vector))
    return rows


def names(start: int, end: int) -> list[str]:
    return [f"c{number:05}" for number in range(start, end)]


@dataclass(frozen=True)
class Change:
    rows_before: int
    make: Callable[[FaissStore], None]


CHANGES = {
    "replaces and folds": Change(30, lambda store: store.upsert(made_rows(names(25, 70), seed=2))),
    # More than a quarter of the rows are dead then.
    "numbers anew": Change(90, lambda store: store.delete(names(10, 60))),
}


def change_and_die(*, folder: str, options: dict[str, Any], change: str, step: int) -> None:
    """Make a change of `CHANGES`, killed before its `step`-th call that matters; to the end when there are fewer."""
    store = open_store(Path(folder), **options)
    calls = 0

    def count(frame: FrameType, event: str, called: Any) -> None:
        nonlocal calls
        if event == "c_call" and called.__name__ in _CALLS and "_faiss" in frame.f_code.co_filename:
            calls += 1
            if calls == step:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(count)
    CHANGES[change].make(store)
    sys.setprofile(None)
    store.close()
