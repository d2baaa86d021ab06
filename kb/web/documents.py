"""The documents of a collection: listed, uploaded, looked up, deleted."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response

from kb.catalogue import MOST_LISTED
from kb.loading import loader_suffixes
from kb.web.asking import FAULTS
from kb.web.document_forms import DeletedBody, DocumentBody, DocumentsBody, UploadBody
from kb.web.folder import changeable_folder, found_file
from kb.web.forms import Fault, Name
from kb.web.incoming import Incoming
from kb.web.refusals import Refusal, not_found
from kb.web.safe_names import suffix_of
from kb.web.served import Here, Served
from kb.web.sse import ClientGone
from kb.web.upload_form import UploadForm
from kb.web.uploads import Shelf, Waiting, delete_file

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from kb.ledger.listing import ListedDocument

router = APIRouter(tags=["documents"])

DocumentId = Annotated[str, Path(min_length=1, max_length=200, description="As the list of documents names it")]

_WRITTEN_AT_ONCE = 1024 * 1024
"""Bytes of an upload that are kept in memory: each writing is a turn of another thread."""
_PATIENCE_SECONDS = 5.0
"""For the ingest that takes a deleted document out; it takes a moment, unless a long one is under way."""
_WAITS = "/"
"""Before the path of a waiting document in `after` and `next`; no path begins so."""

_FORM = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "additionalProperties": False,
                    "properties": {"file": {"type": "string", "format": "binary", "description": "One file"}},
                }
            }
        },
    }
}
_UPLOAD_FAULTS: dict[int | str, dict[str, Any]] = {**FAULTS, 415: {"model": Fault}, 507: {"model": Fault}}


@router.get("/documents", responses=FAULTS)
def list_documents(
    here: Here,
    collection: Name | None = None,
    find: Annotated[str, Query(max_length=1000, description="Only those whose path or title holds it")] = "",
    after: Annotated[str, Query(max_length=10_000, description="What the page before gave as `next`")] = "",
    limit: Annotated[int, Query(ge=1, le=MOST_LISTED)] = 100,
) -> DocumentsBody:
    """List documents: first those that were uploaded and wait for their ingest, then the others, each by path."""
    base = here.collections.get(collection)
    shelf = Shelf.of(here.collections, base)
    waiting = [one for one in shelf.waiting() if find.lower() in one.path.lower()]
    left: list[Waiting] = []
    if not after or after.startswith(_WAITS):
        left, after = [one for one in waiting if one.path > after.removeprefix(_WAITS)], ""
    shown = left[:limit]
    room = limit - len(shown)
    page = base.catalogue.page(find=find, after=after, limit=max(room, 1))
    listed, following = page.documents, page.next
    if not room:
        following = _WAITS + shown[-1].path if listed or len(left) > limit else None
        listed = ()
    bodies = [*(_waiting_body(one, shelf) for one in shown), *(_listed_body(one, shelf) for one in listed)]
    return DocumentsBody(documents=bodies, total=page.total + len(waiting), next=following)


@router.post(
    "/documents",
    status_code=201,
    response_model=UploadBody,
    responses={200: {"model": UploadBody, "description": "The same bytes were there already"}, **_UPLOAD_FAULTS},
    openapi_extra=_FORM,
)
async def upload(here: Here, request: Request, collection: Name | None = None) -> Response:
    """Store a file and have it ingested. Once this is answered with 200 or 201, the file is safe on the disk."""
    shelf = await asyncio.to_thread(_shelf_to_fill, here, collection)
    path, known = await _received(request, shelf)
    document = await asyncio.to_thread(_document, shelf, path)
    job = None if known else here.jobs.look_at(collection, path).id
    return JSONResponse({"document": document.model_dump(), "job": job, "known": known}, 200 if known else 201)


@router.get("/documents/{document_id}", responses=FAULTS)
def get_document(here: Here, document_id: DocumentId, collection: Name | None = None) -> DocumentBody:
    """Look one document up."""
    shelf = Shelf.of(here.collections, here.collections.get(collection))
    return _found(shelf, document_id)


@router.delete(
    "/documents/{document_id}",
    response_model=DeletedBody,
    responses={202: {"model": DeletedBody, "description": "Its text can be found until the job has ended"}, **FAULTS},
)
async def delete_document(here: Here, document_id: DocumentId, collection: Name | None = None) -> Response:
    """Delete a document's file, and take its text out of the collection."""
    document = await asyncio.to_thread(_deleted, here, collection, document_id)
    job = here.jobs.look_at(collection, document.path)
    over = await here.jobs.over(job, _PATIENCE_SECONDS)
    gone = over and await asyncio.to_thread(_is_gone, here, collection, document_id)
    return JSONResponse({"id": document.id, "path": document.path, "job": job.id}, 200 if gone else 202)


