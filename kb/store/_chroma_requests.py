"""Calls of a Chroma collection, each in as many requests as a server takes; in a file of its own, without Chroma."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from kb.payloads import StoredRow, payload, storable
from kb.store._chroma_calls import columns, ranked, stored_rows, where_clause
from kb.store._chroma_server import Server, TooLargeError
from kb.store._rows import nearest

if TYPE_CHECKING:
    from kb.components import FloatArray, StoreRow
    from kb.errors import KbError

_Item = TypeVar("_Item")

_ROW_BYTES = 100
"""Quotes and commas: what stands in a request around the parts of a row that are counted."""


class Requests:
    """Reads and writes a collection. What Chroma raises comes out as it is.

    Args:
        collection: Chroma's.
        server: The server that holds it; None for one in a folder, where nothing is too large.
    """

    def __init__(self, collection: Any, server: Server | None) -> None:
        self._collection = collection
        self._server = server
        self._most_bytes = server.most_bytes if server is not None else 0

    def write(self, rows: Sequence[StoreRow], matrix: FloatArray, places: Sequence[int]) -> None:
        """Add or replace the rows at `places`, whose ids are distinct."""
        held = set[str]()

        def look(ids: Sequence[str]) -> None:
            held.update(self._collection.get(ids=list(ids), include=[])["ids"])

        self._send([rows[place].chunk.id for place in places], look)
        # Adding takes less time than upserting, but does nothing for ids that are there.
        self._write(rows, matrix, [place for place in places if rows[place].chunk.id not in held], self._add)
        self._write(rows, matrix, [place for place in places if rows[place].chunk.id in held], self._upsert)

    def _add(self, rows: Sequence[StoreRow], matrix: FloatArray, places: Sequence[int]) -> None:
        told = [payload(rows[place]) for place in places]
        present = [{key: value for key, value in one.items() if value is not None} for one in told]
        self._collection.add(**columns(rows, matrix, places), metadatas=present)

    def _upsert(self, rows: Sequence[StoreRow], matrix: FloatArray, places: Sequence[int]) -> None:
        # Metadata is merged with what is there; a key with None is taken away.
        merged = [payload(rows[place]) for place in places]
        self._collection.upsert(**columns(rows, matrix, places), metadatas=merged)

    def _write(
        self,
        rows: Sequence[StoreRow],
        matrix: FloatArray,
        places: Sequence[int],
        call: Callable[[Sequence[StoreRow], FloatArray, Sequence[int]], None],
    ) -> None:
        if self._server is None:
            if places:
                call(rows, matrix, places)
            return
        for page in pages_of(rows, places, self._most_bytes):
            taken = in_parts(page, lambda some: call(rows, matrix, some), self._server.too_large)
            # A proxy takes less than was thought: the next ones are as large as what it took.
            self._most_bytes = max(1, self._most_bytes * taken // len(page))

    def delete(self, ids: Sequence[str]) -> None:
        """Delete rows; unknown ids are ignored."""
        self._send(ids, lambda some: self._collection.delete(ids=list(some)))

    def vectors(self, ids: Sequence[str]) -> dict[str, FloatArray]:
        """The vectors of those that are there."""
        found: dict[str, FloatArray] = {}

        def read(some: Sequence[str]) -> None:
            answer = self._collection.get(ids=list(some), include=["embeddings"])
            found.update(zip(answer["ids"], np.asarray(answer["embeddings"], dtype=np.float32), strict=True))

        self._send(ids, read)
        return found

    def rows(self, ids: Sequence[str]) -> dict[str, StoredRow]:
        """All of those that are there."""
        found: dict[str, StoredRow] = {}

        def read(some: Sequence[str]) -> None:
            wanted = ["embeddings", "metadatas", "documents"]
            found.update(stored_rows(self._collection.get(ids=list(some), include=wanted)))

        self._send(ids, read)
        return found

    def search(
        self, queries: FloatArray, limit: int, conditions: Mapping[str, str | int]
    ) -> list[list[tuple[str, float]]]:
        """The nearest of each query, by the index."""
        found: list[list[tuple[str, float]]] = []

        def ask(some: Sequence[FloatArray]) -> None:
            answer = self._collection.query(
                query_embeddings=list(some),
                n_results=int(limit),
                where=where_clause(conditions),
                include=["distances"],
            )
            found.extend(ranked(*pair) for pair in zip(answer["ids"], answer["distances"], strict=True))

        self._send(list(queries), ask)
        return found

    def search_few(
        self, queries: FloatArray, limit: int, conditions: Mapping[str, str | int], most: int
    ) -> list[list[tuple[str, float]]] | None:
        """The nearest of each query, exactly, among filtered rows; None when these are more than `most`."""
        answer = self._collection.get(where=where_clause(conditions), limit=most + 1, include=["embeddings"])
        if len(answer["ids"]) > most:
            return None
        order = sorted(range(len(answer["ids"])), key=lambda index: answer["ids"][index])
        ids = [answer["ids"][index] for index in order]
        matrix = np.asarray(answer["embeddings"], dtype=np.float32).reshape(-1, queries.shape[1])[order]
        return [nearest(ids, matrix, query, limit) for query in queries]

    def ids(self, conditions: Mapping[str, str | int], limit: int, offset: int) -> list[str]:
        """A page of the ids of the rows that a filter leaves."""
        answer = self._collection.get(where=where_clause(conditions), limit=limit, offset=offset, include=[])
        return list(answer["ids"])

    def _send(self, items: Sequence[_Item], call: Callable[[Sequence[_Item]], None]) -> None:
        if self._server is None:
            call(items)
        else:
            in_parts(items, call, self._server.too_large)


def bytes_of(row: StoreRow) -> int:
    """How many bytes a row is in a request, rather too many than too few: its vector as base64, the rest as JSON."""
    kept = json.dumps([row.chunk.id, storable(row.chunk.text), payload(row)], ensure_ascii=False)
    return 4 * (4 * len(row.vector) // 3 + 1) + len(kept.encode()) + _ROW_BYTES


def pages_of(rows: Sequence[StoreRow], places: Sequence[int], most_bytes: int) -> Iterator[list[int]]:
    """Part the rows at `places` into requests of at most so many bytes, unless a row alone has more."""
    page, size = list[int](), 0
    for place in places:
        added = bytes_of(rows[place])
        if page and size + added > most_bytes:
            yield page
            page, size = [], 0
        page.append(place)
        size += added
    if page:
        yield page


def in_parts(items: Sequence[_Item], send: Callable[[Sequence[_Item]], None], too_large: KbError) -> int:
    """Send items in one request, or in halves of it when that is too large.

    Args:
        items: At least one.
        send: Sends some.
        too_large: Raised when an item alone is too large.

    Returns:
        How many went into the largest request that was taken.
    """
    try:
        send(items)
    except TooLargeError as error:
        if len(items) == 1:
            raise too_large from error
        middle = len(items) // 2
        return max(in_parts(half, send, too_large) for half in (items[:middle], items[middle:]))
    return len(items)
