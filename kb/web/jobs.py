"""Ingests in the background: one after the other, in one thread of the process that takes requests."""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from threading import Condition, Thread
from typing import TYPE_CHECKING, Any, Literal

from kb.errors import KbError
from kb.inert import one_line
from kb.ingest.progress import Reached
from kb.logs import note
from kb.web.collections import Collections
from kb.web.ingesting import Wish, ingested
from kb.web.refusals import Refusal, unforeseen
from kb.web.sse import Event, event

if TYPE_CHECKING:
    from kb.ingest.report import IngestReport

State = Literal["waiting", "running", "done", "failed"]

_REMEMBERED = 50
"""Jobs that have ended; those that wait are never forgotten."""
_MOST_PATHS = 200
"""Of a job that looks at some files only: each is a pattern that the folder is compared with."""
_MOST_PROBLEMS = 100
_PAUSE_SECONDS = 0.2
"""Between two events of a stream."""


@dataclass(slots=True)
class Job:
    """One ingest."""

    wish: Wish
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    state: State = "waiting"
    stage: str = ""
    done: int = 0
    total: int | None = None
    message: str = ""
    started: str | None = None
    ended: str | None = None
    report: dict[str, Any] | None = None

    @property
    def is_over(self) -> bool:
        """Whether it has ended, in whatever way."""
        return self.state in ("done", "failed")

    def body(self) -> dict[str, Any]:
        """As clients see it."""
        values = asdict(self)
        del values["wish"]
        return {"id": values.pop("id"), "collection": self.wish.collection, **values}


@dataclass(eq=False, slots=True)
class _Listener:
    """Somebody who waits in an event loop for a job's next change."""

    loop: asyncio.AbstractEventLoop
    changed: asyncio.Event

    def wake(self) -> None:
        """From any thread."""
        with suppress(RuntimeError):  # the loop has ended, and nobody waits any more
            self.loop.call_soon_threadsafe(self.changed.set)


