"""The collections that a server answers from, each opened when it is first asked for."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

from kb.knowledge_base import KnowledgeBase
from kb.ledger.ledger import collection_names
from kb.web.refusals import Refusal

_MOST_OPEN = 8
"""They share the embedder; each has its store and its ledger open. The one that was not asked for longest is closed."""


class Collections:
    """Knowledge bases by the names of their collections. For any number of threads."""

    def __init__(self, base: KnowledgeBase) -> None:
        """Take the configured collection's; the others differ from it in their names alone."""
        self._base = base
        self._others: OrderedDict[str, KnowledgeBase] = OrderedDict()
        self._guard = Lock()

    @property
    def default(self) -> KnowledgeBase:
        """That of the configured collection."""
        return self._base

    def names(self) -> list[str]:
        """The configured collection and all others that are there, sorted."""
        settings = self._base.settings
        return sorted({settings.collection, *collection_names(settings.data_dir)})

    def get(self, name: str | None) -> KnowledgeBase:
        """The knowledge base of a collection; None: of the configured one.

        Raises:
            Refusal: there is no such collection.
        """
        if name is None or name == self._base.settings.collection:
            return self._base
        with self._guard:
            if name in self._others:
                self._others.move_to_end(name)
                return self._others[name]
        if name not in self.names():
            raise Refusal(404, "not_found", f"there is no collection {name!r}; GET /about names those that are there")
        with self._guard:
            self._others[name] = self._others.get(name) or self._base.variant(collection=name)
            while len(self._others) > _MOST_OPEN:
                self._others.popitem(last=False)[1].close()
            return self._others[name]

    def close(self) -> None:
        """Release all files."""
        with self._guard:
            for base in (self._base, *self._others.values()):
                base.close()
            self._others.clear()
