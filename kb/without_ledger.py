"""A collection on a server, asked where its ledger is not: its rows alone answer, and say so.

The store holds vectors, texts and places. What only the ledger knows is empty here: which rows are live, who holds
which word, what the chunks of a script have in common, the documents as wholes. So nothing is searched by words, an
ingest that another machine is at may show a passage twice or not yet, and a filter can name source and page only.
Nothing is made or changed, neither on the server nor here.
"""

from __future__ import annotations

import math
import time
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

from kb.abilities import LoadsAhead
from kb.base import Base
from kb.errors import ConfigError, IndexMismatchError, StoreError
from kb.inert import one_line
from kb.ledger.generations import Generation
from kb.ledger.hashes import HashedChunk, hashed
from kb.ledger.ledger import EmptyLedger
from kb.narrowed import Narrowed, Narrowing
from kb.payloads import storable
from kb.records import Chunk

if TYPE_CHECKING:
    from kb.base import Part, Ranking
    from kb.components import Embedder, FloatArray, Store
    from kb.filters import Where
    from kb.opening import CollectionStore
    from kb.payloads import StoredRow
    from kb.records import Scalar, SearchResult

NO_REVISION = -1
"""What was opened without a ledger; a ledger's own revisions are not negative."""

_GOOD_SECONDS = 60.0
"""So long no other generation is looked for, which takes four requests: another machine may have built one."""

_MOST_SEARCHES = 20
"""A store finds what equals one value, so several values are several searches; more take longer than anyone waits."""


class MissingLedger(EmptyLedger):
    """Stands for a ledger that is not here. Not one of its answers is from a file."""

    good_until = math.inf
    """By time.monotonic."""

    def revision(self) -> int:
        """`NO_REVISION`, and another number once the server has to be looked at anew."""
        return NO_REVISION if time.monotonic() < self.good_until else NO_REVISION - 1


class RowBase(Base):
    """One generation as its rows on a server tell it."""

    has_words = False

    def __init__(self, store: Store, ledger: MissingLedger, generation: Generation) -> None:
        super().__init__(store, ledger, generation.number, generation.fingerprint)
        self._missing = ledger
        ledger.good_until = time.monotonic() + _GOOD_SECONDS

    def close(self) -> None:
        """Release the connections."""
        super().close()
        self._missing.close()

    def search(self, vectors: FloatArray, limit: int) -> list[Ranking]:
        """The `limit` rows nearest to each row of `vectors` (m, dimension)."""
        return self.search_where(vectors, limit, None)

    def search_where(self, vectors: FloatArray, limit: int, where: Mapping[str, Scalar] | None) -> list[Ranking]:
        """The same of the rows whose payload equals every given value."""
        with self._looked_at_anew_after_an_error():
            return self.store.search(vectors, limit, where)

    def live_chunks(self, chunk_ids: Iterable[str]) -> dict[str, HashedChunk]:
        """Those of the chunks that have a row.

        Raises:
            StoreError: a row is none that kb wrote, or the server does not answer.
        """
        asked = list(dict.fromkeys(chunk_ids))
        if not asked:
            return {}
        with self._looked_at_anew_after_an_error():
            rows = self.store.rows(asked)
        return {chunk_id: _chunk(chunk_id, rows[chunk_id]) for chunk_id in asked if chunk_id in rows}

    def vectors(self, chunks: Mapping[str, HashedChunk]) -> Part:
        """The vectors of chunks, by their ids."""
        import numpy as np

        if not chunks:
            return [], np.empty((0, 0), dtype=np.float32)
        with self._looked_at_anew_after_an_error():
            found = self.store.vectors(list(chunks))
        return list(found), np.stack(list(found.values())) if found else np.empty((0, 0), dtype=np.float32)

    @contextmanager
    def _looked_at_anew_after_an_error(self) -> Iterator[None]:
        """A rebuild elsewhere may have deleted this generation: whoever comes next looks which one is there."""
        try:
            yield
        except StoreError:
            self._missing.good_until = -math.inf
            raise


class RowNarrowing(Narrowing):
    """The filters that rows can answer."""

    def __init__(self, base: RowBase) -> None:
        super().__init__(base)
        self._rows = base

    def to(self, where: Where) -> Narrowed:
        """What a filter leaves.

        Raises:
            ConfigError: it needs the ledger.
        """
        return NarrowedRows(self._rows, where)


