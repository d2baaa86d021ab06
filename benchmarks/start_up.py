"""How long a question takes from the start of the process, beside a bare script: `python benchmarks/start_up.py`.

`benchmarks/bare_query.py` is the floor: it imports the same libraries, loads the same model and
searches the same collection, and nothing else. Both run in turn, so that a busy machine slows both;
the ratio of their medians is the figure to watch. `--help` and `import kb` are measured as well.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from platformdirs import user_cache_dir

from kb.embedding._e5_cache import E5Cache
from kb.embedding._e5_weights import E5Weights
from kb.embedding._manifest import find_weights
from kb.embedding.e5 import LANGUAGES_FILE
from kb.knowledge_base import KnowledgeBase
from kb.ledger.ledger import Ledger
from kb.ledger.names import collection_slug
from kb.settings import CONFIG_FILE, Settings

ROOT = Path(__file__).resolve().parents[1]
BARE_SCRIPT = Path(__file__).with_name("bare_query.py")
QUESTION = "What does a 429 mean?"

BARE, QUERY, HELP, IMPORT = "bare script", "kb.query", "kb.query --help", "import kb"
LIGHT = {HELP: ["-m", "kb.query", "--help"], IMPORT: ["-c", "import kb"]}

Commands = Mapping[str, Sequence[str]]
Seconds = dict[str, list[float]]


@dataclass(frozen=True, slots=True)
class Place:
    """Where processes are started, and which collection they ask."""

    folder: Path
    """Holds config.toml, and perhaps .env."""
    data_dir: Path

    def run(self, arguments: Sequence[str]) -> str:
        """Run Python and give what it printed; ends the benchmark when it fails."""
        environment = {**os.environ, "KB_DATA_DIR": str(self.data_dir), "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"}
        # Both sides find their modules compiled, as after any first start.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"{' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def open(self, **overrides: Any) -> KnowledgeBase:
        """The same collection in this process."""
        return KnowledgeBase.open(self.folder / CONFIG_FILE, data_dir=self.data_dir, **overrides)


def ingest(place: Place, documents_dir: Path) -> None:
    """Make the collection that is asked."""
    with place.open(documents_dir=documents_dir) as base:
        base.ingest()


def commands(place: Place) -> Commands:
    """What is compared: the same question to the same collection."""
    settings = place.open().settings
    used = (settings.embedding.use, settings.store.use)
    if used != ("e5", "chroma"):
        raise SystemExit(f"the bare script is written for e5 and chroma, the settings say {' and '.join(used)}")
    return {
        BARE: [str(BARE_SCRIPT), *_model_files(settings), *_collection(place), QUESTION],
        QUERY: ["-m", "kb.query", QUESTION],
    }


def _model_files(settings: Settings) -> list[str]:
    folder = Path(settings.embedding.options("e5").get("cache_dir") or user_cache_dir("kb", appauthor=False))
    files = E5Cache(folder.expanduser(), E5Weights(find_weights()), print).manifest().files
    return [*(str(folder.expanduser() / files[part][0]) for part in ("graph", "pieces", "ids")), str(LANGUAGES_FILE)]


def _collection(place: Place) -> list[str]:
    base = place.open()
    with closing(Ledger(base.folder, read_only=True)) as ledger:
        generation = ledger.current_generation()
        if generation is None:
            raise SystemExit(f"{base.folder} holds no collection yet: python -m pipelines.ingest")
        return [str(ledger.generation_folder(generation)), collection_slug(base.settings.collection)]


def warm_up(place: Place, compared: Commands) -> None:
    """One round that isn't measured; both sides have to find the same chunk."""
    nearest = place.run(compared[BARE]).strip()
    hits = json.loads(place.run([*compared[QUERY], "--json"]))["hits"]
    found = max(hits, key=lambda hit: float(hit["similarity"]))["chunk_id"]
    if found != nearest:
        raise SystemExit(f"the command finds chunk {found}, the bare script {nearest}")
    place.run(compared[QUERY])
    for arguments in LIGHT.values():
        place.run(arguments)


def measure(place: Place, measured: Commands, rounds: int) -> Seconds:
    """Run all in turn, `rounds` times; seconds from the start of each process to its end."""
    seconds: Seconds = {name: [] for name in measured}
    for _ in range(rounds):
        for name, arguments in measured.items():
            started = time.perf_counter()
            place.run(arguments)
            seconds[name].append(time.perf_counter() - started)
    return seconds


def ratio(seconds: Seconds) -> float:
    """The command's median over the bare script's."""
    return median(seconds[QUERY]) / median(seconds[BARE])


def table(seconds: Seconds) -> str:
    """One line for each: least, median and most seconds."""
    lines = [f"{'seconds':<16} {'min':>6} {'median':>6} {'max':>6}"]
    lines += [f"{name:<16} {min(s):6.2f} {median(s):6.2f} {max(s):6.2f}" for name, s in seconds.items()]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="%(default)s")
    parser.add_argument("--data-dir", type=Path, help="a data_dir that is ingested; default: the sample documents anew")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kb-start-up-") as folder:
        place = Place(ROOT, (options.data_dir or Path(folder)).absolute())
        if options.data_dir is None:
            ingest(place, ROOT / "knowledge_base")
        compared = commands(place)
        warm_up(place, compared)
        seconds = measure(place, {**compared, **LIGHT}, options.rounds)
    if options.json:
        print(json.dumps({"ratio": round(ratio(seconds), 3), "seconds": seconds}))
    else:
        print(f"{table(seconds)}\nkb.query takes {ratio(seconds):.2f} times the bare script")


if __name__ == "__main__":
    main()
