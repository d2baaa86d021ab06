"""The ledger of a collection, to be written by maintenance while no ingest runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kb.ingest.lock import write_lock
from kb.ledger.ledger import Ledger, nothing_ingested
from kb.ledger.runs import LastRun
from kb.ledger.schema import LEDGER_FILE

if TYPE_CHECKING:
    from kb.errors import NothingIngestedError
    from kb.opening import CollectionStore


@contextmanager
def locked(store: CollectionStore, work: str) -> Iterator[Ledger]:
    """Hold the write lock of a collection that is there, for `work`.

    Raises:
        NothingIngestedError: there is no such collection.
        LockedError: someone else is writing.
        LedgerError: the ledger cannot be opened.
    """
    if not (store.folder / LEDGER_FILE).exists():
        raise nothing_in(store)
    with write_lock(store.folder, work) as lock, Ledger(store.folder) as ledger:
        died = lock.died
        if died.work == "ingest":
            # Its name goes with the lock that is taken over, so from now on the ledger knows.
            ledger.set_last_run(LastRun(died.since or "", 0.0, "died", died.holder or ""))
        yield ledger


def nothing_in(store: CollectionStore) -> NothingIngestedError:
    """Say that there is no such collection, or that nothing was ingested into it."""
    return nothing_ingested(store.settings.collection, store.settings.data_dir, store.ingest_command(None))
