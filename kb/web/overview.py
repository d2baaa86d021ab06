"""What the server is, and how it is."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel
from starlette.responses import JSONResponse

from kb import __version__
from kb.loading import loader_suffixes
from kb.settings_web import Deletable
from kb.web.served import Here
from kb.web.uploads import Shelf

router = APIRouter(tags=["server"])


class About(BaseModel):
    """What a client has to know before it asks."""

    version: str
    collection: str
    """The one that is asked where a request names none."""
    collections: list[str]
    suffixes: list[str]
    """Of files that can be uploaded."""
    max_upload_bytes: int
    deletable: Deletable
    generator: str
    embedder: str
    question_characters: int


class Alive(BaseModel):
    """The server answers."""

    ok: bool = True


class Ready(BaseModel):
    """Whether a question would be answered now."""

    ready: bool
    message: str = ""


@router.get("/about")
def about(here: Here) -> About:
    """Tell the collections, the limits, and what answers."""
    settings = here.collections.default.settings
    return About(
        version=__version__,
        collection=settings.collection,
        collections=here.collections.names(),
        suffixes=sorted(loader_suffixes()),
        max_upload_bytes=Shelf.of(here.collections, here.collections.default).most_bytes,
        deletable=settings.web.deletable,
        generator=settings.generation.use,
        embedder=settings.embedding.use,
        question_characters=settings.web.question_characters,
    )


@router.get("/healthz")
async def healthz() -> Alive:
    """Answer as long as the process does."""
    return Alive()


@router.get("/readyz", responses={503: {"model": Ready}})
async def readyz(here: Here) -> JSONResponse:
    """Tell whether a worker can answer."""
    fault = here.pool.fault
    ready = Ready(ready=fault is None, message=fault or "")
    return JSONResponse(ready.model_dump(), 200 if ready.ready else 503, {} if ready.ready else {"Retry-After": "1"})
