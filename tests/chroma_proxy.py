"""A reverse proxy on loopback before a real server: asks for a token, speaks TLS, limits requests, hangs, breaks."""

from __future__ import annotations

import http.client
import ssl
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

_NOT_PASSED_ON = {"connection", "content-length", "host", "transfer-encoding"}


@dataclass
class Rules:
    """What the proxy does; a test changes them while it runs."""

    header: tuple[str, str] | None = None
    """A header that each request must have, with its value; else it gets 401 and its headers back, as a page."""
    most_bytes: int | None = None
    """A request with a larger body gets 413, as nginx says it."""
    status: int | None = None
    """Every request gets this one, with its headers back on a long page."""
    hangs: bool = False
    """Requests that come are not answered until the proxy is closed."""
    breaks_after: int | None = None
    """After so many requests that write rows, answers end in their middle."""
    requests: list[tuple[str, str, int]] = field(default_factory=list)
    """Method, path and bytes of the body of each request that was passed on."""
    released: threading.Event = field(default_factory=threading.Event)

    @property
    def writes(self) -> list[int]:
        """The sizes of the requests that wrote rows."""
        return [size for _, path, size in self.requests if path.endswith(("/add", "/upsert"))]


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep stderr clean of clients that don't trust it, or don't wait."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


@contextmanager
def proxy(upstream: str, rules: Rules, certificate: Path | None = None) -> Iterator[str]:
    """Run it before the server at `upstream`; gives its URL.

    Args:
        upstream: The URL of what is behind it.
        rules: What it does.
        certificate: A certificate and its key in one file, to speak TLS with.
    """
    behind = urlsplit(upstream)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def _handle(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            if rules.hangs:
                rules.released.wait(60)
                self.close_connection = True
                return
            if rules.status is not None:
                self._answer(rules.status, f"<html>{self._told()}\n</html>".encode() * 50, "text/html")
            elif rules.header is not None and self.headers.get(rules.header[0]) != rules.header[1]:
                self._answer(401, f"<html>who are you?\n{self.headers}</html>".encode(), "text/html")
            elif rules.most_bytes is not None and len(body) > rules.most_bytes:
                self._answer(413, b"<html>413 Request Entity Too Large</html>", "text/html")
            else:
                self._pass_on(body)

        def _told(self) -> str:
            """The headers, with the client's own first."""
            return "\n".join(f"{name}: {value}" for name, value in reversed(self.headers.items()))

        do_GET = do_POST = do_PUT = do_DELETE = _handle

        def _pass_on(self, body: bytes) -> None:
            rules.requests.append((self.command, self.path, len(body)))
            connection = http.client.HTTPConnection(str(behind.hostname), behind.port, timeout=60)
            headers = {name: value for name, value in self.headers.items() if name.lower() not in _NOT_PASSED_ON}
            try:
                connection.request(self.command, self.path, body, headers)
                answer = connection.getresponse()
                content = answer.read()
            except OSError:
                self._answer(502, b"<html>502 Bad Gateway</html>", "text/html")
                return
            finally:
                connection.close()
            broken = rules.breaks_after is not None and len(rules.writes) > rules.breaks_after
            self._answer(answer.status, content, answer.headers.get("content-type", ""), broken=broken)

        def _answer(self, status: int, content: bytes, kind: str, *, broken: bool = False) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[: len(content) // 2] if broken else content)
            self.close_connection = broken

        def log_message(self, format: str, *args: Any) -> None:
            """Keep stderr for the tests."""

    server = _Server(("127.0.0.1", 0), Handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"{'https' if certificate else 'http'}://127.0.0.1:{server.server_port}"
    finally:
        rules.released.set()
        server.shutdown()
        server.server_close()
        thread.join()