class Jobs:
    """The ingests of a server. For any number of threads."""

    def __init__(self, collections: Collections) -> None:
        self._collections = collections
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        """Those that wait, the one that runs, and the last that have ended, in the order in which they came."""
        self._changed = Condition()
        """Held by whoever reads or changes jobs."""
        self._listeners: dict[str, set[_Listener]] = {}
        self._closing = False
        self._thread: Thread | None = None

    # ── what is asked of it ──

    def bring_in_step(
        self, collection: str | None = None, *, rebuild: bool = False, allow_removals: bool = False
    ) -> Job:
        """Have a whole folder ingested; an equal job that waits already is that one.

        Raises:
            Refusal: there is no such collection.
        """
        return self._wanted(Wish(self._name(collection), rebuild, allow_removals))

    def look_at(self, collection: str | None, path: str) -> Job:
        """Have one file ingested that is new, or taken out that is gone, with others that wait for the same."""
        return self._wanted(Wish(self._name(collection), paths=(path,)))

    @property
    def busy(self) -> bool:
        """Whether an ingest goes on."""
        with self._changed:
            return any(job.state == "running" for job in self._jobs.values())

    def is_ingesting(self, collection: str | None) -> bool:
        """Whether an ingest of this collection goes on or waits."""
        name = self._name(collection)
        with self._changed:
            return any(not job.is_over and job.wish.collection == name for job in self._jobs.values())

    def bodies(self) -> list[dict[str, Any]]:
        """The last jobs, the newest first."""
        with self._changed:
            return [job.body() for job in list(self._jobs.values())[: -_REMEMBERED - 1 : -1]]

    def body(self, job: Job) -> dict[str, Any]:
        """One job as clients see it."""
        with self._changed:
            return job.body()

    def get(self, job_id: str) -> Job | None:
        """One job; None when there is none of this id any more."""
        with self._changed:
            return self._jobs.get(job_id)

    def close(self) -> None:
        """Begin nothing more; what goes on is not waited for."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()

    # ── for those who wait in an event loop ──

    async def events(self, job: Job) -> AsyncGenerator[Event, None]:
        """`progress` at once and at each change, at most five a second; `done` at the end."""
        listener = self._listen(job)
        try:
            while True:
                listener.changed.clear()
                with self._changed:
                    over, body = job.is_over, job.body()
                yield event("progress", body)
                if over:
                    yield event("done", body)
                    return
                await asyncio.sleep(_PAUSE_SECONDS)
                await listener.changed.wait()
        finally:
            self._forget(job, listener)

    async def over(self, job: Job, seconds: float) -> bool:
        """Wait until it has ended, but so long at most; whether it has."""
        listener = self._listen(job)
        try:
            async with asyncio.timeout(seconds):
                while not job.is_over:
                    await listener.changed.wait()
                    listener.changed.clear()
        except TimeoutError:
            return job.is_over
        finally:
            self._forget(job, listener)
        return True

    # ── inside ──

    def _name(self, collection: str | None) -> str:
        return self._collections.get(collection).settings.collection

    def _wanted(self, wish: Wish) -> Job:
        with self._changed:
            for job in self._jobs.values():
                if job.state == "waiting" and (joined := job.wish.joined(wish, _MOST_PATHS)) is not None:
                    job.wish = joined
                    return job
            job = Job(wish)
            self._jobs[job.id] = job
            self._forget_old()
            self._changed.notify_all()
            if self._thread is None:
                # Not waited for at the process's end: an ingest may take hours, and loses nothing when it is killed.
                self._thread = Thread(target=self._work, name="kb-ingest", daemon=True)
                self._thread.start()
            return job

    def _forget_old(self) -> None:
        over = [job.id for job in self._jobs.values() if job.is_over]
        for job_id in over[: max(0, len(over) - _REMEMBERED)]:
            del self._jobs[job_id]

    def _work(self) -> None:
        while (job := self._next()) is not None:
            try:
                report = ingested(self._collections, job.wish, partial(self._reached, job), partial(self._waits, job))
            except KbError as error:
                self._failed(job, one_line(str(error)))
            except Refusal as refusal:  # its collection has gone meanwhile
                self._failed(job, refusal.message)
            except Exception as error:  # noqa: BLE001  the next job has to be done all the same
                self._failed(job, unforeseen(error, f"ingest of {job.wish.collection}").message)
            else:
                self._done(job, report)

    def _next(self) -> Job | None:
        """The job that waits longest, now running; None when nothing more is to be begun."""
        with self._changed:
            while not self._closing:
                for job in self._jobs.values():
                    if job.state == "waiting":
                        self._change(job, state="running", stage="looking", started=_now())
                        return job
                self._changed.wait()
            return None

    def _reached(self, job: Job, reached: Reached) -> None:
        with self._changed:
            self._change(job, stage=reached.stage, done=int(reached.done), total=reached.total, message="")

    def _waits(self, job: Job, message: str) -> None:
        with self._changed:
            self._change(job, message=message)

    def _failed(self, job: Job, message: str) -> None:
        note("ingest failed", message, collection=job.wish.collection)
        with self._changed:
            self._change(job, state="failed", stage="", message=message, ended=_now())
            self._forget_old()

    def _done(self, job: Job, report: IngestReport | None) -> None:
        with self._changed:
            told = "nothing was to be done" if report is None else in_words(report)
            self._change(job, state="done", stage="", message=told, report=_report_body(report), ended=_now())
            self._forget_old()

    def _change(self, job: Job, **values: Any) -> None:
        for name, value in values.items():
            setattr(job, name, value)
        for listener in self._listeners.get(job.id, ()):
            listener.wake()

    def _listen(self, job: Job) -> _Listener:
        listener = _Listener(asyncio.get_running_loop(), asyncio.Event())
        with self._changed:
            self._listeners.setdefault(job.id, set()).add(listener)
        return listener

    def _forget(self, job: Job, listener: _Listener) -> None:
        with self._changed:
            listeners = self._listeners[job.id]
            listeners.discard(listener)
            if not listeners:
                del self._listeners[job.id]


def in_words(report: IngestReport) -> str:
    """What an ingest did, in one line; of one that left files out, the first of them."""
    counts = (
        (report.indexed, "indexed"),
        (report.unchanged, "unchanged"),
        (report.removed, "removed"),
        (report.failed, "failed"),
        (report.skipped, "skipped"),
    )
    said = ", ".join(f"{count:,} {word}" for count, word in counts if count) or "nothing was to be done"
    failed = next((one for one in report.problems if one.status == "failed"), None)
    return one_line(f"{said}; {failed.path}: {failed.reason}" if failed else said)


def _report_body(report: IngestReport | None) -> dict[str, Any] | None:
    if report is None:
        return None
    body = report.as_dict()
    rank = {"failed": 0, "warning": 1, "skipped": 2}
    problems = sorted(body["problems"], key=lambda problem: rank[problem["status"]])
    return {**body, "problems": problems[:_MOST_PROBLEMS]}


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
