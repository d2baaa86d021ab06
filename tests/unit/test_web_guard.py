"""Who may talk to the server: Host, Origin, token; and what the headers tell a browser."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from kb.web.guard import SECURITY_HEADERS, Guard, Rules, is_loopback
from kb.web.limits import Bucket

TOKEN = "a token of 27 characters ok"


async def _app(scope: Scope, receive: Receive, send: Send) -> None:
    await JSONResponse({"reached": scope["path"]})(scope, receive, send)


def rules(
    host: str = "127.0.0.1",
    token: str | None = None,
    hosts: tuple[str, ...] = (),
    origins: tuple[str, ...] = (),
) -> Rules:
    return Rules.of(host, token, hosts, origins)


def asked(
    guard: Guard,
    method: str = "GET",
    path: str = "/search",
    headers: Mapping[str, str] | None = None,
    address: str = "10.0.0.1",
) -> httpx.Response:
    async def once() -> httpx.Response:
        transport = httpx.ASGITransport(guard, client=(address, 5000))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost:8000") as client:
            return await client.request(method, path, headers=headers)

    return asyncio.run(once())


# ── Host ──


@pytest.mark.parametrize("host", ["localhost", "localhost:8000", "127.0.0.1:8000", "[::1]:8000", "LOCALHOST.", "[::1]"])
def test_this_machine_has_several_names(host: str) -> None:
    assert asked(Guard(_app, rules()), headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:8000", "evil.example:127.0.0.1", "", "[::2]"],
)
def test_a_name_that_leads_here_by_somebody_elses_will_is_refused(host: str) -> None:
    refused = asked(Guard(_app, rules()), headers={"Host": host})
    assert refused.status_code == 421
    assert refused.json()["error"] == "wrong_host"
    assert "allowed_hosts" in refused.json()["message"]


def test_two_host_headers_are_none() -> None:
    async def once() -> list[Any]:
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request"}

        async def send(message: Any) -> None:
            sent.append(message)

        headers = [(b"host", b"localhost"), (b"host", b"evil.example")]
        scope = {"type": "http", "method": "GET", "path": "/search", "headers": headers, "query_string": b""}
        await Guard(_app, rules())(scope, receive, send)
        return sent

    assert asyncio.run(once())[0]["status"] == 400


def test_names_are_added_by_the_settings() -> None:
    guard = Guard(_app, rules("192.0.2.7", TOKEN, ("kb.example",)))
    by = {"Authorization": f"Bearer {TOKEN}"}
    for host in ("kb.example", "KB.example:8443", "192.0.2.7"):
        assert asked(guard, headers={"Host": host, **by}).status_code == 200
    assert asked(guard, headers={"Host": "other.example", **by}).status_code == 421


def test_on_all_addresses_any_name_will_do_as_there_is_a_token() -> None:
    guard = Guard(_app, rules("0.0.0.0", TOKEN))
    assert asked(guard, headers={"Host": "any.example"}).status_code == 401
    assert asked(guard, headers={"Host": "any.example", "Authorization": f"Bearer {TOKEN}"}).status_code == 200
    named = Guard(_app, rules("0.0.0.0", TOKEN, ("kb.example",)))
    assert asked(named, headers={"Host": "any.example", "Authorization": f"Bearer {TOKEN}"}).status_code == 421


# ── Origin ──


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://localhost:9999", "http://localhost", "https://"]
)
def test_a_page_of_somebody_else_cannot_ask(method: str, origin: str) -> None:
    refused = asked(Guard(_app, rules()), method, headers={"Origin": origin})
    assert refused.status_code == 403
    assert refused.json()["error"] == "forbidden"


@pytest.mark.parametrize("origin", ["http://localhost:8000", "https://localhost:8000", "HTTP://LOCALHOST:8000"])
def test_our_own_page_can_also_behind_a_proxy_with_tls(origin: str) -> None:
    assert asked(Guard(_app, rules()), "POST", headers={"Origin": origin}).status_code == 200


def test_a_page_that_the_settings_allow_can() -> None:
    guard = Guard(_app, rules(origins=("https://intranet.example",)))
    assert asked(guard, "POST", headers={"Origin": "https://intranet.example"}).status_code == 200
    assert asked(guard, "POST", headers={"Origin": "http://intranet.example"}).status_code == 403


@pytest.mark.parametrize(
    ("site", "mode", "path", "status"),
    [
        ("cross-site", "no-cors", "/search", 403),
        ("same-site", "no-cors", "/search", 403),
        ("cross-site", "navigate", "/search", 403),
        ("cross-site", "navigate", "/", 200),
        ("cross-site", "no-cors", "/assets/app.js", 403),
        ("same-origin", "cors", "/search", 200),
        ("none", "navigate", "/search", 200),
    ],
)
def test_what_another_page_embeds_or_opens(site: str, mode: str, path: str, status: int) -> None:
    headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode}
    assert asked(Guard(_app, rules()), path=path, headers=headers).status_code == status


# ── token ──


@pytest.mark.parametrize(
    "given",
    ["", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}", TOKEN, "Bearer ", f"Bearer {TOKEN.upper()}"],
)
def test_without_the_token_nothing_is_told(given: str) -> None:
    refused = asked(Guard(_app, rules(token=TOKEN)), headers={"Authorization": given})
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"].startswith("Bearer")
    assert TOKEN not in refused.text


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_with_it_everything_is(scheme: str) -> None:
    guard = Guard(_app, rules(token=TOKEN))
    assert asked(guard, headers={"Authorization": f"{scheme} {TOKEN}"}).status_code == 200


@pytest.mark.parametrize("path", ["/", "/assets/app.js", "/healthz", "/readyz", "/favicon.ico"])
def test_the_page_and_the_probes_need_none(path: str) -> None:
    guard = Guard(_app, rules(token=TOKEN))
    assert asked(guard, path=path).status_code == 200
    assert asked(guard, "POST", path).status_code == 401


@pytest.mark.parametrize(
    "path", ["/about", "/documents", "/openapi.json", "/v1/models", "/assets", "/healthz/x", "/search/"]
)
def test_everything_else_does(path: str) -> None:
    assert asked(Guard(_app, rules(token=TOKEN)), path=path).status_code == 401


def test_who_guesses_is_slowed_down_and_nobody_else() -> None:
    guard = Guard(_app, rules(token=TOKEN))
    statuses = [asked(guard, headers={"Authorization": f"Bearer {n}"}).status_code for n in range(12)]
    assert statuses == [401] * 10 + [429] * 2
    waiting = asked(guard, headers={"Authorization": f"Bearer {TOKEN}"})
    assert (waiting.status_code, waiting.headers["retry-after"]) == (429, "6")  # one of ten a minute
    assert asked(guard, headers={"Authorization": f"Bearer {TOKEN}"}, address="10.0.0.2").status_code == 200


def test_a_preflight_carries_no_token_and_passes_only_for_allowed_origins() -> None:
    guard = Guard(_app, rules(token=TOKEN, origins=("https://intranet.example",)))
    headers = {"Origin": "https://intranet.example", "Access-Control-Request-Method": "POST"}
    assert asked(guard, "OPTIONS", headers=headers).status_code == 200
    assert asked(guard, "OPTIONS", headers={**headers, "Origin": "https://evil.example"}).status_code == 403
    assert asked(guard, "OPTIONS").status_code == 401


# ── headers ──


@pytest.mark.parametrize("path", ["/", "/search"])
def test_every_answer_tells_the_browser_what_it_may_do(path: str) -> None:
    for answer in (asked(Guard(_app, rules()), path=path), asked(Guard(_app, rules()), headers={"Host": "evil"})):
        for name, value in SECURITY_HEADERS.items():
            assert answer.headers[name] == value
        assert answer.headers["cache-control"] == "no-store"


def test_the_policy_allows_no_other_host_and_no_script_in_a_text() -> None:
    directives = dict(part.strip().split(" ", 1) for part in SECURITY_HEADERS["Content-Security-Policy"].split(";"))
    assert directives["default-src"] == "'none'"
    allowed = {source for value in directives.values() for source in value.split()}
    assert allowed == {"'none'", "'self'", "blob:", "'script'"}
    assert directives["script-src"] == "'self'"


def test_other_connections_than_http_are_not_taken() -> None:
    async def once() -> None:
        async def never(*_: Any) -> Any:
            raise AssertionError("a web socket came through")

        await Guard(never, rules())({"type": "websocket", "path": "/", "headers": []}, never, never)

    asyncio.run(once())


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.0.2.1", False),
        ("localhost.example", False),
        ("", False),
    ],
)
def test_what_is_this_machines_own(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


# ── so many a minute ──


def test_a_bucket_gives_a_minutes_worth_at_once_then_evenly() -> None:
    now = 1000.0
    bucket = Bucket(6, lambda: now)
    assert [bucket.take("a") for _ in range(6)] == [0.0] * 6
    assert bucket.take("a") == pytest.approx(10)  # 60 s / 6
    assert bucket.take("b") == 0.0
    now += 4
    assert bucket.wait("a") == pytest.approx(6)
    now += 6
    assert bucket.take("a") == 0.0
    assert bucket.take("a") == pytest.approx(10)
    now += 3600
    assert [bucket.take("a") for _ in range(7)] == [0.0] * 6 + [pytest.approx(10)]


def test_a_bucket_forgets_whom_it_saw_longest_ago() -> None:
    bucket = Bucket(1, lambda: 0.0)
    bucket.take("first")
    for number in range(10_000):
        bucket.take(str(number))
    assert bucket.take("first") == 0.0
