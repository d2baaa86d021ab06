"""A stand-in for a Qdrant server: the REST calls that kb makes, answered over a socket by qdrant-client's local mode.

It is not Qdrant. It lets the real client's requests, keys, time-outs and errors be tested where no server
can be had; how a server searches, stores and scales is not shown by it. Bodies are read by the client's
own models, so that what no server would take is refused here too.
"""

from __future__ import annotations

import json
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from qdrant_client import models
from qdrant_client.local.qdrant_local import QdrantLocal

MOST_BYTES = 32 * 1024 * 1024
"""Of a request, as a Qdrant server has it by default."""


class RefusedRequestError(Exception):
    def __init__(self, status: int, reason: str) -> None:
        self.status, self.reason = status, reason
        super().__init__(reason)


@dataclass
class QdrantStandIn:
    """What it holds, and how it behaves."""

    url: str = ""
    key: str | None = None
    """Asked for in the header `api-key`."""
    version: str = "1.16.0"
    """An older one forgets the metadata of collections."""
    answer: Callable[[str], tuple[int, bytes] | None] = lambda request: None
    """Status and body instead of the true answer, for a request as `GET /collections/x`; None: the true one."""
    cut_off: bool = False
    """Only half of each answer is sent."""
    delay_seconds: float = 0.0
    requests: list[str] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    held: QdrantLocal = field(default_factory=lambda: QdrantLocal(":memory:"))
    guard: threading.RLock = field(default_factory=threading.RLock)
    indexes: dict[str, dict[str, str]] = field(default_factory=dict)
    hnsw: dict[str, dict[str, Any]] = field(default_factory=dict)
    parameters: list[models.SearchParams | None] = field(default_factory=list)
    """Of each question."""

    @property
    def collections(self) -> list[str]:
        return sorted(self.held.collections)

    def respond(self, method: str, path: str, body: bytes) -> Any:
        """The result of a request."""
        with self.guard:
            for (verb, pattern), handler in _ROUTES.items():
                if verb == method and (found := re.fullmatch(pattern, path)):
                    if found.groups() and path.count("/") > 2 and not path.endswith("/exists"):
                        self._existing(found[1])
                    return handler(self, *found.groups(), **({"body": body} if body else {}))
        raise RefusedRequestError(404, "")

    def _existing(self, name: str) -> None:
        if name not in self.held.collections:
            raise RefusedRequestError(404, f"Not found: Collection `{name}` doesn't exist!")

    def list_all(self) -> Any:
        return {"collections": [{"name": name} for name in self.collections]}

    def exists(self, name: str) -> Any:
        return {"exists": name in self.held.collections}

    def read(self, name: str) -> Any:
        self._existing(name)
        info = self.held.get_collection(name).model_dump(mode="json")
        info["payload_schema"] = {
            key: {"data_type": kind, "points": 0} for key, kind in self.indexes.get(name, {}).items()
        }
        info["config"]["hnsw_config"].update(self.hnsw.get(name, {}))
        return info

    def create(self, name: str, body: bytes) -> Any:
        wanted = models.CreateCollection.model_validate_json(body)
        if name in self.held.collections:
            raise RefusedRequestError(409, f"Wrong input: Collection `{name}` already exists!")
        kept = wanted.metadata if tuple(map(int, self.version.split("."))) >= (1, 16) else None
        self.held.create_collection(name, vectors_config=wanted.vectors, metadata=kept)
        self.hnsw[name] = wanted.hnsw_config.model_dump(exclude_none=True) if wanted.hnsw_config else {}
        return True

    def update(self, name: str, body: bytes) -> Any:
        self._existing(name)
        wanted = models.UpdateCollection.model_validate_json(body)
        self.hnsw[name] |= wanted.hnsw_config.model_dump(exclude_none=True) if wanted.hnsw_config else {}
        return True

    def drop(self, name: str) -> Any:
        self.indexes.pop(name, None)
        return self.held.delete_collection(name)

    def index(self, name: str, body: bytes) -> Any:
        wanted = models.CreateFieldIndex.model_validate_json(body)
        assert isinstance(wanted.field_schema, models.PayloadSchemaType)
        self.indexes.setdefault(name, {})[wanted.field_name] = wanted.field_schema.value
        return _DONE

    def upsert(self, name: str, body: bytes) -> Any:
        self.held.upsert(name, models.PointsList.model_validate_json(body).points)
        return _DONE

    def delete(self, name: str, body: bytes) -> Any:
        asked = json.loads(body)
        kind: Any = models.FilterSelector if "filter" in asked else models.PointIdsList
        self.held.delete(name, kind.model_validate_json(body))
        return _DONE

    def retrieve(self, name: str, body: bytes) -> Any:
        asked = models.PointRequest.model_validate_json(body)
        wanted = asked.with_payload if asked.with_payload is not None else True
        return self.held.retrieve(name, asked.ids, with_payload=wanted, with_vectors=asked.with_vector or False)

    def scroll(self, name: str, body: bytes) -> Any:
        asked = models.ScrollRequest.model_validate_json(body)
        points, following = self.held.scroll(
            name,
            scroll_filter=asked.filter,
            limit=asked.limit or 10,
            offset=asked.offset,
            with_payload=asked.with_payload if asked.with_payload is not None else True,
            with_vectors=asked.with_vector or False,
        )
        return {"points": points, "next_page_offset": following}

    def count(self, name: str, body: bytes) -> Any:
        asked = models.CountRequest.model_validate_json(body)
        return self.held.count(name, count_filter=asked.filter)

    def query(self, name: str, body: bytes) -> Any:
        asked = models.QueryRequestBatch.model_validate_json(body).searches
        self.parameters += [one.params for one in asked]
        return self.held.query_batch_points(name, [one.model_copy(update={"params": None}) for one in asked])


