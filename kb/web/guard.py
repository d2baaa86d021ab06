"""Who may talk to the server: the right name, no page of somebody else, the right token; and what a browser may do.

- The Host header: a page of somebody else may let its own name lead here (DNS rebinding), and would then be taken for
  ours by the browser. Other names than ours are refused.
- Origin and Sec-Fetch-Site: a page of somebody else may send requests here, which it cannot read (CSRF). They are
  refused; there is no cookie that they could use either.
- The token is compared in constant time, and whoever guesses is slowed down.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from ipaddress import ip_address

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kb.web.limits import Bucket, client_of
from kb.web.refusals import Refusal, answered

_LOCAL_NAMES = frozenset(("localhost", "127.0.0.1", "::1"))
_PUBLIC = frozenset(("/", "/favicon.ico", "/healthz", "/readyz"))
"""With what lies below /assets/ all that a browser needs before a token is typed; none of it tells of documents."""
_ASSETS = "/assets/"

_FAILURES_PER_MINUTE = 10
"""Of a client with a wrong token: nobody guesses 128 bits, and a person mistypes a few times."""

SECURITY_HEADERS = {
    # Scripts and styles come from here only, and no text can become one: the page makes no HTML of strings.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
        "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}


def is_loopback(host: str) -> bool:
    """Whether an address to listen on, or of a client, is this machine's own."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Rules:
    """What a request has to be like."""

    token: str | None
    """None: no token is asked for, as on this machine's own address."""
    hosts: frozenset[str] | None
    """Names by which the server may be called, lower case; None: any."""
    origins: frozenset[str] = frozenset()
    """Other origins whose pages may ask."""

    @classmethod
    def of(cls, host: str, token: str | None, allowed_hosts: Sequence[str], origins: Sequence[str]) -> Rules:
        """The rules of a server that listens on `host`."""
        named = frozenset(name.lower() for name in allowed_hosts)
        anywhere = host in ("0.0.0.0", "::", "")
        hosts = None if anywhere and not named else named | _LOCAL_NAMES | {host.lower()}
        return cls(token, hosts, frozenset(origin.lower() for origin in origins))


class Guard:
    """Lets through what keeps the rules, and adds the headers that keep a browser to them."""

    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        self._app = app
        self._rules = rules
        self._token = None if rules.token is None else sha256(rules.token.encode()).digest()
        self._failures = Bucket(_FAILURES_PER_MINUTE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI has it; connections other than HTTP, such as web sockets, are not taken."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, _with_security_headers(send))

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        refusal = self._host_fault(headers) or self._origin_fault(scope, headers) or self._token_fault(scope, headers)
        if refusal is None:
            await self._app(scope, receive, send)
        else:
            await answered(refusal, scope["path"])(scope, receive, send)

    def _host_fault(self, headers: Headers) -> Refusal | None:
        named = headers.getlist("host")
        if len(named) != 1:
            return Refusal(400, "bad_request", "a request has exactly one Host header")
        if self._rules.hosts is None or _name(named[0]) in self._rules.hosts:
            return None
        return Refusal(421, "wrong_host", "this server is not called so; add the name to [web] allowed_hosts")

    def _origin_fault(self, scope: Scope, headers: Headers) -> Refusal | None:
        refusal = Refusal(403, "forbidden", "pages of other servers may not ask this one; see [web] allowed_origins")
        origin = headers.get("origin")
        if origin is not None:
            of_ours = origin.lower().partition("://")[2] == headers["host"].lower()
            return None if of_ours or origin.lower() in self._rules.origins else refusal
        # A link on another page leads to ours; everything else that such a page asks for says where it comes from.
        elsewhere = headers.get("sec-fetch-site") in ("cross-site", "same-site")
        follows_link = headers.get("sec-fetch-mode") == "navigate" and scope["path"] in _PUBLIC
        return refusal if elsewhere and not follows_link else None

    def _token_fault(self, scope: Scope, headers: Headers) -> Refusal | None:
        if self._token is None or _is_public(scope) or _is_preflight(scope, headers):
            return None
        client = client_of(scope)
        wait = self._failures.wait(client)
        if wait > 0:
            return Refusal(429, "too_many", "too many requests with a wrong token; wait a moment", wait)
        scheme, _, given = headers.get("authorization", "").partition(" ")
        sent = sha256(given.strip().encode("utf-8", "surrogateescape")).digest()
        if scheme.lower() == "bearer" and hmac.compare_digest(sent, self._token):
            return None
        if given:
            self._failures.take(client)
        return Refusal(
            401,
            "unauthorized",
            "this server wants a token: send it as Authorization: Bearer …",
            headers={"WWW-Authenticate": 'Bearer realm="kb"'},
        )


def _is_public(scope: Scope) -> bool:
    return scope["method"] in ("GET", "HEAD") and (scope["path"] in _PUBLIC or scope["path"].startswith(_ASSETS))


def _is_preflight(scope: Scope, headers: Headers) -> bool:
    """A browser's question whether a page of an allowed origin may ask; it carries no token."""
    return scope["method"] == "OPTIONS" and "access-control-request-method" in headers and "origin" in headers


def _name(host: str) -> str:
    """The name in a Host header, without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower().rstrip(".")


def _with_security_headers(send: Send) -> Send:
    async def adding(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY_HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("Cache-Control", "no-store")
        await send(message)

    return adding
