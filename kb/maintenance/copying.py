"""Copying a collection into another store, without an embedding, to be gone over to by a change of the settings.

The copy is filled from the ledger under a generation number of its own, read back whole and compared. Until the
settings name its store, everything stays as it is; from then on questions are answered from the copy, and the next
ingest goes over to it for good and deletes what the former store holds (`CollectionStore.held`). An ingest that
changes what can be found before that makes the copy out of date, and deletes it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kb.components import component_module
from kb.errors import KbError, StoreError
from kb.ingest.left_over import delete_left_over
from kb.ingest.paid_embedding import batches
from kb.ledger.copies import StoreCopy
from kb.ledger.in_step import filled_store
from kb.maintenance._check_main import searched, some
from kb.maintenance.locked import locked, nothing_in
from kb.maintenance.repair import fill, rows_of, taken_back
from kb.maintenance.status import store_fault
from kb.payloads import expected_row
from kb.settings import ComponentOptions, explain_validation

if TYPE_CHECKING:
    from kb.components import Store, StoreRow
    from kb.ledger.generations import Generation
    from kb.ledger.ledger import Ledger
    from kb.opening import CollectionStore
    from kb.payloads import StoredRow

MOST_DIFFERENCE = 1e-6
"""Of a number of a unit vector: float32 keeps 6e-8 of it, and a store may have scaled it to unit length again."""

_SAMPLE = 50
"""Chunks that are searched for, by vector and by place: all are read back, so this is about the index alone."""


@dataclass(frozen=True, slots=True)
class Copied:
    """What a copy did."""

    store: str
    """Where the copy is."""
    former: str
    """The store that the collection stays in until the settings name the other one."""
    chunks: int
    """Written, read back and compared: id, text, place, vector."""
    without_vector: int
    """Chunks whose vector is not in the ledger; the next ingest embeds them."""
    largest_difference: float
    """Between a number of a vector in the ledger and in the copy; 0 where all are the same bit for bit."""
    searched: int
    """Chunks of an even sample that were searched for in the copy."""
    fill_seconds: float
    verify_seconds: float
    fault: str | None
    """What is wrong at first sight with the store that is in use; the ledger was copied, not that store."""
    settings: Mapping[str, Mapping[str, object]]
    """Tables of config.toml that go over to the copy."""


def copy(
    store: CollectionStore,
    to: str,
    options: Mapping[str, object],
    on_done: Callable[[int], None] = lambda chunks: None,
) -> Copied:
    """Fill another store with the current collection, and compare all of it with the ledger.

    Args:
        store: The collection's store.
        to: The name of the other one; its options are in its section of the settings.
        options: What is other than there.
        on_done: Told how many more chunks are written, and again how many are compared.

    Raises:
        ConfigError: there is no such store, or no such option.
        NothingIngestedError: there is nothing to copy.
        LockedError: an ingest is running.
        KbError: it is the store that is in use; or it failed, or does not hold what was written. The collection
            stays as it was.
    """
    target = store.with_store(to, options)
    with locked(store, "copy") as ledger:
        current = ledger.current_generation()
        if current is None:
            raise nothing_in(store)
        former = filled_store(ledger.generation_folder(current)) or store.name
        if target.name == former:
            raise KbError(
                f"the collection {store.settings.collection!r} is in the store {former!r} already, and nothing was "
                f"copied. To fill that anew: {store.status_command('--repair')}"
            )
        new = replace(current, number=ledger.reserve_generation())
        began = time.perf_counter()
        with taken_back(ledger, target):
            chunks = fill(ledger, current, new, target, on_done)
            filled = time.perf_counter()
            with closing(target.open(new, ledger.generation_folder(new), ledger.root())) as opened:
                largest, sampled = _verify(ledger, current, opened, target, on_done)
            ledger.set_copy(StoreCopy(target.name, new.number, current.number, ledger.revision(), chunks))
        verified = time.perf_counter()
        delete_left_over(ledger, target)  # of a copy made before
        return Copied(
            store=target.name,
            former=former,
            chunks=chunks,
            without_vector=ledger.counts(current.number).chunks - chunks,
            largest_difference=largest,
            searched=sampled,
            fill_seconds=filled - began,
            verify_seconds=verified - filled,
            fault=store_fault(ledger, current, store),
            settings=_settings(target, options),
        )


def _verify(
    ledger: Ledger, generation: Generation, opened: Store, target: CollectionStore, on_done: Callable[[int], None]
) -> tuple[float, int]:
    """Read every row back and compare it; gives the largest difference of a vector, and how many were searched for."""
    largest, seen = 0.0, set[str]()
    for batch in batches(rows_of(ledger, generation), target.settings.ingest.batch_chunks):
        largest = max(largest, _compare(batch, opened.rows([row.chunk.id for row in batch]), target))
        seen.update(row.chunk.id for row in batch)
        on_done(len(batch))
    held = set(opened.chunk_ids())
    if held != seen or opened.count() != len(seen):
        raise _no_copy(target, f"it lists {len(held):,} chunks and counts {opened.count():,} instead of {len(seen):,}")
    sample = ledger.live_chunks(generation.number, ledger.sample_ids(generation.number, _SAMPLE))
    known = ledger.known_vectors(generation.fingerprint, [one.text_hash for one in sample.values()])
    there = [one for one in sample.values() if one.text_hash in known]
    if there and (problems := list(searched(opened, there, known))):
        raise _no_copy(target, "; ".join(problems))
    return largest, len(there)


def _compare(rows: Sequence[StoreRow], stored: Mapping[str, StoredRow], target: CollectionStore) -> float:
    import numpy as np

    lacking = [row.chunk.id for row in rows if row.chunk.id not in stored]
    if lacking:
        raise _no_copy(target, f"it lacks {some(lacking)} of {len(rows):,} chunks")
    other = [row.chunk.id for row in rows if stored[row.chunk.id].place != expected_row(row).place]
    if other:
        raise _no_copy(target, f"it holds another text, source or place of {some(other)} of {len(rows):,} chunks")
    known = np.stack([row.vector for row in rows])
    vectors = [stored[row.chunk.id].vector for row in rows]
    if any(vector.shape != known.shape[1:] for vector in vectors):
        raise _no_copy(target, "its vectors have another dimension")
    differences = np.abs(known.astype(np.float64) - np.stack(vectors)).max(axis=1)
    # What is no number is not below any bound.
    if wrong := [row.chunk.id for row, one in zip(rows, differences, strict=True) if not one <= MOST_DIFFERENCE]:
        raise _no_copy(target, f"it holds another vector of {some(wrong)} of {len(rows):,} chunks")
    return float(differences.max())


def _no_copy(target: CollectionStore, what: str) -> StoreError:
    return StoreError(
        f"the store {target.name!r} does not give back what was written to it: {what}. Nothing was changed, and "
        "what it held of the copy is deleted. Try again, or choose another store"
    )


def _settings(target: CollectionStore, options: Mapping[str, object]) -> dict[str, dict[str, object]]:
    """What has to stand in config.toml to go over to the copy."""
    section = target.settings.store
    class_: type[ComponentOptions] = component_module("store", section.use).Options
    values = explain_validation(class_, section.options(section.use), f"store.{section.use}")
    tables: dict[str, dict[str, object]] = {"store": {"use": section.use}}
    if options:
        # What is not to be shown may hold a secret, against all advice.
        shown = {key for key, field in class_.model_fields.items() if field.repr}
        tables[f"store.{section.use}"] = {key: getattr(values, key) if key in shown else "…" for key in options}
    return tables
