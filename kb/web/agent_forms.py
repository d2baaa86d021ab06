"""What an agent's tools give."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel


class Place(BaseModel):
    """Where something stands: `read_document` gives the text of a document from `start` to `end`."""

    document_id: str
    source: str
    page: int | None
    heading: str | None
    start: int
    end: int


class Passage(Place):
    """A passage that was found."""

    score: float
    text: str


class Passages(BaseModel):
    """What a search found, best first."""

    passages: list[Passage]
    notes: list[str]


class Quote(Place):
    """What `[number]` in an answer leads to."""

    number: int
    quote: str


class CheckedClaim(BaseModel):
    """A statement of an answer, and whether what it cites supports it."""

    text: str
    numbers: list[int]
    verdict: Literal["supported", "partly", "unsupported"]


class AgentAnswer(BaseModel):
    """An answer from the documents, or that they don't give one."""

    answered: bool
    text: str
    citations: list[Quote]
    claims: list[CheckedClaim]
    notes: list[str]


class ListedPage(BaseModel):
    """Some documents by path."""

    documents: list[Listed]
    total: int
    next: str | None
    """What to give as `after` for those that follow."""


class Listed(BaseModel):
    """A document."""

    document_id: str
    path: str
    title: str
    kind: str
    status: str
    reason: str
    pages: int | None
    chunks: int


class Reading(BaseModel):
    """Some text of a document."""

    document_id: str
    path: str
    title: str
    start: int
    end: int
    length: int
    """Of the whole document, in characters."""
    pages: int | None
    text: str


class CollectionStatus(BaseModel):
    """How a collection is."""

    collection: str
    collections: list[str]
    """All that can be asked."""
    documents: int
    chunks: int
    failed: int
    last_ingest: dict[str, Any] | None
