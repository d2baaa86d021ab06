"""One connection to an OpenAI-compatible service: address, key, limits, retries, and errors that can be read."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import openai

from kb.errors import ConfigError, MissingKeyError
from kb.services.clock import REAL_TIME, Clock
from kb.services.failures import Failure, Service, explain
from kb.services.limits import Turn, shared_limits
from kb.services.retry import LONGEST_ASKED_SECONDS, wait_seconds

DEFAULT_BASE_URL = "https://api.openai.com/v1"
BASE_URL_VARIABLE = "OPENAI_BASE_URL"

# The client's own errors, ValueError for an answer that is no JSON or no base64, and RecursionError for JSON that is
# nested without end.
CLIENT_ERRORS: tuple[type[Exception], ...] = (openai.OpenAIError, ValueError, RecursionError)
# In the place of a key where none is needed: the client wants one, though nobody is to see it.
_NO_KEY = "none"


class Connection:
    """Opens the real client and calls it within the limits that all connections to the same model share.

    Args:
        needs_key: Without a key it can't be opened. Else one that is not set leaves `service.key` empty, and who
            sends a request has to leave the header out that would hold it.

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
        requests_per_minute: int | None,
        tokens_per_minute: int | None,
        secret: Callable[[str], str | None],
        clock: Clock = REAL_TIME,
        needs_key: bool = True,
    ) -> None:
        key = (secret(key_variable) or "").strip()
        if not key and needs_key:
            raise MissingKeyError(key_variable, f"the {kind} model {model!r}")
        if key and (not (key.isascii() and key.isprintable()) or " " in key):
            raise ConfigError(f"{key_variable} holds characters that no API key has (a space, a quote or a line break)")
        address = (base_url or secret(BASE_URL_VARIABLE) or DEFAULT_BASE_URL).strip()
        _check(address)
        self.service = Service(kind, model, address, key_variable, key, timeout_seconds)
        self.limits = shared_limits((address, hash(key), model), requests_per_minute, tokens_per_minute, clock)
        self.retries = retries
        # The client retries every 429, also the one that says the account is empty; so we count ourselves.
        self.client = openai.OpenAI(api_key=key or _NO_KEY, base_url=address, timeout=timeout_seconds, max_retries=0)
        # Its sockets are closed with this object, not whenever the garbage collector comes by.
        weakref.finalize(self, self.client.close)

    def call(self, send: Callable[[], Any], tokens: int) -> Any:
        """Send one request when the limits allow it, and again where that may help; gives the client's answer.

        Args:
            send: Sends it, `with_raw_response`.
            tokens: What it counts for.

        Raises:
            ServiceError: of the last try.
        """
        tried = 0
        while True:
            answer = self.once(send, self.limits.wait_for_turn(tokens))
            if not isinstance(answer, Failure):
                return answer
            wait = wait_seconds(tried, answer.wait_seconds)
            if not answer.retry or tried >= self.retries or wait > LONGEST_ASKED_SECONDS:
                answer.raised()
            tried += 1
            if not answer.rate:  # else the limits hold the next turn back
                self.limits.clock.sleep(wait)

    def once(self, send: Callable[[], Any], turn: Turn) -> Any:
        """Send one request, and tell the limits how it went; gives the client's answer, or the Failure."""
        try:
            raw = send()
            answer = raw.parse()
        except CLIENT_ERRORS as error:
            failure = explain(error, self.service)
            if failure.rate:
                self.limits.refused(turn, failure.wait_seconds, failure.of, failure.headers)
            else:
                self.limits.ended(turn, counts=failure.retry)
            return failure
        except BaseException:
            self.limits.ended(turn, counts=True)
            raise
        self.limits.passed(turn, _counted(answer), raw.headers)
        return answer


def _counted(answer: Any) -> int | None:
    """The tokens of a request by the service's own count, where its answer says them."""
    if isinstance(answer, dict):
        usage = answer.get("usage")
        counted: object = usage.get("total_tokens") if isinstance(usage, dict) else None
    else:
        counted = getattr(getattr(answer, "usage", None), "total_tokens", None)
    return counted if isinstance(counted, int) else None


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
