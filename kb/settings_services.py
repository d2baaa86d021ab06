"""The sections on services: chat models, each with its purpose, and what services cost."""

from __future__ import annotations

from datetime import date
from typing import Annotated

from pydantic import ConfigDict, Field, model_validator

from kb.settings_tables import BaseUrl, Table, VariableName

KNOWN_PRICES = {"text-embedding-3-small": 0.02, "text-embedding-3-large": 0.13, "text-embedding-ada-002": 0.10}
"""OpenAI's, as announced on the day that `PricesTable.as_of` says; config.toml adds to them or replaces some."""


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


class ChatPurpose(Table):
    """One use of a chat model."""

    model: str = ""
    base_url: BaseUrl = ""
    api_key_env: VariableName = "OPENAI_API_KEY"
    temperature: float = Field(0.1, ge=0, le=2)
    max_tokens: int = Field(1000, ge=1)
    timeout_seconds: float = Field(60.0, gt=0)
    retries: int = Field(2, ge=0)
    requests_per_minute: int | None = Field(None, ge=1)
    tokens_per_minute: int | None = Field(None, ge=1)


class ChatSection(Table):
    """The chat models, one table for each use."""

    answer: ChatPurpose = ChatPurpose()
    expand: ChatPurpose = ChatPurpose(model="gpt-4o-mini", temperature=0.7, max_tokens=300, timeout_seconds=20.0)
    judge: ChatPurpose = ChatPurpose(model="gpt-4o-mini", temperature=0.0, max_tokens=3, timeout_seconds=20.0)
    negation: ChatPurpose = ChatPurpose(model="gpt-4o-mini", temperature=0.0, max_tokens=4, timeout_seconds=20.0)
