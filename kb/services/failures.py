"""What an OpenAI-compatible service answers when it fails, as one clear line without the key.

Bodies of error answers come from outside: they are shortened, freed of control characters and escape
sequences, and every trace of a key is taken out before anything is shown.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NoReturn
from urllib.parse import urlsplit, urlunsplit

import openai

from kb.errors import AuthenticationError, QuotaError, RefusedError, ServiceError
from kb.services.headers import asked_seconds, told
from kb.services.limits import Kind

RERANK = "rerank"
"""The kind of services that have no interface of OpenAI's, as OpenAI has none of the kind."""
SHOWN_CHARACTERS = 200
# A "key" shorter than this is a placeholder for a server that wants none; hiding it would garble words.
_LEAST_KEY_CHARACTERS = 4
_NO_CREDIT = frozenset({"insufficient_quota", "billing_hard_limit_reached", "insufficient_balance"})
_PAYMENT_REQUIRED = 402
_RATE_LIMITED = 429
_WORTH_RETRYING = frozenset({408, 409, _RATE_LIMITED})
_REFUSED = frozenset({400, 413, 422})
_OF_REQUESTS = re.compile(r"(?i)\brequests? per|\bRP[MSD]\b")
_OF_TOKENS = re.compile(r"(?i)\btokens? per|\bTP[MSD]\b")
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_LOOKS_LIKE_KEY = re.compile(r"\b(?:sk|pk|key)-[\w*.\-]{4,}|(?i:\bbearer\s+)\S+")


@dataclass(frozen=True, slots=True)
class Service:
    """One model of one service, as error messages name it."""

    kind: str
    """"chat", "embedding" or "rerank"."""
    model: str
    base_url: str
    key_variable: str
    key: str = field(repr=False)
    timeout_seconds: float
    connect_timeout_seconds: float
    more_secrets: tuple[str, ...] = field(default=(), repr=False)
    """Values of headers and a proxy's password, which no message may show, nor the key."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """All that no message may show, the longest first, as one may be part of another."""
        long = {text for text in (self.key, *self.more_secrets) if len(text) >= _LEAST_KEY_CHARACTERS}
        return tuple(sorted(long, key=len, reverse=True))

    @property
    def url(self) -> str:
        """The base URL without a password or query, which may be secrets."""
        return shown_url(self.base_url)

    @property
    def named(self) -> str:
        """Model and place, for a message."""
        return f"the {self.kind} model {self.model!r} at {self.url}"

    @property
    def interface(self) -> str:
        """What should be there, for a message."""
        return "a rerank service" if self.kind == RERANK else "an OpenAI-compatible service"

    @property
    def address(self) -> str:
        """The settings of its address, for a message."""
        return "base_url and path" if self.kind == RERANK else "base_url (or OPENAI_BASE_URL)"

    @property
    def right_address(self) -> str:
        """The same with how most such addresses end, where this one doesn't."""
        return self.address if self.kind == RERANK else f"base_url{_hint(self.base_url)}"

    def error(self, message: str, status: int | None = None) -> ServiceError:
        """A ServiceError of this service."""
        return ServiceError(message, service=self.named, status=status)


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed call: the error to raise, and whether another try may help."""

    error: ServiceError
    retry: bool
    wait_seconds: float | None = None
    """How long the service asks to wait, when it says so."""
    rate: bool = False
    """The service refuses it now because of what was sent before."""
    of: Kind = ""
    """What there was too much of."""
    headers: Mapping[str, str] = field(default_factory=dict)
    cause: Exception | None = None
    """What to raise the error from."""

    def raised(self) -> NoReturn:
        """Raise the error."""
        raise self.error from self.cause


def shown_url(url: str) -> str:
    """The URL without user, password, query and fragment."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))


def cleaned(text: str, secrets: Sequence[str] = ()) -> str:
    """Make a message from outside fit to be shown: one short line without secrets or control characters."""
    text = _ESCAPE.sub("", text)
    text = "".join(" " if c.isspace() else c for c in text if c.isspace() or unicodedata.category(c)[0] != "C")
    for secret in secrets:
        text = text.replace(secret, "[key]")
    text = " ".join(_LOOKS_LIKE_KEY.sub("[key]", text).split())
    if text.startswith("<"):
        return "an HTML page instead of an answer"
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"


def _cause_of(error: Exception, secrets: Sequence[str]) -> Exception | None:
    """The error to chain from: none when it, or what it came from, would show a secret in a traceback."""
    link: BaseException | None = error
    while link is not None and secrets:
        if any(secret in f"{link} {link!r}" for secret in secrets):
            return None
        link = link.__cause__ or link.__context__
    return error


def explain(error: Exception, service: Service) -> Failure:
    """Turn an error of the client library into ours."""
    return replace(_explain(error, service), cause=_cause_of(error, service.secrets))


