"""A server under load: `python -m benchmarks.web_load [--part steady saturation memory uploads]`.

The sample documents with the embedded default, asked the golden questions by connections of this process, which takes
its share of the same processors. Each answer is compared with what the knowledge base itself says.

- steady: 64 connections, each asking once in ten seconds, for a minute; and one client alone before, when all is warm.
- saturation: 128 connections that ask again at once, or after Retry-After, against what one client alone gets.
- memory: eight connections without a pause for ten minutes; memory of all processes, every ten seconds.
- uploads: uploads and questions, the server killed (SIGKILL) in between; each upload that was acknowledged has to be
  there, and found, when it runs again.

It fails when a goal is missed. Nothing else may run meanwhile. Linux only.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from threading import Event, Thread
from typing import Any

import httpx

from benchmarks._web_client import Connection, Outcome
from kb.evaluation.golden import load_questions
from kb.knowledge_base import KnowledgeBase
from kb.processors import processors

ROOT = Path(__file__).parents[1]
SAMPLES = ROOT / "knowledge_base"
GOLDEN = ROOT / "tests" / "golden" / "questions.toml"
HOST = "127.0.0.1"
CONNECTIONS, EVERY_SECONDS, STEADY_SECONDS = 64, 10.0, 60.0
SATURATING, SATURATION_SECONDS = 128, 30.0
HITS_FACTOR, THROUGHPUT_SHARE, GROWTH_MEGABYTES = 5.0, 0.8, 30.0
ALONE = 2
"""So often one client alone asks all questions."""
KILLS = 5

Expected = dict[str, tuple[str, list[Any]]]


def main() -> int:
    """Measure, print, and give 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parts = {"steady": steady, "saturation": saturation, "memory": memory, "uploads": uploads}
    parser.add_argument("--part", nargs="+", choices=parts, default=list(parts))
    parser.add_argument("--minutes", type=float, default=10.0, help="of the part memory")
    options = parser.parse_args()
    missed = False
    with tempfile.TemporaryDirectory(prefix="kb-load-") as folder:
        base = Path(folder)
        expected = prepared(base)
        for part in options.part:
            missed |= not parts[part](base, expected, options.minutes)
    return int(missed)


def prepared(folder: Path) -> Expected:
    """Ingest the samples; what the knowledge base answers to each golden question, without a server."""
    (folder / "config.toml").write_text(f'documents_dir = "{SAMPLES}"\ndata_dir = "data"\n')
    with KnowledgeBase.open(folder / "config.toml") as base:
        base.ingest()
        return {
            one.question: (answer.text, [(c.number, c.source, c.start, c.end) for c in answer.citations])
            for one in load_questions(GOLDEN)
            for answer in [base.chat().ask(one.question)]
        }


