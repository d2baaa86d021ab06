"""Ingests that are killed, at random moments and at every named step, end as ingests that never died; two at once."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash_harness import ALL_KILLS, TASKS, CrashRounds, new_server
from tests.crash_steps import COMMIT, STATEMENT, STEPS
from tests.end_to_end._bases import NUMBERS, a_text
from tests.fork_server import ForkServer

ROUNDS = 5
SEED = 20
"""`python -m benchmarks.crash_rounds` takes other ones, and forty times as many rounds."""


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with new_server() as started:
        yield started


def test_after_rounds_of_edits_and_kills_ledger_and_store_are_those_of_a_fresh_build_and_no_text_was_paid_for_twice(
    tmp_path: Path, server: ForkServer
) -> None:
    choose = random.Random(SEED)
    kills = [choose.choice([kill for kill in ALL_KILLS if kill.step == step]) for step in (*STEPS, COMMIT, STATEMENT)]
    choose.shuffle(kills)
    rounds = CrashRounds(server, tmp_path, SEED)
    for number in range(ROUNDS):
        rounds.round(kills[number::ROUNDS])
    rounds.finish()
    assert set(rounds.killed) >= {*STEPS, COMMIT, STATEMENT}, "some step was never died at"


def test_of_two_ingests_the_second_is_told_at_once_who_is_at_it_and_after_a_kill_the_next_one_goes_on(
    tmp_path: Path, server: ForkServer
) -> None:
    folder = tmp_path / "documents"
    folder.mkdir()
    for number in NUMBERS:
        (folder / f"{number} 文.md").write_text(a_text([f"zebra {number}"]), encoding="utf-8")
    # It stands still in the middle of its second batch, as one does that waits for a service.
    still = ["vectors into the ledger", "before", 2, signal.SIGSTOP]
    first = server.start(f"{TASKS}:ingest", folder=str(tmp_path), kill=still)
    until = time.monotonic() + 60
    while "T (stopped)" not in Path(f"/proc/{first.pid}/status").read_text("ascii"):
        assert time.monotonic() < until, "it never came to its second batch"
        time.sleep(0.01)
    began = time.monotonic()
    told = server.call(f"{TASKS}:ingest_or_say", folder=str(tmp_path))
    assert told.startswith(f"LockedError: another ingest is writing to this collection (process {first.pid} on ")
    assert time.monotonic() - began < 5.0, "without waiting for it"
    first.signal(signal.SIGKILL)
    assert first.wait()[0] == -signal.SIGKILL
    report = server.call(f"{TASKS}:ingest", folder=str(tmp_path))
    assert (report["unchanged"] + report["indexed"], report["chunks_total"]) == (12, 12)
    assert report["embedded"] == 12 - 3, "its first batch, of three files, was paid for"
    assert sorted(os.listdir(tmp_path / "data" / "knowledge_base")) == ["generations", "ledger.sqlite", "lock"]


def test_rows_that_a_power_cut_took_back_from_the_store_are_put_back_by_a_run_without_changes(
    tmp_path: Path, server: ForkServer
) -> None:
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents" / "a.md").write_text(a_text(NUMBERS), encoding="utf-8")
    told = ["store closed", "before", 1]
    assert server.start(f"{TASKS}:ingest", folder=str(tmp_path), kill=told).wait()[0] == -signal.SIGKILL
    server.call(f"{TASKS}:take_rows_back", folder=str(tmp_path), rows=5)
    report = server.call(f"{TASKS}:ingest", folder=str(tmp_path))
    assert (report["unchanged"], report["embedded"], report["chunks_total"]) == (1, 0, 12)
    server.call(f"{TASKS}:ingest", folder=str(tmp_path), data="fresh")
    assert server.call(f"{TASKS}:compare", folder=str(tmp_path), dimension=32) == []
