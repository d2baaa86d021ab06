"""The two hashes that decide whether work is needed: of a text to embed, and of a store row."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from kb.records import Chunk
from kb.words import script

DIRTY = ""
"""The payload hash of a store row while nobody can know what the store holds for it: from before its
upsert until that is acknowledged, and from the moment its chunk is no longer live."""


def text_hash(text: str) -> str:
    """The key of a vector: SHA-256 of the text as it is sent to the embedder, in hexadecimal."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


@dataclass(frozen=True, slots=True)
class HashedChunk:
    """A chunk with what is needed to write it to the ledger and to the vector store."""

    chunk: Chunk
    source: str
    text_hash: str
    """The key of its vector."""
    payload_hash: str
    """What its store row will say once it is in the store."""
    script: str
    """That it is written in, as `kb.words` tells it."""


def hashed(chunk: Chunk, source: str) -> HashedChunk:
    """A chunk of the document at the path `source` with its hashes."""
    key = text_hash(chunk.embedded_text)
    return HashedChunk(chunk, source, key, _payload_hash(chunk, source, key), script(chunk.text))


def _payload_hash(chunk: Chunk, source: str, text: str) -> str:
    """SHA-256 of everything that the vector store keeps of a chunk; the vector counts by its text's hash."""
    kept = [
        source,
        chunk.document_id,
        chunk.page,
        chunk.heading_path,
        chunk.start,
        chunk.end,
        chunk.header,
        text,
    ]
    return hashlib.sha256(json.dumps(kept).encode("ascii")).hexdigest()
