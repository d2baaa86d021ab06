"""One connection to an OpenAI-compatible service: address, key, limits, retries, and errors that can be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn
from urllib.parse import urlsplit

import openai

from kb.errors import ConfigError, MissingKeyError, StoppedError
from kb.services.cancel import sleep
from kb.services.clients import Access, client_opener
from kb.services.clock import REAL_TIME, Clock
from kb.services.failures import Failure, Service, explain
from kb.services.lanes import Lane, Lanes
from kb.services.limits import Turn, shared_limits
from kb.services.retry import LONGEST_ASKED_SECONDS, wait_seconds
from kb.settings import ServiceOptions

DEFAULT_BASE_URL = "https://api.openai.com/v1"
BASE_URL_VARIABLE = "OPENAI_BASE_URL"

# The client's own errors, ValueError for an answer that is no JSON or no base64, and RecursionError for JSON that is
# nested without end.
CLIENT_ERRORS: tuple[type[Exception], ...] = (openai.OpenAIError, ValueError, RecursionError)

Send = Callable[[openai.OpenAI], Any]
"""Sends a request by the client that it is given, `with_raw_response`."""


class Connection:
    """Opens the real client and calls it within the limits that all connections to the same model share.

    Args:
        kind: "chat", "embedding" or "rerank".
        model: As the service calls it.
        options: How the service is reached.
        secret: Looks a variable up.
        clock: What waits and limits are measured by.
        needs_key: Without a key it can't be opened, unless a header says who asks, or no variable is named. Else one
            that is not set leaves `service.key` empty, and who sends a request has to leave the header out that would
            hold it.

    Raises:
        MissingKeyError: the variable that should hold the key is not set.
        ConfigError: the key, the base URL, a header or the proxy cannot be one.
    """

    def __init__(
        self,
        *,
        kind: str,
        model: str,
        options: ServiceOptions,
        secret: Callable[[str], str | None],
        clock: Clock = REAL_TIME,
        needs_key: bool = True,
    ) -> None:
        named = f"the {kind} model {model!r}"
        access = Access.read(options, named, secret)
        key_variable = options.api_key_env
        key = (secret(key_variable) or "").strip() if key_variable else ""
        if not key and needs_key and key_variable and not access.names_a_key:
            raise MissingKeyError(key_variable, named)
        if key and (not (key.isascii() and key.isprintable()) or " " in key):
            raise ConfigError(f"{key_variable} holds characters that no API key has (a space, a quote or a line break)")
        address = (options.base_url or secret(BASE_URL_VARIABLE) or DEFAULT_BASE_URL).strip()
        _check(address)
        self.service = Service(
            kind,
            model,
            address,
            key_variable,
            key,
            options.timeout_seconds,
            connect_timeout_seconds=min(options.connect_timeout_seconds, options.timeout_seconds),
            more_secrets=access.secrets,
        )
        place = (address, hash(key), hash(frozenset(access.headers.items())), model)
        self.limits = shared_limits(place, options.requests_per_minute, options.tokens_per_minute, clock)
        self.retries = options.retries
        self.has_no_key = not key and not access.names_a_key
        self._lanes = Lanes(client_opener(options, access, address, key, secret))

    def call(self, send: Send, tokens: int) -> Any:
        """Send one request when the limits allow it, and again where that may help; gives the client's answer.

        Args:
            send: Sends it.
            tokens: What it counts for.

        Raises:
            ServiceError: of the last try.
            StoppedError: it was stopped.
        """
        with self._lanes.one() as lane:
            return self._call(lane, send, tokens)

    @contextmanager
    def stream(self, send: Send, tokens: int, parts_of: type[Any]) -> Iterator[Iterator[Any]]:
        """The same for an answer that comes in parts, read by `parts_of`, which are to be taken within the block.

        Leaving the block closes the connection, if the answer has not ended. Stopping it ends a wait for the next
        part with StoppedError, in whatever thread that is.
        """
        with self._lanes.one() as lane, self._call(lane, send, tokens, parts_of) as parts:
            yield self._parts(lane, parts)

    def once(self, send: Send, turn: Turn) -> Any:
        """Send one request, and tell the limits how it went; gives the client's answer, or the Failure.

        Raises:
            StoppedError: it was stopped.
        """
        with self._lanes.one() as lane:
            return self._once(lane, send, turn)

    def failed(self, error: Exception) -> NoReturn:
        """Raise an error of the client as ours."""
        explain(error, self.service).raised()

    def _call(self, lane: Lane, send: Send, tokens: int, parts_of: type[Any] | None = None) -> Any:
        tried = 0
        while True:
            answer = self._once(lane, send, self.limits.wait_for_turn(tokens, lane.check), parts_of)
            if not isinstance(answer, Failure):
                return answer
            wait = wait_seconds(tried, answer.wait_seconds)
            if not answer.retry or tried >= self.retries or wait > LONGEST_ASKED_SECONDS:
                answer.raised()
            tried += 1
            if not answer.rate:  # else the limits hold the next turn back
                sleep(self.limits.clock, wait, lane.cancellation)

    def _once(self, lane: Lane, send: Send, turn: Turn, parts_of: type[Any] | None = None) -> Any:
        try:
            lane.check()
            raw = send(lane.client)
            answer = raw.parse() if parts_of is None else raw.parse(to=parts_of)
        except CLIENT_ERRORS as error:
            failure = explain(error, self.service)
            if failure.rate:
                self.limits.refused(turn, failure.wait_seconds, failure.of, failure.headers)
            else:
                self.limits.ended(turn, counts=failure.retry)
            if lane.cancellation.stopped:
                raise StoppedError from None
            return failure
        except BaseException:
            self.limits.ended(turn, counts=True)
            raise
        self.limits.passed(turn, _counted(answer), raw.headers)
        return answer

    def _parts(self, lane: Lane, parts: Any) -> Iterator[Any]:
        try:
            for part in parts:
                lane.check()
                yield part
        except CLIENT_ERRORS as error:
            if lane.cancellation.stopped:
                raise StoppedError from None
            raise error
        lane.check()  # a connection that was shut down may look like the end


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
