"""How fast the Qdrant store is without a server: filling, opening, searching.

    python -m benchmarks.qdrant_local [CHUNKS]

Made-up vectors of 384 dimensions, texts of some 700 characters, twenty chunks a document. Without a server
qdrant-client compares every vector with NumPy, and looks through every payload in Python where a question is
narrowed to a source; a real server does neither, and is not measured here.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from kb.components import Parts, Store, StorePlace, StoreRow, build_component
from kb.records import Chunk

DIMENSION = 384
CHUNKS_EACH = 20
AT_A_TIME = 2_000
"""As `[ingest] batch_chunks`."""
TEXT = "知识库 knowledge base リファンド " * 25


def main() -> None:
    """Measure and print."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    vectors = np.random.default_rng(7).normal(size=(count, DIMENSION)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    rows = [
        StoreRow(Chunk(f"c{i:07}", f"d{i // CHUNKS_EACH}", TEXT, 0, len(TEXT)), f"d{i // CHUNKS_EACH}.md", vector)
        for i, vector in enumerate(vectors)
    ]
    with tempfile.TemporaryDirectory() as folder:
        parts = Parts(place=StorePlace(Path(folder), "made", "made", "made", DIMENSION))

        def opened() -> Store:
            store: Store = build_component("store", "qdrant", {}, parts)
            return store

        store = opened()

        def fill() -> None:
            for at in range(0, count, AT_A_TIME):
                store.upsert(rows[at : at + AT_A_TIME])

        seconds, _ = timed(fill)
        print(f"filled with {count:,} chunks: {count / seconds:,.0f} a second")
        store.close()
        seconds, store = timed(opened)
        print(f"opened: {seconds:.1f} s")
        for name, where in (("searched", None), ("narrowed to a source", {"source": "d1.md"})):
            took = [timed(partial(store.search, vectors[at][None], 50, where))[0] for at in range(15)]
            print(f"{name}: {1000 * statistics.median(took):,.0f} ms")
        seconds, _ = timed(lambda: store.delete([row.chunk.id for row in rows[:1_000]]))
        print(f"deleted: {min(count, 1_000) / seconds:,.0f} a second")
        store.close()


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds that a call took, and what it gave."""
    started = time.perf_counter()
    given = call()
    return time.perf_counter() - started, given


if __name__ == "__main__":
    main()
