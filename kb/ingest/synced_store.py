"""The vector store of one generation, kept in step with the ledger's book about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kb.components import StoreRow
from kb.errors import StoreError
from kb.ingest.paid_embedding import batches
from kb.ledger.in_step import filled_store, forget_filled, remember_filled
from kb.logs import note

if TYPE_CHECKING:
    from kb.ingest.paid_embedding import PaidEmbedding
    from kb.ingest.watching import WatchedStore
    from kb.ledger.ledger import Ledger


class SyncedStore:
    """Opens the store when something is to be written, so that a run without changes never does.

    The book (`store_rows`) is written before the store, so it never lists too little. When the store
    is opened and is another one than was filled last, or holds other rows than the book says, it is
    filled, from the ledger's vectors.
    """

    def __init__(
        self,
        ledger: Ledger,
        generation: int,
        folder: Path,
        name: str,
        opener: Callable[[], WatchedStore],
        embedding: PaidEmbedding,
        page: int,
    ) -> None:
        self._ledger = ledger
        self._generation = generation
        self._folder = folder
        self._name = name
        self._opener = opener
        self._embedding = embedding
        self._page = page
        self._store: WatchedStore | None = None

    def restore(self, *, after_crash: bool = False) -> None:
        """Finish what an interrupted run left, and fill a store that is new, or was lost with its folder.

        After a crash the store may also lack rows that it had taken, as after a power cut: then all are compared.
        """
        in_step = self._ledger.in_step(self._generation)
        unfilled = filled_store(self._folder) != self._name and self._ledger.has_chunks(self._generation)
        if unfilled or not in_step:
            self._open()
        if after_crash and self._ledger.has_chunks(self._generation):
            self._compare(self._open())
            self._put_back(self._open())
        if not in_step:
            self.discard(self._ledger.stale_rows(self._generation))

    @property
    def beside(self) -> bool:
        """Whether what `begin` begins goes on while this process does other things."""
        return self._store is not None and self._store.beside

    def begin(self, rows: Sequence[StoreRow]) -> Callable[[], None]:
        """Begin to upsert rows that are not live yet; they count as held once the ledger flips them live.

        What is given waits until it is done, and has to be called before anything else is asked.
        """
        if not rows:
            return lambda: None
        store = self._open()
        self._ledger.mark_dirty(self._generation, [row.chunk.id for row in rows])
        return store.begin_upsert(rows)

    def discard(self, chunk_ids: Sequence[str]) -> None:
        """Delete rows that are live no longer."""
        if chunk_ids:
            self._open().delete(chunk_ids)
            self._ledger.forget_rows(self._generation, chunk_ids)

    def close(self) -> None:
        """Close the store when it was opened."""
        if self._store is not None:
            self._store.close()
            self._store = None

    def _open(self) -> WatchedStore:
        if self._store is None:
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise StoreError(f"{self._folder} cannot be made: {error.strerror}. Choose another data_dir") from error
            self._store = self._opener()
            self._bring_in_step(self._store)
        return self._store

    def _bring_in_step(self, store: WatchedStore) -> None:
        filled = filled_store(self._folder)
        if filled not in (None, self._name):
            said = (
                f"the collection was in the store {filled!r}; it is now filled into {self._name!r}, which is configured"
            )
            note("store changed", said, store=self._name)
            # The book is about the other store. First the book: after a crash in between this is done again.
            self._ledger.forget_all_rows(self._generation)
            forget_filled(self._folder)
        if filled != self._name or store.count() != self._ledger.counts(self._generation).store_rows:
            self._compare(store)
        self._put_back(store)
        remember_filled(self._folder, self._name)

    def _compare(self, store: WatchedStore) -> None:
        """Take out of the book what the store lost, and out of the store what is not live.

        A store on a server may hold rows of a ledger that is no more.
        """
        held, live = set(store.chunk_ids()), self._ledger.live_ids(self._generation)
        if lost := live - held:
            forget_filled(self._folder)
            self._ledger.forget_rows(self._generation, sorted(lost))
        self.discard(sorted(held - live))

    def _put_back(self, store: WatchedStore) -> None:
        """Upsert live chunks that the store lacks, or may hold otherwise than the ledger."""
        for batch in batches(self._ledger.unsynced_chunks(self._generation), self._page):
            self._embedding.embed(batch)
            vectors = self._embedding.vectors([live.text_hash for live in batch])
            self._ledger.mark_dirty(self._generation, [live.chunk.id for live in batch])
            store.upsert([StoreRow(live.chunk, live.source, vectors[live.text_hash]) for live in batch])
            self._ledger.mark_stored(self._generation, {live.chunk.id: live.payload_hash for live in batch})
