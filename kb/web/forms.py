"""What requests and answers look like in JSON, as the OpenAPI description tells it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

MOST_TURNS = 20
MOST_TEXT = 100_000
_MOST_CITED = 200

Text = Annotated[str, StringConstraints(max_length=MOST_TEXT)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class Fault(BaseModel):
    """Every answer that is none."""

    error: str
    """The kind, such as `not_found`."""
    message: str
    """What happened, to what, and what to do."""


class Cited(BaseModel):
    """The number that a passage has in a conversation."""

    model_config = ConfigDict(extra="forbid")

    number: int = Field(ge=1, le=1_000_000, strict=True)
    chunk_id: Annotated[str, StringConstraints(min_length=1, max_length=200)]


class Turn(BaseModel):
    """An earlier question and its answer, as `done` gave it under `turn`."""

    model_config = ConfigDict(extra="forbid")

    question: Text
    searched: Text
    text: Text
    cited: list[Cited] = Field(default=[], max_length=_MOST_CITED)
    mentioned: list[Cited] = Field(default=[], max_length=_MOST_CITED)
    """Passages that got a number without being cited, as evidence of a claim."""
    highest: int = Field(default=0, ge=0, le=1_000_000, strict=True)
    """The highest number given so far."""


class Question(BaseModel):
    """A question to a collection."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"question": "What does a 429 mean and how should I handle it?"}]},
    )

    question: Annotated[str, StringConstraints(min_length=1, max_length=MOST_TEXT, strip_whitespace=True)]
    collection: Name | None = None
    top_k: int | None = Field(default=None, ge=1, le=100, strict=True)
    cutoff: float | None = Field(default=None, ge=-1, le=1, allow_inf_nan=False, strict=True)
    where: list[Annotated[str, StringConstraints(max_length=1000)]] = Field(
        default=[], max_length=50, description="Search only what passes: `kind=pdf`, `page=3-7`, `path=handbook`"
    )
    history: list[Turn] = Field(
        default=[], max_length=MOST_TURNS, description="The turns before, so that the question may lean on them"
    )


class HitBody(BaseModel):
    """A passage that was found."""

    chunk_id: str
    document_id: str
    source: str
    page: int | None
    heading: str | None
    start: int
    end: int
    score: float
    scored_by: str
    similarity: float
    text: str


class CitationBody(BaseModel):
    """What `[number]` in an answer leads to: the document's text from `start` to `end` is `quote`."""

    number: int
    document_id: str
    chunk_id: str
    source: str
    page: int | None
    heading: str | None
    start: int
    end: int
    quote: str


class ClaimBody(BaseModel):
    """A statement of an answer and whether what it cites supports it."""

    text: str
    start: int
    end: int
    numbers: list[int]
    verdict: Literal["supported", "partly", "unsupported"]
    score: float
    evidence: list[CitationBody]
    reasons: list[str]


class AnswerBody(BaseModel):
    """A whole answer."""

    question: str
    answered: bool
    text: str
    citations: list[CitationBody]
    claims: list[ClaimBody]
    support: float | None
    hits: list[HitBody]
    cutoff: float
    best_score: float | None
    embedder: str
    generator: str
    seconds: float
    usage: dict[str, Any] | None
    notes: list[str]
    turn: Turn


class SearchBody(BaseModel):
    """What a search found, best first."""

    question: str
    hits: list[HitBody]
    cutoff: float
    best_score: float | None
    notes: list[str]