class NarrowedRows(Narrowed):
    """The rows that a filter leaves, which are not known before they are searched."""

    def __init__(self, base: RowBase, where: Where) -> None:
        self._rows = base
        self.where = where
        self._alternatives = _alternatives(where)

    def search(self, vectors: FloatArray, limit: int) -> list[Ranking]:
        """The `limit` nearest of the rows to each row of `vectors` (m, dimension)."""
        found: list[Ranking] = [[] for _ in vectors]
        for conditions in self._alternatives:
            for ranking, more in zip(found, self._rows.search_where(vectors, limit, conditions), strict=True):
                ranking += more
        return [sorted(ranking, key=lambda pair: (-pair[1], pair[0]))[:limit] for ranking in found]

    def told(self, result: SearchResult) -> SearchResult:
        """A result with the filter, and a note when it left nothing, or means less than with the ledger."""
        notes = [] if result.hits or result.dropped else [f"no passage matches {self.where}"]
        if self.where.on("page"):
            notes.append("without the ledger, page= finds only passages that begin on the page")
        return replace(result, where=self.where.written, notes=(*notes, *result.notes))


def open_rows(store: CollectionStore, embedder: Embedder) -> tuple[Generation, RowBase, str] | None:
    """Open the latest generation of the embedder's that a server holds; None where there is none of any.

    Args:
        store: What the settings name.
        embedder: That questions are embedded by.

    Returns:
        It, what answers for it, and what a reader has to know.

    Raises:
        IndexMismatchError: all that is there was built with another embedder.
        KbError: the server does not answer, or the collection cannot be opened.
    """
    there = store.served()
    if not there:
        return None
    fitting = [number for number, fingerprint in there.items() if fingerprint == embedder.fingerprint]
    if not fitting:
        mend = store.ingest_command(None, rebuild=True)
        raise IndexMismatchError(one_line(there[max(there)]), embedder.fingerprint, mend)
    if isinstance(embedder, LoadsAhead):
        embedder.load_ahead()  # while the store is opened
    generation = Generation(max(fitting), embedder.fingerprint, embedder.dimension, "current", created="")
    ledger = MissingLedger(store.folder)
    try:
        opened = store.open(generation, ledger.generation_folder(generation), None, as_it_is=True)
    except BaseException:
        ledger.close()
        raise
    return generation, RowBase(opened, ledger, generation), _note(store, sorted(fitting))


def _note(store: CollectionStore, fitting: Sequence[int]) -> str:
    *others, number = fitting
    unfinished = f"; as {others[-1]} is there too, it may still be built" if others else ""
    return (
        f"the ledger of the collection {store.settings.collection!r} is not in {store.settings.data_dir}: searched by "
        f"vectors only, not by words, in what {store.name!r} holds (generation {number}{unfinished}), where "
        "passages may be out of date or missing"
    )


def _chunk(chunk_id: str, row: StoredRow) -> HashedChunk:
    """The chunk that a row tells of; a server can be anybody's, so that each value is looked at.

    Raises:
        StoreError: kb did not write the row.
    """
    texts = (row.source, row.document_id, row.text, row.header, row.heading or "")
    places = (row.start, row.end, 1 if row.page is None else row.page)
    if (
        not all(isinstance(text, str) for text in texts)
        or not all(isinstance(place, int) and place >= 0 for place in places)
        or row.end - row.start != len(row.text)
    ):
        raise StoreError(
            f"the row {one_line(chunk_id)[:80]!r} on the server is not one that kb wrote: its text, source or place is "
            "missing or wrong. Bring the ledger here, or build the collection anew where it is"
        )
    source, document_id, text, header, heading = map(storable, texts)
    path = tuple(heading.split(" › ")) if heading else ()
    return hashed(Chunk(chunk_id, document_id, text, row.start, row.end, row.page, path, header), source)


def _alternatives(where: Where) -> list[dict[str, Scalar]]:
    """What a row's payload has to equal, one or the other, to pass a filter.

    Raises:
        ConfigError: rows cannot tell, or there would be too many searches.
    """
    choices: list[list[tuple[str, Scalar]]] = []
    for condition in where.conditions:
        if condition.field == "source" and not any("*" in value for value in condition.values):
            choices.append([("source", _path(value)) for value in condition.values])
        elif condition.field == "page" and all(
            last - first < _MOST_SEARCHES for first, last in condition.page_ranges()
        ):
            pages = {page for first, last in condition.page_ranges() for page in range(first, int(last) + 1)}
            choices.append([("page", page) for page in sorted(pages)])
        else:
            raise _needs_ledger(where)
    alternatives = [dict(one) for one in product(*choices)]
    if len(alternatives) > _MOST_SEARCHES:
        raise _needs_ledger(where)
    return alternatives


def _path(value: str) -> str:
    return unicodedata.normalize("NFC", value).removeprefix("./").removeprefix("/")


def _needs_ledger(where: Where) -> ConfigError:
    return ConfigError(
        f"the filter {where} needs the collection's ledger, which is not in data_dir. Without it a filter is "
        f"source=FILE or page=NUMBER, with at most {_MOST_SEARCHES} of them together; bring the ledger here for others"
    )
