"""The application: routes, what guards them, and how errors are told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse, Response

from kb import __version__
from kb.errors import KbError
from kb.web import asking, overview, page, sources
from kb.web.guard import Guard, Rules
from kb.web.limits import Limits
from kb.web.refusals import Refusal, refusal_of, unforeseen
from kb.web.request_log import RequestLog
from kb.web.served import Served
from kb.web.sse import ClientGone

_BYTES_PER_MEGABYTE = 1024 * 1024
_CLIENT_GONE = 499
"""As nginx notes it; nobody reads this answer."""

ROUTERS: tuple[APIRouter, ...] = (
    asking.router,
    overview.router,
    page.router,
    sources.router,
)


def create_app(served: Served, rules: Rules) -> FastAPI:
    """The application of a server; starting it starts the workers."""

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        await served.start()
        try:
            yield
        finally:
            await served.close()

    # No /docs: that page would load scripts from another host.
    app = FastAPI(title="kb", version=__version__, lifespan=life, docs_url=None, redoc_url=None)
    app.state.served = served
    for router in ROUTERS:
        app.include_router(router)
    for kind, handler in ((Refusal, _refused), (KbError, _failed), (ClientGone, _gone)):
        app.add_exception_handler(kind, handler)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unforeseen)
    section = served.section
    # The last one added is asked first.
    app.add_middleware(
        Limits,
        per_minute=section.requests_per_minute,
        upload_bytes=int(section.max_upload_megabytes * _BYTES_PER_MEGABYTE),
        idle_seconds=section.idle_seconds,
    )
    if rules.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=sorted(rules.origins),
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["Authorization", "Content-Type"],
        )
    app.add_middleware(Guard, rules=rules)
    app.add_middleware(RequestLog)
    return app


def _answer(refusal: Refusal) -> Response:
    return JSONResponse(refusal.body, refusal.status, refusal.all_headers)


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal), "registered for it"
    return _answer(error)


async def _failed(_: Request, error: Exception) -> Response:
    assert isinstance(error, KbError), "registered for it"
    return _answer(refusal_of(error))


async def _gone(_: Request, error: Exception) -> Response:
    return Response(status_code=_CLIENT_GONE)


async def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError), "registered for it"
    # Where and what is wrong, never the value: it may be anything.
    faults = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()[:3]]
    return _answer(Refusal(422, "bad_request", "; ".join(faults)))


async def _http(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException), "registered for it"
    kinds = {404: "not_found", 405: "method_not_allowed"}
    message = "there is nothing at this address" if error.status_code == 404 else str(error.detail)
    headers = dict(error.headers or {})
    return _answer(Refusal(error.status_code, kinds.get(error.status_code, "bad_request"), message, headers=headers))


async def _unforeseen(request: Request, error: Exception) -> Response:
    return _answer(unforeseen(error, f"{request.method} {request.url.path}"))
