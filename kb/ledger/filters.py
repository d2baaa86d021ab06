"""Which live chunks a filter leaves, and their vectors."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kb.errors import ConfigError
from kb.filters import OWN_FIELDS, Condition, Where, folded, texts_of
from kb.ledger.connection import LedgerConnection, pages

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kb.records import FloatArray

_FIELDS_TOLD = 30
"""So many fields of the front matter are named in a message."""
_READ_AHEAD = 5_000
"""Vectors that are read at once when very many are walked through: 8 MB of 384 dimensions."""


class Filters(LedgerConnection):
    """The part of the ledger that filters."""

    def matching_chunks(self, generation: int, where: Where) -> list[str]:
        """The ids of the live chunks that a filter leaves, rising.

        Raises:
            ConfigError: it asks for a field that no document has.
        """
        with self.snapshot():
            documents = self._matching_documents(generation, where)
            heading, page = where.on("heading"), where.on("page")
            # Few columns: of 100,000 chunks each takes some 20 ms to be read.
            columns = "chunk_id, document_id, page, span_end" if page else "chunk_id"
            rows = self._chunk_rows(f"{columns}, heading_path" if heading else columns, generation, documents)
            if heading:
                under = _under(heading[0])
                rows = [row for row in rows if under(row[-1])]
            if page:
                rows = list(self._on_pages(generation, page[0].page_ranges(), rows))
        return sorted(row[0] for row in rows)

    def word_rows(self, generation: int, chunk_ids: Sequence[str]) -> NDArray[np.int64]:
        """The rows of these chunks in the index of words, in no order."""
        import numpy as np

        with self.snapshot():
            rows = self._rows_of(
                "SELECT id FROM word_rows WHERE generation = ? AND chunk_id IN (?)", (generation,), chunk_ids
            )
        return np.array([row for (row,) in rows], dtype=np.int64)

    def vectors_of(
        self, generation: int, fingerprint: str, chunk_ids: Sequence[str]
    ) -> Iterator[tuple[list[str], FloatArray]]:
        """The vectors of these chunks in the order of `chunk_ids`, in parts, each ids and shape (n, dimension).

        A chunk that has gone meanwhile is left out.
        """
        import numpy as np

        for page in pages(chunk_ids, _READ_AHEAD):
            with self.snapshot():
                rows = self._rows_of(
                    "SELECT c.chunk_id, v.vector FROM chunks c "
                    "JOIN vectors v ON v.fingerprint = ? AND v.text_hash = c.text_hash "
                    "WHERE c.generation = ? AND c.chunk_id IN (?)",
                    (fingerprint, generation),
                    page,
                )
            vector_of = dict(rows)
            there = [chunk_id for chunk_id in page if chunk_id in vector_of]
            if there:
                packed = b"".join(vector_of[chunk_id] for chunk_id in there)
                yield there, np.frombuffer(packed, "<f4").reshape(len(there), -1)

    def _matching_documents(self, generation: int, where: Where) -> list[str] | None:
        """The ids of the documents whose files and front matter pass; None when nothing is asked of them."""
        on_path, others = where.on("source", "path"), [*where.on("kind"), *where.on_front_matter]
        if not on_path and not others:
            return None
        rows = self._rows("SELECT document_id, path FROM sources WHERE generation = ?", (generation,))
        for condition in on_path:
            test = condition.test()
            rows = [row for row in rows if test(row[1])]
        if not others:
            return [row[0] for row in rows]
        told = self._rows("SELECT document_id, kind, metadata FROM documents WHERE generation = ?", (generation,))
        _check_fields(where.on_front_matter, told)
        tests = [_told_test(condition) for condition in others]
        passed = {document_id for document_id, kind, metadata in told if all(t(kind, metadata) for t in tests)}
        return [row[0] for row in rows if row[0] in passed]

    def _chunk_rows(self, columns: str, generation: int, documents: Sequence[str] | None) -> list[Any]:
        statement = f"SELECT {columns} FROM chunks WHERE generation = ?"
        if documents is None:
            return self._rows(statement, (generation,))
        return self._rows_of(f"{statement} AND document_id IN (?)", (generation,), documents)

    def _on_pages(
        self, generation: int, ranges: Sequence[tuple[int, float]], rows: Sequence[Any]
    ) -> Iterator[Sequence[Any]]:
        """The rows of chunks of which some character stands on one of the pages."""
        starts: dict[str, list[tuple[int, int]]] = {}
        for row in rows:
            _, document_id, first, end, *_ = row
            if first is None:
                continue
            last = first
            if any(first < start for start, _ in ranges):  # else where it ends makes no difference
                if document_id not in starts:
                    starts[document_id] = self._page_starts(generation, document_id)
                place = bisect_right(starts[document_id], end - 1, key=lambda pair: pair[0]) - 1
                last = max(first, starts[document_id][place][1]) if place >= 0 else first
            if any(first <= most and last >= least for least, most in ranges):
                yield row

    def _page_starts(self, generation: int, document_id: str) -> list[tuple[int, int]]:
        """Where each page of a document starts, and its number."""
        rows = self._rows(
            "SELECT pages FROM documents WHERE generation = ? AND document_id = ?", (generation, document_id)
        )
        return [(start, number) for (text,) in rows for number, start, _ in json.loads(text)]


def _under(condition: Condition) -> Callable[[str], bool]:
    """Whether a heading path, as it is kept, passes; many chunks share one."""
    test = condition.test()
    known: dict[str, bool] = {}

    def under(path: str) -> bool:
        if path not in known:
            known[path] = any(map(test, json.loads(path)))
        return known[path]

    return under


def _told_test(condition: Condition) -> Callable[[str, str], bool]:
    """Whether a document's kind and front matter, as it is kept, pass; many documents share one or the other."""
    test = condition.test()
    known: dict[str, bool] = {}

    def of_kind(kind: str, metadata: str) -> bool:
        if kind not in known:
            known[kind] = test(kind)
        return known[kind]

    def of_front_matter(kind: str, metadata: str) -> bool:
        if metadata not in known:
            values = [value for name, value in json.loads(metadata).items() if folded(name) == condition.field]
            known[metadata] = any(test(text) for value in values for text in texts_of(value))
        return known[metadata]

    return of_kind if condition.field == "kind" else of_front_matter


def _check_fields(conditions: Sequence[Condition], documents: Sequence[Any]) -> None:
    """Refuse a field that no document has: a misspelt one would find nothing, and nobody would know why."""
    if not conditions:
        return
    known = {folded(name) for metadata in {row[2] for row in documents} for name in json.loads(metadata)}
    for condition in conditions:
        if condition.field not in known:
            told = sorted(known)[:_FIELDS_TOLD]
            more = ", …" if len(known) > len(told) else ""
            there = f"; fields of the front matter here: {', '.join(told)}{more}" if told else ""
            raise ConfigError(
                f"--where {condition.field}=…: no document has such a field. Allowed: {', '.join(OWN_FIELDS)}{there}"
            )
