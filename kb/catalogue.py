"""The documents of a collection: listed, looked up, and read as they were loaded. Needs no embedder and no store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kb.errors import ConfigError, NothingIngestedError

if TYPE_CHECKING:
    from kb.current import CurrentGeneration
    from kb.ledger.ledger import Ledger
    from kb.ledger.listing import ListedDocument
    from kb.records import Document

MOST_LISTED = 500


@dataclass(frozen=True, slots=True)
class DocumentPage:
    """Some documents of the list."""

    documents: tuple[ListedDocument, ...]
    total: int
    """Of all that were asked for."""
    next: str | None
    """What to give as `after` for those that follow; None at the end."""


class Catalogue:
    """The documents of one collection, as the last complete ingest of each left them."""

    def __init__(self, current: CurrentGeneration) -> None:
        self._current = current

    def page(self, *, find: str = "", after: str = "", limit: int = 100) -> DocumentPage:
        """Documents by path; none when nothing has been ingested.

        Args:
            find: Only those whose path or title holds it; in English in any case.
            after: What the page before gave as `next`.
            limit: So many at most, 1 to 500.

        Raises:
            ConfigError: `limit` is out of range.
        """
        if not 1 <= limit <= MOST_LISTED:
            raise ConfigError(f"limit = {limit}; allowed: a number from 1 to {MOST_LISTED}")
        with self._opened() as (ledger, generation):
            if ledger is None:
                return DocumentPage((), 0, None)
            found = ledger.list_documents(generation, find=find, after=after, limit=limit + 1)
            total = ledger.count_documents(generation, find)
        return DocumentPage(tuple(found[:limit]), total, found[limit - 1].path if len(found) > limit else None)

    def listed(self, document_id: str) -> ListedDocument | None:
        """One document without its text; None when there is none of this id."""
        with self._opened() as (ledger, generation):
            return None if ledger is None else ledger.listed_document(generation, document_id)

    def document(self, document_id: str) -> Document | None:
        """One document as it was loaded; None when there is none of this id, or it could never be read."""
        with self._opened() as (ledger, generation):
            return None if ledger is None else ledger.document(generation, document_id)

    def of_content(self, content_hash: str) -> list[str]:
        """The ids of the documents whose files have this content."""
        with self._opened() as (ledger, generation):
            return [] if ledger is None else ledger.sources_of_content(generation, content_hash)

    def known(self, document_ids: Sequence[str]) -> set[str]:
        """Those of some ids that an ingest has met, whether it could read them or not."""
        with self._opened() as (ledger, generation):
            return set() if ledger is None else ledger.known_sources(generation, document_ids)

    @contextmanager
    def _opened(self) -> Iterator[tuple[Ledger | None, int]]:
        """The ledger and the current generation; None before the first ingest."""
        with self._current.guard:
            try:
                ledger = self._current.ledger()
            except NothingIngestedError:
                yield None, 0
                return
            with ledger.snapshot():
                generation = ledger.current_generation()
                yield (None, 0) if generation is None else (ledger, generation.number)
