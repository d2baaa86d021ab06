"""Qdrant: on a server, or without one in a folder or in memory.

What qdrant-client 1.20 makes us careful about:

- Points are named by UUIDs: the chunk's id stands in the payload, and its UUID is computed from it.
- Without a server the client compares every vector, keeps all points in memory, and locks its folder:
  one process at a time (kb/store/_qdrant_clients.py).
- A server older than 1.16 takes what a collection says of itself, and forgets it.
- Cosine vectors are normalised when they are stored, and come back so.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse
from qdrant_client.local.qdrant_local import QdrantLocal

from kb.components import Parts, StorePlace, StoreRow
from kb.errors import StoreError
from kb.payloads import StoredRow, storable, stored_row
from kb.store._qdrant_calls import ID, TEXT, Where, chunk_id_of, pages, point_id, point_payload, ranked, translated
from kb.store._qdrant_clients import (
    SharedClient,
    give_back,
    lend_of_folder,
    lend_of_memory,
    to_disk,
    unless_held,
    write_ahead,
)
from kb.store._qdrant_made import check_made_by_kb, complete, generations_there, told_with_it, too_old
from kb.store._qdrant_options import Options, check, client_arguments, collection_name, key_of
from kb.store._rows import filters, last_of_each, place_of, query_matrix, row_matrix

if TYPE_CHECKING:
    from kb.components import FloatArray
    from kb.records import Scalar

__all__ = ["ONE_PROCESS", "Options", "QdrantStore", "build", "drop", "generations"]

ONE_PROCESS = True
"""Without a server its data are one process's at a time."""

_FOLDER = "qdrant"
"""In the generation's folder, as Qdrant's file names are anybody's: `meta.json`, `.lock`."""

_NUMBERS = 1_000_000
"""Numbers of one request. As JSON they are at most 22 MB, below the 32 MB that a server takes in a request."""

_READ_PAGE = 1_000
"""Points of one read or delete by id."""

_SCROLL_PAGE = 5_000
"""Ids of one page; local mode sorts all of them for each."""

_QUERY_PAGE = 100
"""Questions of one request."""

_COUNT_FROM = 10_000
"""From this limit on it is cut to the number of points first, against absurd limits."""

_NOT_FOUND, _CONFLICT = 404, 409


class _Local(QdrantLocal):
    # Else it warns from 20,000 points on; docs/configuring.md says that a server is better for so many.
    LARGE_DATA_THRESHOLD = sys.maxsize


def build(options: Options, parts: Parts) -> QdrantStore:
    """Open the collection, or create an empty one.

    Raises:
        IndexMismatchError: it holds vectors of another embedder.
        StoreError: it cannot be opened, another process has its folder open, or it is none of kb's.
        ConfigError: an option is wrong, or the key that is named is not set.
    """
    check(options)
    return QdrantStore(options, place_of("qdrant", parts), key_of(options, parts))


def drop(options: Options, parts: Parts, slug: str, generation: int) -> None:
    """Delete a generation's collection from a server; one in a folder goes with its folder.

    Raises:
        StoreError: the server does not answer, or refuses.
    """
    if not options.url:
        return
    name = collection_name(options, slug, generation)
    with _asked(options, parts, f"the Qdrant collection {name!r} at {options.url} could not be deleted") as client:
        try:
            client.delete_collection(name)  # of one that is not there it says so, and that is all
        except UnexpectedResponse as error:
            if error.status_code != _NOT_FOUND:
                raise


def generations(options: Options, parts: Parts, slug: str) -> dict[int, str]:
    """The generations that a server holds, each with its embedder's fingerprint; none of a folder. Raises as `drop`."""
    if not options.url:
        return {}
    check(options)
    with _asked(options, parts, f"the collections at {options.url} could not be listed") as client:
        return generations_there(client, slug)


@contextmanager
def _asked(options: Options, parts: Parts, failure: str) -> Iterator[QdrantClient]:
    """A client of a server, for a moment."""
    key = key_of(options, parts)
    with translated(failure, Where(options.url, options.api_key_env, key)):
        client = QdrantClient(**client_arguments(options, key))
        try:
            yield client
        finally:
            client.close()


