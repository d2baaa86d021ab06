"""Every store with 100,000 chunks, side by side: adding, disk, memory, the first answer and those after it.

Each store fills and answers in processes of its own, so that memory and cold starts are its own, one
after the other. Vectors lie in 200 clusters, ten chunks a document, texts of 60 words (`made_base`). The
first line is the ledger, which every collection has beside its store: for it a question is one by words.

    python -m benchmarks.store_scale
    python -m benchmarks.store_scale --chunks 10000 100000 300000 --stores chroma "faiss, hnsw" --out scale.jsonl

`cold` is a new process with its package imported: opening, and the first answer. Files are in the page
cache, as they have just been written. A Chroma server is started here; a Qdrant server is measured when
`QDRANT_URL` names one. `held` is memory that is the reader's own, `mapped` are pages of files, which the
system takes back when it needs them; of a server, all of its process. `recall@10` is against exact search.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.made_base import CHUNKS_EACH, CLUSTERS, Made, batches, fill_ledger, path_of
from kb.components import Parts, StorePlace, StoreRow, build_component, component_module
from kb.ledger.ledger import Ledger
from tests.chroma_server import chroma_server

if TYPE_CHECKING:
    from kb.components import FloatArray, Store

LEDGER = "ledger"
QUESTIONS = 200
"""Asked together, to compare with what is nearest."""
ALONE = 50
"""Asked one after the other."""
FILES = 10
LIMITS = (5, 50)
TRUTH = 10
LEAST_RECALL = 0.95
_MEGABYTE = 1_000_000


@dataclass(frozen=True)
class Engine:
    """One line of the table."""

    store: str
    options: Mapping[str, Any] = field(default_factory=dict)
    server: Callable[[Path], Any] | None = None
    server_process: str = ""
    """What the server's command line holds, to find its memory by."""
    url: str = ""
    most_chunks: int = 10**9
    """Of more it takes hours, or is not meant for."""


ENGINES: dict[str, Engine] = {
    "(the ledger)": Engine(LEDGER),
    "memory": Engine("memory", most_chunks=100_000),
    "chroma": Engine("chroma"),
    "chroma, server": Engine("chroma", server=chroma_server, server_process="chroma run"),
    "faiss, flat": Engine("faiss"),
    "faiss, hnsw": Engine("faiss", {"index": "hnsw"}),
    "faiss, ivf": Engine("faiss", {"index": "ivf"}),
    "qdrant, local": Engine("qdrant", most_chunks=100_000),
}
if os.environ.get("QDRANT_URL"):
    named = {"api_key_env": "QDRANT_API_KEY"} if os.environ.get("QDRANT_API_KEY") else {}
    ENGINES["qdrant, server"] = Engine("qdrant", named, url=os.environ["QDRANT_URL"])


@dataclass
class Line:
    """What was measured of one engine; seconds, bytes, milliseconds."""

    engine: str
    chunks: int
    dimension: int
    add_seconds: float = 0.0
    add_peak_bytes: int = 0
    disk_bytes: int = 0
    opened_ms: float = 0.0
    first_ms: float = 0.0
    """Opened, with the first answer."""
    warm_ms: dict[str, float] = field(default_factory=dict)
    held_bytes: int = 0
    mapped_bytes: int = 0
    recall: float = 1.0


# ── what is stored and asked ──


