"""What clients of OpenAI's API send, as far as it is understood, and what they read."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

_MOST_MESSAGES = 1000


class Part(BaseModel):
    """A piece of a message."""

    type: str
    text: str | None = None


class Message(BaseModel):
    """What somebody has said."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[Part] | None = None


class StreamOptions(BaseModel):
    """How a stream is sent."""

    include_usage: bool | None = None


class CompletionRequest(BaseModel):
    """A question with what was said before; other parameters of the API are accepted, and change nothing."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"model": "kb", "messages": [{"role": "user", "content": "What does a 429 mean?"}]}]
        }
    )

    model: str
    messages: list[Message] = Field(min_length=1, max_length=_MOST_MESSAGES)
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: int | None = None
    tools: list[dict[str, Any]] | None = None
    functions: list[dict[str, Any]] | None = None


class UrlCitation(BaseModel):
    """Where a marker in the text leads."""

    url: str
    """The page of this server, with the source opened at what is quoted."""
    title: str
    start_index: int
    """Of the marker in the content; in code points."""
    end_index: int


class Annotation(BaseModel):
    """A citation as OpenAI's API has it."""

    type: Literal["url_citation"] = "url_citation"
    url_citation: UrlCitation


class CompletionMessage(BaseModel):
    """The answer."""

    role: Literal["assistant"] = "assistant"
    content: str
    refusal: None = None
    annotations: list[Annotation]


class Choice(BaseModel):
    """The only one."""

    index: int = 0
    message: CompletionMessage
    finish_reason: Literal["stop"] = "stop"
    logprobs: None = None


class CompletionUsage(BaseModel):
    """Tokens of chat models; 0 where none was asked."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class Completion(BaseModel):
    """A whole answer."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[Choice]
    usage: CompletionUsage
    kb: dict[str, Any]
    """The same as `POST /ask` gives it: quotes, verdicts, passages."""


class Model(BaseModel):
    """A collection, as clients choose it."""

    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = "kb"


class ModelList(BaseModel):
    """All of them."""

    object: Literal["list"] = "list"
    data: list[Model]


class CompletionFaultBody(BaseModel):
    """What went wrong."""

    message: str
    type: str
    param: str | None = None
    code: str | None


class CompletionFault(BaseModel):
    """An error as OpenAI's API has it."""

    error: CompletionFaultBody
