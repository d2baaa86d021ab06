"""Chroma: embedded, in a folder of its own, or on a server.

What Chroma 1.5 makes us careful about:

- One process may write to a folder at a time (`kb.ingest.lock` sees to it), under one spelling of
  its path. Never fork while a store is open: spawn.
- A reader in another process sees the index as it was when it first searched; it reopens to see more.
- Vectors are always ours: `embedding_function=None`, and the space, which is fixed when a collection
  is created and silently kept afterwards, is read back and compared.
- Its Rust half panics on some errors with an exception that is no `Exception`.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import chromadb
import numpy as np
from chromadb.api.shared_system_client import SharedSystemClient
from chromadb.config import Settings
from chromadb.errors import NotFoundError

from kb.components import Parts, StorePlace, StoreRow
from kb.errors import StoreError
from kb.payloads import StoredRow, payload, storable
from kb.store._chroma_calls import close_client, columns, ranked, stored_rows, translated, where_clause
from kb.store._chroma_files import remember_folders
from kb.store._chroma_options import Options, collection_name, server_address
from kb.store._chroma_shape import new_collection, to_change
from kb.store._rows import (
    filters,
    last_of_each,
    nearest,
    place_of,
    query_matrix,
    row_matrix,
)

if TYPE_CHECKING:
    from kb.components import FloatArray
    from kb.records import Scalar

__all__ = ["ChromaStore", "Options", "build", "drop"]

_READ_PAGE = 5_000
"""Rows of one read or delete; lists of over 32,766 ids fail in Chroma."""

_WRITE_PAGE = 2_000
"""Rows of one upsert: the fastest (1,053 rows/s; 743 at 100 a batch, 1,030 at 5,000)."""

_WRITE_NUMBERS = 2_000 * 1_024
"""Numbers of one upsert. As base64 they are 11 MB, well below the 40 MB that a server takes in a request."""

_QUERY_PAGE = 100
"""Questions of one query call."""

_COUNT_FROM = 10_000
"""From this limit on it is cut to the number of rows first. Counting costs more than a search (7 ms
against 2 ms at 20,000 rows), and Chroma gives fewer by itself; this guards against absurd limits."""

_EXACT_ROWS = 1_000
"""A filter that leaves no more rows than this is answered exactly: fetching them and comparing with NumPy
takes 15 ms where Chroma's filtered search takes 142 ms (100,000 rows, one source of them)."""


def build(options: Options, parts: Parts) -> ChromaStore:
    """Open the collection, or create an empty one.

    Raises:
        IndexMismatchError: it holds vectors of another embedder.
        StoreError: it cannot be opened, or was created with another distance or another shape of the index.
        ConfigError: `url` is no URL of a server.
    """
    return ChromaStore(options, place_of("chroma", parts))


def drop(options: Options, parts: Parts, slug: str, generation: int) -> None:
    """Delete a generation's collection from a server; one in a folder goes with its folder.

    Raises:
        StoreError: the server does not answer.
    """
    if not options.url:
        return
    name = collection_name(options, slug, generation)
    with translated(f"the Chroma collection {name!r} at {options.url} could not be deleted"):
        client = chromadb.HttpClient(settings=_settings(), **server_address(options.url))
        try:
            client.delete_collection(name)
        except NotFoundError:
            return  # it was never made, or an earlier run deleted it
        finally:
            close_client(client)


