"""`rag_query` and `chat`: a question and its answer, or several, in one call, as a notebook wants it."""

from __future__ import annotations

import json
import os
from collections import OrderedDict
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias

from kb.answers import Answer
from kb.filters import Filter
from kb.knowledge_base import KnowledgeBase
from kb.settings import CONFIG_FILE, ENV_FILE

if TYPE_CHECKING:
    from kb.conversation import Conversation

_Key: TypeAlias = tuple[object, ...]

# One with e5 takes some 250 MB, and who compares settings seldom compares more at a time.
_MOST_OPEN = 3

_open: OrderedDict[_Key, KnowledgeBase] = OrderedDict()
"""The latest used last."""
_guard = Lock()


def rag_query(
    question: str,
    *,
    config: str | Path | None = None,
    top_k: int | None = None,
    cutoff: float | None = None,
    where: Filter = None,
    **overrides: Any,
) -> Answer:
    """Ask the ingested documents one question.

    What loads slowly stays loaded for the next question. A changed config.toml, .env or environment
    variable, another working folder and a new ingest all count from the next question on.

    Args:
        question: In any language.
        config: A configuration file; None takes `./config.toml` when there is one.
        top_k: At most so many hits.
        cutoff: The least similarity that counts as evidence.
        where: Look only at what passes this filter: `{"kind": "pdf", "page": (3, 7)}`; see `kb.filters`.
        overrides: Settings that win over all others: `collection="notes"`, `retrieval={"candidates": 20}`.

    Returns:
        The answer: `str()` gives its text with sources, a notebook shows it formatted.

    Raises:
        KbError: nothing is ingested yet, a setting is wrong, a service failed; the message says what to do.
    """
    return _base(config, overrides).ask(question, top_k, cutoff, where)


def chat(*, config: str | Path | None = None, **overrides: Any) -> Conversation:
    """Begin a conversation with the ingested documents.

    It keeps the settings that it began with; a new ingest counts from the next question on.

    Args:
        config: A configuration file; None takes `./config.toml` when there is one.
        overrides: Settings that win over all others, as of `rag_query`.

    Returns:
        The conversation: `ask` answers a question or a follow-up, a notebook shows all turns.

    Raises:
        KbError: a setting is wrong, or a key is missing; the message says what to do.
    """
    return _base(config, overrides).chat()


def _base(config: str | Path | None, overrides: dict[str, Any]) -> KnowledgeBase:
    """The knowledge base of these settings, opened once."""
    key = _key(config, overrides)
    with _guard:
        base = _open.pop(key, None) or KnowledgeBase.open(config, **overrides)
        _open[key] = base
        while len(_open) > _MOST_OPEN:
            _open.popitem(last=False)[1].close()
    return base


def _key(config: str | Path | None, overrides: dict[str, Any]) -> _Key:
    """All that settings and keys of services are read from, or when it was last written."""
    file = Path(config or CONFIG_FILE).expanduser().absolute()
    return (
        json.dumps(overrides, sort_keys=True, default=str),
        Path.cwd(),
        tuple(map(_version, (file, file.parent / ENV_FILE))),
        frozenset(os.environ.items()),
    )


def _version(file: Path) -> tuple[str, int, int] | None:
    try:
        status = file.stat()
    except OSError:  # not there, or unreadable, which KnowledgeBase.open reports
        return None
    return str(file), status.st_mtime_ns, status.st_size
