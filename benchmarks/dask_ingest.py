"""Ingest by one and by two Dask workers, beside this machine alone: `python -m benchmarks.dask_ingest`.

Makes 2,000 files (Markdown, HTML, Word, PDF; English, Chinese, Japanese), starts a scheduler and workers on loopback,
each of one thread, and ingests all files into a collection of their own

- local: by the local engine, with one process that reads;
- start: one file by one worker that has imported everything, so what connecting and comparing cost before the rest;
- one, two: by one worker and by two;
- killed: by two, one of which is killed (SIGKILL) when a third of the time of `two` is over.

A worker has ingested some files of each kind before it counts, so its imports and the process in which it reads are
there, as on a cluster that stays up. With one thread it waits while that process reads, so it never takes two
processors at once.

The embedder is `hashing` and the store `faiss`, which cost little, so that reading and cutting dominate. Every run has
to give what the local one gives, chunk for chunk, ids and vectors. The benchmark ends with 1 when one does not, or when
two workers are less than 1.6 times as fast as one.

The clock says how fast they are only on a quiet machine with a processor for each: the two workers, the process that
writes, and the scheduler. So the processor time of each is told as well, and the ratio that it allows: where
nobody waits for a processor, a run takes as long as its busiest process. `--by processors` decides by that.
"""

from __future__ import annotations

import argparse
import html
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from distributed import Client

from benchmarks.made_markdown import made_markdown
from kb.ledger.ledger import Ledger
from tests.dask_cluster import Cluster, dask_cluster
from tests.docx_writer import docx, paragraph
from tests.end_to_end._bases import Place
from tests.pdf_writer import pdf

ROOT = Path(__file__).resolve().parents[1]
FILES = 2_000
LEAST_RATIO = 1.6
STORE = "faiss"
WARMING = "/0?/"
"""A quarter of the folders: files of all kinds."""
FILE_BYTES = (4_000, 40_000)
"""Of the text of a file; as of the documents of `benchmarks/ingest_overhead.py`."""
LINE, PAGE_LINES = 70, 50
"""Characters of a line and lines of a page of a PDF."""

_Client: Any = Client


@dataclass(frozen=True, slots=True)
class Run:
    """What one ingest took."""

    seconds: float
    writing: float
    """Seconds of a processor of the process that ingests; with the local engine also of the one that reads."""
    workers: Sequence[float] = ()
    """The same of each worker with the processes in which it reads."""
    scheduler: float = 0.0

    @property
    def busiest(self) -> float:
        """Seconds of the process that has most to do."""
        return max(self.writing, self.scheduler, *self.workers)


def make_file(folder: Path, number: int) -> None:
    """Write one file; the kinds take turns."""
    text = made_markdown(random.Random(number).randint(*FILE_BYTES), number)
    blocks = [block.strip() for block in text.split("\n\n") if block.strip()]
    name = folder / f"{number % 40:02}" / f"文書 {number:05}"
    name.parent.mkdir(exist_ok=True)
    match number % 4:
        case 0:
            name.with_suffix(".md").write_text(text, encoding="utf-8")
        case 1:
            shown = "\n".join(_as_html(block) for block in blocks)
            name.with_suffix(".html").write_text(f"<html><body>{shown}</body></html>", encoding="utf-8")
        case 2:
            name.with_suffix(".docx").write_bytes(docx("".join(paragraph(html.escape(block)) for block in blocks)))
        case _:
            lines = [block[at : at + LINE].replace("\n", " ") for block in blocks for at in range(0, len(block), LINE)]
            pages = [lines[at : at + PAGE_LINES] for at in range(0, len(lines), PAGE_LINES)]
            name.with_suffix(".pdf").write_bytes(pdf(pages))


def _as_html(block: str) -> str:
    return f"<h2>{html.escape(block.lstrip('# '))}</h2>" if block.startswith("#") else f"<p>{html.escape(block)}</p>"


def spent(process: psutil.Process) -> float:
    """Seconds of a processor that a process and all that it has started have taken."""
    total = 0.0
    for one in (process, *process.children(recursive=True)):
        times = one.cpu_times()
        total += times.user + times.system + (times.children_user + times.children_system if one == process else 0.0)
    return total


def spent_here() -> float:
    """The same of the process that asks."""
    return spent(psutil.Process())


