"""How long the FAISS store takes to open, and to give its first answer, with 100,000 rows of 384 dimensions.

    python benchmarks/faiss_opening.py --index flat hnsw ivf

Each opening is a fresh process, which imports everything first: what is timed is from the call that opens the
store to the store, and to the first five hits. The files are in the system's cache, as they are after they were
written. Prints the median of five, the size of the files, and what a process holds in memory afterwards beside
what it maps. The time of a processor says more where others use the machine. Ends with 1 when the flat index
misses its limits. Building `hnsw` takes minutes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kb.components import Parts, Store, StorePlace, StoreRow, build_component
from kb.records import Chunk

DIMENSION = 384
BATCH = 5_000
OPENINGS = 5
LIMITS = {"open": 50.0, "first answer": 100.0}
"""Milliseconds, for the flat index; the second from the same beginning."""

CENTRES = 2_000
SPREAD = 0.7
"""Rows lie around centres, as texts do around topics: a graph or lists find little in rows that are all alike far."""

OPEN = """
import json, sys, time
from pathlib import Path
import numpy as np
from benchmarks.faiss_opening import anonymous_megabytes, question, open_store
from kb.components import component_module
component_module("store", "faiss")
before = anonymous_megabytes()
asked = question()
used, began = time.process_time(), time.perf_counter()
store = open_store(Path(sys.argv[1]), sys.argv[2])
opened = time.perf_counter()
found = store.search(asked, 5)
answered, used = time.perf_counter(), time.process_time() - used
again = time.perf_counter()
store.search(asked, 5)
print(json.dumps({"open": (opened - began) * 1e3, "first answer": (answered - began) * 1e3,
    "next answer": (time.perf_counter() - again) * 1e3,
    "processor": used * 1e3, "memory": anonymous_megabytes() - before, "found": len(found[0])}))
store.close()
"""


def question() -> NDArray[np.float32]:
    return made_rows(np.random.default_rng(1), 1)


def made_rows(random: np.random.Generator, count: int) -> NDArray[np.float32]:
    centres = np.random.default_rng(0).normal(size=(CENTRES, DIMENSION)).astype(np.float32)
    rows = centres[random.integers(0, CENTRES, count)]
    rows += SPREAD * random.normal(size=rows.shape).astype(np.float32)
    made: NDArray[np.float32] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return made


def open_store(folder: Path, index: str) -> Store:
    place = StorePlace(folder / index, "made", "made", "made", DIMENSION)
    store: Store = build_component("store", "faiss", {"index": index}, Parts(place=place))
    return store


def anonymous_megabytes() -> float:
    """Memory of this process that is no file's (Linux)."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return sum(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1024


def fill(folder: Path, index: str, rows: int) -> float:
    """Fill a store, unless it is there; gives the seconds."""
    began = time.perf_counter()
    store = open_store(folder, index)
    random = np.random.default_rng(2)
    for start in range(0 if store.count() < rows else rows, rows, BATCH):
        chunks = [
            Chunk(
                f"{number:032x}",
                f"document {number // 20}",
                f"Passage {number}, 第{number}段、第{number}節。" * 8,
                0,
                9,
            )
            for number in range(start, min(start + BATCH, rows))
        ]
        vectors = made_rows(random, len(chunks))
        store.upsert([StoreRow(chunk, "made.md", vector) for chunk, vector in zip(chunks, vectors, strict=True)])
    store.close()
    return time.perf_counter() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--index", nargs="+", metavar="INDEX", default=["flat", "hnsw", "ivf"])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, help="keeps the files here, so that they are made once")
    arguments = parser.parse_args()
    missed = False
    with tempfile.TemporaryDirectory() as made:
        folder = arguments.folder or Path(made)
        for index in arguments.index:
            seconds = fill(folder, index, arguments.rows)
            command = [sys.executable, "-c", OPEN, str(folder), index]
            runs = [json.loads(subprocess.check_output(command)) for _ in range(OPENINGS)]
            assert all(run["found"] == 5 for run in runs)
            median = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
            megabytes = sum(file.stat().st_size for file in (folder / index).iterdir()) / 1e6
            print(f"{index:5} {arguments.rows:,} × {DIMENSION}: filled in {seconds:.0f} s, {megabytes:.0f} MB")
            print(
                f"      open {median['open']:.1f} ms, first answer {median['first answer']:.1f} ms, with "
                f"{median['processor']:.1f} ms of a processor, next answer {median['next answer']:.1f} ms; "
                f"{median['memory']:.1f} MB of memory beside the mapped files",
                flush=True,
            )
            missed |= index == "flat" and any(median[name] > limit for name, limit in LIMITS.items())
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
