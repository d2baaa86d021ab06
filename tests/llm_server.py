"""OpenAI-compatible servers on loopback: `llmock`, which nobody here wrote, and one that follows a script.

The real `openai` client talks to both over a socket. The script's server records every request, and can
answer in ways that llmock does not: results out of order, keys refused, bytes cut anywhere in a stream.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import select
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np

START_SECONDS = 30.0


@dataclass(frozen=True)
class Reply:
    """One scripted answer; `pieces` are written and flushed one by one, then the connection may just drop."""

    status: int = 200
    pieces: Iterable[bytes] = ()
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    drops: bool = False
    wait_seconds: float = 0.0


@dataclass(frozen=True)
class Request:
    path: str
    body: dict[str, Any]
    authorization: str
    headers: dict[str, str] = field(default_factory=dict)
    """By their names in lower case."""


Script = Callable[[Request], Reply]


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep stderr clean of clients that were killed."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class ScriptedServer:
    """Answers each request by `script`; `requests` are all that came, in order.

    `left` are those whose client closed the connection before it had the whole answer.
    """

    def __init__(self, script: Script) -> None:
        self.script = script
        self.requests: list[Request] = []
        self.left: list[Request] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # else each answer takes 40 ms more

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                request = Request(self.path, json.loads(body or b"{}"), headers.get("authorization", ""), headers)
                outer.requests.append(request)
                self._send(request, outer.script(request))

            def _send(self, request: Request, reply: Reply) -> None:
                if reply.wait_seconds and self._client_leaves(reply.wait_seconds):
                    outer.left.append(request)
                    self.close_connection = True
                    return
                self.send_response(reply.status)
                self.send_header("Content-Type", reply.content_type)
                self.send_header("Transfer-Encoding", "chunked")
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                try:
                    for piece in reply.pieces:
                        self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
                        self.wfile.flush()
                    if not reply.drops:
                        self.wfile.write(b"0\r\n\r\n")
                except (BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
                    outer.left.append(request)
                self.close_connection = reply.drops

            def _client_leaves(self, seconds: float) -> bool:
                """Wait so long, or until the client has closed the connection."""
                readable = select.select([self.connection], [], [], seconds)[0]
                return bool(readable) and not self.connection.recv(1, socket.MSG_PEEK)

            def log_message(self, format: str, *args: Any) -> None:
                """Keep stderr for the tests."""

        self._server = _Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        self.base_url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def encrypt(self, certificate: Path) -> None:
        """Speak TLS from now on, with a certificate and its key from one file."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.base_url = self.base_url.replace("http://", "https://")

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


Serve = Callable[[Script], ScriptedServer]
"""Starts one, as the fixture `serve` does."""


@contextlib.contextmanager
def scripted_server(script: Script) -> Iterator[ScriptedServer]:
    server = ScriptedServer(script)
    try:
        yield server
    finally:
        server.close()


# ── what a service says ──


def json_reply(body: Any, status: int = 200, **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, [json.dumps(body).encode()], headers=named)


def error_reply(status: int, message: str, code: str | None = None, **headers: str) -> Reply:
    return json_reply({"error": {"message": message, "type": code, "param": None, "code": code}}, status, **headers)


def vector_for(text: str, dimension: int) -> list[float]:
    """The same vector for the same text, of any length but one; nothing else."""
    seed = int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "big")
    values: list[float] = (3 * np.random.default_rng(seed).standard_normal(dimension)).tolist()
    return values


def embedding_rows(request: Request, dimension: int) -> list[dict[str, Any]]:
    """What a right answer's `data` is, in the order of the inputs and in the format asked for."""
    rows = []
    for index, text in enumerate(request.body["input"]):
        vector: Any = vector_for(text, dimension)
        if request.body.get("encoding_format") == "base64":
            vector = base64.b64encode(np.asarray(vector, dtype="<f4").tobytes()).decode()
        rows.append({"object": "embedding", "index": index, "embedding": vector})
    return rows


def embeddings_reply(request: Request, rows: list[dict[str, Any]]) -> Reply:
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    return json_reply({"object": "list", "data": rows, "model": request.body["model"], "usage": usage})


def chat_reply(text: str | None, finish: str = "stop") -> Reply:
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return json_reply({"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]})


def chunk(content: str | None, finish: str | None = None, **delta: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": {"content": content, **delta}, "finish_reason": finish}
    return {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


def stream_bytes(chunks: Sequence[dict[str, Any]], done: bool = True) -> bytes:
    events = [f"data: {json.dumps(event, ensure_ascii=False)}\n\n" for event in chunks]
    return "".join([*events, "data: [DONE]\n\n" if done else ""]).encode()


def stream_reply(chunks: Sequence[dict[str, Any]], cut: int = 0, done: bool = True, drops: bool = False) -> Reply:
    """A streamed answer, written `cut` bytes at a time: characters and events are split anywhere."""
    data = stream_bytes(chunks, done)
    pieces = [data[at : at + cut] for at in range(0, len(data), cut)] if cut else [data]
    return Reply(200, pieces, content_type="text/event-stream", drops=drops)


def chat_script(text: str, cut: int = 0) -> Script:
    """A model that always says `text`, whole or in one piece for each character."""

    def script(request: Request) -> Reply:
        if not request.body.get("stream"):
            return chat_reply(text)
        return stream_reply([chunk("", role="assistant"), *map(chunk, text), chunk(None, "stop")], cut)

    return script


# ── llmock ──


@dataclass
class LlmockServer:
    """The real llmock in a process of its own."""

    base_url: str
    admin_url: str

    def script(self, *behaviors: dict[str, Any]) -> None:
        """Queue faults, such as `{"type": "fail", "status": 429, "retry_after": 1}`."""
        self._admin("POST", "scenario", {"behaviors": list(behaviors)})

    def reset(self) -> None:
        """Forget requests and queued faults."""
        self._admin("POST", "reset")

    def requests(self) -> list[dict[str, Any]]:
        """All requests served, oldest first."""
        found: list[dict[str, Any]] = self._admin("GET", "requests")["requests"]
        return found

    def verdict(self) -> dict[str, Any]:
        """How llmock judges its client."""
        found: dict[str, Any] = self._admin("GET", "verdict")
        return found

    def _admin(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.admin_url}/{path}", data=data, method=method)
        with _direct.open(request, timeout=10) as response:
            return json.load(response)


# Loopback is never reached through a proxy, whatever the environment says.
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@contextlib.contextmanager
def llmock_server(*options: str) -> Iterator[LlmockServer]:
    """Run `llmock serve` on a free port until the block ends."""
    port = _free_port()
    command = [sys.executable, "-c", "from llmock.cli import app; app()", "serve", "--port", str(port)]
    process = subprocess.Popen(
        [*command, "--log-level", "error", *options], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        _wait_until_ready(process, port)
        yield LlmockServer(f"http://127.0.0.1:{port}/v1", f"http://127.0.0.1:{port}/_llmock")
    finally:
        process.terminate()
        process.communicate(timeout=START_SECONDS)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def _wait_until_ready(process: subprocess.Popen[bytes], port: int) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        if process.poll() is not None:
            raise RuntimeError(f"llmock did not start: {process.communicate()[1].decode(errors='replace')[-500:]}")
        try:
            with _direct.open(f"http://127.0.0.1:{port}/health", timeout=2):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.1)
    raise RuntimeError(f"llmock was not ready within {START_SECONDS:g} seconds")
