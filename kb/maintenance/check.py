"""Comparing the ledger with the vector store, without being taken along when the store crashes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kb.errors import KbError
from kb.maintenance import _check_main
from kb.maintenance.locked import locked, nothing_in
from kb.maintenance.status import store_fault

if TYPE_CHECKING:
    from kb.ledger.generations import Generation
    from kb.ledger.ledger import Ledger
    from kb.opening import CollectionStore

_LEAST_SECONDS = 60.0
_SECONDS_A_CHUNK = 0.002
"""Reading all ids and loading the index take a tenth of this; a process that needs longer hangs."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong."""

    what: str
    mend: str
    """The command that mends it, or what to do."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check found."""

    chunks: int
    sampled: int
    """Chunks whose vector, source and place were compared, and that were searched for."""
    faults: tuple[Fault, ...]
    """None when all is well."""


def check(store: CollectionStore) -> Checked:
    """Compare ledger and store: counts, ids, a sample of vectors and places, and whether the sample is found.

    The store is opened in a process of its own, as damaged files can end or hang the process that opens them;
    but here when it serves one process at a time, which may be this one.

    Raises:
        NothingIngestedError: there is nothing to check.
        LockedError: an ingest is running, so they differ for a moment.
        LedgerError: the ledger cannot be opened.
        KbError: the process could not be started.
    """
    with locked(store, "check") as ledger:
        if damaged := ledger.faults():
            mend = (
                f"the export of a better day ({store.import_command}), or move {store.folder} away and ingest again: "
                f"{store.ingest_command(None)}"
            )
            return Checked(0, 0, tuple(Fault(f"the ledger is damaged: {fault}", mend) for fault in damaged))
        current = ledger.current_generation()
        if current is None:
            raise nothing_in(store)
        faults = list(_of_ledger(ledger, current, store))
        chunks, sampled = ledger.counts(current.number).chunks, 0
        of_store: list[str] = []
        if fault := store_fault(ledger, current, store):
            of_store.append(fault)
        elif chunks:
            of_store, sampled = _here(store) if store.in_one_process else _of_store(store, chunks)
    repair = store.status_command("--repair")
    return Checked(chunks, sampled, (*faults, *(Fault(what, repair) for what in of_store)))


def _of_ledger(ledger: Ledger, generation: Generation, store: CollectionStore) -> Iterator[Fault]:
    ingest = store.ingest_command(ledger.root())
    chunks, covered = ledger.counts(generation.number).chunks, ledger.chunks_with_vector(generation.number)
    if covered < chunks:
        yield Fault(f"{chunks - covered:,} of {chunks:,} chunks have no vector in the ledger", ingest)
    if wrong := list(_wrong_spans(ledger, generation)):
        what = f"{len(wrong):,} chunks are not what stands at their place in their document, {wrong[0]} the first"
        yield Fault(what, store.ingest_command(ledger.root(), rebuild=True))
    if unsynced := sum(1 for _ in ledger.unsynced_chunks(generation.number)):
        yield Fault(f"{unsynced:,} chunks may not be in the store as they are in the ledger", ingest)


def _wrong_spans(ledger: Ledger, generation: Generation) -> Iterator[str]:
    sample = ledger.live_chunks(generation.number, ledger.sample_ids(generation.number, _check_main.SAMPLE))
    for live in sample.values():
        document = ledger.document(generation.number, live.chunk.document_id)
        if document is None or document.text[live.chunk.start : live.chunk.end] != live.chunk.text:
            yield live.chunk.id


def _here(store: CollectionStore) -> tuple[list[str], int]:
    told = _check_main.look(store)
    return told["problems"], told["sampled"]


def _of_store(store: CollectionStore, chunks: int) -> tuple[list[str], int]:
    """Ask a child process."""
    # As it is here: the program may have been started from its folder, or have put another one there itself.
    path, home = [os.path.abspath(entry) for entry in sys.path], str(Path(_check_main.__file__).parents[2])
    asked = {
        "path": path if home in path else [*path, home],
        "config": None if store.origins.config is None else str(store.origins.config),
        "overrides": {
            "collection": store.settings.collection,
            "data_dir": str(store.settings.data_dir),
            "store": store.settings.store.model_dump(mode="json"),
        },
    }
    seconds = _LEAST_SECONDS + _SECONDS_A_CHUNK * chunks
    try:
        done = subprocess.run(
            [sys.executable, "-P", str(Path(_check_main.__file__))],
            input=json.dumps(asked).encode(),
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return [f"the store {store.name!r} did not answer within {seconds:,.0f} seconds: its files may be damaged"], 0
    except OSError as error:
        raise KbError(f"the process that looks at the store cannot be started: {error.strerror}") from error
    if done.returncode == 0:
        try:
            told = json.loads(done.stdout)
            return [str(problem) for problem in told["problems"]], int(told["sampled"])
        except (ValueError, KeyError, TypeError):
            pass
    return [f"the process that looked at the store {store.name!r} {_how_it_ended(done)}"], 0


def _how_it_ended(done: subprocess.CompletedProcess[bytes]) -> str:
    if done.returncode < 0:
        try:
            name = signal.Signals(-done.returncode).name
        except ValueError:
            name = f"signal {-done.returncode}"
        return f"crashed ({name}): its files are damaged"
    last = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
    return f"ended with status {done.returncode}: {last[:500] or 'it said nothing'}"
