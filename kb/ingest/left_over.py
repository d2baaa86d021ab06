"""What a run that died left behind: stores that the ledger does not know."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from kb.errors import KbError, StoreError
from kb.ledger.generations import GENERATIONS_FOLDER

if TYPE_CHECKING:
    from kb.ingest.lock import LockState
    from kb.ledger.generations import Generation
    from kb.ledger.ledger import Ledger
    from kb.opening import CollectionStore


def clear_damaged(ledger: Ledger, generation: Generation, store: CollectionStore, died: LockState) -> None:
    """Delete an index whose files a run left cut off when it died; it is filled again from the ledger.

    Chroma writes its files in place, some 2 % of the time of an ingest. Other damage is told, not mended in passing.

    Args:
        ledger: The ledger.
        generation: The generation that is about to be written.
        store: The collection's store.
        died: Who died while writing, if someone did.

    Raises:
        StoreError: the files are damaged, and no run has died.
    """
    folder = ledger.generation_folder(generation)
    try:
        store.check_files(folder)
    except StoreError:
        last = ledger.last_run()
        if died.holder is None and (last is None or last.ended not in ("died", "interrupted")):
            raise
        shutil.rmtree(folder, ignore_errors=True)


def delete_left_over(ledger: Ledger, store: CollectionStore) -> None:
    """Delete the folders of generations that the ledger no longer knows, and what a server holds of them.

    A copy in another store stays as long as it holds what the current generation does.
    """
    known = {ledger.generation_folder(generation).name for generation in ledger.generations()}
    if (copy := ledger.copy_in_step()) is not None:
        known.add(str(copy.number))
    generations = ledger.folder / GENERATIONS_FOLDER
    for left_over in generations.iterdir() if generations.is_dir() else ():
        if left_over.name.isdecimal() and left_over.name not in known:
            try:
                store.drop(int(left_over.name), left_over)
            except KbError:  # the folder stays, so that the next run tries again
                continue
            shutil.rmtree(left_over, ignore_errors=True)  # another process may still read it: next time
