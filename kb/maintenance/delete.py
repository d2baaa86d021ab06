"""Deleting a whole collection, here and on the server that holds its vectors."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from kb.errors import KbError, StoreError
from kb.ingest.lock import write_lock
from kb.ledger.generations import GENERATIONS_FOLDER
from kb.ledger.ledger import Ledger, collection_names
from kb.ledger.schema import LEDGER_FILE

if TYPE_CHECKING:
    from kb.opening import CollectionStore


def check_there(store: CollectionStore) -> None:
    """See to it that there is something to delete.

    Raises:
        KbError: there is no such collection; names those that are there.
    """
    if not store.folder.is_dir():
        there = ", ".join(map(repr, collection_names(store.settings.data_dir))) or "none"
        raise KbError(
            f"there is no collection {store.settings.collection!r} in {store.settings.data_dir}; there are: {there}"
        )


def delete(store: CollectionStore) -> None:
    """Delete the collection that `store` is configured for; the documents themselves are left alone.

    First goes what a server holds, then the index, then the ledger. Stopped halfway, the same call
    goes on: until the ledger is gone, the collection is still listed.

    Raises:
        KbError: there is no such collection.
        LockedError: an ingest is running.
        StoreError: the server does not answer, or a file cannot be deleted.
    """
    check_there(store)
    with write_lock(store.folder, "delete"):
        generations = store.folder / GENERATIONS_FOLDER
        for number in sorted(_numbers(store)):
            store.drop(number, generations / str(number))
        try:
            if generations.exists():
                shutil.rmtree(generations)
            # The log before the file: a log that is left would be read into the next ledger of this name.
            for end in ("-wal", "-shm", ""):
                (store.folder / f"{LEDGER_FILE}{end}").unlink(missing_ok=True)
            shutil.rmtree(store.folder)
        except OSError as error:
            raise StoreError(
                f"{error.filename} cannot be deleted: {error.strerror}. Mend the cause, and delete again"
            ) from error


def _numbers(store: CollectionStore) -> set[int]:
    """All generations: those of the ledger, and those of which only the folder is left."""
    generations = store.folder / GENERATIONS_FOLDER
    folders = generations.iterdir() if generations.is_dir() else ()
    numbers = {int(one.name) for one in folders if one.name.isdecimal()}
    try:
        with Ledger(store.folder, read_only=True) as ledger:
            numbers |= {one.number for one in ledger.generations()}
    except KbError:  # damaged, or gone already: it is to be deleted all the same
        pass
    return numbers
