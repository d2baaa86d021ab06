"""The form of an exported collection: one zip archive, which is read and written as a stream.

    manifest.json      format, version, collection, root, embedder, dimension, counts
    vectors.txt        one SHA-256 a line: of the text, as it is embedded, that row i of vectors.npy belongs to; rising
    vectors.npy        float32, little endian, shape (vectors, dimension), as `numpy.load` reads it
    documents.jsonl    one source a line: its file, its document, its chunks, what of it was set aside

A zip and not Parquet, as a base is documents with their chunks rather than a table, and needs no package;
not an SQLite file, as opening one from a stranger runs its schema. Whatever is in it can be seen with
`unzip -p FILE documents.jsonl`. Each part has a checksum.

An archive is not trusted: `source_from` takes only what an ingest could have made.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from kb.errors import ExportError
from kb.ledger.documents import SourceRow, SourceStatus
from kb.ledger.set_aside import Passage
from kb.loading import document_id, readable_path
from kb.records import Chunk, Document, Heading, Page

FORMAT, VERSION = "kb-collection", 1
MANIFEST, HASHES, VECTORS, DOCUMENTS = "manifest.json", "vectors.txt", "vectors.npy", "documents.jsonl"

HASH = re.compile(r"[0-9a-f]{64}")
_CHUNK_ID = re.compile(r"[\x21-\x7e]{1,64}")


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an archive says of itself."""

    collection: str
    root: str | None
    embedder: str
    dimension: int
    sources: int
    chunks: int
    vectors: int

    def as_json(self) -> str:
        """The manifest as it is written."""
        told = {name: getattr(self, name) for name in self.__slots__}
        return json.dumps({"format": FORMAT, "version": VERSION, **told}, ensure_ascii=False, indent=1)


@dataclass(frozen=True, slots=True)
class Source:
    """A line of `documents.jsonl`."""

    row: SourceRow
    document: Document | None
    chunks: tuple[Chunk, ...]
    set_aside: tuple[Passage, ...]


def manifest_from(content: bytes) -> Manifest:
    """Read a manifest.

    Raises:
        ExportError: it is none, or of a newer version.
    """
    told = _object(_json(content), MANIFEST)
    if told.get("format") != FORMAT:
        raise ExportError("it is no collection that kb has exported")
    if told.get("version") != VERSION:
        raise ExportError(f"it is of version {told.get('version')!r}; this kb reads {VERSION}. Upgrade kb")
    numbers = {key: _whole(told.get(key), key) for key in ("dimension", "sources", "chunks", "vectors")}
    root = told.get("root")
    if not 0 < numbers["dimension"] <= 1 << 16:
        raise ExportError(f"its vectors have {numbers['dimension']} dimensions")
    return Manifest(
        collection=_text(told.get("collection"), "collection"),
        root=None if root is None else _text(root, "root"),
        embedder=_text(told.get("embedder"), "embedder"),
        **numbers,
    )


def line_of(source: Source) -> str:
    """A source as a line, without its end."""
    row, document = source.row, source.document
    told = {
        "path": row.path,
        "size": row.size,
        "mtime_ns": row.mtime_ns,
        "content_hash": row.content_hash,
        "status": row.status,
        "reason": row.reason,
        "pipeline": row.pipeline,
        "warnings": row.warnings,
        "document": document
        and {
            "text": document.text,
            "title": document.title,
            "kind": document.kind,
            "metadata": dict(document.metadata),
            "pages": [(page.number, page.start, page.end) for page in document.pages],
            "headings": [(h.level, h.text, h.start, h.end) for h in document.headings],
        },
        "chunks": [(c.id, c.start, c.end, c.page, c.heading_path, c.header) for c in source.chunks],
        "set_aside": [(p.start, p.end, p.page, p.reason) for p in source.set_aside],
    }
    return json.dumps(told, ensure_ascii=False)


