"""Many rounds of edits and killed ingests: `python -m benchmarks.crash_rounds --rounds 200 --seed 1`.

In each round random edits are made in a folder, one ingest is killed with SIGKILL at a random moment, and two
more before, during or after a named step, each going on from where the last one died; then questions are asked.
Every twenty rounds an ingest ends, and ledger and store are compared with those of a fresh build, chunk for
chunk and vector for vector. It stops at the first difference and says the seed.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.crash_harness import ALL_KILLS, CrashRounds, new_server, random_kills

KILLS_A_ROUND = 2
ROUNDS_A_FOLDER = 20
"""Then a new folder is begun: a first ingest dies otherwise than a later one."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200, help="%(default)s")
    parser.add_argument("--seed", type=int, default=1, help="%(default)s")
    options = parser.parse_args()
    kills = random_kills(random.Random(options.seed), ALL_KILLS)
    started = time.perf_counter()
    killed = ended = 0
    steps: set[str] = set()
    with new_server() as server, tempfile.TemporaryDirectory(prefix="kb-crash-") as folder:
        for first in range(0, options.rounds, ROUNDS_A_FOLDER):
            seed = options.seed * 1000 + first
            rounds = CrashRounds(server, Path(folder, str(first)), seed)
            try:
                for _ in range(min(ROUNDS_A_FOLDER, options.rounds - first)):
                    rounds.round([next(kills) for _ in range(KILLS_A_ROUND)])
                rounds.finish()
            except AssertionError:
                sys.stderr.write(f"--seed {options.seed}, rounds {first} to {first + ROUNDS_A_FOLDER - 1}:\n")
                raise
            killed += rounds.killed["anywhere"]
            ended += rounds.ended
            steps |= rounds.killed.keys() - {"anywhere"}
    print(
        f"{options.rounds} rounds: {killed} ingests killed, {ended} ended, at {len(steps)} steps; ledger, "
        f"store and a fresh build agree, no text was embedded twice; {time.perf_counter() - started:.0f} s"
    )


if __name__ == "__main__":
    main()
