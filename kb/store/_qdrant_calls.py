"""What comes out of a call of Qdrant, errors included; in a file of its own, which needs no Qdrant."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kb.disk import trouble
from kb.errors import KbError, StoreError
from kb.inert import one_line
from kb.payloads import payload, storable
from kb.store._rows import as_similarity

if TYPE_CHECKING:
    from kb.components import StoreRow

ID, TEXT = "chunk_id", "text"
"""What the payload holds beside kb/payloads.py."""

_NAMESPACE = uuid.UUID("6f2a9a4e-5d0c-5b7f-9c1e-2b1d8b1c7a55")
"""Drawn once. Points are named by UUIDs or numbers only; with another one, points would be stored a second time."""

_SHOWN_CHARACTERS = 200
"""Of what a server says: enough for a reason."""

_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _TOO_LARGE = 401, 403, 404, 413

_OF_A_WRONG_FORM = (ValueError, TypeError, LookupError, AttributeError, AssertionError, RecursionError)
"""What an answer that no Qdrant gives ends in; pydantic's and json's errors are ValueErrors."""


def point_id(chunk_id: str) -> str:
    """The UUID of a chunk's point, the same in every process: version 5 (RFC 9562, 5.5) of the chunk's id."""
    return str(uuid.uuid5(_NAMESPACE, storable(chunk_id)))


def pages(chunk_ids: Sequence[str], size: int) -> Iterator[dict[str, str]]:
    """Chunk ids by the ids of their points, `size` at a time, each once."""
    distinct = list(dict.fromkeys(chunk_ids))
    for start in range(0, len(distinct), size):
        yield {point_id(chunk_id): chunk_id for chunk_id in distinct[start : start + size]}


def point_payload(row: StoreRow) -> dict[str, str | int]:
    """What a point holds beside its vector; nothing where a chunk has nothing."""
    told = {key: value for key, value in payload(row).items() if value is not None}
    return {ID: storable(row.chunk.id), TEXT: storable(row.chunk.text), **told}


def chunk_id_of(point: Any) -> str:
    """The chunk of a point that Qdrant gave.

    Raises:
        StoreError: it is not one that kb wrote.
    """
    chunk_id = (point.payload or {}).get(ID)
    if not isinstance(chunk_id, str) or point_id(chunk_id) != str(point.id):
        raise StoreError(f"the point {one_line(str(point.id))} is not one that kb wrote")
    return chunk_id


def ranked(points: Sequence[Any]) -> list[tuple[str, float]]:
    """Ids with similarities, falling, ties by id."""
    # Qdrant's score is the cosine itself.
    similarities = as_similarity(1.0 - np.asarray([point.score for point in points], dtype=np.float64))
    pairs = zip(map(chunk_id_of, points), similarities.tolist(), strict=True)
    return sorted(pairs, key=lambda pair: (-pair[1], pair[0]))


@dataclass(frozen=True, slots=True)
class Where:
    """What a message says of the place of a collection."""

    url: str = ""
    key_variable: str = ""
    key: str | None = None
    folder: Path | None = None
    mend: str = ""
    """The sentence with the command that fills the store anew."""

    def masked(self, text: str) -> str:
        """One short line, without the key."""
        if self.key:
            text = text.replace(self.key, "[key]")
        line = one_line(text)
        return line if len(line) <= _SHOWN_CHARACTERS else f"{line[: _SHOWN_CHARACTERS - 1]}…"


@contextmanager
def translated(failure: str, where: Where) -> Iterator[None]:
    """Turn whatever Qdrant raises into a StoreError; in a folder it raises what Python, NumPy and SQLite do."""
    try:
        yield
    except KbError:
        raise
    except Exception as error:  # noqa: BLE001  it goes on as one of ours
        reason, advice = _explained(error, where) if where.url else _in_folder(error, where)
        # A traceback shows the error that it came from as well.
        shown = where.key is None or where.key not in f"{error!r} {error} {vars(error)}"
        raise StoreError(f"{failure}: {where.masked(reason).rstrip('.')}. {advice}".rstrip()) from (
            error if shown else None
        )


def _in_folder(error: Exception, where: Where) -> tuple[str, str]:
    seen = trouble(where.folder) if where.folder is not None else None
    return f"{error}" or type(error).__name__, seen or where.mend


def _explained(error: Exception, where: Where) -> tuple[str, str]:
    """Why a server's answer is none, and what to do."""
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        return _refused(status, getattr(error, "content", b""), where)
    cause = getattr(error, "source", None) or error
    kind = type(cause).__name__
    if "Timeout" in kind:
        told = "it did not answer in time"
        return told, f"Check that a Qdrant server runs at {where.url}, or raise [store.qdrant] timeout_seconds"
    if "Protocol" in kind or isinstance(cause, _OF_A_WRONG_FORM):
        told = "what answers there does not speak as a Qdrant server does, or broke off"
        return told, f"Check [store.qdrant] url = {where.url!r}, and what stands between"
    return str(cause) or kind, f"Check that a Qdrant server runs at {where.url}"


def _refused(status: int, content: bytes, where: Where) -> tuple[str, str]:
    told = f"it answered {status}{_said(content)}"
    if status in (_UNAUTHORIZED, _FORBIDDEN):
        if where.key is None:
            return told, "It wants a key: name the variable that holds it in [store.qdrant] api_key_env"
        return told, f"It does not take the key in {where.key_variable}, or not for this: put another one there"
    if status == _NOT_FOUND:
        return told, f"Check [store.qdrant] url; if the collection was deleted there, {_lower(where.mend)}"
    if status == _TOO_LARGE:
        return told, "Lower [store.qdrant] batch_size"
    return told, f"Look into the log of the server at {where.url}, and run it again"


def _said(content: bytes) -> str:
    """The reason in a Qdrant server's answer; nothing of a stranger's page."""
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError):
        return ""
    status = answer.get("status") if isinstance(answer, Mapping) else None
    said = status.get("error") if isinstance(status, Mapping) else None
    return f" ({said})" if isinstance(said, str) else ""


def _lower(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]
