"""Reads damaged files as an ingest does and counts what comes: `python -m benchmarks.fuzz_loading [FOLDER …]`.

Every file of the folders (`knowledge_base/` when none is given) is damaged again and again by a
seed: bytes flipped, overwritten, dropped, doubled, cut off, also inside of zips. Each must give a
text without forbidden characters, or a LoadError, within the limits of `[loading]`. Everything else
ends the run with exit status 1, with seed and number, so that it can be had again (`--only NUMBER`).
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from kb.errors import LoadError
from kb.ingest.walk import FoundFile
from kb.ingest.workers import Workers
from kb.loading import loader_suffixes
from kb.records import Document
from kb.settings import LoadingSection
from tests.damage import damaged

ROOT = Path(__file__).resolve().parents[1]
FORBIDDEN = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
LIMITS = re.compile(r"\[loading\]|the process that read it")
"""Reasons that name a limit, or a parser that crashed: such files are told, though they cost nothing else."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one damaged file."""

    number: int
    original: Path
    kind: str
    """text, refused, limit or FAULT."""
    detail: str = ""


def originals(folders: Sequence[Path]) -> list[Path]:
    """All files that a loader reads, in a fixed order."""
    suffixes = loader_suffixes()
    found = (path for folder in folders for path in sorted(folder.rglob("*")))
    return [path for path in found if path.suffix.lower() in suffixes and path.is_file()]


def outcomes(files: Sequence[Path], numbers: Sequence[int], seed: int, section: LoadingSection) -> Iterator[Outcome]:
    """Damage and read; results come in the order of `numbers`."""
    waiting: deque[tuple[int, Path, Path, Callable[[], Document]]] = deque()
    with tempfile.TemporaryDirectory() as folder, Workers(section, {}) as workers:
        for number in numbers:
            rnd = random.Random(f"{seed}/{number}")
            original = files[number % len(files)]
            copy = Path(folder, f"{number}{original.suffix}")
            copy.write_bytes(damaged(original.read_bytes(), rnd))
            status = copy.stat()
            file = FoundFile(copy, copy.name, status.st_size, status.st_mtime_ns)
            waiting.append((number, original, copy, workers.begin(file)))
            if len(waiting) >= workers.ahead:
                yield _outcome(*waiting.popleft())
        while waiting:
            yield _outcome(*waiting.popleft())


def _outcome(number: int, original: Path, copy: Path, wait: Callable[[], Document]) -> Outcome:
    try:
        document = wait()
    except LoadError as error:
        if "please report" in error.reason:
            return Outcome(number, original, "FAULT", error.reason)
        return Outcome(number, original, "limit" if LIMITS.search(error.reason) else "refused", error.reason)
    finally:
        copy.unlink()
    bad = FORBIDDEN.search(document.text)
    if bad:
        return Outcome(number, original, "FAULT", f"{bad.group()!r} in its text")
    return Outcome(number, original, "text")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folders", nargs="*", type=Path, default=[ROOT / "knowledge_base"])
    parser.add_argument("--inputs", type=int, default=2000, help="how many damaged files")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="this number alone")
    chosen = parser.parse_args(arguments)
    files = originals(chosen.folders)
    numbers = [chosen.only] if chosen.only is not None else list(range(chosen.inputs))
    started, tally, told = time.perf_counter(), Counter[str](), []
    for outcome in tqdm(
        outcomes(files, numbers, chosen.seed, LoadingSection()), total=len(numbers), disable=not sys.stderr.isatty()
    ):
        tally[outcome.kind] += 1
        if outcome.kind in ("limit", "FAULT"):
            told.append(f"{outcome.kind} {chosen.seed}/{outcome.number} {outcome.original.name}: {outcome.detail}")
    print("\n".join(told))
    seconds = time.perf_counter() - started
    print(f"{len(numbers)} damaged files of {len(files)}, seed {chosen.seed}, {seconds:.0f} s: {dict(tally)}")
    return 1 if tally["FAULT"] else 0


if __name__ == "__main__":
    sys.exit(main())