def source_from(line: bytes) -> Source:
    """Read a line.

    Raises:
        ExportError: it is none that an ingest could have made: a span outside of its text, a path that leads
            out of the folder, a number that is none.
    """
    told = _object(_json(line), "a line")
    path = _text(told.get("path"), "path")
    if path != readable_path(path) or path.startswith("/") or ".." in path.split("/") or not path:
        raise ExportError(f"{path!r} is no path below the folder of documents")
    status: Any = told.get("status")
    if status not in get_args(SourceStatus):
        raise ExportError(f"{path}: its status is {status!r}")
    row = SourceRow(
        document_id(path),
        path,
        _whole(told.get("size"), path),
        _whole(told.get("mtime_ns"), path, least=-(1 << 62)),
        _text(told.get("content_hash"), path),
        status,
        _text(told.get("reason"), path),
        _text(told.get("pipeline"), path),
        tuple(_text(warning, path) for warning in _list(told.get("warnings"), path)),
    )
    document = None if told.get("document") is None else _document(row, _object(told["document"], path))
    length = len(document.text) if document else 0
    chunks = tuple(_chunk(row, document, _list(c, path, 6)) for c in _list(told.get("chunks"), path))
    if document is None and (chunks or status == "indexed"):
        raise ExportError(f"{path}: its document is missing")
    set_aside = tuple(
        Passage(*_span(p[0], p[1], length, path), _page(p[2], path), _text(p[3], path))
        for p in (_list(p, path, 4) for p in _list(told.get("set_aside"), path))
    )
    return Source(row, document, chunks, set_aside)


def _document(row: SourceRow, told: Mapping[str, Any]) -> Document:
    path, text = row.path, _text(told.get("text"), row.path)
    metadata = _object(told.get("metadata"), path)
    for key, value in metadata.items():
        if isinstance(value, str):
            _text(value, path)
        elif not isinstance(value, (bool, int, float)):
            raise ExportError(f"{path}: its metadata {key!r} is no plain value")
    return Document(
        id=row.document_id,
        path=path,
        text=text,
        title=_text(told.get("title"), path),
        kind=_text(told.get("kind"), path),
        metadata=metadata,
        pages=tuple(
            Page(_whole(p[0], path), *_span(p[1], p[2], len(text), path))
            for p in (_list(p, path, 3) for p in _list(told.get("pages"), path))
        ),
        headings=tuple(
            Heading(_whole(h[0], path), _text(h[1], path), *_span(h[2], h[3], len(text), path))
            for h in (_list(h, path, 4) for h in _list(told.get("headings"), path))
        ),
        warnings=row.warnings,
    )


def _chunk(row: SourceRow, document: Document | None, told: Sequence[Any]) -> Chunk:
    chunk_id, start, end, page, heading_path, header = told
    text = document.text if document else ""
    start, end = _span(start, end, len(text), row.path)
    if not isinstance(chunk_id, str) or not _CHUNK_ID.fullmatch(chunk_id) or start == end:
        raise ExportError(f"{row.path}: {chunk_id!r} from {start} to {end} is no chunk")
    return Chunk(
        id=chunk_id,
        document_id=row.document_id,
        text=text[start:end],
        start=start,
        end=end,
        page=_page(page, row.path),
        heading_path=tuple(_text(heading, row.path) for heading in _list(heading_path, row.path)),
        header=_text(header, row.path),
    )


# ── plain values ──


def _json(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ExportError(f"it is not JSON: {error}") from error


def _object(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ExportError(f"{where}: an object is missing")
    return value


def _list(value: Any, where: str, length: int | None = None) -> list[Any]:
    if not isinstance(value, list) or (length is not None and len(value) != length):
        raise ExportError(f"{where}: a list is missing, or has another length")
    return value


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise ExportError(f"{where}: a text is missing, or holds NUL")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ExportError(f"{where}: a text is not valid Unicode") from error
    return value


def _whole(value: Any, where: str, least: int = 0) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 1 << 63:
        raise ExportError(f"{where}: {value!r} is not a whole number from {least}")
    return value


def _page(value: Any, where: str) -> int | None:
    return None if value is None else _whole(value, where)


def _span(start: Any, end: Any, length: int, where: str) -> tuple[int, int]:
    start, end = _whole(start, where), _whole(end, where)
    if not start <= end <= length:
        raise ExportError(f"{where}: the span from {start} to {end} is not in its text of {length} characters")
    return start, end