def blocks(made: Made, chunks: int) -> Iterator[list[StoreRow]]:
    """The rows, 2,000 at a time, as an ingest writes them."""
    for _, rows in batches(made, chunks // CHUNKS_EACH):
        yield [StoreRow(one.chunk, one.source, vector) for one, vector in rows]


def questions(dimension: int) -> FloatArray:
    """Vectors in the clusters, shape (QUESTIONS, dimension)."""
    made = Made(dimension, seed=11)
    return np.concatenate([made.vectors(place * 7 % CLUSTERS, 1) for place in range(QUESTIONS)])


def truth(made: Made, chunks: int, asked: FloatArray) -> list[set[str]]:
    """The ids of the nearest, found by comparing all, a block at a time."""
    best: list[list[tuple[float, str]]] = [[] for _ in asked]
    for rows in blocks(made, chunks):
        ids = [row.chunk.id for row in rows]
        scores = asked @ np.stack([row.vector for row in rows]).T
        for place, row in enumerate(scores):
            first = np.argpartition(-row, min(TRUTH, len(row) - 1))[:TRUTH]
            best[place] = sorted([*best[place], *((float(row[i]), ids[i]) for i in first)], reverse=True)[:TRUTH]
    return [{chunk_id for _, chunk_id in one} for one in best]


# ── in a process of its own ──


def child(task: Mapping[str, Any]) -> dict[str, Any]:
    """Fill or ask one store, or the ledger."""
    made, folder = Made(task["dimension"]), Path(task["folder"])
    if task["store"] == LEDGER:
        return fill_ledger_alone(folder, made, task["chunks"]) if task["do"] == "fill" else ask_ledger(folder)
    component_module("store", task["store"])
    before = memory()
    place = StorePlace(folder, "made", "made", Made.fingerprint, task["dimension"])
    parts = Parts(place=place, secret=os.environ.get)
    open_it = partial(build_component, "store", task["store"], task["options"], parts)
    return fill(open_it, made, task["chunks"]) if task["do"] == "fill" else ask(open_it, task, before)


def fill(open_it: Callable[[], Store], made: Made, chunks: int) -> dict[str, Any]:
    """Add all rows."""
    started = time.perf_counter()
    store = open_it()
    seconds = time.perf_counter() - started
    for rows in blocks(made, chunks):
        seconds += timed(store.upsert, rows) / 1000
    seconds += timed(store.close) / 1000
    return {"add_seconds": seconds, "add_peak_bytes": memory()["VmHWM"]}


def fill_ledger_alone(folder: Path, made: Made, chunks: int) -> dict[str, Any]:
    """The same rows with their documents, without a store."""
    seconds = fill_ledger(folder, made, chunks // CHUNKS_EACH, lambda rows: None)
    return {"add_seconds": seconds, "add_peak_bytes": memory()["VmHWM"]}


def ask(open_it: Callable[[], Store], task: Mapping[str, Any], before: Mapping[str, int]) -> dict[str, Any]:
    """Open, and ask one question after the other."""
    asked = questions(task["dimension"])
    documents = task["chunks"] // CHUNKS_EACH
    started = time.perf_counter()
    store = open_it()
    opened = time.perf_counter()
    store.search(asked[:1], LIMITS[0])
    first = time.perf_counter()
    warm = {
        f"top {limit}": median(timed(store.search, asked[i : i + 1], limit) for i in range(1, ALONE))
        for limit in LIMITS
    }
    warm["of one file"] = median(
        timed(store.search, asked[i : i + 1], LIMITS[0], {"source": path_of(i * 13 % documents)}) for i in range(FILES)
    )
    after = memory()
    found = [[chunk_id for chunk_id, _ in one] for one in store.search(asked, TRUTH)]
    store.close()
    return told_of(started, opened, first, warm, before, after) | {"found": found}


def ask_ledger(folder: Path) -> dict[str, Any]:
    """Open, and look words up."""
    made = Made(seed=11)
    asked = [made.words_asked() for _ in range(QUESTIONS)]
    before, started = memory(), time.perf_counter()
    with Ledger(folder, read_only=True) as ledger:
        generation = ledger.current_generation()
        assert generation is not None, "it was made to the end"
        opened = time.perf_counter()
        ledger.find_words(generation.number, asked[0], LIMITS[0])
        first = time.perf_counter()
        warm = {
            f"top {limit}": median(
                timed(ledger.find_words, generation.number, words, limit) for words in asked[1:ALONE]
            )
            for limit in LIMITS
        }
        return told_of(started, opened, first, warm, before, memory())


def told_of(
    started: float,
    opened: float,
    first: float,
    warm: Mapping[str, float],
    before: Mapping[str, int],
    after: Mapping[str, int],
) -> dict[str, Any]:
    return {
        "opened_ms": (opened - started) * 1000,
        "first_ms": (first - started) * 1000,
        "warm_ms": warm,
        "held_bytes": after["RssAnon"] - before["RssAnon"],
        "mapped_bytes": after["RssFile"] - before["RssFile"],
    }


def timed(call: Callable[..., Any], *arguments: Any) -> float:
    started = time.perf_counter()
    call(*arguments)
    return (time.perf_counter() - started) * 1000


def memory(process: str = "self") -> dict[str, int]:
    """What Linux says of a process's memory, in bytes."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    told = (line.split() for line in lines if line.startswith(("VmHWM", "RssAnon", "RssFile")))
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in told}


# ── side by side ──


def run_child(**task: Any) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.store_scale", "--child", json.dumps(task)],
        stdout=subprocess.PIPE,
        check=True,
    )
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def measure(name: str, chunks: int, dimension: int, nearest: Sequence[set[str]]) -> Line:
    engine = ENGINES[name]
    line = Line(name, chunks, dimension)
    with tempfile.TemporaryDirectory(prefix="kb-scale-") as home:
        folder = Path(home) / "store"
        folder.mkdir()
        server = engine.server(folder) if engine.server else nullcontext(engine.url)
        with server as url:
            task = {
                "store": engine.store,
                "options": {**engine.options, **({"url": url} if url else {})},
                "folder": str(folder),
                "chunks": chunks,
                "dimension": dimension,
            }
            told = run_child(do="fill", **task)
            told |= run_child(do="ask", **task)
            found = told.pop("found", None)
            if engine.server_process:
                of_server = memory(process_of(engine.server_process))
                told |= {"held_bytes": of_server["RssAnon"], "mapped_bytes": of_server["RssFile"]}
        line = replace(line, **told)
        line.disk_bytes = 0 if engine.url else disk(folder)
    if found is not None:
        line.recall = sum(len(true & set(ids)) for true, ids in zip(nearest, found, strict=True)) / (TRUTH * len(found))
    return line


def process_of(words: str) -> str:
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and words in (process / "cmdline").read_bytes().replace(b"\0", b" ").decode():
            return process.name
    raise LookupError(f"no process of {words!r}")


def disk(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def table(lines: Sequence[Line]) -> str:
    heads = ["store", "chunks", "added/s", "peak", "disk", "held", "mapped", "opened", "first answer"]
    heads += ["top 5", "top 50", "of one file", "recall@10"]
    rows = [f"| {' | '.join(heads)} |", "|---|" + "---:|" * (len(heads) - 1)]
    for line in lines:
        sizes = (line.add_peak_bytes, line.disk_bytes, line.held_bytes, line.mapped_bytes)
        warm = (
            f"{line.warm_ms[key]:.1f} ms" if key in line.warm_ms else "" for key in ("top 5", "top 50", "of one file")
        )
        cells = [
            line.engine,
            f"{line.chunks:,}",
            f"{line.chunks / line.add_seconds:,.0f}",
            *(f"{size / _MEGABYTE:,.0f} MB" for size in sizes),
            f"{line.opened_ms:,.0f} ms",
            f"{line.first_ms:,.0f} ms",
            *warm,
            f"{line.recall:.3f}",
        ]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def main() -> int:
    """Measure, print the table, and fail when an approximate store misses too much."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, nargs="+", default=[100_000])
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--stores", nargs="+", choices=list(ENGINES), default=list(ENGINES), metavar="STORE")
    parser.add_argument("--out", type=Path, help="append what was measured, an object a line")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(child(json.loads(arguments.child))))
        return 0
    lines = []
    for chunks in arguments.chunks:
        made = Made(arguments.dimension)
        nearest = truth(made, chunks, questions(arguments.dimension))
        for name in arguments.stores:
            if chunks > ENGINES[name].most_chunks:
                continue
            lines.append(measure(name, chunks, arguments.dimension, nearest))
            print(json.dumps(asdict(lines[-1])), file=sys.stderr)
            if arguments.out:
                with arguments.out.open("a") as file:
                    file.write(json.dumps(asdict(lines[-1])) + "\n")
    print(table(lines))
    return 0 if all(line.recall >= LEAST_RECALL for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