class ChromaStore:
    """One Chroma collection."""

    def __init__(self, options: Options, place: StorePlace) -> None:
        self._place = place
        self._options = options
        self._name = collection_name(options, place.slug, place.generation)
        self._what = f"the Chroma collection {self._name!r} in {options.url or place.folder}"
        mend = f"mend it (nothing is embedded): {place.repair_command}"
        self._advice = f"Check that a Chroma server runs at {options.url}" if options.url else f"If it stays so, {mend}"
        self._folder = None if options.url else place.folder
        self._client: Any = None
        self._closed = False
        self._written = False
        try:
            self._client = self._connect(options)
            with self._errors("opened"):
                self._collection = self._open_collection(options)
                self._write_page = int(self._client.get_max_batch_size())
            self._check(options)
        except BaseException:
            self.close()
            raise
        self._write_page = max(1, min(self._write_page, _WRITE_PAGE, _WRITE_NUMBERS // place.dimension))

    def upsert(self, rows: Sequence[StoreRow]) -> None:
        """Add rows, or replace those of the same chunk id, payload and all."""
        rows = last_of_each(rows)
        matrix = row_matrix(rows, self._place)
        self._written = True
        for start in range(0, len(rows), self._write_page):
            places = range(start, min(start + self._write_page, len(rows)))
            with self._errors("written"):
                held = set(self._collection.get(ids=[rows[place].chunk.id for place in places], include=[])["ids"])
                # Adding takes less time than upserting, but does nothing for ids that are there.
                if new := [place for place in places if rows[place].chunk.id not in held]:
                    payloads = (payload(rows[place]) for place in new)
                    told = [{key: value for key, value in one.items() if value is not None} for one in payloads]
                    self._collection.add(**columns(rows, matrix, new), metadatas=told)
                if old := [place for place in places if rows[place].chunk.id in held]:
                    # Metadata is merged with what is there; a key with None is taken away.
                    merged = [payload(rows[place]) for place in old]
                    self._collection.upsert(**columns(rows, matrix, old), metadatas=merged)

    def delete(self, chunk_ids: Sequence[str]) -> None:
        """Remove chunks; unknown ids are ignored."""
        for page in self._pages(chunk_ids):
            with self._errors("written"):
                self._collection.delete(ids=page)

    def delete_document(self, document_id: str) -> None:
        """Remove all chunks of one document."""
        self.delete(self._ids({"document_id": storable(document_id)}))

    def search(
        self, vectors: FloatArray, limit: int, where: Mapping[str, Scalar] | None = None
    ) -> list[list[tuple[str, float]]]:
        """Find the nearest chunks of each row, approximately; exactly when `where` leaves few rows."""
        queries = query_matrix(vectors, self._place)
        conditions = filters(where)
        if limit > _COUNT_FROM:
            limit = min(limit, self.count())
        if limit <= 0 or not len(queries):
            return [[] for _ in queries]
        if conditions:
            few = self._search_few(queries, limit, conditions)
            if few is not None:
                return few
        found: list[list[tuple[str, float]]] = []
        for start in range(0, len(queries), _QUERY_PAGE):
            with self._errors("searched"):
                answer = self._collection.query(
                    query_embeddings=queries[start : start + _QUERY_PAGE],
                    n_results=int(limit),
                    where=where_clause(conditions),
                    include=["distances"],
                )
            found += [ranked(*pair) for pair in zip(answer["ids"], answer["distances"], strict=True)]
        return found

    def vectors(self, chunk_ids: Sequence[str]) -> dict[str, FloatArray]:
        """The stored vectors of those ids that exist."""
        found: dict[str, FloatArray] = {}
        for page in self._pages(chunk_ids):
            with self._errors("read"):
                answer = self._collection.get(ids=page, include=["embeddings"])
            found.update(zip(answer["ids"], np.asarray(answer["embeddings"], dtype=np.float32), strict=True))
        return found

    def rows(self, chunk_ids: Sequence[str]) -> dict[str, StoredRow]:
        """What is stored of those ids that exist."""
        found: dict[str, StoredRow] = {}
        for page in self._pages(chunk_ids):
            with self._errors("read"):
                answer = self._collection.get(ids=page, include=["embeddings", "metadatas", "documents"])
            found.update(stored_rows(answer))
        return found

    def chunk_ids(self) -> Iterator[str]:
        """All ids; they may be deleted while they are walked through, for all are read before."""
        return iter(self._ids({}))

    def count(self) -> int:
        """The number of rows."""
        with self._errors("read"):
            return int(self._collection.count())

    def close(self) -> None:
        """Release the folder.

        Its files are closed, some milliseconds later, unless another store of this process has it open.
        """
        client, self._client, self._closed = self._client, None, True
        if client is not None:
            close_client(client)
            if self._written and not self._options.url:
                remember_folders(self._place.folder)

    def _connect(self, options: Options) -> Any:
        if options.url:
            address = server_address(options.url)
            with self._errors("reached"):
                return chromadb.HttpClient(settings=_settings(), **address)
        # Chroma opens one system for each *spelling* of a path; the real path is one spelling.
        path = os.path.realpath(self._place.folder)
        try:
            with self._errors("opened"):
                return chromadb.PersistentClient(path, settings=_settings())
        except StoreError:
            _forget_failed_system(path)
            raise

    def _open_collection(self, options: Options) -> Any:
        try:
            return self._client.get_collection(self._name, embedding_function=None)
        except NotFoundError:
            return self._client.create_collection(self._name, **new_collection(options, self._place))

    def _check(self, options: Options) -> None:
        other = to_change(self._collection, options, self._place, self._what)
        if other:
            with self._errors("changed"), warnings.catch_warnings():
                # Chroma warns of "legacy" where a collection has no embedding function, as ours.
                warnings.simplefilter("ignore", DeprecationWarning)
                self._collection.modify(configuration={"hnsw": other})

    def _search_few(
        self, queries: FloatArray, limit: int, conditions: Mapping[str, str | int]
    ) -> list[list[tuple[str, float]]] | None:
        """Search exactly among the rows that a filter leaves; None when they are not few."""
        with self._errors("searched"):
            answer = self._collection.get(where=where_clause(conditions), limit=_EXACT_ROWS + 1, include=["embeddings"])
        if len(answer["ids"]) > _EXACT_ROWS:
            return None
        order = sorted(range(len(answer["ids"])), key=lambda index: answer["ids"][index])
        ids = [answer["ids"][index] for index in order]
        matrix = np.asarray(answer["embeddings"], dtype=np.float32).reshape(-1, self._place.dimension)[order]
        return [nearest(ids, matrix, query, limit) for query in queries]

    def _ids(self, conditions: Mapping[str, str | int]) -> list[str]:
        ids: list[str] = []
        while True:
            with self._errors("read"):
                answer = self._collection.get(
                    where=where_clause(conditions), limit=_READ_PAGE, offset=len(ids), include=[]
                )
            ids += answer["ids"]
            if len(answer["ids"]) < _READ_PAGE:
                return ids

    def _pages(self, chunk_ids: Sequence[str]) -> Iterator[list[str]]:
        distinct = list(dict.fromkeys(chunk_ids))  # an id given twice is an error in Chroma
        size = min(_READ_PAGE, self._write_page)
        return (distinct[start : start + size] for start in range(0, len(distinct), size))

    @contextmanager
    def _errors(self, done: str) -> Iterator[None]:
        """Turn whatever Chroma raises into a StoreError; it raises a dozen types, also of its parts."""
        if self._closed:
            # A closed client goes on answering while another store of this process has the folder open.
            raise StoreError(f"the store of collection {self._place.collection!r} is closed")
        with translated(f"{self._what} could not be {done}", self._advice, self._folder):
            yield


def _settings() -> Settings:
    return Settings(anonymized_telemetry=False)


def _forget_failed_system(path: str) -> None:
    """Take back what a failed opening leaves in Chroma's cache, where every later opening would find it.

    `clear_system_cache` would do, but take the other open collections of this process with it.
    """
    systems = SharedSystemClient._identifier_to_system
    if not SharedSystemClient._identifier_to_refcount.get(path):
        systems.pop(path, None)
