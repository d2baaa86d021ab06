"""Giving back the space of vectors that no live chunk uses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kb.errors import KbError
from kb.maintenance.locked import locked

if TYPE_CHECKING:
    from kb.ledger.upkeep import VectorUse
    from kb.opening import CollectionStore


@dataclass(frozen=True, slots=True)
class Pruned:
    """What a prune did."""

    vectors: int
    """That were dropped."""
    freed_bytes: int
    """By which the ledger's file is smaller now."""
    kept_bytes: int
    """Its size now."""


def prune(store: CollectionStore, agreed: Callable[[VectorUse], bool] = lambda use: True) -> Pruned | None:
    """Drop the vectors that no live chunk uses, and make the ledger's file smaller by them.

    Args:
        store: The collection's store.
        agreed: Shown what would go; False leaves all as it is.

    Returns:
        What was done; None when it was not agreed to.

    Raises:
        KbError: an ingest did not end: what it embedded is used by no chunk yet, and would be lost.
        LockedError: an ingest is running.
        NothingIngestedError: there is no ledger.
        LedgerError: the disk has no room to write the file anew; the vectors have been dropped.
    """
    with locked(store, "prune") as ledger:
        last = ledger.last_run()
        building = [one.number for one in ledger.generations() if one.state == "building"]
        if building or (last is not None and last.ended != "done"):
            raise KbError(
                "an ingest did not end, and vectors that it paid for may belong to no chunk yet; nothing was dropped. "
                f"Finish it first: {store.ingest_command(ledger.root(), rebuild=bool(building))}"
            )
        use, before = ledger.vector_use(), ledger.file_bytes()
        if not agreed(use):
            return None
        dropped = ledger.drop_unused_vectors() if use.unused else 0
        if ledger.free_pages():
            ledger.compact()
        after = ledger.file_bytes()
    return Pruned(dropped, max(0, before - after), after)
