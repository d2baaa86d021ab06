"""For clients of OpenAI's API: a collection is a model, and an answer's citations are its annotations.

Source: OpenAI, API reference, "Chat", https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from itertools import pairwise
from typing import Annotated, Any
from urllib.parse import urlencode
from uuid import uuid4

from fastapi import APIRouter, Path, Request
from starlette.responses import JSONResponse, Response

from kb.display import place
from kb.markers import find_markers
from kb.web.answering import Wanted
from kb.web.completion_forms import (
    Annotation,
    Choice,
    Completion,
    CompletionFault,
    CompletionMessage,
    CompletionRequest,
    CompletionUsage,
    Message,
    Model,
    ModelList,
    UrlCitation,
)
from kb.web.forms import MOST_TEXT, MOST_TURNS, Turn
from kb.web.outcome import begun, question_of, whole_answer
from kb.web.refusals import Refusal, openai_body
from kb.web.served import Here, Served
from kb.web.sse import Event, EventStream, event, unless_gone

router = APIRouter(prefix="/v1", tags=["for clients of OpenAI's API"])

_OWN = "kb"
"""The configured collection; another one is `kb/NAME`."""
_FAULTS: dict[int | str, dict[str, Any]] = {
    status: {"model": CompletionFault} for status in (400, 401, 403, 404, 408, 409, 413, 421, 422, 429, 500, 502, 503)
}
_STREAM = {"text/event-stream": {"schema": {"type": "string"}}}


@router.get("/models", responses={401: {"model": CompletionFault}})
def models(here: Here) -> ModelList:
    """The collections."""
    return ModelList(data=[Model(id=_OWN), *(Model(id=f"{_OWN}/{name}") for name in here.collections.names())])


@router.get("/models/{model:path}", responses=_FAULTS)
def model(model: Annotated[str, Path(min_length=1, max_length=210)], here: Here) -> Model:
    """One of them."""
    _collection(model, here)
    return Model(id=model)


@router.post("/chat/completions", response_model=Completion, responses={200: {"content": _STREAM}, **_FAULTS})
async def completions(asked: CompletionRequest, here: Here, request: Request) -> Response:
    """Answer the last message from the documents, whole or as a stream."""
    wanted = _wanted(asked, here)
    frame = {"id": f"chatcmpl-{uuid4().hex}", "created": int(time.time()), "model": asked.model}
    address = f"{request.base_url}?"
    if wanted.collection is not None:
        address += urlencode({"collection": wanted.collection}) + "&"
    if asked.stream:
        with_usage = asked.stream_options is not None and bool(asked.stream_options.include_usage)
        events = await begun(here.pool.stream(wanted), request)
        chunks = _chunks(events, {**frame, "object": "chat.completion.chunk"}, address, with_usage)
        return EventStream(chunks, here.section.heartbeat_seconds, here.section.idle_seconds)
    body = json.loads((await unless_gone(request, whole_answer(here.pool.stream(wanted)))).data)
    content = _without_images(body["text"]) + _sources(body["citations"])
    message = CompletionMessage(content=content, annotations=list(_annotations(body, address)))
    completion = Completion(**frame, choices=[Choice(message=message)], usage=_usage(body), kb=body)
    return JSONResponse(completion.model_dump())


def _wanted(asked: CompletionRequest, here: Served) -> Wanted:
    """What a process is asked.

    Raises:
        Refusal: it is more, or something else, than a question.
    """
    if asked.n not in (None, 1):
        raise Refusal(400, "bad_request", "n: there is one answer to a question")
    if asked.tools or asked.functions:
        raise Refusal(400, "bad_request", "tools: none are called here; agents are served over MCP")
    collection = _collection(asked.model, here)
    last = asked.messages[-1]
    if last.role != "user":
        raise Refusal(400, "bad_request", "messages: the last one has to be the user's question")
    return Wanted(
        question_of(_text(last), here.section.question_characters),
        collection,
        history=tuple(_turns(asked.messages[:-1])),
    )


def _collection(model: str, here: Served) -> str | None:
    own, _, name = model.partition("/")
    if own != _OWN or (name and name not in here.collections.names()) or model.endswith("/"):
        raise Refusal(404, "model_not_found", f"there is no model {model!r}; GET /v1/models names those that are there")
    return name or None


def _text(message: Message) -> str:
    if message.content is None or isinstance(message.content, str):
        return message.content or ""
    if any(part.type != "text" for part in message.content):
        raise Refusal(400, "bad_request", "messages: only text is understood, no pictures, sounds or files")
    return "\n".join(part.text or "" for part in message.content)


def _turns(messages: Sequence[Message]) -> Iterator[dict[str, Any]]:
    """Questions that were answered, the last of them; what they cited is not known any more."""
    said = [message for message in messages if message.role in ("user", "assistant")]
    answered = [(a, b) for a, b in pairwise(said) if (a.role, b.role) == ("user", "assistant")]
    for question, answer in answered[-MOST_TURNS:]:
        yield Turn(question=_text(question)[:MOST_TEXT], searched="", text=_text(answer)[:MOST_TEXT]).model_dump()


async def _chunks(
    events: AsyncGenerator[Event, None], frame: dict[str, Any], address: str, with_usage: bool
) -> AsyncGenerator[Event, None]:
    """The events of an answer as OpenAI's stream has them."""

    def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> Event:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        return event("", {**frame, "choices": [choice], **more})

    yield chunk({"role": "assistant", "content": ""})
    held = ""
    async with aclosing(events):
        async for told in events:
            if told.name not in ("text", "done", "error"):
                continue
            body = json.loads(told.data)
            if told.name == "error":
                yield event("", openai_body(body["error"], body["message"]))
                return
            if told.name == "text":
                piece = held + body["text"]
                held = "!" if piece.endswith("!") else ""  # what an image begins with
                if piece := _without_images(piece.removesuffix("!")):
                    yield chunk({"content": piece})
                continue
            if rest := held + _sources(body["citations"]):
                yield chunk({"content": rest})
            annotations = [one.model_dump() for one in _annotations(body, address)]
            yield chunk({"annotations": annotations} if annotations else {}, "stop", kb=body)
            if with_usage:
                yield event("", {**frame, "choices": [], "usage": _usage(body).model_dump()})
    yield Event("", "[DONE]")


