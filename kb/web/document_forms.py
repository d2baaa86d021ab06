"""What requests and answers about documents and ingests look like in JSON; see `kb.web.forms`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool
from pydantic.config import JsonDict

from kb.web.forms import Name

_A_DOCUMENT: JsonDict = {
    "id": "9f2c1b7d4e6a4c0f8b3d5e7f90a1b2c3",
    "path": "uploads/handbook.pdf",
    "title": "Employee handbook",
    "kind": "pdf",
    "status": "indexed",
    "reason": "",
    "warnings": [],
    "size": 81920,
    "modified": "2026-03-01T09:30:00Z",
    "pages": 12,
    "chunks": 31,
    "deletable": True,
    "uploaded": True,
}
_A_JOB: JsonDict = {
    "id": "5b1f0c9e7a3d2648",
    "collection": "knowledge_base",
    "state": "running",
    "stage": "embedding",
    "done": 3,
    "total": 12,
    "message": "",
    "started": "2026-03-01T09:31:00Z",
    "ended": None,
    "report": None,
}


class DocumentBody(BaseModel):
    """A file of the collection's folder, and what is known of it."""

    model_config = ConfigDict(json_schema_extra={"examples": [_A_DOCUMENT]})

    id: str
    path: str
    """From the folder of documents."""
    title: str
    """From the content; empty when it has none or was not read yet."""
    kind: str
    """The loader that reads it; empty when none ever did."""
    status: Literal["indexed", "failed", "waiting"]
    """`waiting`: uploaded, and not ingested yet."""
    reason: str
    """Why it failed; what was read of it before can still be found."""
    warnings: list[str]
    size: int
    modified: str
    """UTC."""
    pages: int | None
    chunks: int
    deletable: bool
    uploaded: bool


class DocumentsBody(BaseModel):
    """Some documents of the list: first those that wait for their ingest, each kind by path."""

    documents: list[DocumentBody]
    total: int
    next: str | None
    """What to give as `after` for those that follow; null at the end."""


class UploadBody(BaseModel):
    """What became of an upload."""

    document: DocumentBody
    job: str | None
    """The ingest that reads it; null when the bytes were there already."""
    known: bool
    """Whether the same bytes were there already, under whatever name."""


class DeletedBody(BaseModel):
    """A document whose file is gone."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"id": _A_DOCUMENT["id"], "path": _A_DOCUMENT["path"], "job": _A_JOB["id"]}],
        }
    )

    id: str
    path: str
    job: str
    """The ingest that takes its text out of the collection; with status 202 it has not done so yet."""


class IngestWanted(BaseModel):
    """An ingest to begin."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{}, {"collection": "handbook"}]})

    collection: Name | None = None
    rebuild: StrictBool = Field(default=False, description="Build the collection anew beside the old one, then swap")
    allow_removals: StrictBool = Field(default=False, description="Accept another folder, or the loss of many files")


class JobBody(BaseModel):
    """An ingest: waiting, under way, or how it ended."""

    model_config = ConfigDict(json_schema_extra={"examples": [_A_JOB]})

    id: str
    collection: str
    state: Literal["waiting", "running", "done", "failed"]
    stage: str
    """Of a running one: `looking`, `reading`, `embedding`; else empty."""
    done: int
    """Files."""
    total: int | None
    """null until the folder has been looked at."""
    message: str
    """What is known in one sentence: how it ended, or why it failed."""
    started: str | None
    """UTC, as below."""
    ended: str | None
    report: dict[str, Any] | None
    """The counts of an ingest that was done, and up to 100 files with problems."""


class JobsBody(BaseModel):
    """The last ingests, the newest first."""

    jobs: list[JobBody]


class StatusBody(BaseModel):
    """How a collection is; more fields tell of its store, its sizes, its lock and its last run."""

    model_config = ConfigDict(extra="allow")

    collection: str
    ingesting: bool
    """An ingest into it is under way, or waits."""
    root: str | None
    """The folder whose documents it holds; null before the first ingest."""
    documents: int
    chunks: int
    failed: int
    embedder: str | None
    store: str
    store_fault: str | None
