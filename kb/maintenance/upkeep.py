"""The upkeep of one collection, as one object."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kb.ingest.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from kb.ledger.upkeep import VectorUse
    from kb.maintenance.check import Checked
    from kb.maintenance.copying import Copied
    from kb.maintenance.exporting import Exported
    from kb.maintenance.importing import Imported
    from kb.maintenance.prune import Pruned
    from kb.maintenance.repair import Repaired
    from kb.maintenance.status import Status
    from kb.opening import CollectionStore


class Upkeep:
    """Status, check, repair, copy, prune, delete, export and import; none of it loads or asks an embedder.

    Each call stands for itself and raises what the function of its name in `kb.maintenance` says.
    """

    def __init__(self, store: CollectionStore, *, quiet: bool = True) -> None:
        self._store = store
        self._quiet = quiet

    def status(self) -> Status:
        """What the collection holds, and how it is."""
        from kb.maintenance.status import read_status

        return read_status(self._store)

    def all_statuses(self) -> tuple[list[Status], list[str]]:
        """The statuses of all collections in `data_dir`, and what is wrong with those that have none."""
        from kb.maintenance.status import read_all

        return read_all(self._store)

    def check(self) -> Checked:
        """Compare ledger and store, in a process of its own."""
        from kb.maintenance.check import check

        return check(self._store)

    def repair(self) -> Repaired:
        """Build the store anew from the ledger, and go over to it."""
        from kb.maintenance.repair import repair

        with Progress(0 if self._quiet else self.status().chunks, quiet=self._quiet) as progress:
            return repair(self._store, progress.done)

    def copy(self, to: str, **options: object) -> Copied:
        """Fill another store with the collection and compare all of it; see `kb.maintenance.copying` for what follows.

        Args:
            to: The store's name, such as `"memory"`.
            options: What is other than in its section of the settings, such as `url`.
        """
        from kb.maintenance.copying import copy

        chunks = 0 if self._quiet else self.status().chunks
        with Progress(2 * chunks, quiet=self._quiet) as progress:
            return copy(self._store, to, options, progress.done)

    def prune(self, agreed: Callable[[VectorUse], bool] = lambda use: True) -> Pruned | None:
        """Drop vectors that no chunk uses, if `agreed` says so of them; None when it does not."""
        from kb.maintenance.prune import prune

        return prune(self._store, agreed)

    def folder_to_delete(self) -> Path:
        """What `delete` would delete."""
        from kb.maintenance.delete import check_there

        check_there(self._store)
        return self._store.folder

    def delete(self) -> None:
        """Delete the collection; the documents are left alone."""
        from kb.maintenance.delete import delete

        delete(self._store)

    def export(self, file: str | Path, *, overwrite: bool = False) -> Exported:
        """Write the whole collection into one file."""
        from kb.maintenance.exporting import export

        return export(self._store, Path(file), overwrite=overwrite)

    def import_(self, file: str | Path, *, replace: bool = False) -> Imported:
        """Fill the collection from such a file."""
        from kb.maintenance.importing import import_file

        return import_file(self._store, Path(file), replace=replace)
