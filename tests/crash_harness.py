"""Rounds of random edits and ingests that are killed, and what has to be so after them.

A round edits the folder, lets one ingest die at a random moment and others at named steps, each going on
from where the last one died. After the last round one ingest ends, and its ledger and its store must hold
what a fresh build of the same documents holds.
"""

from __future__ import annotations

import json
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kb.errors import NothingIngestedError
from kb.ledger.generations import Generation
from kb.ledger.ledger import Ledger
from kb.ledger.names import collection_slug
from tests.crash_steps import BESIDE, COMMIT, STATEMENT, STEPS
from tests.fork_server import ForkServer
from tests.random_edits import RandomFolder

TASKS = "tests.crash_tasks"
DIMENSIONS = (32, 48)
SIZES = (24, 40)
_MOST_TRIES = 4
_PROCESS_SECONDS = 1.5
"""What a process for the store takes to start."""

# What makes an ingest come by a step; for all other steps a text that is rewritten.
_NEEDS = {
    "generation begun": "rebuild",
    "generation swapped": "rebuild",
    "left-over deleted": "rebuild",
    "file touched": "touch",
    "failure recorded": "spoil",
    "document removed": "delete",
    "store delete": "delete",
    "rows forgotten": "delete",
    "all rows forgotten": "other store",
    "rows put back": "lose store",
    "marker taken away": "lose store",
}


@dataclass(frozen=True)
class Kill:
    """Where an ingest dies: `before`, `during` or `after` a call of a step, or before a statement of SQL."""

    step: str
    moment: str
    call: int = 1


