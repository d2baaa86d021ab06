"""A collection's name, in any script, as a name that every file system and store accepts."""

from __future__ import annotations

import hashlib
import re
import unicodedata

_MAX_LENGTH = 63
"""The longest name that all vector stores accept."""

_HASH_LENGTH = 10
"""40 bits: two of a thousand names share a hash with a chance of one in two million."""

_PLAIN = re.compile(r"[a-z0-9][a-z0-9_-]{1,61}[a-z0-9]")
_HASHED = re.compile(r".*-[0-9a-f]{10}")
_RESERVED = frozenset(
    ("con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(1, 10)))
)
"""Names that Windows keeps for devices."""


def collection_slug(name: str) -> str:
    """Turn a collection's name into 3 to 63 characters of `[a-z0-9_-]`, always the same for the name.

    A name that is such already stays as it is. Any other keeps its readable part and gets a hash of
    the whole name, so names that differ only in case, or in what was left out, stay apart.

        knowledge_base  →  knowledge_base
        My notes        →  my-notes-fa263f43cf
        知识库          →  kb-975b35f9c2
    """
    # NFC and NFD spellings of one name are one collection.
    name = unicodedata.normalize("NFC", name)
    if _PLAIN.fullmatch(name) and not _HASHED.fullmatch(name) and name not in _RESERVED:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_LENGTH]
    plain = unicodedata.normalize("NFKD", name).lower().encode("ascii", "ignore").decode()
    readable = re.sub(r"[^a-z0-9_]+", "-", plain)[: _MAX_LENGTH - _HASH_LENGTH - 1].strip("-_")
    return f"{readable or 'kb'}-{digest}"