_DONE = {"operation_id": 0, "status": "completed"}
_NAME = "/collections/([^/]+)"
_ROUTES: Mapping[tuple[str, str], Callable[..., Any]] = {
    ("GET", "/collections"): QdrantStandIn.list_all,
    ("GET", _NAME): QdrantStandIn.read,
    ("GET", f"{_NAME}/exists"): QdrantStandIn.exists,
    ("PUT", _NAME): QdrantStandIn.create,
    ("PATCH", _NAME): QdrantStandIn.update,
    ("DELETE", _NAME): QdrantStandIn.drop,
    ("PUT", f"{_NAME}/index"): QdrantStandIn.index,
    ("PUT", f"{_NAME}/points"): QdrantStandIn.upsert,
    ("POST", f"{_NAME}/points"): QdrantStandIn.retrieve,
    ("POST", f"{_NAME}/points/delete"): QdrantStandIn.delete,
    ("POST", f"{_NAME}/points/scroll"): QdrantStandIn.scroll,
    ("POST", f"{_NAME}/points/count"): QdrantStandIn.count,
    ("POST", f"{_NAME}/points/query/batch"): QdrantStandIn.query,
}


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


def _handler(server: QdrantStandIn) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            request = f"{self.command} {path}"
            size = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(size)
            server.requests.append(request)
            server.headers.append(dict(self.headers))
            time.sleep(server.delay_seconds)
            given = server.answer(request)
            status, told = given if given is not None else self._true_answer(path, body)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(told)))
            self.end_headers()
            self.wfile.write(told[: len(told) // 2] if server.cut_off else told)
            self.close_connection = True

        do_PUT = do_POST = do_PATCH = do_DELETE = do_GET

        def _true_answer(self, path: str, body: bytes) -> tuple[int, bytes]:
            try:
                if server.key is not None and self.headers.get("api-key") != server.key:
                    return 401, b"Must provide an API key or an Authorization bearer token"
                if len(body) > MOST_BYTES:
                    raise RefusedRequestError(413, "Payload error: JSON payload is larger than allowed")
                result = _plain(server.respond(self.command, path, body))
            except RefusedRequestError as error:
                return error.status, _json({"status": {"error": error.reason}, "time": 0.0})
            except (ValidationError, ValueError) as error:
                return 400, _json({"status": {"error": f"Format error in JSON body: {error}"}, "time": 0.0})
            return 200, _json({"result": result, "status": "ok", "time": 0.0})

    return Handler


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


@contextmanager
def qdrant_stand_in(
    *, key: str | None = None, version: str = "1.16.0", certificate: Path | None = None, private_key: Path | None = None
) -> Iterator[QdrantStandIn]:
    """Run one on a free port of this machine, with TLS when it is given a certificate."""
    server = QdrantStandIn(key=key, version=version)
    listener = ThreadingHTTPServer(("127.0.0.1", 0), _handler(server))
    listener.daemon_threads = True
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, private_key)
        listener.socket = context.wrap_socket(listener.socket, server_side=True)
    server.url = f"{'http' if certificate is None else 'https'}://127.0.0.1:{listener.server_address[1]}"
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        listener.shutdown()
        listener.server_close()
        thread.join(timeout=10)
        server.held.close()