def _without_images(text: str) -> str:
    """A quoted document must not make a reader's client load an image, which would tell its owner who reads it."""
    return text.replace("![", "! [")


def _sources(citations: Sequence[dict[str, Any]]) -> str:
    """The numbers of a text and where they lead, below it: most clients show no annotations."""
    lines = {f"[{one['number']}] {_title(one)}": None for one in citations}
    return "\n\n" + "\n".join(lines) if lines else ""


def _annotations(body: dict[str, Any], address: str) -> Iterator[Annotation]:
    """Each marker of the text with each quote that it stands for, at an address that begins with `address`."""
    for marker in find_markers(_without_images(body["text"])) if body["answered"] else ():
        for citation in body["citations"]:
            if citation["number"] in marker.numbers:
                place = {
                    "document": citation["document_id"],
                    "start": citation["start"],
                    "end": citation["end"],
                    "number": citation["number"],
                }
                yield Annotation(
                    url_citation=UrlCitation(
                        url=address + urlencode(place),
                        title=_title(citation),
                        start_index=marker.start,
                        end_index=marker.end,
                    )
                )


def _title(citation: dict[str, Any]) -> str:
    return _without_images(place(citation["source"], citation["page"], citation["heading"]))


def _usage(body: dict[str, Any]) -> CompletionUsage:
    usage = body["usage"] or {"prompt_tokens": 0, "completion_tokens": 0}
    asked, said = usage["prompt_tokens"], usage["completion_tokens"]
    return CompletionUsage(prompt_tokens=asked, completion_tokens=said, total_tokens=asked + said)
