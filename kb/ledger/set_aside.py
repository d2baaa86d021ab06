"""Passages that are not indexed though their document is: the embedding service refused them for good."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kb.ledger.connection import LedgerConnection


@dataclass(frozen=True, slots=True)
class Passage:
    """A span of a document, in characters, that is no chunk."""

    start: int
    end: int
    page: int | None
    reason: str
    """What the service said."""


class SetAside(LedgerConnection):
    """The part of the ledger that keeps what was set aside."""

    def set_aside(self, generation: int, passages: Mapping[str, Sequence[Passage]]) -> None:
        """Remember what is not indexed of documents, by their ids, instead of what was in their former states."""
        with self.transaction():
            self._connection.executemany(
                "DELETE FROM set_aside WHERE generation = ? AND document_id = ?",
                [(generation, document_id) for document_id in passages],
            )
            self._connection.executemany(
                "INSERT OR REPLACE INTO set_aside VALUES (?, ?, ?, ?, ?, ?)",
                [
                    (generation, document_id, passage.start, passage.end, passage.page, passage.reason)
                    for document_id, aside in passages.items()
                    for passage in aside
                ],
            )

    def set_aside_of(self, generation: int, document_id: str) -> list[Passage]:
        """Those of one document, by place."""
        with self.snapshot():
            rows = self._rows(
                "SELECT span_start, span_end, page, reason FROM set_aside "
                "WHERE generation = ? AND document_id = ? ORDER BY span_start",
                (generation, document_id),
            )
        return [Passage(*row) for row in rows]

    def passages_set_aside(self, generation: int) -> list[tuple[str, Passage]]:
        """All of them, each with its source's path, by path and place."""
        with self.snapshot():
            rows = self._rows(
                "SELECT s.path, a.span_start, a.span_end, a.page, a.reason FROM set_aside a "
                "JOIN sources s USING (generation, document_id) WHERE a.generation = ? ORDER BY s.path, a.span_start",
                (generation,),
            )
        return [(path, Passage(*passage)) for path, *passage in rows]
