"""What a store keeps of a chunk beside its vector, and what it gives back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kb.components import FloatArray, StoreRow


@dataclass(frozen=True, slots=True)
class StoredRow:
    """One chunk as a store gives it back: enough to quote it and to say where it stands, without the ledger."""

    source: str
    document_id: str
    page: int | None
    heading: str | None
    """The heading path as one string."""
    start: int
    end: int
    header: str
    text: str
    vector: FloatArray

    @property
    def place(self) -> tuple[str | int | None, ...]:
        """All but the vector: two rows with equal ones say the same of their chunk."""
        kept = self.source, self.document_id, self.page, self.heading, self.start, self.end, self.header
        return (*kept, self.text)


def payload(row: StoreRow) -> dict[str, str | int | None]:
    """What a store keeps beside text and vector: plain Python values; None where there is nothing."""
    chunk = row.chunk
    return {
        "source": storable(row.source),
        "document_id": storable(chunk.document_id),
        "page": None if chunk.page is None else int(chunk.page),
        "heading": None if chunk.heading is None else storable(chunk.heading),
        "start": int(chunk.start),
        "end": int(chunk.end),
        "header": storable(chunk.header) or None,
    }


def stored_row(kept: Mapping[str, Any], text: str, vector: FloatArray) -> StoredRow:
    """What `payload` gave, in a store that may leave out what is None, with its text and vector."""
    return StoredRow(
        source=kept["source"],
        document_id=kept["document_id"],
        page=kept.get("page"),
        heading=kept.get("heading"),
        start=kept["start"],
        end=kept["end"],
        header=kept.get("header") or "",
        text=text,
        vector=vector,
    )


def expected_row(row: StoreRow) -> StoredRow:
    """What a store has to give back for `row`."""
    return stored_row(payload(row), storable(row.chunk.text), row.vector)


def storable(text: str) -> str:
    """Replace lone surrogates, which a file name that is no text brings, for nothing can store them."""
    return text.encode("utf-8", "replace").decode("utf-8")
