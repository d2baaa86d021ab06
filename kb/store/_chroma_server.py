"""A Chroma server over HTTP: who asks, whom is trusted, how long is waited, how large a request is.

Chroma's client has a time-out for nothing, and says of an answer that it does not know only the text, which may be
any proxy's page. So the session that it sends by is set up here, and answers are looked at before Chroma sees them.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kb.errors import ConfigError, StoreError
from kb.inert import one_line
from kb.services.access import Secret, filled_headers
from kb.settings_services import is_header_value
from kb.store._chroma_options import Options, server_address

_MOST_SAID = 300
"""Characters of what a server says that a message quotes: a proxy's page is longer, and tells no more."""

_DELETE_SECONDS = 600.0
"""Deleting a collection took 27 s for 96,000 rows, and nobody waits for it."""

_MEGABYTE = 1_000_000
_LEAST_SECRET = 4
"""A shorter value is none, and would hide every word that it is part of."""

_BEARER = "Bearer "
_TIMEOUTS = ("ReadTimeout", "WriteTimeout", "ConnectTimeout", "PoolTimeout")
_ASKS_ELSEWHERE, _ASKS_PASSWORD, _TOO_LARGE, _AWAY = range(300, 400), (401, 403, 407), 413, (502, 503, 504)


class TooLargeError(Exception):
    """A request has more bytes than the server, or a proxy before it, takes."""


@dataclass(frozen=True, slots=True, repr=False)
class Server:
    """How one is reached."""

    options: Options
    address: dict[str, Any]
    """Host, port and ssl."""
    headers: dict[str, str]
    verify: ssl.SSLContext | bool
    """True: the authorities that are known everywhere. There is no way to trust everybody."""

    @classmethod
    def read(cls, options: Options, secret: Secret) -> Server:
        """Put variables in, and read the certificate.

        Raises:
            ConfigError: the URL is none, a variable is not set, or `ca_file` is no certificate.
        """
        address = server_address(options.url)
        named = f"the Chroma server at {options.url}"
        headers = {**filled_headers(options.headers, named, secret), **_token(options, named, secret)}
        return cls(options, address, headers, _trusted(options, ssl_used=address["ssl"]))

    def prepare(self, session: Any, *, deletes: bool = False) -> None:
        """Set a session of Chroma's client up; to be called before it sends anything.

        Args:
            session: What it sends requests by.
            deletes: It is to delete a collection, which takes long.
        """
        seconds = max(self.options.timeout_seconds, _DELETE_SECONDS if deletes else 0.0)
        connect = min(self.options.connect_timeout_seconds, self.options.timeout_seconds)
        session.timeout = (connect, seconds, seconds, seconds)
        session.headers.update(self.headers)
        session.event_hooks = {"response": [self._look]}

    def _look(self, response: Any) -> None:
        """Raise what an answer's status says better than its text."""
        status, url = response.status_code, self.options.url
        if status == _TOO_LARGE:
            raise TooLargeError("the request has more bytes than the server or a proxy takes (HTTP 413)")
        if status in _ASKS_PASSWORD:
            held = f"the token of {self.options.token_env}" if self.options.token_env else "a request without a token"
            mend = "Look whether it is the right one" if self.options.token_env else "Name its variable"
            raise StoreError(
                f"the Chroma server at {url} refused {held} (HTTP {status}). {mend}: [store.chroma] token_env, "
                "token_header and headers say who asks"
            )
        if status in _ASKS_ELSEWHERE:
            raise StoreError(
                f"the Chroma server at {url} sends requests elsewhere (HTTP {status}), where nothing is sent. Put the "
                "address that it means into [store.chroma] url"
            )
        if status in _AWAY:
            raise StoreError(
                f"the proxy at {url} does not reach the Chroma server behind it (HTTP {status}). Look whether that "
                "runs, and try again"
            )

    def said(self, error: BaseException) -> str:
        """What an error says, as one line without what nobody is to see; its text may be the server's."""
        name, limits = type(error).__name__, self.options
        if name in _TIMEOUTS:
            connecting = name == "ConnectTimeout"
            option = "connect_timeout_seconds" if connecting else "timeout_seconds"
            seconds = limits.connect_timeout_seconds if connecting else limits.timeout_seconds
            return f"no answer within {seconds:g} seconds ([store.chroma] {option})"
        text = one_line(str(error) or name)
        if "CERTIFICATE_VERIFY_FAILED" in text:
            return (
                f"its certificate is not trusted ({text[:_MOST_SAID]}); [store.chroma] ca_file names the certificate "
                "of an authority of your own"
            )
        for value in sorted(self.headers.values(), key=len, reverse=True):
            for secret in (value, value.removeprefix(_BEARER)):
                text = text.replace(secret, "…") if len(secret) >= _LEAST_SECRET else text
        return text if len(text) <= _MOST_SAID else f"{text[:_MOST_SAID]}…"

    @property
    def most_bytes(self) -> int:
        """Of a request."""
        return int(self.options.max_request_megabytes * _MEGABYTE)

    @property
    def too_large(self) -> StoreError:
        """For one item that no request can take."""
        return StoreError(
            f"the Chroma server at {self.options.url}, or a proxy before it, refuses a single row as too large (HTTP "
            "413). Let it take more (nginx: client_max_body_size), or make chunks smaller"
        )


def _token(options: Options, named: str, secret: Secret) -> dict[str, str]:
    if not options.token_env:
        return {}
    if any(name.lower() == options.token_header.lower() for name in options.headers):
        raise ConfigError(f"[store.chroma] headers and token_env both set {options.token_header}: take one out")
    token = (secret(options.token_env) or "").strip()
    if not token:
        raise ConfigError(
            f"{named} is to be sent the token in {options.token_env} ([store.chroma] token_env), which is not set: put "
            "it into the environment or into .env"
        )
    if not is_header_value(token) or " " in token:
        raise ConfigError(f"{options.token_env} holds characters that no token has (a space, a quote or a line break)")
    return {options.token_header: f"{_BEARER}{token}" if options.token_header == "Authorization" else token}


def _trusted(options: Options, *, ssl_used: bool) -> ssl.SSLContext | bool:
    if not options.ca_file:
        return True
    if not ssl_used:
        raise ConfigError(f"[store.chroma] ca_file is of no use with url = {options.url!r}: give its https:// address")
    file = Path(options.ca_file).expanduser()
    try:
        return ssl.create_default_context(cafile=file)
    except OSError as error:  # also ssl.SSLError
        reason = "it is no certificate in PEM" if isinstance(error, ssl.SSLError) else error.strerror
        raise ConfigError(f"[store.chroma] ca_file = {options.ca_file!r} cannot be read: {reason}") from error
