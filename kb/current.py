"""The current generation of a collection, opened for questions, and opened anew when an ingest has changed it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from threading import RLock
from typing import TYPE_CHECKING

from kb.abilities import LoadsAhead
from kb.base import Base
from kb.errors import IndexMismatchError, KbError, NothingIngestedError
from kb.ledger.ledger import Ledger, file_identity, nothing_ingested
from kb.ledger.schema import LEDGER_FILE
from kb.narrowed import Narrowing
from kb.opening import CollectionStore
from kb.without_ledger import NO_REVISION, RowNarrowing, open_rows

if TYPE_CHECKING:
    from kb.components import Embedder
    from kb.ledger.generations import Generation
    from kb.records import Document, SearchResult


@dataclass(frozen=True, slots=True)
class Opened:
    """One generation opened for questions, as it was at a revision of the ledger."""

    revision: int
    ledger: Ledger
    generation: Generation
    base: Base
    narrowing: Narrowing
    note: str = ""
    """What a reader of every result should know."""

    @property
    def is_current(self) -> bool:
        """Whether nothing has changed in the collection since it was opened."""
        return self.ledger.revision() == self.revision

    def told(self, result: SearchResult) -> SearchResult:
        """A result with the note."""
        return replace(result, notes=(self.note, *result.notes)) if self.note else result

    def document(self, document_id: str) -> Document | None:
        """The ingested document of an id; None when it has just been removed."""
        return self.ledger.document(self.generation.number, document_id)


class CurrentGeneration:
    """Opens what the collection holds now; what is open is closed by whoever finds it changed."""

    def __init__(self, store: CollectionStore) -> None:
        self._store = store
        self.guard = RLock()
        """Held by whoever reads what is open: opening anew closes what another thread would be reading."""
        self._ledger: Ledger | None = None
        self._ledger_file: tuple[int, int] | None = None
        self._opened: Opened | None = None

    def close(self) -> None:
        """Release files; further use opens them anew."""
        with self.guard:
            self._close_generation()
            if self._ledger is not None:
                self._ledger.close()
                self._ledger = None

    def _close_generation(self) -> None:
        if self._opened is not None:
            self._opened.base.close()
            self._opened = None

    def ledger(self) -> Ledger:
        """The ledger; opened anew when its file is another one, as after a deleted data_dir and a new ingest.

        Raises:
            NothingIngestedError: there is no collection yet.
        """
        file = file_identity(self._store.folder / LEDGER_FILE)
        if self._ledger is not None and file != self._ledger_file:
            self.close()
        if self._ledger is None:
            try:
                self._ledger = Ledger(self._store.folder, read_only=True)
            except NothingIngestedError as error:
                raise self._nothing_ingested() from error
            self._ledger_file = file
        return self._ledger

    def opened(self, embedder: Embedder) -> Opened:
        """The current generation with its store, opened anew when an ingest has changed them.

        Without a ledger it is the one that a server holds (kb.without_ledger).

        Raises:
            NothingIngestedError: there is no collection yet.
            IndexMismatchError: the collection was built with another embedder.
            KbError: the store cannot be opened.
        """
        with self.guard:
            if self._has_no_ledger:
                return self._opened_rows(embedder)
            ledger = self.ledger()
            revision = ledger.revision()
            if self._opened is not None and self._opened.revision == revision:
                return self._opened
            self._close_generation()
            generation = ledger.current_generation()
            if generation is None:
                raise self._nothing_ingested()
            if generation.fingerprint != embedder.fingerprint:
                mend = self._store.ingest_command(ledger.root(), rebuild=True)
                raise IndexMismatchError(generation.fingerprint, embedder.fingerprint, mend)
            if isinstance(embedder, LoadsAhead):
                embedder.load_ahead()  # while the store is opened
            try:
                store = self._store.open_filled(ledger, generation)
            except KbError:
                if ledger.revision() == revision:
                    raise
                return self.opened(embedder)  # a rebuild has just put another generation in its place
            exact = self._store.settings.retrieval.exact_up_to
            base = Base(store, ledger, generation.number, generation.fingerprint, exact)
            self._opened = Opened(revision, ledger, generation, base, Narrowing(base))
            return self._opened

    @property
    def _has_no_ledger(self) -> bool:
        """Whether its file is not there; one that cannot be looked at is an error of its own."""
        try:
            (self._store.folder / LEDGER_FILE).stat()
        except (FileNotFoundError, NotADirectoryError):
            return True
        except OSError:
            return False
        return False

    def _opened_rows(self, embedder: Embedder) -> Opened:
        """What a server holds of the collection, whose ledger is not here."""
        if self._ledger is not None:
            self.close()  # it was here a moment ago
        if self._opened is not None and self._opened.is_current:
            return self._opened
        self._close_generation()
        found = open_rows(self._store, embedder)
        if found is None:
            raise self._nothing_ingested()
        generation, base, note = found
        self._opened = Opened(NO_REVISION, base.ledger, generation, base, RowNarrowing(base), note)
        return self._opened

    def kept_token_vectors(self, fingerprint: str, texts: Sequence[str]) -> Mapping[str, bytes]:
        """What the ledger keeps of these texts' tokens, by text; nothing when it isn't open, as it is in a search."""
        ledger = self._ledger
        return {} if ledger is None else ledger.known_token_vectors(fingerprint, texts)

    def _nothing_ingested(self) -> NothingIngestedError:
        settings = self._store.settings
        return nothing_ingested(settings.collection, settings.data_dir, self._store.ingest_command(None))
