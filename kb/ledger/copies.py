"""A copy of the current generation in another store, made to be gone over to by a change of the settings."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from kb.ledger.generations import Generations

_KEY = "copy"


@dataclass(frozen=True, slots=True)
class StoreCopy:
    """Where a copy is, and of what."""

    store: str
    """The name of the store that holds it, as `in-step-with-ledger` has it."""
    number: int
    """The generation number under which it is there."""
    of: int
    """The generation whose chunks they are."""
    revision: int
    """The ledger's when it was made. Once that has risen, the copy is out of date."""
    chunks: int


class Copies(Generations):
    """The part of the ledger that knows of a copy."""

    def set_copy(self, copy: StoreCopy) -> None:
        """Remember a copy; one that was known before is known no longer."""
        self._set_meta(_KEY, json.dumps(asdict(copy)))

    def copy_in_step(self) -> StoreCopy | None:
        """The copy that holds what the current generation does; None when there is none, or it is out of date."""
        with self.snapshot():
            kept, revision, current = self._meta(_KEY), self.revision(), self.current_generation()
        copy = StoreCopy(**json.loads(kept)) if kept is not None else None
        in_step = copy is not None and current is not None and (copy.of, copy.revision) == (current.number, revision)
        return copy if in_step else None
