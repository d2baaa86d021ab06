"""Filling a vector store anew from the ledger, beside the old one, without an embedding."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kb.components import StoreRow
from kb.errors import KbError, StoreError
from kb.ingest.left_over import delete_left_over
from kb.ingest.paid_embedding import batches
from kb.ledger.in_step import remember_begun, remember_filled
from kb.maintenance.locked import locked, nothing_in

if TYPE_CHECKING:
    from kb.ledger.generations import Generation
    from kb.ledger.ledger import Ledger
    from kb.opening import CollectionStore


@dataclass(frozen=True, slots=True)
class Repaired:
    """What a repair did."""

    chunks: int
    """Now in the store."""
    without_vector: int
    """Chunks whose vector is not in the ledger; the next ingest embeds them."""


def repair(store: CollectionStore, on_stored: Callable[[int], None] = lambda chunks: None) -> Repaired:
    """Build the current generation's store anew, with the configured options, and go over to it.

    Until then questions are answered from the old one, as far as it can. Whatever ends the repair
    leaves the old store or the new one; what it left of the other is deleted by the next run.

    Args:
        store: The collection's store.
        on_stored: Told how many more chunks are in it.

    Raises:
        NothingIngestedError: there is nothing to fill a store from.
        LockedError: an ingest is running.
        KbError: the store or the ledger failed; the collection is as it was.
    """
    with locked(store, "repair") as ledger:
        current = ledger.current_generation()
        if current is None:
            raise nothing_in(store)
        new = replace(current, number=ledger.reserve_generation())
        with taken_back(ledger, store):
            stored = fill(ledger, current, new, store, on_stored)
            ledger.renumber_generation(current.number, new.number)
        delete_left_over(ledger, store)
        return Repaired(stored, ledger.counts(new.number).chunks - stored)


def fill(
    ledger: Ledger,
    source: Generation,
    target: Generation,
    store: CollectionStore,
    on_stored: Callable[[int], None] = lambda chunks: None,
) -> int:
    """Write every live chunk that has a vector into a store that is new and empty.

    Args:
        ledger: The ledger.
        source: The generation whose chunks they are.
        target: The generation under whose number the store is.
        store: The collection's store.
        on_stored: Told how many more chunks are in it.

    Returns:
        How many they are.

    Raises:
        StoreError: it failed, or does not hold them afterwards.
    """
    folder = ledger.generation_folder(target)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{folder} cannot be made: {error.strerror}") from error
    written = 0
    try:
        store_opened = store.open(target, folder, ledger.root())
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)  # nothing was written, so no server has to be asked to delete it
        raise
    with closing(store_opened) as opened:
        remember_begun(folder, store.name)
        for batch in batches(rows_of(ledger, source), store.settings.ingest.batch_chunks):
            opened.upsert(batch)
            written += len(batch)
            on_stored(len(batch))
        held = opened.count()
    if held != written:
        raise StoreError(
            f"the store {store.name!r} holds {held:,} rows after {written:,} were written to it; nothing was changed. "
            "Try again, or choose another store"
        )
    remember_filled(folder, store.name)
    return written


def rows_of(ledger: Ledger, generation: Generation) -> Iterator[StoreRow]:
    """Every live chunk that has a vector, as a store is given it."""
    for batch in batches(ledger.all_chunks(generation.number), 256):
        vectors = ledger.known_vectors(generation.fingerprint, [live.text_hash for live in batch])
        for live in batch:
            if live.text_hash in vectors:
                yield StoreRow(live.chunk, live.source, vectors[live.text_hash])


@contextmanager
def taken_back(ledger: Ledger, store: CollectionStore) -> Iterator[None]:
    """Delete a new store after an error; what a crash leaves, the next run deletes."""
    try:
        yield
    except BaseException:
        with suppress(KbError):
            delete_left_over(ledger, store)
        raise
