"""The two hashes that decide whether work is needed: of a text to embed, and of a store row."""

from __future__ import annotations

import hashlib
import json

from kb.records import Chunk

DIRTY = ""
"""The payload hash of a store row while nobody can know what the store holds for it: from before its
upsert until that is acknowledged, and from the moment its chunk is no longer live."""


def text_hash(text: str) -> str:
    """The key of a vector: SHA-256 of the text as it is sent to the embedder, in hexadecimal."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def payload_hash(chunk: Chunk, source: str) -> str:
    """SHA-256 of everything that the vector store keeps of a chunk; the vector counts by its text."""
    kept = [
        source,
        chunk.document_id,
        chunk.page,
        chunk.heading_path,
        chunk.start,
        chunk.end,
        chunk.header,
        text_hash(chunk.embedded_text),
    ]
    return hashlib.sha256(json.dumps(kept).encode("ascii")).hexdigest()
