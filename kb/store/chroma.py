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
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import chromadb
import chromadb.api.client
from chromadb.api.shared_system_client import SharedSystemClient
from chromadb.auth import UserIdentity
from chromadb.config import DEFAULT_DATABASE, DEFAULT_TENANT, Settings
from chromadb.errors import NotFoundError

from kb.components import Parts, StorePlace, StoreRow
from kb.errors import StoreError
from kb.payloads import StoredRow, storable
from kb.store._chroma_calls import close_client, close_sessions, translated
from kb.store._chroma_files import remember_folders
from kb.store._chroma_options import Options, collection_name
from kb.store._chroma_requests import Requests
from kb.store._chroma_server import Server
from kb.store._chroma_shape import generations_there, new_collection, to_change
from kb.store._rows import filters, last_of_each, place_of, query_matrix, row_matrix

if TYPE_CHECKING:
    from kb.components import FloatArray
    from kb.records import Scalar

__all__ = ["ChromaStore", "Options", "build", "drop", "generations"]

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
        ConfigError: `url` is no URL of a server, or what belongs to it is wrong or missing.
    """
    place = place_of("chroma", parts)
    return ChromaStore(options, place, Server.read(options, parts.secret) if options.url else None)


def drop(options: Options, parts: Parts, slug: str, generation: int) -> None:
    """Delete a generation's collection from a server; one in a folder goes with its folder.

    Raises:
        StoreError: the server does not answer, or refuses.
        ConfigError: a variable that `options` name is not set.
    """
    if not options.url:
        return
    name = collection_name(options, slug, generation)
    failure = f"the Chroma collection {name!r} at {options.url} could not be deleted"
    with _asked(options, parts, failure, deletes=True) as client, suppress(NotFoundError):
        client.delete_collection(name)  # one that is not there was never made, or an earlier run deleted it


def generations(options: Options, parts: Parts, slug: str) -> dict[int, str]:
    """The generations that a server holds, each with its embedder's fingerprint; none of a folder. Raises as `drop`."""
    if not options.url:
        return {}
    with _asked(options, parts, f"the collections at {options.url} could not be listed") as client:
        return generations_there(client, slug)


@contextmanager
def _asked(options: Options, parts: Parts, failure: str, *, deletes: bool = False) -> Iterator[_ServerClient]:
    """A client for a moment."""
    server = Server.read(options, parts.secret)
    with translated(failure, f"Check that a Chroma server runs at {options.url}", said=server.said):
        client = _ServerClient(server, deletes=deletes)
        try:
            yield client
        finally:
            close_client(client)


class ChromaStore:
    """One Chroma collection."""

    def __init__(self, options: Options, place: StorePlace, server: Server | None) -> None:
        self._place = place
        self._server = server
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
                self._requests = Requests(self._collection, server)
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
                self._requests.write(rows, matrix, places)

    def delete(self, chunk_ids: Sequence[str]) -> None:
        """Remove chunks; unknown ids are ignored."""
        for page in self._pages(chunk_ids):
            with self._errors("written"):
                self._requests.delete(page)

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
            with self._errors("searched"):
                few = self._requests.search_few(queries, limit, conditions, _EXACT_ROWS)
            if few is not None:
                return few
        found: list[list[tuple[str, float]]] = []
        for start in range(0, len(queries), _QUERY_PAGE):
            with self._errors("searched"):
                found += self._requests.search(queries[start : start + _QUERY_PAGE], limit, conditions)
        return found

    def vectors(self, chunk_ids: Sequence[str]) -> dict[str, FloatArray]:
        """The stored vectors of those ids that exist."""
        found: dict[str, FloatArray] = {}
        for page in self._pages(chunk_ids):
            with self._errors("read"):
                found.update(self._requests.vectors(page))
        return found

    def rows(self, chunk_ids: Sequence[str]) -> dict[str, StoredRow]:
        """What is stored of those ids that exist."""
        found: dict[str, StoredRow] = {}
        for page in self._pages(chunk_ids):
            with self._errors("read"):
                found.update(self._requests.rows(page))
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
        if self._server is not None:
            with self._errors("reached"):
                return _ServerClient(self._server)
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
            if self._place.as_it_is:
                raise
            return self._client.create_collection(self._name, **new_collection(options, self._place))

    def _check(self, options: Options) -> None:
        other = to_change(self._collection, options, self._place, self._what)
        if other and not self._place.as_it_is:
            with self._errors("changed"), warnings.catch_warnings():
                # Chroma warns of "legacy" where a collection has no embedding function, as ours.
                warnings.simplefilter("ignore", DeprecationWarning)
                self._collection.modify(configuration={"hnsw": other})

    def _ids(self, conditions: Mapping[str, str | int]) -> list[str]:
        ids: list[str] = []
        while True:
            with self._errors("read"):
                page = self._requests.ids(conditions, _READ_PAGE, len(ids))
            ids += page
            if len(page) < _READ_PAGE:
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
        said = self._server.said if self._server is not None else None
        with translated(f"{self._what} could not be {done}", self._advice, self._folder, said):
            yield


class _ServerClient(chromadb.api.client.Client):
    """Chroma's client, with a session that is set up before the first request.

    `HttpClient` would ask three questions before anybody can set a time-out.
    """

    def __init__(self, server: Server, *, deletes: bool = False) -> None:
        self._prepare = partial(server.prepare, deletes=deletes)
        settings: Any = _settings()
        settings.chroma_api_impl = "chromadb.api.fastapi.FastAPI"
        settings.chroma_server_host = server.address["host"]
        settings.chroma_server_http_port = server.address["port"]
        settings.chroma_server_ssl_enabled = server.address["ssl"]
        # Always ours: else a variable, CHROMA_SERVER_SSL_VERIFY, could switch the verification off.
        settings.chroma_server_ssl_verify = server.verify
        options = server.options
        try:
            super().__init__(options.tenant or DEFAULT_TENANT, options.database or DEFAULT_DATABASE, settings)
        except BaseException:
            close_sessions(self)
            raise

    def get_user_identity(self) -> UserIdentity:
        """Who we are to the server: the first request."""
        self._prepare(self._session_of(self._server))
        return self._server.get_user_identity()

    def _validate_tenant_database(self, tenant: str, database: str) -> None:
        self._prepare(self._session_of(self._admin_client))
        try:
            self._admin_client.get_tenant(name=tenant)
            self._admin_client.get_database(name=database, tenant=tenant)
        except NotFoundError as error:
            raise StoreError(
                f"the Chroma server has no database {database!r} of the tenant {tenant!r}. Make it there, or mend "
                "[store.chroma] tenant and database"
            ) from error

    @staticmethod
    def _session_of(part: Any) -> Any:
        return getattr(part, "_server", part)._session


def _settings() -> Settings:
    return Settings(anonymized_telemetry=False)


def _forget_failed_system(path: str) -> None:
    """Take back what a failed opening leaves in Chroma's cache, where every later opening would find it.

    `clear_system_cache` would do, but take the other open collections of this process with it.
    """
    systems = SharedSystemClient._identifier_to_system
    if not SharedSystemClient._identifier_to_refcount.get(path):
        systems.pop(path, None)
