"""The stores as the contract suite opens them: each component with its defaults, and those that differ by an option.

A component needs no entry here; one in `VARIANTS` is opened beside it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kb.components import Parts, Store, StorePlace, build_component
from kb.settings import component_names
from tests.chroma_server import chroma_server

DIMENSION = 32


@dataclass(frozen=True)
class Variant:
    """One store of the suite."""

    component: str
    options: Mapping[str, Any] = field(default_factory=dict)
    server: Callable[[Path], AbstractContextManager[str]] | None = None
    """Runs a server that keeps its data in a folder, and gives its URL, which becomes the option `url`."""
    exact: bool = False
    """Whether it always finds the very nearest."""
    missing: Callable[[], str | None] = lambda: None
    """Says why this one cannot be opened here."""
    in_memory: bool = False
    """It ends with its process, so that nothing of one process is found by another."""


@contextmanager
def _qdrant_stand_in(folder: Path) -> Iterator[str]:
    from tests.qdrant_server import qdrant_stand_in  # loads Qdrant, which takes each child of the suite a second

    with qdrant_stand_in() as server:
        yield server.url


def _qdrant_url() -> str | None:
    return None if os.environ.get("QDRANT_URL") else "QDRANT_URL is not set: it names a Qdrant server to test with"


def _qdrant_options() -> Mapping[str, Any]:
    key = {"api_key_env": "QDRANT_API_KEY"} if os.environ.get("QDRANT_API_KEY") else {}
    return {"url": os.environ.get("QDRANT_URL", ""), **key}


VARIANTS: Mapping[str, Variant] = {
    "chroma-server": Variant("chroma", server=chroma_server),
    "qdrant-in-memory": Variant("qdrant", {"in_memory": True}, in_memory=True),
    "qdrant-stand-in": Variant("qdrant", server=_qdrant_stand_in),
    "qdrant-url": Variant("qdrant", _qdrant_options(), missing=_qdrant_url),
    # So few rows beside the index that it is asked in nearly every test.
    "faiss-hnsw": Variant("faiss", {"index": "hnsw", "fold_rows": 8}),
    "faiss-ivf": Variant("faiss", {"index": "ivf", "fold_rows": 8}),
}

_EXACT = ("memory", "faiss")
"""By their defaults. Qdrant's local mode compares all, too, but rounds vectors once more."""

ALL: Mapping[str, Variant] = {name: Variant(name, exact=name in _EXACT) for name in component_names("store")} | dict(
    VARIANTS
)

SMALL_PAGES = {
    "kb.store.chroma": {"_READ_PAGE": 100, "_WRITE_PAGE": 40},
    "kb.store.qdrant": {"_READ_PAGE": 100, "_SCROLL_PAGE": 100},
    "kb.store._faiss_fold": {"_BLOCK_ROWS": 100},
    "kb.store._faiss_index": {"_BLOCK_ROWS": 100},
    "kb.store._faiss_view": {"_BLOCK_ROWS": 100},
}
"""How many rows a store takes at a time, so few that hundreds are many pages."""


def place_in(folder: Path) -> StorePlace:
    """A place of its own for each folder, also on a server."""
    slug = f"kb-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:10]}"
    return StorePlace(folder / "store", "知识库", slug, "embedder-a", DIMENSION)


@dataclass(frozen=True)
class Open:
    """Opens the store under test, as often as asked."""

    component: str
    options: Mapping[str, Any]
    place: StorePlace
    in_memory: bool = False
    opened: list[Store] = field(default_factory=list)

    def __call__(self, **changes: Any) -> Store:
        parts = Parts(place=replace(self.place, **changes), secret=os.environ.get)
        store: Store = build_component("store", self.component, self.options, parts)
        self.opened.append(store)
        return store

    def close(self) -> None:
        for store in self.opened:
            store.close()