# ── uploads ──


def _shelf_to_fill(here: Served, collection: str | None) -> Shelf:
    base = here.collections.get(collection)
    changeable_folder(here.collections, base)
    return Shelf.of(here.collections, base)


async def _received(request: Request, shelf: Shelf) -> tuple[str, bool]:
    """Store what a client sends; see `Shelf.keep`.

    Raises:
        Refusal: it is not stored.
        ClientGone: the client went away before its end.
    """
    stream = request.stream()
    try:
        try:
            return await _stored(stream, UploadForm(request.headers.get("content-type", "")), shelf)
        except Refusal:
            # A client reads no answer before it has sent everything; the limits hold for this too.
            async for _ in stream:
                pass
            raise
    except ClientDisconnect as error:
        raise ClientGone from error


async def _stored(stream: AsyncGenerator[bytes, None], form: UploadForm, shelf: Shelf) -> tuple[str, bool]:
    name, held = "", bytearray()
    incoming: Incoming | None = None
    try:
        async for body in stream:
            for piece in form.feed(body):
                held += piece
            if form.name is not None and incoming is None:
                name = shelf.name_for(form.name)
                incoming = Incoming(await asyncio.to_thread(shelf.ready), shelf.most_bytes)
            if incoming is not None and len(held) >= _WRITTEN_AT_ONCE:
                await asyncio.to_thread(incoming.write, bytes(held))
                held.clear()
        form.finish()
        assert incoming is not None, "a form without a file is not finished"
        await asyncio.to_thread(incoming.write, bytes(held))
        return await asyncio.to_thread(shelf.keep, incoming, name)
    finally:
        if incoming is not None:
            incoming.close()


# ── what is known of a document ──


def _document(shelf: Shelf, path: str) -> DocumentBody:
    """What has just been stored, or was there; the ingest may have met it by now."""
    waiting = Waiting(found_file(shelf.root, path) or shelf.root / path, path)
    listed = shelf.base.catalogue.listed(waiting.id)
    return _waiting_body(waiting, shelf) if listed is None else _listed_body(listed, shelf)


def _deleted(here: Served, collection: str | None, document_id: str) -> DocumentBody:
    base = here.collections.get(collection)
    document = _found(Shelf.of(here.collections, base), document_id)
    if not document.deletable:
        allowed = base.settings.web.deletable
        raise Refusal(403, "forbidden", f"this document may not be deleted: [web] deletable is {allowed!r}")
    delete_file(here.collections, base, document.path)
    return document


def _is_gone(here: Served, collection: str | None, document_id: str) -> bool:
    return not here.collections.get(collection).catalogue.known([document_id])


def _found(shelf: Shelf, document_id: str) -> DocumentBody:
    listed = shelf.base.catalogue.listed(document_id)
    if listed is not None:
        return _listed_body(listed, shelf)
    for waiting in shelf.waiting():
        if waiting.id == document_id:
            return _waiting_body(waiting, shelf)
    raise not_found("such document; GET /documents lists those that are there")


def _listed_body(listed: ListedDocument, shelf: Shelf) -> DocumentBody:
    return DocumentBody(
        id=listed.id,
        path=listed.path,
        title=listed.title,
        kind=listed.kind,
        status="indexed" if listed.status == "indexed" else "failed",
        reason=listed.reason,
        warnings=list(listed.warnings),
        size=listed.size,
        modified=_utc(listed.mtime_ns),
        pages=listed.pages,
        chunks=listed.chunks,
        deletable=_is_deletable(listed.path, shelf),
        uploaded=shelf.holds(listed.path),
    )


def _waiting_body(waiting: Waiting, shelf: Shelf) -> DocumentBody:
    try:
        status = waiting.file.lstat()
        size, modified = status.st_size, status.st_mtime_ns
    except OSError:  # deleted just now
        size, modified = 0, 0
    return DocumentBody(
        id=waiting.id,
        path=waiting.path,
        title="",
        kind=loader_suffixes()[suffix_of(waiting.path)],
        status="waiting",
        reason="",
        warnings=[],
        size=size,
        modified=_utc(modified),
        pages=None,
        chunks=0,
        deletable=_is_deletable(waiting.path, shelf),
        uploaded=True,
    )


def _is_deletable(path: str, shelf: Shelf) -> bool:
    match shelf.base.settings.web.deletable:
        case "all":
            return True
        case "uploads":
            return shelf.holds(path)
        case "none":
            return False


def _utc(nanoseconds: int) -> str:
    """A file's time, which a file system may have as it likes, by the second."""
    try:
        moment = datetime.fromtimestamp(0, UTC) + timedelta(seconds=nanoseconds // 10**9)
    except OverflowError:
        moment = datetime.fromtimestamp(0, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
