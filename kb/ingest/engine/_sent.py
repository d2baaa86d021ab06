"""What travels between the process that ingests and those that help it, and what is looked at when it comes back.

Plain bytes and JSON. Whoever can reach a Dask scheduler can do worse than send a wrong document; what is looked
at here keeps faults out of the ledger: of another version, of a folder that is not in step, of a broken machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from kb.errors import KbError, LoadError
from kb.ingest.workers import is_sound
from kb.records import Chunk, Document

if TYPE_CHECKING:
    import numpy as np
    from pydantic import TypeAdapter

    from kb.ingest.walk import FoundFile
    from kb.records import FloatArray

_LENGTH_TOLERANCE = 1e-3
"""Of a vector's length; rounding to float32 is far below, and a vector that was cut off or garbled above."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What a helper is told: settings, and what it must find the same as here."""

    content: str = field(repr=False)
    """JSON. Not shown: options may hold passwords, and what a task was given stands in its worker's log."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that a helper finds otherwise than it is here."""

    what: str
    here: str
    there: str


@dataclass(frozen=True, slots=True)
class Span:
    """A chunk without its text, which its document holds."""

    id: str
    start: int
    end: int
    page: int | None
    heading_path: tuple[str, ...]
    header: str


@dataclass(frozen=True, slots=True)
class Sent:
    """What a helper has made of a file."""

    content_hash: str
    """SHA-256 of what the file held there; empty when it could not be opened."""
    reason: str = ""
    """Why there is no document."""
    document: Document | None = None
    spans: tuple[Span, ...] | None = None
    """None when the document is to be cut by who ingests."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SentVectors:
    """What a helper has made of texts."""

    tokens: int
    vectors: bytes
    """float32, little endian, row after row."""
    token_vectors: tuple[bytes, ...] = ()


def as_json(sent: Sent) -> bytes:
    """What travels."""
    from pydantic_core import to_json

    content: bytes = to_json(sent, inf_nan_mode="constants")
    return content


def sent_from(content: bytes, file: FoundFile) -> Sent:
    """What has come for a file.

    Raises:
        LoadError: it is nothing that could have been made of it.
    """
    wrong = LoadError(file.relative, "a worker gave what is no document of it; look whether its kb is the same as here")
    try:
        sent = _sent_type().validate_json(content, strict=True)
    except ValueError as error:
        raise wrong from error
    document = sent.document
    if document is None:
        if sent.reason or not sent.content_hash:
            return sent
        raise wrong
    if not is_sound(document, file) or not _spans_fit(sent.spans or (), len(document.text)):
        raise wrong
    return sent


def span_of(chunk: Chunk) -> Span:
    """A chunk as it travels."""
    return Span(chunk.id, chunk.start, chunk.end, chunk.page, chunk.heading_path, chunk.header)


def chunks_of(document: Document, spans: Sequence[Span]) -> tuple[Chunk, ...]:
    """The chunks again."""
    return tuple(
        Chunk(s.id, document.id, document.text[s.start : s.end], s.start, s.end, s.page, s.heading_path, s.header)
        for s in spans
    )


def vectors_from(sent: SentVectors, texts: int, dimension: int, *, keeping: bool) -> FloatArray:
    """The vectors that have come: float32, shape (texts, dimension), unit rows.

    Raises:
        KbError: they are none of so many texts.
    """
    import numpy as np

    if len(sent.vectors) != 4 * texts * dimension or len(sent.token_vectors) != (texts if keeping else 0):
        raise KbError("a worker gave another number of vectors than it was given texts; look whether its kb is as here")
    vectors = np.frombuffer(sent.vectors, "<f4").reshape(texts, dimension)
    lengths = np.linalg.norm(vectors, axis=1)
    if not np.all(np.abs(lengths - 1) <= _LENGTH_TOLERANCE):  # nor of what is no number
        raise KbError("a worker gave vectors that are not of unit length; look whether its kb is as here")
    return cast("np.ndarray[Any, np.dtype[np.float32]]", vectors)


def differences(here: Mapping[str, str], there: Mapping[str, str]) -> tuple[Difference, ...]:
    """What is not the same in both, in the order of `here`."""
    return tuple(
        Difference(what, value, there.get(what, "nothing"))
        for what, value in here.items()
        if there.get(what, "nothing") != value
    )


@cache
def _sent_type() -> TypeAdapter[Sent]:
    from pydantic import TypeAdapter

    return TypeAdapter(Sent)


def _spans_fit(spans: Sequence[Span], length: int) -> bool:
    ids = {span.id for span in spans}
    return len(ids) == len(spans) and all(span.id and 0 <= span.start < span.end <= length for span in spans)
