"""Errors as a client sees them: a status, a kind in one word, and a sentence that says what to do."""

from __future__ import annotations

import math
import traceback
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import JSONResponse

from kb.errors import (
    AuthenticationError,
    ConfigError,
    CostRefusedError,
    IndexMismatchError,
    KbError,
    LedgerError,
    LoadError,
    LockedError,
    NothingIngestedError,
    QuotaError,
    RemovalRefusedError,
    ServiceError,
    StoppedError,
    StoreError,
)
from kb.inert import one_line
from kb.logs import note

_KINDS: tuple[tuple[type[KbError], int, str], ...] = (
    (NothingIngestedError, 404, "nothing_ingested"),
    (IndexMismatchError, 409, "index_mismatch"),
    (LockedError, 409, "locked"),
    (RemovalRefusedError, 409, "removal_refused"),
    (CostRefusedError, 409, "cost_refused"),
    (LoadError, 422, "unreadable"),
    (AuthenticationError, 502, "service_failed"),
    (QuotaError, 502, "service_failed"),
    (ServiceError, 502, "service_failed"),
    (StoppedError, 503, "stopped"),
    (StoreError, 500, "store"),
    (LedgerError, 500, "ledger"),
    (ConfigError, 422, "bad_request"),
    (KbError, 422, "bad_request"),
)
"""The first kind that an error is of counts. A ConfigError is an argument of the request: the settings were read
when the server started."""


_OPENAI = "/v1/"


@dataclass(eq=False)
class Refusal(Exception):
    """A request that is not done, as an HTTP answer. Not frozen, as whoever catches it sets its traceback."""

    status: int
    error: str
    """Its kind, in lower case."""
    message: str
    retry_seconds: float | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.message

    @property
    def body(self) -> dict[str, Any]:
        """What the client reads."""
        return {"error": self.error, "message": self.message}

    @property
    def all_headers(self) -> dict[str, str]:
        """With the time after which it is worth another try."""
        if self.retry_seconds is None:
            return dict(self.headers)
        return {**self.headers, "Retry-After": str(max(1, math.ceil(self.retry_seconds)))}


def answered(refusal: Refusal, path: str) -> JSONResponse:
    """A refusal as an answer to a request of `path`."""
    if not path.startswith(_OPENAI):
        return JSONResponse(refusal.body, refusal.status, refusal.all_headers)
    # There a request that is not understood is a 400.
    status = 400 if refusal.status == 422 else refusal.status
    return JSONResponse(openai_body(refusal.error, refusal.message), status, refusal.all_headers)


def openai_body(kind: str, message: str) -> dict[str, Any]:
    """An error as clients of OpenAI's API read it."""
    return {"error": {"message": message, "type": kind, "param": None, "code": kind}}


def refusal_of(error: KbError) -> Refusal:
    """An error of the knowledge base as the client sees it."""
    status, kind = next((status, kind) for of, status, kind in _KINDS if isinstance(error, of))
    return Refusal(status, kind, one_line(str(error)), retry_seconds=1.0 if status == 503 else None)


def not_found(what: str) -> Refusal:
    """Something that is not there."""
    return Refusal(404, "not_found", f"there is no {what}")


def unforeseen(error: Exception, where: str) -> Refusal:
    """What nobody foresaw: the log gets its kind and place, never its message, which may quote a question or a key."""
    places = traceback.extract_tb(error.__traceback__)
    at = f"{places[-1].filename}:{places[-1].lineno}" if places else "?"
    note("unforeseen", f"{type(error).__name__} at {at}, in {where}", error=type(error).__name__, at=at, where=where)
    return Refusal(500, "internal", "something went wrong that nobody foresaw; the server's log says where")
