"""A real server keeps others out: the token, the names it goes by, pages of others, TLS; and what its log holds."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.certificates import loopback_certificate
from tests.commands import one_line, run
from tests.web_server import WebServer, serving

TOKEN = "a-token-that-nobody-guesses-0123"
QUESTION = "What is the secret recipe of the canteen?"
WITHOUT_INGEST = "[web]\nworkers = 1\ningest_at_start = false\n"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("log") / "log.jsonl"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, log: Path) -> Iterator[WebServer]:
    """Its token comes from a file, as a container's does, and it is reached by any address of this machine."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "token").write_text(f"{TOKEN}\n")
    web = f'{WITHOUT_INGEST}token_file = "token"\nhost = "0.0.0.0"\n'
    with serving(folder, web, arguments=("--log-json", str(log))) as served:
        yield served


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.parametrize(
    "path", ["/documents", "/about", "/status", "/openapi.json", "/search?q=a", "/v1/models", "/x"]
)
def test_nothing_that_tells_of_documents_is_told_without_the_token(server: WebServer, path: str) -> None:
    response = server.client.get(path)
    assert response.status_code == 401
    assert response.headers["www-authenticate"].startswith("Bearer")
    assert server.client.get(path, headers=bearer(TOKEN)).status_code != 401


@pytest.mark.parametrize("path", ["/", "/healthz", "/readyz", "/favicon.ico"])
def test_the_page_is_there_before_a_token_is_typed(server: WebServer, path: str) -> None:
    assert server.client.get(path).status_code == 200


def test_whoever_guesses_is_slowed_down(tmp_path: Path) -> None:
    with serving(tmp_path, WITHOUT_INGEST, env={"KNOWLEDGE_BASE_TOKEN": TOKEN}) as guessed:
        statuses = [guessed.client.get("/about", headers=bearer(f"guess-{n:020}")).status_code for n in range(12)]
        assert statuses == [401] * 10 + [429] * 2
        refused = guessed.client.get("/about", headers=bearer(TOKEN))
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) >= 1


def test_security_headers_are_on_every_answer(server: WebServer) -> None:
    for path in ("/", "/healthz", "/documents", "/nothing"):
        headers = server.client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers


def test_the_log_holds_no_question_and_no_token(server: WebServer, log: Path) -> None:
    server.client.get("/search", params={"q": QUESTION}, headers=bearer("wrong-but-long-enough-to-be-one"))
    server.client.post("/ask", json={"question": QUESTION}, headers={**bearer(TOKEN), "Cookie": "a=canteen"})

    def paths() -> set[str]:
        events = map(json.loads, log.read_text().splitlines())
        return {event["path"] for event in events if event["event"] == "request"}

    # A request is logged when its answer has gone, which the client may have read before.
    server.wait_until(lambda: {"/search", "/ask"} <= paths(), "both are logged")
    logged = log.read_text()
    for secret in ("canteen", "recipe", TOKEN, "wrong-but"):
        assert secret not in logged + "".join(server.log)


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    folder = tmp_path_factory.mktemp("local")
    web = f'{WITHOUT_INGEST}allowed_hosts = ["kb.example"]\nallowed_origins = ["https://intranet.example"]\n'
    with serving(folder, web) as served:
        yield served


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1.evil.example"}, 421),
        ({"Host": "kb.example:80"}, 200),
        ({"Host": "localhost:1"}, 200),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "https://intranet.example"}, 200),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
    ],
)
def test_only_its_own_names_and_pages_are_answered(local: WebServer, headers: dict[str, str], status: int) -> None:
    assert local.client.get("/about", headers=headers).status_code == status


def test_a_page_of_somebody_else_can_start_nothing(local: WebServer) -> None:
    # What a form of another page can send without asking: no JSON, but text that looks like it.
    text = {"Content-Type": "text/plain", "Origin": "https://evil.example"}
    assert local.client.post("/ingest", content="{}", headers=text).status_code == 403
    asks = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    assert "access-control-allow-origin" not in local.client.options("/ask", headers=asks).headers


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /about HTTP/1.1\r\n\r\n",
        b"GET /about HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
        b"GET /about HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /" + b"a" * 500_000,
    ],
    ids=["no host", "two hosts", "two lengths", "tls", "an address without end"],
)
def test_what_is_no_request_is_refused(local: WebServer, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", httpx.URL(local.url).port or 0), timeout=30) as connection:
        connection.sendall(sent)
        assert connection.recv(100).startswith(b"HTTP/1.1 400 ")
    assert local.client.get("/healthz").status_code == 200
    assert [line for line in local.log if "kb answers at" not in line] == []


def test_it_speaks_tls_with_a_certificate(tmp_path: Path) -> None:
    certificate = loopback_certificate(tmp_path)
    files = f'tls_cert_file = "{certificate.name}"\ntls_key_file = "{certificate.name}"\n'
    context = ssl.create_default_context(cafile=str(certificate))
    with serving(tmp_path, WITHOUT_INGEST + files, verify=context) as served:
        assert served.url.startswith("https://")
        assert served.client.get("/healthz").json() == {"ok": True}
        with pytest.raises(httpx.HTTPError):
            httpx.get(served.url.replace("https", "http") + "/healthz", trust_env=False)


def test_a_certificate_that_is_none_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "cert.pem").write_text("no certificate")
    config = '[web]\ntls_cert_file = "cert.pem"\ntls_key_file = "cert.pem"\n'
    (tmp_path / "config.toml").write_text(config)
    done = run("kb.serve", "--port", "0", cwd=tmp_path)
    assert done.returncode == 2
    assert str(tmp_path / "cert.pem") in one_line(done)
