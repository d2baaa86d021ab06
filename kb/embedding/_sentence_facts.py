"""What is known of a model without loading it: kept in a small file since it was loaded first."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from kb.embedding._kept import keep

_FORM = 1
"""Raise it when something else is measured: everything is then measured anew."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Of one model in one folder."""

    digest: str
    """SHA-256 of all files that decide its vectors."""
    dimension: int
    max_tokens: int
    """The most tokens of one text that it sees, prefix and special tokens included."""
    overhead: int
    """Tokens of the document prefix and special tokens."""


def known_facts(folder: Path, of: str, measure: Callable[[], Facts]) -> Facts:
    """Read what is known from `folder`, or measure it and keep it there.

    Args:
        folder: Where it is kept; where that can't be written, it is measured at each start.
        of: Names the model, the state of its files and what else decides the facts.
        measure: Loads the model, and so takes seconds.
    """
    path = folder / f"sentence-model-{hashlib.sha256(f'{_FORM} {of}'.encode()).hexdigest()[:16]}.json"
    try:
        found = json.loads(path.read_bytes())
        facts = Facts(str(found["digest"]), int(found["dimension"]), int(found["max_tokens"]), int(found["overhead"]))
    except (OSError, ValueError, KeyError, TypeError):
        facts = measure()
        with contextlib.suppress(OSError):
            keep(path, json.dumps(asdict(facts)).encode())
    return facts
