"""A process that holds the lock of a collection, as an ingest does."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.commands import ROOT

HOLD = """
import sys
from pathlib import Path
from kb.ingest.lock import write_lock
with write_lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def another_process_holding(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Have it held until the block ends; the process lets go when its stdin is closed."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()
