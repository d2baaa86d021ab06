"""The sections on services: how one is reached, chat models, each with its purpose, and what services cost."""

from __future__ import annotations

import re
from datetime import date
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from kb.settings_tables import BaseUrl, Table, VariableName

KNOWN_PRICES = {"text-embedding-3-small": 0.02, "text-embedding-3-large": 0.13, "text-embedding-ada-002": 0.10}
"""OpenAI's, as announced on the day that `PricesTable.as_of` says; config.toml adds to them or replaces some."""

KNOWN_CHAT_PRICES: dict[str, dict[str, float]] = {
    "gpt-4o": {"input": 2.5, "output": 10.0},
    "gpt-4o-mini": {"input": 0.15, "output": 0.6},
    "gpt-4.1": {"input": 2.0, "output": 8.0},
    "gpt-4.1-mini": {"input": 0.4, "output": 1.6},
    "gpt-4.1-nano": {"input": 0.1, "output": 0.4},
    "o3-mini": {"input": 1.1, "output": 4.4},
    "o4-mini": {"input": 1.1, "output": 4.4},
}
"""OpenAI's list prices, as they were on the day that `ChatPricesTable.as_of` says, without discounts for what it has
in its cache; config.toml adds to them or replaces some."""

VARIABLE = re.compile(r"\$([A-Z_][A-Z0-9_]*)")
"""Where the value of a variable is put in."""
_HEADER_NAME = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII)
_NOT_TO_SET = frozenset({"connection", "content-length", "content-type", "host", "transfer-encoding"})
"""Headers that say how a request is sent; with another value it would not arrive as one."""
PROXY_SCHEMES = ("http", "https", "socks5", "socks5h")


def is_header_value(value: str) -> bool:
    """Whether a header can carry it: no control character, no line break, no letter beyond ASCII."""
    return value.isascii() and value.isprintable()


def is_proxy(value: str) -> bool:
    """Whether it is the address of a proxy."""
    try:
        parts = urlsplit(value)
        return parts.scheme in PROXY_SCHEMES and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return False


def _are_headers(headers: dict[str, str]) -> dict[str, str]:
    # Nothing of them is shown: a value may be a key that somebody wrote there in spite of all advice.
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or name.lower() in _NOT_TO_SET:
            raise PydanticCustomError(
                "not_shown",
                "should be names of headers with their values; a name has letters, digits and -, and is none of "
                "{names}",
                {"names": ", ".join(sorted(_NOT_TO_SET))},
            )
        if not is_header_value(value):
            raise PydanticCustomError(
                "not_shown",
                "should hold values without line breaks, control characters and letters beyond ASCII, which no header "
                "can carry",
            )
    if len({name.lower() for name in headers}) < len(headers):
        raise PydanticCustomError("not_shown", "should hold each header once, whether in upper or lower case")
    return headers


def _is_one_word(value: str) -> str:
    if not is_header_value(value) or " " in value:
        raise PydanticCustomError("not_shown", "should be an identifier, or empty")
    return value


def _is_proxy(value: str) -> str:
    if value and not VARIABLE.search(value) and not is_proxy(value):
        raise PydanticCustomError(
            "not_shown",
            "should be the address of a proxy, that begins with {schemes}, or empty for what the environment says",
            {"schemes": ", ".join(f"{scheme}://" for scheme in PROXY_SCHEMES)},
        )
    return value


Identifier = Annotated[str, AfterValidator(_is_one_word)]
Headers = Annotated[dict[str, str], AfterValidator(_are_headers)]
"""Sent with each request; `$NAME` in a value stands for the value of that variable."""