class CrashRounds:
    """A collection that is edited and killed, below an empty `folder`."""

    def __init__(self, server: ForkServer, folder: Path, seed: int) -> None:
        self._server = server
        self._folder = folder
        self._choose = random.Random(seed)
        self._documents = RandomFolder(folder / "documents", self._choose)
        self._dimension, self._size = DIMENSIONS[0], SIZES[0]
        self._seconds = 0.3
        self._healthy = False
        """Whether the store is complete, so that questions can be asked."""
        self._in_flight: list[int] = []
        """The lines of the embedder's log that were written last before a kill."""
        self.killed: Counter[str] = Counter()
        self.ended = 0

    def round(self, kills: Sequence[Kill]) -> None:
        """Edit, die once at a random moment, and once at each of `kills`."""
        for _ in range(self._choose.randint(1, 4)):
            self._documents.edit()
        if self._choose.random() < 0.2:
            self._size = self._choose.choice(SIZES)
        if self._choose.random() < 0.15:
            self._dimension = self._choose.choice(DIMENSIONS)
        self._ingest_until(self._choose.uniform(0.0, self._seconds))
        for kill in kills:
            self._die_at(kill)
        self._check_readers()

    def finish(self) -> None:
        """Go on once more, without dying; then everything has to be right."""
        self._documents.mend()
        self._ingest_to_the_end()
        self._check_readers()
        fresh = {"folder": str(self._folder), "data": "fresh", "dimension": self._dimension, "size_tokens": self._size}
        assert self._server.call(f"{TASKS}:ingest", **fresh)["failed"] == 0
        found = self._server.call(f"{TASKS}:compare", folder=str(self._folder), dimension=self._dimension)
        assert found == [], "\n".join(found)
        again = self._ingest_to_the_end()
        assert (again["indexed"], again["embedded"], again["removed"]) == (0, 0, 0), again
        self._check_embedded_once()

    def _die_at(self, kill: Kill) -> None:
        """Let an ingest die there; one that never comes by ends, and the next one tries."""
        for _ in range(_MOST_TRIES):
            rebuild = self._prepare(_NEEDS.get(kill.step, "rewrite"))
            if (
                self._ingest(rebuild=rebuild, beside=kill.step in BESIDE, kill=[kill.step, kill.moment, kill.call])
                is None
            ):
                self.killed[kill.step] += 1
                return
            kill = Kill(kill.step, kill.moment)
        raise AssertionError(f"no ingest came by the step {kill.step!r}")

    def _prepare(self, need: str) -> bool:
        """Give the next ingest something to do; whether it has to rebuild."""
        if need == "lose store":
            self._healthy = False
            shutil.rmtree(self._folder / "data" / collection_slug("knowledge_base") / "generations", ignore_errors=True)
        elif need == "other store":
            self._ingest_to_the_end(store="memory")
        elif need != "rebuild":
            self._documents.edit(need)
        return need == "rebuild"

    def _ingest_to_the_end(self, store: str = "chroma") -> dict[str, Any]:
        report = self._ingest(store=store)
        assert report is not None, "nobody has killed it"
        return report

    def _ingest(
        self, *, store: str = "chroma", rebuild: bool = False, beside: bool = False, kill: Sequence[Any] = ()
    ) -> dict[str, Any] | None:
        """Run an ingest; its report, or None when it was killed."""
        started = time.perf_counter()
        child = self._server.start(f"{TASKS}:ingest", **self._arguments(store, rebuild), beside=beside, kill=list(kill))
        report = self._judge(*child.wait())
        if report is not None:
            self._seconds = max(self._seconds, time.perf_counter() - started)
            self._healthy = store == "chroma"
        return report

    def _ingest_until(self, seconds: float) -> None:
        beside = self._choose.random() < 0.3
        arguments = self._arguments("chroma", rebuild=self._choose.random() < 0.1)
        child = self._server.start(f"{TASKS}:ingest", **arguments, beside=beside)
        time.sleep(seconds + beside * self._choose.uniform(0.0, _PROCESS_SECONDS))
        child.signal(signal.SIGKILL)
        if self._judge(*child.wait()) is not None:
            self._healthy = True

    def _arguments(self, store: str, rebuild: bool) -> dict[str, Any]:
        built = self._built_with()
        other = built is not None and built != self._dimension
        return {
            "folder": str(self._folder),
            "store": store,
            "dimension": self._dimension,
            "size_tokens": self._size,
            "rebuild": rebuild or other,
        }

    def _judge(self, status: int, report: Any) -> dict[str, Any] | None:
        """Look at what an ingest has left, however it ended."""
        assert status in (0, -signal.SIGKILL), f"an ingest ended with {status}"
        self._check_documents()
        if status == 0:
            self.ended += 1
            given: dict[str, Any] = report
            return given
        self.killed["anywhere"] += 1
        self._in_flight.append(len(self._embedded()) - 1)
        return None

    # ── what has to be so ──

    def _built_with(self) -> int | None:
        with self._opened() as opened:
            return None if opened is None else opened[1].dimension

    @contextmanager
    def _opened(self) -> Iterator[tuple[Ledger, Generation] | None]:
        """The ledger as a reader opens it, with the current generation; None while there is none."""
        try:
            ledger = Ledger(self._folder / "data" / collection_slug("knowledge_base"), read_only=True)
        except NothingIngestedError:
            yield None
            return
        with ledger:
            generation = ledger.current_generation()
            yield None if generation is None else (ledger, generation)

    def _check_documents(self) -> None:
        """Each document is one that was written, and its chunks are all of it."""
        with self._opened() as opened:
            if opened is None:
                return
            ledger, generation = opened
            covered: dict[str, set[int]] = {}
            for live in ledger.all_chunks(generation.number):
                covered.setdefault(live.chunk.document_id, set()).update(range(live.chunk.start, live.chunk.end))
            for document_id in ledger.document_ids(generation.number):
                document = ledger.document(generation.number, document_id)
                assert document is not None
                assert document.text.strip() in {text.strip() for text in self._documents.texts}, document.path
                wanted = {at for at, character in enumerate(document.text) if not character.isspace()}
                assert wanted <= covered.get(document_id, set()), f"chunks of {document.path} are missing"

    def _check_readers(self) -> None:
        """Questions are answered, whatever has died."""
        built = self._built_with()
        if self._healthy and built is not None:
            found = self._server.call(f"{TASKS}:search", folder=str(self._folder), dimension=built)
            assert found == [], "\n".join(found)

    def _check_embedded_once(self) -> None:
        """No text was embedded a second time, unless its batch was on its way when an ingest was killed."""
        paid: set[tuple[str, str]] = set()
        for number, (embedder, texts) in enumerate(self._embedded()):
            keys = {(embedder, text) for text in texts}
            assert len(keys) == len(texts), "a text stands twice in one batch"
            assert not keys & paid, f"batch {number}: {len(keys & paid)} texts were paid for before"
            if number not in self._in_flight:
                paid |= keys

    def _embedded(self) -> list[tuple[str, list[str]]]:
        log = self._folder / "data.embedded"
        if not log.exists():
            return []
        lines = (json.loads(line) for line in log.read_text("utf-8").splitlines())
        return [(line["embedder"], line["texts"]) for line in lines]


ALL_KILLS = (
    *(Kill(step, moment) for step in STEPS for moment in ("before", "during", "after")),
    *(Kill(step, "before") for step in (COMMIT, STATEMENT)),
)
"""Every step with every moment at which a process can die there."""


def random_kills(choose: random.Random, kills: Sequence[Kill]) -> Iterator[Kill]:
    """All of `kills` again and again, each time in another order and at other calls."""
    while True:
        for kill in choose.sample(kills, len(kills)):
            most = 150 if kill.step == STATEMENT else 4
            yield Kill(kill.step, kill.moment, choose.randint(1, most))


def new_server() -> ForkServer:
    """A server that has imported what an ingest needs."""
    return ForkServer(TASKS)
