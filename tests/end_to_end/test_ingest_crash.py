"""Ingests that are killed, at random moments and at every named step, end as ingests that never died."""

from __future__ import annotations

import random
from pathlib import Path

from tests.crash_harness import ALL_KILLS, CrashRounds, new_server
from tests.crash_steps import COMMIT, STATEMENT, STEPS

ROUNDS = 10
SEED = 20
"""`python -m benchmarks.crash_rounds` takes other ones, and twenty times as many rounds."""


def test_after_ten_rounds_of_edits_and_kills_ledger_and_store_are_those_of_a_fresh_build_and_no_text_was_paid_for_twice(
    tmp_path: Path,
) -> None:
    choose = random.Random(SEED)
    kills = [choose.choice([kill for kill in ALL_KILLS if kill.step == step]) for step in (*STEPS, COMMIT, STATEMENT)]
    choose.shuffle(kills)
    with new_server() as server:
        rounds = CrashRounds(server, tmp_path, SEED)
        for number in range(ROUNDS):
            rounds.round(kills[number::ROUNDS])
        rounds.finish()
    assert set(rounds.killed) >= {*STEPS, COMMIT, STATEMENT}, "some step was never died at"
