"""What a citation leads to: the text of a document, and the page of a PDF with the quote on it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from kb.ingest.walk import FoundFile
from kb.web.asking import FAULTS
from kb.web.folder import folder_of, found_file
from kb.web.forms import Name
from kb.web.incoming import hash_of
from kb.web.refusals import Refusal, not_found
from kb.web.served import Here, Served
from kb.web.source_forms import ContentBody, HeadingSpan, PageBody, PageSpan
from kb.web.sse import unless_gone

if TYPE_CHECKING:
    from kb.catalogue import Catalogue
    from kb.knowledge_base import KnowledgeBase
    from kb.ledger.listing import ListedDocument
    from kb.records import Document

router = APIRouter(tags=["sources"])

MOST_CHARACTERS = 200_000
"""Of a document's text in one answer."""
_KIND = "pdf"

DocumentId = Annotated[str, Path(min_length=1, max_length=200, description="As citations and hits have it")]
PageNumber = Annotated[int, Path(description="As a reader counts, from 1")]
Start = Annotated[int, Query(ge=0, description="The first character")]
End = Annotated[int | None, Query(ge=0, description="The character behind the last one")]

_PICTURE: dict[int | str, dict[str, Any]] = {
    200: {"content": {"image/png": {"schema": {"type": "string", "format": "binary"}}}, "description": "The page"}
}


@router.get("/documents/{document_id}/content", responses=FAULTS)
def content(
    here: Here, document_id: DocumentId, start: Start = 0, end: End = None, collection: Name | None = None
) -> ContentBody:
    """Read a document's text, at most 200,000 characters of it, as it was loaded at its last ingest."""
    document = _document(here.collections.get(collection).catalogue, document_id)
    length = len(document.text)
    if start > length:
        raise Refusal(422, "bad_request", f"start = {start}: the text has {length:,} characters")
    _check_order(start, end)
    stop = min(length, start + MOST_CHARACTERS, length if end is None else end)
    return ContentBody(
        id=document.id,
        path=document.path,
        title=document.title,
        kind=document.kind,
        text=document.text[start:stop],
        start=start,
        end=stop,
        length=length,
        pages=[PageSpan(number=page.number, start=page.start, end=page.end) for page in document.pages],
        headings=[
            HeadingSpan(level=heading.level, text=heading.text, start=heading.start, end=heading.end)
            for heading in document.headings
            if heading.start < stop and heading.end > start
        ],
    )


@router.get("/documents/{document_id}/pages/{number}", responses=FAULTS)
async def page(
    here: Here,
    request: Request,
    document_id: DocumentId,
    number: PageNumber,
    start: Annotated[int | None, Query(ge=0, description="Where the quote begins, as a citation has it")] = None,
    end: Annotated[int | None, Query(ge=0, description="Where it ends")] = None,
    collection: Name | None = None,
) -> PageBody:
    """Find a quote on a page of a PDF: a box for each of its lines, none when no part of it is found there."""
    if (start is None) != (end is None):
        raise Refusal(422, "bad_request", "start and end of a quote go together: give both, or neither")
    _check_order(start or 0, end)
    base = await asyncio.to_thread(here.collections.get, collection)
    file = await asyncio.to_thread(_file_to_show, here, base, document_id, number)
    document = await asyncio.to_thread(_document, base.catalogue, document_id)
    span = document.pages[number - 1]
    stands = [min(max(at or 0, span.start), span.end) - span.start for at in (start, end)]
    text = document.text[span.start : span.end]
    found = await unless_gone(request, here.images.places(file, number, text, *stands))
    return PageBody(number=number, start=span.start, end=span.end, **dict(found))


@router.get("/documents/{document_id}/pages/{number}/image", responses={**FAULTS, **_PICTURE}, response_class=Response)
async def image(
    here: Here,
    request: Request,
    document_id: DocumentId,
    number: PageNumber,
    width: Annotated[int, Query(ge=200, le=2000, description="Of the picture, in pixels")] = 1000,
    collection: Name | None = None,
) -> Response:
    """Draw a page of a PDF whose file is as it was at its ingest. A very long page comes less wide."""
    base = await asyncio.to_thread(here.collections.get, collection)
    file = await asyncio.to_thread(_file_to_show, here, base, document_id, number)
    picture = await unless_gone(request, here.images.picture(file, number, width))
    return Response(picture, media_type="image/png")


def _check_order(start: int, end: int | None) -> None:
    if end is not None and end < start:
        raise Refusal(422, "bad_request", f"start = {start} and end = {end}: the end comes before the start")


def _listed(catalogue: Catalogue, document_id: str) -> ListedDocument:
    listed = catalogue.listed(document_id)
    if listed is None:
        raise not_found("document of this id; one that was just uploaded has to be ingested first")
    return listed


def _document(catalogue: Catalogue, document_id: str) -> Document:
    listed = _listed(catalogue, document_id)
    document = catalogue.document(document_id)
    if document is None:
        raise _never_read(listed)
    return document


def _never_read(listed: ListedDocument) -> Refusal:
    return Refusal(404, "not_found", f"{listed.path} has no text, as it could not be read: {listed.reason}")


# ── the file of a page, if it is still the one that was read ──


def _file_to_show(here: Served, base: KnowledgeBase, document_id: str, number: int) -> FoundFile:
    """Find the file of a page.

    Raises:
        Refusal: there is no such page, or the file is not what was ingested.
    """
    listed = _listed(base.catalogue, document_id)
    if not listed.kind:
        raise _never_read(listed)
    if listed.kind != _KIND:
        raise Refusal(404, "not_found", f"{listed.path} is no PDF: only of those pages are shown")
    count = listed.pages or 0
    if not 1 <= number <= count:
        raise Refusal(404, "not_found", f"{listed.path} has {count:,} pages and no page {number}")
    file = _file(folder_of(here.collections, base), listed.path)
    if listed.status != "indexed" or not _is_as_ingested(file, listed, base.catalogue):
        raise Refusal(409, "changed", f"{listed.path} was changed after its ingest; its text is still as it was then")
    return file


def _file(root: FilePath, relative: str) -> FoundFile:
    """The regular file of a document; a link only when what it leads to lies below the folder.

    Raises:
        Refusal: there is none.
    """
    found = found_file(root, relative) or root / relative
    real = FilePath(os.path.realpath(found))
    try:
        if not (real.is_relative_to(os.path.realpath(root)) and real.is_file()):
            raise FileNotFoundError
        status = real.stat()
    except OSError as error:
        raise Refusal(404, "not_found", f"the file of {relative} is not there any more") from error
    return FoundFile(real, relative, status.st_size, status.st_mtime_ns)


def _is_as_ingested(file: FoundFile, listed: ListedDocument, catalogue: Catalogue) -> bool:
    if file.size != listed.size:
        return False
    if file.mtime_ns == listed.mtime_ns:
        return True
    try:
        return listed.id in catalogue.of_content(hash_of(file.path))
    except OSError:
        return False
