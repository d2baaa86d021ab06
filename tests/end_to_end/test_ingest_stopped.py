"""Ctrl-C while an ingest computes or writes: the real command, in a session of its own as on a terminal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kb.ingest.lock import write_lock
from tests.commands import INGEST, command, environment, run
from tests.end_to_end._bases import NUMBERS

STOPS_WITHIN_SECONDS = 2.0
PATIENCE_SECONDS = 90.0
FILES = 30
CHROMA: dict[str, str | None] = {"KB_STORE__USE": "chroma"}
E5: dict[str, str | None] = {"KB_EMBEDDING__USE": "e5", "KB_STORE__USE": "memory"}


def wait_until(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not true():
        assert time.monotonic() < deadline, f"it never came to that: {what}"
        time.sleep(0.02)


def start(cwd: Path, variables: dict[str, str | None], *arguments: str) -> subprocess.Popen[str]:

    return subprocess.Popen(
        command(INGEST, "docs", "--log-json", "log.jsonl", *arguments),
        cwd=cwd,
        env=environment(**variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def session_is_empty(leader: int) -> bool:
    try:
        os.killpg(leader, 0)
    except ProcessLookupError:
        return True
    return False


def events(cwd: Path) -> list[dict[str, Any]]:
    log = cwd / "log.jsonl"
    return [json.loads(line) for line in log.read_text("utf-8").splitlines()] if log.exists() else []


def has_happened(cwd: Path, name: str) -> bool:
    return any(event["event"] == name for event in events(cwd))


# All is one batch of 180 chunks: with e5 ten seconds' work.
@pytest.mark.parametrize(
    ("variables", "moment", "later_seconds"),
    [(E5, "planned", 1.5), (CHROMA, "store opened", 0.02)],
    ids=["embedding", "writing to the store"],
)
def test_ctrl_c_stops_within_two_seconds_and_the_same_command_goes_on(
    tmp_path: Path, variables: dict[str, str | None], moment: str, later_seconds: float
) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    for number in range(FILES):
        paragraphs = (
            f"## Part {part} of {number}\n\n" + f"{number} parcels wait for {part} " * 20 for part in NUMBERS[:6]
        )
        (docs / f"{number} 文.md").write_text("# Title\n\n" + "\n\n".join(paragraphs), encoding="utf-8")
    process = start(tmp_path, variables)
    with process:
        wait_until(lambda: has_happened(tmp_path, moment), moment)
        time.sleep(later_seconds)
        began = time.monotonic()
        os.killpg(process.pid, signal.SIGINT)
        output, said = process.communicate(timeout=PATIENCE_SECONDS)
        took = time.monotonic() - began
    assert (output, process.returncode) == ("", 130)
    assert said == "interrupted; what was done is kept, the same command goes on from here\n"
    assert took < STOPS_WITHIN_SECONDS
    wait_until(lambda: session_is_empty(process.pid), "no worker process is left")
    with write_lock(tmp_path / "kb_data" / "knowledge_base") as lock:
        assert lock.died.holder is None, "it was told to stop, and let go of the lock"
    assert events(tmp_path)[-1]["event"] == "interrupted"
    if variables is CHROMA:
        report = json.loads(run(INGEST, "docs", "--json", cwd=tmp_path, env=variables).stdout)
        assert (report["unchanged"] + report["indexed"], report["failed"]) == (FILES, 0)
        paid = sum(event["texts"] for event in events(tmp_path) if event["event"] == "texts embedded")
        assert paid > 0
        assert report["embedded"] == report["chunks_total"] - paid
