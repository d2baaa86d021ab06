"""kb: ask a folder of documents, and get answers whose every claim is cited and can be checked.

    from kb import rag_query
    rag_query("How many days of leave do I get?")

The names below are all that a notebook needs. Each is imported when it is first used, so
`import kb` itself costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kb.answers import Answer as Answer
    from kb.answers import Citation as Citation
    from kb.asking import chat as chat
    from kb.asking import rag_query as rag_query
    from kb.conversation import Conversation as Conversation
    from kb.errors import KbError as KbError
    from kb.knowledge_base import KnowledgeBase as KnowledgeBase
    from kb.records import Hit as Hit

__version__ = "0.1.0"

_HOMES = {
    "Answer": "kb.answers",
    "Citation": "kb.answers",
    "Conversation": "kb.conversation",
    "Hit": "kb.records",
    "KbError": "kb.errors",
    "KnowledgeBase": "kb.knowledge_base",
    "chat": "kb.asking",
    "rag_query": "kb.asking",
}

__all__ = [
    "Answer",
    "Citation",
    "Conversation",
    "Hit",
    "KbError",
    "KnowledgeBase",
    "__version__",
    "chat",
    "rag_query",
]


def __getattr__(name: str) -> object:
    """Import a public name from its home at first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'kb' has no attribute {name!r}")
    import importlib

    value: object = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