def _explain(error: Exception, service: Service) -> Failure:
    if isinstance(error, openai.APITimeoutError) and type(error.__cause__).__name__ == "ConnectTimeout":
        message = (
            f"{service.named} could not be connected within {service.connect_timeout_seconds:g} seconds: "
            "check the address, the proxy and the network, or raise connect_timeout_seconds"
        )
        return Failure(service.error(message), retry=True)
    if isinstance(error, openai.APITimeoutError):
        message = (
            f"{service.named} did not answer within {service.timeout_seconds:g} seconds: "
            "try again later, or raise timeout_seconds"
        )
        return Failure(service.error(message), retry=True)
    if isinstance(error, openai.APIConnectionError):
        reason = cleaned(str(error.__cause__ or error), service.secrets) or "the connection was lost"
        message = f"cannot reach {service.named} ({reason}): check {service.address} and the network"
        return Failure(service.error(message), retry=True)
    if isinstance(error, openai.APIStatusError):
        return _explain_status(error, service)
    if isinstance(error, openai.APIError) and _is_no_credit(error):
        return Failure(_quota(service, None, _message(error, service)), retry=False)
    if isinstance(error, openai.APIError):
        return Failure(service.error(f"{service.named} broke off: {_message(error, service)}"), retry=False)
    # What calls itself JSON and is none was cut on its way.
    return Failure(not_an_answer(service), retry=True)


def not_an_answer(service: Service) -> ServiceError:
    """The error for an answer that isn't what an OpenAI-compatible service sends."""
    return service.error(
        f"{service.named} sent something that is no answer of {service.interface}: check {service.right_address}"
    )


def _explain_status(error: openai.APIStatusError, service: Service) -> Failure:
    status = error.status_code
    said = f"{status}: {_message(error, service)}"
    named = service.named
    if status == _PAYMENT_REQUIRED or _is_no_credit(error):
        return Failure(_quota(service, status, said), retry=False)
    if status in (401, 403) and not service.key:
        where = service.key_variable or "a variable that api_key_env names"
        message = f"{named} wants a key ({said}): put it into {where}, in the environment or in .env"
        return Failure(AuthenticationError(message, service=named, status=status), retry=False)
    if status in (401, 403):
        message = (
            f"{named} refused the key in {service.key_variable} ({said}): check the key, and that it may use this model"
        )
        return Failure(AuthenticationError(message, service=named, status=status), retry=False)
    if status == 404:
        message = (
            f"{service.url} knows no model {service.model!r}, or no such address ({said}): "
            f"check model and {service.right_address}"
        )
        return Failure(RefusedError(message, service=named, status=status), retry=False)
    if status in _REFUSED:
        return Failure(RefusedError(f"{named} refused the request ({said})", service=named, status=status), retry=False)
    headers = error.response.headers
    retry = (status in _WORTH_RETRYING or status >= 500) and headers.get("x-should-retry") != "false"
    wait = asked_seconds(headers)
    if status == _RATE_LIMITED:
        later = f"in {wait:.0f} seconds" if wait else "later"
        message = f"{named} is asked too often ({said}): run it again {later}"
    else:
        message = f"{named} failed ({said}): try again later"
    rate = status == _RATE_LIMITED
    of = _too_much_of(error) if rate else ""
    return Failure(service.error(message, status), retry, wait, rate=rate, of=of, headers=headers)


def _too_much_of(error: openai.APIStatusError) -> Kind:
    headers = error.response.headers
    text = _told_message(error)
    of_requests = error.type == "requests" or bool(_OF_REQUESTS.search(text)) or told(headers, "requests").left == 0
    of_tokens = error.type == "tokens" or bool(_OF_TOKENS.search(text)) or told(headers, "tokens").left == 0
    if of_requests == of_tokens:
        return ""
    return "requests" if of_requests else "tokens"


def _quota(service: Service, status: int | None, said: str) -> QuotaError:
    message = (
        f"the account behind {service.key_variable or 'this address'} has no credit left for {service.named} ({said}): "
        "waiting does not help; add credit or use another key, then run it again"
    )
    return QuotaError(message, service=service.named, status=status)


def _is_no_credit(error: openai.APIError) -> bool:
    return error.code in _NO_CREDIT or error.type in _NO_CREDIT


def _message(error: openai.APIError, service: Service) -> str:
    return cleaned(_told_message(error), service.secrets) or "no reason given"


def _told_message(error: openai.APIError) -> str:
    message = error.body.get("message") if isinstance(error.body, dict) else error.body
    return message if isinstance(message, str) and message.strip() else error.message


def _hint(base_url: str) -> str:
    path = urlsplit(base_url).path.rstrip("/")
    for ending in ("/chat/completions", "/embeddings", "/completions"):
        if path.endswith(ending):
            return f", which should end before {ending}"
    return "" if path.endswith("/v1") else ", which for most services ends in /v1"
