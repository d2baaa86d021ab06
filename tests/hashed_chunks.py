"""Putting documents into a ledger without an ingest."""

from __future__ import annotations

from collections.abc import Sequence

from kb.ledger.documents import SourceRow
from kb.ledger.hashes import hashed
from kb.ledger.ledger import Ledger
from kb.records import Chunk, Document


def replace_document(
    ledger: Ledger, generation: int, source: SourceRow, document: Document, chunks: Sequence[Chunk]
) -> list[str]:
    """Flip one document to its new state; gives the ids that are live no longer."""
    states = [(source, document, [hashed(chunk, source.path) for chunk in chunks])]
    return ledger.replace_documents(generation, states)


def needing_upsert(ledger: Ledger, generation: int, path: str, chunks: Sequence[Chunk]) -> list[Chunk]:
    """Those of one document's chunks that the store does not hold exactly as they are here."""
    return [one.chunk for one in ledger.needing_upsert(generation, [hashed(chunk, path) for chunk in chunks])]
