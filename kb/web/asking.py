"""Asking: an answer as a whole or as it is written, and searching without one."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from kb.web.answering import Wanted
from kb.web.forms import AnswerBody, Fault, Name, Question, SearchBody
from kb.web.refusals import Refusal
from kb.web.served import Here, Served
from kb.web.sse import Event, EventStream, described, unless_gone

router = APIRouter(tags=["asking"])

FAULTS: dict[int | str, dict[str, Any]] = {
    status: {"model": Fault} for status in (400, 401, 403, 404, 408, 409, 413, 421, 422, 429, 500, 502, 503)
}


@router.post("/ask", responses={200: {"model": AnswerBody}, **FAULTS})
async def ask(asked: Question, here: Here, request: Request) -> Response:
    """Answer a question from the documents, or say that they don't."""
    wanted = wanted_of(asked, here)
    return _as_json(await unless_gone(request, _last(here.pool.stream(wanted))))


@router.post(
    "/ask/stream",
    responses={**described("hits", "text", "citation", "verdict", "usage", "done", "error"), **FAULTS},
    response_class=Response,
)
async def ask_stream(asked: Question, here: Here, request: Request) -> Response:
    """The same while it is written: events `hits`, `text`, `citation`, `verdict`, `usage`, then `done` or `error`."""
    return await begun(here.pool.stream(wanted_of(asked, here)), here, request)


@router.get("/search", responses={200: {"model": SearchBody}, **FAULTS})
async def search(
    here: Here,
    request: Request,
    q: Annotated[str, Query(min_length=1, max_length=100_000, description="What to look for")],
    collection: Name | None = None,
    top_k: Annotated[int | None, Query(ge=1, le=100)] = None,
    cutoff: Annotated[float | None, Query(ge=-1, le=1, allow_inf_nan=False)] = None,
    where: Annotated[list[str], Query(max_length=50, description="As `kind=pdf`, `page=3-7`")] = [],  # noqa: B006
) -> Response:
    """Find passages without writing an answer."""
    wanted = Wanted(_question(q, here), collection, top_k, cutoff, tuple(where))
    return _as_json(await unless_gone(request, here.pool.search(wanted)))


def wanted_of(asked: Question, here: Served) -> Wanted:
    """What a worker is asked.

    Raises:
        Refusal: the question is blank, or too long.
    """
    history = tuple(turn.model_dump() for turn in asked.history)
    question = _question(asked.question, here)
    return Wanted(question, asked.collection, asked.top_k, asked.cutoff, tuple(asked.where), history)


async def begun(events: AsyncGenerator[Event, None], here: Served, request: Request) -> Response:
    """A stream whose first event is there: what goes wrong before is an HTTP answer of its own.

    Raises:
        Refusal: it went wrong.
    """
    try:
        first = await unless_gone(request, anext(events))
        if first.name == "error":
            raise _refusal(first)
    except BaseException:
        await events.aclose()
        raise

    async def whole() -> AsyncGenerator[Event, None]:
        try:
            yield first
            async for one in events:
                yield one
        finally:
            await events.aclose()

    return EventStream(whole(), here.section.heartbeat_seconds, here.section.idle_seconds)


def _question(text: str, here: Served) -> str:
    most = here.section.question_characters
    if len(text) > most:
        raise Refusal(422, "bad_request", f"the question has {len(text):,} characters; at most {most:,} are taken")
    # Blanks of any script, a byte order mark and control characters alone are no question.
    if not any(character.isprintable() and not character.isspace() for character in text):
        raise Refusal(422, "bad_request", "the question is empty")
    return text.strip()


async def _last(events: AsyncGenerator[Event, None]) -> Event:
    last: Event | None = None
    try:
        async for one in events:
            last = one
    finally:
        await events.aclose()
    assert last is not None, "a stream ends with done or error"
    return last


def _as_json(result: Event) -> Response:
    if result.name == "error":
        raise _refusal(result)
    return Response(result.data, media_type="application/json")


def _refusal(failed: Event) -> Refusal:
    told = json.loads(failed.data)
    status = told["status"]
    return Refusal(status, told["error"], told["message"], 1.0 if status in (429, 503) else None)