class Contest:
    """A folder of files, and what each way of ingesting makes of it."""

    def __init__(self, folder: Path, cluster: Cluster) -> None:
        self._folder = folder
        self._cluster = cluster
        self._expected: Mapping[str, Any] = {}

    def local(self) -> Run:
        """Ingest by the local engine; what comes out is what the others are compared with."""
        run, self._expected = self._ingest("local", {"engine": "local"})
        return run

    def start(self) -> Run:
        """Ingest one small file by the workers that there are."""
        place = Place(self._folder / "one document", self._folder / "start", STORE, isolated=True)
        place.write("文書.md", "# 題\n\nこれは一つの文です。")
        return self._timed(place, self._cluster.settings())

    def helped(self, name: str, kill_after: float | None = None) -> Run:
        """Ingest by the workers that there are, and compare.

        Raises:
            SystemExit: something else came out.
        """
        with closing(_Client(self._cluster.address, set_as_default=False)) as client:
            before, scheduler = client.run(spent_here), spent(psutil.Process(self._cluster.scheduler.pid))
            pids = client.run(os.getpid)
            killer = threading.Timer(kill_after or 0.0, os.kill, (min(pids.values()), signal.SIGKILL))
            if kill_after is not None:
                killer.start()
            run, found = self._ingest(name, self._cluster.settings())
            killer.cancel()
            after = client.run(spent_here)
        if found != self._expected:
            sys.exit(f"{name}: what came out is not what the local engine gives")
        return Run(
            run.seconds,
            run.writing,
            [after[worker] - before[worker] for worker in after if worker in before],
            spent(psutil.Process(self._cluster.scheduler.pid)) - scheduler,
        )

    def _ingest(self, name: str, section: Mapping[str, Any]) -> tuple[Run, Mapping[str, Any]]:
        place = Place(self._folder / "documents", self._folder / name, STORE, isolated=True)
        return self._timed(place, section), _made(place)

    def warm(self, name: str) -> None:
        """Have the workers there import everything, and build what they build once, by one folder of the files."""
        place = Place(self._folder / "documents", self._folder / name, STORE, isolated=True)
        self._timed(place, self._cluster.settings(), only=[WARMING])

    def _timed(self, place: Place, section: Mapping[str, Any], **how: Any) -> Run:
        options = {"ingest": section, "chunking": {}, "loading": {"workers": 1}}
        before, started = _spent_without_cluster(self._cluster), time.perf_counter()
        report = place.ingest(options=options, **how)
        seconds = time.perf_counter() - started
        if report.failed:
            sys.exit(f"{place.data.name}: {report.failed} files failed: {report.problems[:3]}")
        return Run(seconds, _spent_without_cluster(self._cluster) - before)


def _made(place: Place) -> Mapping[str, Any]:
    """Every chunk by its id, with its source and its stored vector."""
    with Ledger(place.folder, read_only=True) as ledger:
        generation = ledger.current_generation()
        assert generation is not None
        found = {one.chunk.id: (one.source, one.chunk) for one in ledger.all_chunks(generation.number)}
    with closing(place.open_store()) as store:
        vectors = store.vectors(list(found))
    return {key: (*told, vectors[key].tobytes()) for key, told in found.items()}


def _spent_without_cluster(cluster: Cluster) -> float:
    """Of this process, and of what it has started but for scheduler and workers."""
    others = {process.pid for process in cluster.processes}
    own = psutil.Process()
    times = own.cpu_times()
    helpers = (child for child in own.children() if child.pid not in others)
    return float(times.user + times.system + times.children_user + times.children_system) + sum(map(spent, helpers))


def show(name: str, run: Run) -> None:
    each = ", ".join(f"{seconds:.1f}" for seconds in run.workers)
    helpers = f"; workers {each} s; scheduler {run.scheduler:.1f} s" if run.workers else ""
    print(f"{name:<7} {run.seconds:6.1f} s by the clock; of a processor: writing {run.writing:.1f} s{helpers}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=FILES)
    parser.add_argument("--by", choices=("clock", "processors"), default="clock", help="what the ratio is told by")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that scheduler and workers are ended, too
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "documents").mkdir()
        for number in range(chosen.files):
            make_file(folder / "documents", number)
        with dask_cluster(folder / "cluster", PYTHONPATH=str(ROOT)) as cluster:
            contest = Contest(folder, cluster)
            show("local", contest.local())
            cluster.add_workers()
            cluster.wait_for(workers=1)
            contest.warm("warm")
            show("start", contest.start())
            show("one", one := contest.helped("one"))
            cluster.add_workers()
            cluster.wait_for(workers=2)
            contest.warm("warm too")
            show("two", two := contest.helped("two"))
            show("killed", contest.helped("killed", kill_after=two.seconds / 3))
    clock, processors = one.seconds / two.seconds, one.busiest / two.busiest
    print(
        f"two workers are {clock:.2f} times as fast as one by the clock; their processor time allows {processors:.2f}"
    )
    ratio = clock if chosen.by == "clock" else processors
    return 0 if ratio >= LEAST_RATIO else 1


if __name__ == "__main__":
    sys.exit(main())
