"""Ingests: begun, listed, watched; and how a collection is."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path
from starlette.responses import JSONResponse, Response

from kb.web.asking import FAULTS
from kb.web.document_forms import IngestWanted, JobBody, JobsBody, StatusBody
from kb.web.forms import Name
from kb.web.jobs import Job
from kb.web.refusals import not_found
from kb.web.served import Here, Served
from kb.web.sse import EventStream, described

router = APIRouter(tags=["ingests"])

JobId = Annotated[str, Path(min_length=1, max_length=64)]


@router.post("/ingest", status_code=202, response_model=JobBody, responses=FAULTS)
def begin(here: Here, wanted: IngestWanted | None = None) -> Response:
    """Have the folder ingested in the background; one that waits for the same is that one."""
    wanted = wanted or IngestWanted()
    job = here.jobs.bring_in_step(wanted.collection, rebuild=wanted.rebuild, allow_removals=wanted.allow_removals)
    return JSONResponse(here.jobs.body(job), 202)


@router.get("/ingest", responses=FAULTS)
def list_jobs(here: Here) -> JobsBody:
    """List the last 50 ingests, the newest first."""
    return JobsBody(jobs=[JobBody(**body) for body in here.jobs.bodies()])


@router.get("/ingest/{job}", responses=FAULTS)
def get_job(here: Here, job: JobId) -> JobBody:
    """Tell how far an ingest is, or how it ended."""
    return JobBody(**here.jobs.body(_job(here, job)))


@router.get(
    "/ingest/{job}/events",
    responses={**described("progress", "done", body="JobBody"), **FAULTS},
    response_class=Response,
)
async def watch_job(here: Here, job: JobId) -> Response:
    """Watch an ingest: `progress` at once and at each change, `done` at its end, each with the job."""
    section = here.section
    return EventStream(here.jobs.events(_job(here, job)), section.heartbeat_seconds, section.idle_seconds)


@router.get("/status", responses=FAULTS)
def status(here: Here, collection: Name | None = None) -> StatusBody:
    """Tell how a collection is: what it holds, its store, and its last ingest."""
    base = here.collections.get(collection)
    told: dict[str, Any] = base.status().as_dict()
    return StatusBody(**{**told, "collection": base.settings.collection}, ingesting=here.jobs.is_ingesting(collection))


def _job(here: Served, job_id: str) -> Job:
    job = here.jobs.get(job_id)
    if job is None:
        raise not_found("such ingest (any more)")
    return job
