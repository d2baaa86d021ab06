"""What a run that died left behind: stores that the ledger does not know."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from kb.errors import StoreError
from kb.ledger.generations import GENERATIONS_FOLDER

if TYPE_CHECKING:
    from kb.ledger.ledger import Ledger
    from kb.opening import CollectionStore


def delete_left_over(ledger: Ledger, store: CollectionStore) -> None:
    """Delete the folders of generations that the ledger no longer knows, and what a server holds of them."""
    known = {ledger.generation_folder(generation).name for generation in ledger.generations()}
    generations = ledger.folder / GENERATIONS_FOLDER
    for left_over in generations.iterdir() if generations.is_dir() else ():
        if left_over.name.isdecimal() and left_over.name not in known:
            try:
                store.drop(int(left_over.name), left_over)
            except StoreError:  # the folder stays, so that the next run tries again
                continue
            shutil.rmtree(left_over, ignore_errors=True)  # another process may still read it: next time
