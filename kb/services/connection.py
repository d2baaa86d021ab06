"""One connection to an OpenAI-compatible service: address, key, retries, and errors that can be read."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import urlsplit

import openai

from kb.errors import ConfigError, MissingKeyError, ServiceError
from kb.services.failures import Failure, Service, cause_of, explain
from kb.services.retry import with_retries

DEFAULT_BASE_URL = "https://api.openai.com/v1"
BASE_URL_VARIABLE = "OPENAI_BASE_URL"

# The client's own errors, and ValueError for an answer that is no JSON or no base64.
CLIENT_ERRORS: tuple[type[Exception], ...] = (openai.OpenAIError, ValueError)

T = TypeVar("T")


class Connection:
    """Opens the real client and calls it.

    Raises:
        MissingKeyError: the variable that should hold the key is not set.
        ConfigError: the key or the base URL cannot be one.
    """

    def __init__(
        self,
        *,
        kind: str,
        model: str,
        base_url: str,
        key_variable: str,
        timeout_seconds: float,
        retries: int,
        secret: Callable[[str], str | None],
    ) -> None:
        key = (secret(key_variable) or "").strip()
        if not key:
            raise MissingKeyError(key_variable, f"the {kind} model {model!r}")
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise ConfigError(f"{key_variable} holds characters that no API key has (a space, a quote or a line break)")
        address = (base_url or secret(BASE_URL_VARIABLE) or DEFAULT_BASE_URL).strip()
        _check(address)
        self.service = Service(kind, model, address, key_variable, key, timeout_seconds)
        self._retries = retries
        # The client retries every 429, also the one that says the account is empty; so we count ourselves.
        self.client = openai.OpenAI(api_key=key, base_url=address, timeout=timeout_seconds, max_retries=0)
        # Its sockets are closed with this object, not whenever the garbage collector comes by.
        weakref.finalize(self, self.client.close)

    def call(self, attempt: Callable[[], T]) -> T:
        """Call the client, again where that may help; every failure is a ServiceError."""
        return with_retries(attempt, self._explain, CLIENT_ERRORS, self._retries)

    def explained(self, error: Exception) -> tuple[ServiceError, Exception | None]:
        """The error to raise for one of CLIENT_ERRORS, and the one to raise it from."""
        failure, cause = self._explain(error)
        return failure.error, cause

    def _explain(self, error: Exception) -> tuple[Failure, Exception | None]:
        return explain(error, self.service), cause_of(error, self.service.key)


def _check(address: str) -> None:
    try:
        parts = urlsplit(address)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        fits = False
    if not fits:
        raise ConfigError(
            f"base_url (or {BASE_URL_VARIABLE}) is no address of a service: it starts with http:// or https://, "
            f"such as {DEFAULT_BASE_URL}"
        )
