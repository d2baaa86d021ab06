"""How much memory an ingest takes, worker processes included: `python benchmarks/ingest_memory.py`.

A folder of some 400 Markdown, text, PDF and Word files is made from the sample documents and ingested
with the shipped settings and two workers. Several times a second the memory of all its processes is
added up (proportional set size, so that pages they share count once); the largest sum is the figure to
watch. Linux only.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SAMPLES = ROOT / "knowledge_base"
WORKERS = 2
SECONDS_BETWEEN = 0.1
MEGABYTE = 1024 * 1024


@dataclass(slots=True)
class Peak:
    """The most that was seen, in bytes; the parts at moments of their own."""

    all: int = 0
    ingest: int = 0
    workers: int = 0
    most_workers: int = 0

    def see(self, ingest: int, workers: list[int]) -> None:
        """Take one sample."""
        self.all = max(self.all, ingest + sum(workers))
        self.ingest = max(self.ingest, ingest)
        self.workers = max(self.workers, sum(workers))
        self.most_workers = max(self.most_workers, len(workers))


def make_folder(folder: Path, copies: int) -> None:
    """Copy the samples several times; a line of its own makes each text file another document."""
    for number in range(copies):
        target = folder / f"copy {number:02}"
        shutil.copytree(SAMPLES, target)
        for file in target.rglob("*"):
            if file.suffix in (".md", ".txt"):
                text = file.read_text(encoding="utf-8")
                file.write_text(f"{text}\n\nThis is copy {number} of {file.name}.\n", encoding="utf-8")


def memory(pid: int) -> int:
    """The proportional set size of a process; 0 when it has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def children(pid: int) -> Iterator[int]:
    """The processes that a process has started."""
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            yield from map(int, task.read_text(encoding="ascii").split())
        except OSError:  # that thread has ended
            continue


def ingest(documents: Path, data: Path) -> tuple[dict[str, int], Peak, float]:
    """Ingest a folder: the report, the most memory, and the seconds."""
    variables = {
        "KB_DOCUMENTS_DIR": str(documents),
        "KB_DATA_DIR": str(data),
        "KB_LOADING__WORKERS": str(WORKERS),
        "PYTHONPATH": str(ROOT),
    }
    peak = Peak()
    started = time.perf_counter()
    command = [sys.executable, "-m", "pipelines.ingest", "--json"]
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as output,
        subprocess.Popen(command, cwd=ROOT, env={**os.environ, **variables}, stdout=output) as process,
    ):
        while process.poll() is None:
            peak.see(memory(process.pid), [memory(child) for child in children(process.pid)])
            time.sleep(SECONDS_BETWEEN)
        seconds = time.perf_counter() - started
        if process.returncode:
            raise SystemExit(f"the ingest ended with {process.returncode}")
        output.seek(0)
        return json.load(output), peak, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--copies", type=int, default=14, help="of the sample documents; %(default)s")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kb-ingest-memory-") as folder:
        documents = Path(folder, "documents")
        make_folder(documents, options.copies)
        report, peak, seconds = ingest(documents, Path(folder, "data"))
    print(
        f"{report['indexed']} files, {report['chunks_total']:,} chunks, {report['embedded']:,} texts embedded, "
        f"{seconds:.0f} s\n"
        f"most memory: {peak.all / MEGABYTE:.0f} MB (the ingest {peak.ingest / MEGABYTE:.0f} MB, "
        f"its {peak.most_workers} workers together {peak.workers / MEGABYTE:.0f} MB)"
    )


if __name__ == "__main__":
    main()
