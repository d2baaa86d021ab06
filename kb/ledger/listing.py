"""The documents of a collection as a list that people look through, page by page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kb.ledger.connection import LedgerConnection


@dataclass(frozen=True, slots=True)
class ListedDocument:
    """One source with what is known of its document, without its text."""

    id: str
    path: str
    title: str
    """From the content; empty when it has none, or was never read."""
    kind: str
    """The loader that read it; empty when it was never read."""
    status: str
    """`indexed`, or `failed` with the reason; of a failed one what was read before can still be found."""
    reason: str
    warnings: tuple[str, ...]
    size: int
    """Bytes."""
    mtime_ns: int
    pages: int | None
    """None of a format without pages."""
    chunks: int


_COLUMNS = (
    "s.document_id, s.path, coalesce(d.title, ''), coalesce(d.kind, ''), s.status, s.reason, s.warnings, s.size, "
    "s.mtime_ns, json_array_length(coalesce(d.pages, '[]')), "
    "(SELECT count(*) FROM chunks c WHERE c.generation = s.generation AND c.document_id = s.document_id)"
)
_FROM = "FROM sources s LEFT JOIN documents d USING (generation, document_id) WHERE s.generation = ?"
_HOLDS = r" AND (s.path LIKE ? ESCAPE '\' OR d.title LIKE ? ESCAPE '\')"


class Listing(LedgerConnection):
    """The part of the ledger that lists documents."""

    def list_documents(
        self, generation: int, *, find: str = "", after: str = "", limit: int = 100
    ) -> list[ListedDocument]:
        """Documents by path, at most `limit` of those behind the path `after`.

        Args:
            generation: Whose.
            find: Only those whose path or title holds it; in English in any case.
            after: The last path that is known already.
            limit: So many at most.
        """
        holds, values = _holding(find)
        with self.snapshot():
            rows = self._rows(
                f"SELECT {_COLUMNS} {_FROM}{holds} AND s.path > ? ORDER BY s.path LIMIT ?",
                (generation, *values, after, limit),
            )
        return [_listed(row) for row in rows]

    def count_documents(self, generation: int, find: str = "") -> int:
        """So many `list_documents` lists in all."""
        holds, values = _holding(find)
        with self.snapshot():
            rows = self._rows(f"SELECT count(*) {_FROM}{holds}", (generation, *values))
        count: int = rows[0][0]
        return count

    def listed_document(self, generation: int, document_id: str) -> ListedDocument | None:
        """One document as it is listed; None when there is none of this id."""
        with self.snapshot():
            rows = self._rows(f"SELECT {_COLUMNS} {_FROM} AND s.document_id = ?", (generation, document_id))
        return _listed(rows[0]) if rows else None

    def sources_of_content(self, generation: int, content_hash: str) -> list[str]:
        """The ids of the documents whose files have this content, by path."""
        with self.snapshot():
            rows = self._rows(
                "SELECT document_id FROM sources WHERE generation = ? AND content_hash = ? ORDER BY path",
                (generation, content_hash),
            )
        return [row[0] for row in rows]

    def known_sources(self, generation: int, document_ids: Sequence[str]) -> set[str]:
        """Those of some ids that are sources."""
        with self.snapshot():
            rows = self._rows_of(
                "SELECT document_id FROM sources WHERE generation = ? AND document_id IN (?)",
                (generation,),
                document_ids,
            )
        return {row[0] for row in rows}


def _holding(find: str) -> tuple[str, tuple[str, ...]]:
    if not find:
        return "", ()
    escaped = find.replace("\\", r"\\").replace("%", r"\%").replace("_", r"\_")
    return _HOLDS, (f"%{escaped}%",) * 2


def _listed(row: Sequence[Any]) -> ListedDocument:
    document_id, path, title, kind, status, reason, warnings, size, mtime_ns, pages, chunks = row
    told = tuple(json.loads(warnings))
    return ListedDocument(document_id, path, title, kind, status, reason, told, size, mtime_ns, pages or None, chunks)
