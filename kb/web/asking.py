"""Asking: an answer as a whole or as it is written, and searching without one."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from kb.web.answering import Wanted
from kb.web.forms import AnswerBody, Fault, Name, Question, SearchBody
from kb.web.outcome import begun, question_of, told, whole_answer
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
    return _as_json(await unless_gone(request, whole_answer(here.pool.stream(wanted))))


@router.post(
    "/ask/stream",
    responses={**described("hits", "text", "citation", "verdict", "usage", "done", "error"), **FAULTS},
    response_class=Response,
)
async def ask_stream(asked: Question, here: Here, request: Request) -> Response:
    """The same while it is written: events `hits`, `text`, `citation`, `verdict`, `usage`, then `done` or `error`."""
    events = await begun(here.pool.stream(wanted_of(asked, here)), request)
    return EventStream(events, here.section.heartbeat_seconds, here.section.idle_seconds)


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
    wanted = Wanted(question_of(q, here.section.question_characters), collection, top_k, cutoff, tuple(where))
    return _as_json(told(await unless_gone(request, here.pool.search(wanted))))


def wanted_of(asked: Question, here: Served) -> Wanted:
    """What a worker is asked.

    Raises:
        Refusal: the question is blank, or too long.
    """
    history = tuple(turn.model_dump() for turn in asked.history)
    question = question_of(asked.question, here.section.question_characters)
    return Wanted(question, asked.collection, asked.top_k, asked.cutoff, tuple(asked.where), history)


def _as_json(result: Event) -> Response:
    return Response(result.data, media_type="application/json")