@contextmanager
def server(folder: Path, **variables: str) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """Run one; its port and its process."""
    process = subprocess.Popen(
        [sys.executable, "-m", "kb.serve", "--port", "0"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "KB_WEB__REQUESTS_PER_MINUTE": "0", **variables},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        said = (re.search(r"kb answers at \S+:(\d+)/", line) for line in process.stderr)  # after notes on a killed run
        found = next(filter(None, said), None)
        assert found is not None, "the server did not start"
        Thread(target=process.stderr.read, daemon=True).start()
        port = int(found[1])
        time.sleep(3)  # until the other processes can be asked as well
        yield port, process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def fault_of(outcome: Outcome, question: str, expected: Expected) -> str | None:
    """What is wrong with an answer; None when it is the one to this question."""
    if outcome.status != 200 or outcome.faults or outcome.done is None:
        return f"status {outcome.status} {outcome.faults}"
    cited = [(c["number"], c["source"], c["start"], c["end"]) for c in outcome.done["citations"]]
    same = (outcome.done["question"], outcome.done["text"], cited) == (question, *expected[question])
    return None if same else f"another answer: {question!r}: {outcome.done['text']!r}"


async def alone(port: int, expected: Expected) -> tuple[float, float]:
    """One client asks all questions, one after the other: p95 until the hits, and questions a second.

    Each process has met them before, as what it has computed for one it remembers for a while.
    """
    await asyncio.gather(*(_each(port, list(expected)) for _ in range(2 * processors())))
    started = time.perf_counter()
    outcomes = await _each(port, list(expected) * ALONE)
    rate = len(outcomes) / (time.perf_counter() - started)
    return p95([one.hits_seconds for one in outcomes]), rate


async def _each(port: int, questions: list[str]) -> list[Outcome]:
    connection = await Connection.open(HOST, port)
    outcomes = [await connection.ask(question) for question in questions]
    connection.close()
    return outcomes


def p95(seconds: list[float]) -> float:
    """The 95th percentile."""
    return quantiles(seconds, n=20)[18]


def steady(folder: Path, expected: Expected, _: float) -> bool:
    """Many who read; see the top."""

    async def reader(port: int, index: int, outcomes: list[tuple[Outcome, str | None]]) -> None:
        chance = random.Random(index)
        connection = await Connection.open(HOST, port)
        begun = time.perf_counter()
        for turn in range(int(STEADY_SECONDS / EVERY_SECONDS)):
            due = begun + (turn + chance.random()) * EVERY_SECONDS
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            question = chance.choice(list(expected))
            outcome = await connection.ask(question)
            outcomes.append((outcome, fault_of(outcome, question, expected)))
        connection.close()

    async def measured(port: int) -> tuple[float, list[tuple[Outcome, str | None]]]:
        one, _ = await alone(port, expected)
        outcomes: list[tuple[Outcome, str | None]] = []
        await asyncio.gather(*(reader(port, index, outcomes) for index in range(CONNECTIONS)))
        return one, outcomes

    with server(folder) as (port, _process):
        one, outcomes = asyncio.run(measured(port))
    faults = [fault for _, fault in outcomes if fault]
    hits = [outcome.hits_seconds for outcome, _ in outcomes]
    print(
        f"steady: {CONNECTIONS} connections, {len(outcomes)} answers, {len(faults)} faults; until the hits "
        f"median {1000 * median(hits):.0f} ms, p95 {1000 * p95(hits):.0f} ms; one client alone p95 "
        f"{1000 * one:.0f} ms, so {p95(hits) / one:.1f} × (goal {HITS_FACTOR:g})"
    )
    print(*faults[:3], sep="\n", end="\n" if faults else "")
    return not faults and p95(hits) <= HITS_FACTOR * one


def saturation(folder: Path, expected: Expected, _: float) -> bool:
    """More than can be answered; see the top."""
    statuses: Counter[int] = Counter()
    faults: list[str] = []

    async def reader(port: int, index: int, until: float) -> None:
        chance = random.Random(index)
        connection = await Connection.open(HOST, port)
        while time.perf_counter() < until:
            question = chance.choice(list(expected))
            outcome = await connection.ask(question)
            statuses[outcome.status] += 1
            if outcome.status in (429, 503):
                if outcome.retry_after is None:
                    faults.append(f"{outcome.status} without Retry-After")
                await asyncio.sleep(outcome.retry_after or 1.0)
            elif fault := fault_of(outcome, question, expected):
                faults.append(fault)
        connection.close()

    async def measured(port: int) -> tuple[float, float]:
        _, one = await alone(port, expected)
        started = time.perf_counter()
        await asyncio.gather(*(reader(port, n, started + SATURATION_SECONDS) for n in range(SATURATING)))
        return one, statuses[200] / (time.perf_counter() - started)

    with server(folder) as (port, _process):
        one, rate = asyncio.run(measured(port))
    share = rate / (one * processors())
    print(
        f"saturation: {SATURATING} connections, {rate:.1f} answers a second, {dict(statuses)}, {len(faults)} faults; "
        f"one client alone {one:.1f} a second, so {100 * share:.0f} % of that × {processors()} processors "
        f"(goal {100 * THROUGHPUT_SHARE:g} %)"
    )
    print(*faults[:3], sep="\n", end="\n" if faults else "")
    return not faults and statuses[503] + statuses[429] > 0 and share >= THROUGHPUT_SHARE


def memory(folder: Path, expected: Expected, minutes: float) -> bool:
    """Whether memory grows; see the top."""
    taken: list[float] = []

    async def reader(port: int, index: int, until: float) -> int:
        chance = random.Random(index)
        connection = await Connection.open(HOST, port)
        asked = 0
        while time.perf_counter() < until:
            await connection.ask(chance.choice(list(expected)))
            asked += 1
        connection.close()
        return asked

    async def watch(pid: int, until: float) -> None:
        while time.perf_counter() < until:
            taken.append(megabytes(pid))
            await asyncio.sleep(10)

    async def measured(port: int, pid: int) -> int:
        until = time.perf_counter() + 60 * minutes
        counts = await asyncio.gather(*(reader(port, index, until) for index in range(8)), watch(pid, until))
        return sum(filter(None, counts))

    with server(folder) as (port, process):
        answers = asyncio.run(measured(port, process.pid))
    # The first tenth loads what is kept.
    begin, end = median(taken[len(taken) // 10 :][:6]), median(taken[-6:])
    print(
        f"memory: {answers:,} answers in {minutes:g} minutes; {begin:.0f} MB after the first tenth, {end:.0f} MB "
        f"at the end, {max(taken):.0f} MB at most (goal: it grows by no more than {GROWTH_MEGABYTES:g} MB)"
    )
    return end - begin <= GROWTH_MEGABYTES


def megabytes(pid: int) -> float:
    """Resident memory of a process and its children; what they share is counted once (PSS)."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    total = 0
    for one in (str(pid), *children):
        found = re.search(r"^Pss:\s+(\d+)", Path(f"/proc/{one}/smaps_rollup").read_text(), re.MULTILINE)
        assert found is not None
        total += int(found[1])
    return total / 1024


def uploads(folder: Path, expected: Expected, _: float) -> bool:
    """Whether a kill loses what was acknowledged; see the top."""
    own = folder / "uploading"
    (own / "documents").mkdir(parents=True)
    (own / "config.toml").write_text('documents_dir = "documents"\ndata_dir = "data"\n')
    acknowledged: dict[str, str] = {}
    for kill in range(KILLS):
        with server(own) as (port, process):
            stop = Event()
            threads = [Thread(target=_upload, args=(port, f"{kill}-{n}", acknowledged, stop)) for n in range(4)]
            threads += [Thread(target=_ask_on, args=(port, list(expected), stop)) for _ in range(4)]
            for thread in threads:
                thread.start()
            time.sleep(random.Random(kill).uniform(2, 4))
            process.kill()
            stop.set()
            for thread in threads:
                thread.join()
    with server(own) as (port, _process), httpx.Client(base_url=f"http://{HOST}:{port}", trust_env=False) as client:
        until = time.monotonic() + 300
        while client.get("/status").json()["ingesting"] and time.monotonic() < until:
            time.sleep(0.5)
        lost = [word for document, word in acknowledged.items() if not _is_found(client, document, word)]
    print(f"uploads: {KILLS} kills, {len(acknowledged)} uploads acknowledged, {len(lost)} lost")
    return bool(acknowledged) and not lost


def _upload(port: int, name: str, acknowledged: dict[str, str], stop: Event) -> None:
    for number in itertools.count():
        if stop.is_set():
            return
        word = f"zanzibar{name.replace('-', 'x')}x{number}"
        file = (f"{word}.md", f"# Note {word}\n\nThe code of this note is {word}.\n".encode())
        try:
            told = httpx.post(f"http://{HOST}:{port}/documents", files={"file": file}, trust_env=False, timeout=30)
        except httpx.HTTPError:
            return
        assert told.status_code == 201, told.text
        acknowledged[told.json()["document"]["id"]] = word


def _ask_on(port: int, questions: list[str], stop: Event) -> None:
    for question in itertools.cycle(questions):
        if stop.is_set():
            return
        try:
            httpx.post(f"http://{HOST}:{port}/ask", json={"question": question}, trust_env=False, timeout=30)
        except httpx.HTTPError:
            return


def _is_found(client: httpx.Client, document: str, word: str) -> bool:
    told = client.get(f"/documents/{document}")
    if told.status_code != 200 or told.json()["status"] != "indexed":
        return False
    found = client.get("/search", params={"q": f"What is the code {word}?"})
    return word in json.dumps(found.json())


if __name__ == "__main__":
    sys.exit(main())