class ServiceOptions(Table):
    """How a service is reached; the base of the options of all that are."""

    base_url: BaseUrl = ""
    api_key_env: VariableName = "OPENAI_API_KEY"
    organization: Identifier = ""
    """Of an account at OpenAI; empty: OPENAI_ORG_ID, and only there."""
    project: Identifier = ""
    """Likewise; empty: OPENAI_PROJECT_ID."""
    headers: Headers = Field(default_factory=dict, repr=False)
    proxy: Annotated[str, AfterValidator(_is_proxy)] = Field("", repr=False)
    """Empty: what HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY say. `$NAME` as in `headers`."""
    timeout_seconds: float = Field(60.0, gt=0)
    connect_timeout_seconds: float = Field(10.0, gt=0)
    """Part of `timeout_seconds`: a machine that is there takes the connection within it."""
    retries: int = Field(2, ge=0)
    requests_per_minute: int | None = Field(None, ge=1)
    tokens_per_minute: int | None = Field(None, ge=1)


class PricesTable(Table):
    """What embedding costs: dollars for a million tokens, by the service's name of the model."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Annotated[float, Field(ge=0)]] = Field(init=False)
    as_of: date = date(2024, 1, 25)

    @model_validator(mode="before")
    @classmethod
    def _known_prices_stay(cls, data: object) -> object:
        return {**KNOWN_PRICES, **data} if isinstance(data, dict) else data

    def per_million_tokens(self, model: str) -> float | None:
        """The price of a model; None when it is not known."""
        return (self.model_extra or {}).get(model)


class ChatPrice(Table):
    """Dollars for a million tokens."""

    input: float = Field(ge=0)
    output: float = Field(ge=0)


class ChatPricesTable(Table):
    """What chat models cost, by the service's name of the model."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, ChatPrice] = Field(init=False)
    as_of: date = date(2025, 8, 7)

    @model_validator(mode="before")
    @classmethod
    def _known_prices_stay(cls, data: object) -> object:
        return {**KNOWN_CHAT_PRICES, **data} if isinstance(data, dict) else data

    def dollars(self, model: str, prompt_tokens: int, completion_tokens: int) -> float | None:
        """What so many tokens cost; None when the model's price is not known."""
        price: ChatPrice | None = (self.model_extra or {}).get(model)
        if price is None:
            return None
        return (prompt_tokens * price.input + completion_tokens * price.output) / 1_000_000


class ChatPurpose(ServiceOptions):
    """One use of a chat model."""

    model: str = ""
    temperature: float = Field(0.1, ge=0, le=2)
    max_tokens: int = Field(1000, ge=1)
    unopened_thinking: bool = False
    """Every reply begins within the model's thinking, which only a closing `</think>` sets off from the answer."""


class ChatSection(Table):
    """The chat models, one table for each use, and what they cost."""

    answer: ChatPurpose = ChatPurpose()
    expand: ChatPurpose = ChatPurpose(model="gpt-4o-mini", temperature=0.7, max_tokens=300, timeout_seconds=20.0)
    judge: ChatPurpose = ChatPurpose(model="gpt-4o-mini", temperature=0.0, max_tokens=3, timeout_seconds=20.0)
    negation: ChatPurpose = ChatPurpose(model="gpt-4o-mini", temperature=0.0, max_tokens=4, timeout_seconds=20.0)
    rewrite: ChatPurpose = ChatPurpose(model="gpt-4o-mini", temperature=0.0, max_tokens=150, timeout_seconds=20.0)
    prices: ChatPricesTable = ChatPricesTable()

    def rewriting(self, *, elsewhere: bool) -> ChatPurpose:
        """The purpose of rewriting when nobody asked for a service of its own: that of `answer`, and no other one.

        Args:
            elsewhere: OPENAI_BASE_URL names another service than OpenAI, which may not have the model of `rewrite`.
        """
        usual = ChatPurpose()
        own, of_answers = _service(self.rewrite), _service(self.answer)
        chosen = own != _service(type(self)().rewrite)
        if chosen or (
            of_answers["base_url"] == usual.base_url
            and not elsewhere
            and own["api_key_env"] == of_answers["api_key_env"]
        ):
            return self.rewrite
        return self.rewrite.model_copy(update=of_answers)


def _service(purpose: ChatPurpose) -> dict[str, object]:
    """What says who is asked, and its limits."""
    patience = {"timeout_seconds", "connect_timeout_seconds", "retries"}
    names = ["model", *(name for name in ServiceOptions.model_fields if name not in patience)]
    return {name: getattr(purpose, name) for name in names}
