"""The application: routes, what guards them, and how errors are told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response

from kb import __version__
from kb.errors import KbError
from kb.web import asking, completions, documents, ingests, overview, page, sources
from kb.web.guard import Guard, Rules
from kb.web.limits import Limits
from kb.web.refusals import Refusal, answered, refusal_of, unforeseen
from kb.web.request_log import RequestLog
from kb.web.served import Served
from kb.web.sse import ClientGone

_BYTES_PER_MEGABYTE = 1024 * 1024
_CLIENT_GONE = 499
"""As nginx notes it; nobody reads this answer."""

ROUTERS: tuple[APIRouter, ...] = (
    asking.router,
    completions.router,
    documents.router,
    ingests.router,
    overview.router,
    page.router,
    sources.router,
)


def create_app(served: Served, rules: Rules) -> FastAPI:
    """The application of a server; starting it starts the workers."""

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        try:
            await served.start()
        except Exception as error:
            app.state.failure = error
            raise
        try:
            async with _for_agents(app, served):
                yield
        finally:
            await served.close()

    # No /docs: that page would load scripts from another host.
    app = FastAPI(title="kb", version=__version__, lifespan=life, docs_url=None, redoc_url=None)
    app.state.served = served
    app.state.failure = None  # why it could not be started
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


@asynccontextmanager
async def _for_agents(app: FastAPI, served: Served) -> AsyncIterator[None]:
    """Tools for agents at /mcp, where their package is installed."""
    if find_spec("mcp") is None:
        yield
        return
    from kb.web.agents import agent_server, over_http

    server = agent_server(served.pool, served.collections)
    app.router.routes.extend(over_http(server))
    async with server.session_manager.run():
        yield


def _answer(refusal: Refusal, request: Request) -> Response:
    return answered(refusal, request.url.path)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal), "registered for it"
    return _answer(error, request)


async def _failed(request: Request, error: Exception) -> Response:
    assert isinstance(error, KbError), "registered for it"
    return _answer(refusal_of(error), request)


async def _gone(_: Request, error: Exception) -> Response:
    return Response(status_code=_CLIENT_GONE)


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError), "registered for it"
    # Where and what is wrong, never the value: it may be anything.
    faults = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()[:3]]
    return _answer(Refusal(422, "bad_request", "; ".join(faults)), request)


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException), "registered for it"
    kinds = {404: "not_found", 405: "method_not_allowed"}
    message = "there is nothing at this address" if error.status_code == 404 else str(error.detail)
    headers = dict(error.headers or {})
    return _answer(
        Refusal(error.status_code, kinds.get(error.status_code, "bad_request"), message, headers=headers), request
    )


async def _unforeseen(request: Request, error: Exception) -> Response:
    return _answer(unforeseen(error, f"{request.method} {request.url.path}"), request)