class QdrantStore:
    """One Qdrant collection."""

    def __init__(self, options: Options, place: StorePlace, key: str | None) -> None:
        self._place = place
        self._options = options
        # Without a server all are compared, and the client warns of parameters that it does not need.
        how = models.SearchParams(hnsw_ef=options.ef_search, exact=options.exact)
        self._search_parameters = how if options.url else None
        self._index = models.HnswConfigDiff(m=options.max_neighbors, ef_construct=options.ef_construction)
        self._name = collection_name(options, place.slug, place.generation)
        kept = "memory" if options.in_memory else str(place.folder)
        self._what = f"the Qdrant collection {self._name!r} in {options.url or kept}"
        mend = f"If it stays so, mend it (nothing is embedded): {place.repair_command}"
        folder = None if options.url or options.in_memory else place.folder
        self._where = Where(options.url, options.api_key_env, key, folder, mend)
        self._shared: SharedClient | None = None
        self._client: Any = None
        self._closed = False
        try:
            with translated(f"{self._what} could not be opened", self._where):
                self._client = self._connect(key)
            with self._calls("opened"):
                self._open_collection()
        except BaseException:
            self.close()
            raise
        self._write_page = max(1, min(options.batch_size, _NUMBERS // place.dimension))
        self._read_page = max(1, min(_READ_PAGE, _NUMBERS // place.dimension))

    def upsert(self, rows: Sequence[StoreRow]) -> None:
        """Add rows, or replace those of the same chunk id, payload and all."""
        rows = last_of_each(rows)
        matrix = row_matrix(rows, self._place)
        for start in range(0, len(rows), self._write_page):
            page = range(start, min(start + self._write_page, len(rows)))
            points = [
                models.PointStruct(
                    id=point_id(rows[place].chunk.id),
                    vector=matrix[place].tolist(),
                    payload=point_payload(rows[place]),
                )
                for place in page
            ]
            with self._changes():
                self._client.upsert(self._name, points, wait=True)

    def delete(self, chunk_ids: Sequence[str]) -> None:
        """Remove chunks; unknown ids are ignored."""
        with self._changes():
            for page in pages(chunk_ids, _READ_PAGE):
                self._client.delete(self._name, models.PointIdsList(points=list(page)), wait=True)

    def delete_document(self, document_id: str) -> None:
        """Remove all chunks of one document."""
        chosen = _conditions({"document_id": storable(document_id)})
        assert chosen is not None, "there is one condition"
        with self._changes():
            self._client.delete(self._name, models.FilterSelector(filter=chosen), wait=True)

    def search(
        self, vectors: FloatArray, limit: int, where: Mapping[str, Scalar] | None = None
    ) -> list[list[tuple[str, float]]]:
        """Find the nearest chunks of each row: exactly without a server, approximately on one unless `exact` is set."""
        queries = query_matrix(vectors, self._place)
        chosen = _conditions(filters(where))
        if limit > _COUNT_FROM:
            limit = min(limit, self.count())
        if limit <= 0 or not len(queries):
            return [[] for _ in queries]
        found: list[list[tuple[str, float]]] = []
        for start in range(0, len(queries), _QUERY_PAGE):
            requests = [
                models.QueryRequest(
                    query=models.NearestQuery(nearest=query.tolist()),
                    filter=chosen,
                    limit=int(limit),
                    params=self._search_parameters,
                    with_payload=[ID],
                )
                for query in queries[start : start + _QUERY_PAGE]
            ]
            with self._calls("searched"):
                answers = self._client.query_batch_points(self._name, requests)
                if len(answers) != len(requests):
                    raise StoreError(f"{self._what} gave {len(answers)} answers to {len(requests)} questions")
                found += [ranked(answer.points) for answer in answers]
        return found

    def vectors(self, chunk_ids: Sequence[str]) -> dict[str, FloatArray]:
        """The stored vectors of those ids that exist."""
        return {chunk_id: self._vector(point) for chunk_id, point in self._points(chunk_ids, payload=False)}

    def rows(self, chunk_ids: Sequence[str]) -> dict[str, StoredRow]:
        """What is stored of those ids that exist."""
        found = {}
        for chunk_id, point in self._points(chunk_ids, payload=True):
            with self._calls("read"):
                found[chunk_id] = stored_row(point.payload, point.payload[TEXT], self._vector(point))
        return found

    def chunk_ids(self) -> Iterator[str]:
        """All ids; they may be deleted while they are walked through, for all are read before."""
        ids: list[str] = []
        offset = None
        while True:
            with self._calls("read"):
                points, offset = self._client.scroll(
                    self._name, limit=_SCROLL_PAGE, offset=offset, with_payload=[ID], with_vectors=False
                )
                ids += map(chunk_id_of, points)
            if offset is None or not points:
                return iter(ids)

    def count(self) -> int:
        """The number of rows."""
        with self._calls("read"):
            return int(self._client.count(self._name, exact=True).count)

    def close(self) -> None:
        """Release the connections, or the folder when no other store of this process has it open."""
        client, shared = self._client, self._shared
        self._client, self._shared, self._closed = None, None, True
        if shared is not None:
            give_back(shared)
        elif client is not None:
            client.close()

    def _connect(self, key: str | None) -> Any:
        if self._options.url:
            return QdrantClient(**client_arguments(self._options, key))
        if self._options.in_memory:
            self._shared = lend_of_memory(self._place.folder, lambda: _Local(":memory:"))
        else:
            self._shared = lend_of_folder(self._place.folder / _FOLDER, unless_held(self._what, _Local))
        return self._shared.client

    def _open_collection(self) -> None:
        made = not self._place.as_it_is and not self._client.collection_exists(self._name)
        if made:
            self._create()
        info = self._client.get_collection(self._name)
        if made and self._options.url and not info.config.metadata:
            self._client.delete_collection(self._name)
            raise too_old(self._options.url)
        check_made_by_kb(info, self._place, self._what)
        if self._options.url and not self._place.as_it_is:
            complete(self._client, self._name, info, self._index)
        elif not self._options.url:
            self._client.collections[self._name].LARGE_DATA_THRESHOLD = sys.maxsize
            write_ahead(self._client, self._name)

    def _create(self) -> None:
        shape = models.VectorParams(size=self._place.dimension, distance=models.Distance.COSINE)
        try:
            self._client.create_collection(
                self._name, vectors_config=shape, hnsw_config=self._index, metadata=told_with_it(self._place)
            )
        except UnexpectedResponse as error:
            if error.status_code != _CONFLICT:  # another process has been quicker
                raise

    def _points(self, chunk_ids: Sequence[str], *, payload: bool) -> Iterator[tuple[str, Any]]:
        """The points of those ids that exist, with their vectors."""
        for page in pages(chunk_ids, self._read_page):
            with self._calls("read"):
                points = self._client.retrieve(self._name, list(page), with_payload=payload, with_vectors=True)
                found = [(page[str(point.id)], point) for point in points if str(point.id) in page]
            yield from found

    def _vector(self, point: Any) -> FloatArray:
        with self._calls("read"):
            vector = np.asarray(point.vector, dtype=np.float32)
            if vector.shape != (self._place.dimension,):
                raise StoreError(f"{self._what} gave a vector of shape {vector.shape}, not ({self._place.dimension},)")
            return vector

    @contextmanager
    def _changes(self) -> Iterator[None]:
        with self._calls("written"):
            try:
                yield
            finally:
                if not self._options.url:
                    to_disk(self._client, self._name)

    @contextmanager
    def _calls(self, done: str) -> Iterator[None]:
        """Turn errors into StoreErrors, and take turns where a client is for one thread."""
        turn: AbstractContextManager[Any] = nullcontext() if self._shared is None else self._shared.guard
        with turn:
            if self._closed:
                raise StoreError(f"the store of collection {self._place.collection!r} is closed")
            with translated(f"{self._what} could not be {done}", self._where):
                yield


def _conditions(wanted: Mapping[str, str | int]) -> models.Filter | None:
    """Conditions as Qdrant takes them; None when there are none."""
    if not wanted:
        return None
    return models.Filter(
        must=[models.FieldCondition(key=key, match=models.MatchValue(value=value)) for key, value in wanted.items()]
    )
