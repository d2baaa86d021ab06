"""A folder of small documents, its knowledge base, and what ledger and store hold of it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kb.components import Embedder, Parts, Store, StorePlace, build_component
from kb.errors import RefusedError, ServiceError
from kb.ingest.report import IngestReport
from kb.knowledge_base import KnowledgeBase
from kb.ledger.ledger import Ledger
from kb.ledger.names import collection_slug

if TYPE_CHECKING:
    from kb.components import FloatArray

# Each section of `a_text` is one chunk.
CHUNKING = {"recursive": {"size_tokens": 24, "min_tokens": 0}}
NUMBERS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
UNREADABLE = bytes(range(128, 256)) * 3
"""In no encoding that a loader knows."""


def a_text(words: Sequence[str], title: str = "Title") -> str:
    """A Markdown text of one chunk for each word."""
    return f"# {title}\n\n" + "\n\n".join(f"## Part {word}\n\nThis part is about {word} only." for word in words)


@dataclass(frozen=True)
class Place:
    """Where documents and data are, and how they are indexed."""

    documents: Path
    data: Path
    store: str = "memory"
    embedder: Embedder | None = None
    store_options: Mapping[str, Any] = field(default_factory=dict)
    isolated: bool = False
    """Files are read in worker processes, which have tests of their own; starting one takes 0.4 s an ingest."""

    def write(self, name: str, text: str | bytes) -> Path:
        file = self.documents / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(text, str):
            file.write_text(text, encoding="utf-8")
        else:
            file.write_bytes(text)
        return file

    def open(self, **overrides: Any) -> KnowledgeBase:
        settings: dict[str, Any] = {
            "documents_dir": self.documents,
            "data_dir": self.data,
            "embedding": {"use": "hashing"},
            "store": {"use": self.store, self.store: dict(self.store_options)},
            "chunking": CHUNKING,
            "loading": {"isolated": self.isolated},
        }
        base = KnowledgeBase.open(None, **(settings | overrides))
        if self.embedder is not None:
            base.embedder = self.embedder
        return base

    def ingest(self, folder: Path | str | None = None, *, options: Any = None, **how: Any) -> IngestReport:
        with self.open(**(options or {})) as base:
            report = base.ingest(folder, **how)
        assert report.indexed + report.unchanged + report.skipped + report.failed == report.files
        return report

    def found(self, question: str, **overrides: Any) -> list[str]:
        """The texts of what a question finds."""
        with self.open(**overrides) as base:
            return [hit.chunk.text for hit in base.search(question, cutoff=0.3).hits]

    def with_embedder(self, embedder: Embedder) -> Place:
        return replace(self, embedder=embedder)

    @property
    def folder(self) -> Path:
        return self.data / collection_slug("knowledge_base")

    @property
    def generation_folders(self) -> list[str]:
        return sorted(os.listdir(self.folder / "generations"))

    def open_store(self) -> Store:
        with Ledger(self.folder, read_only=True) as ledger:
            generation = ledger.current_generation()
            assert generation is not None
            folder = ledger.generation_folder(generation)
        slug = collection_slug("knowledge_base")
        shape = generation.fingerprint, generation.dimension, generation.number
        parts = Parts(place=StorePlace(folder, "knowledge_base", slug, *shape), secret=os.environ.get)
        store: Store = build_component("store", self.store, self.store_options, parts)
        return store

    def contents(self) -> dict[str, tuple[Any, ...]]:
        """Every chunk of the ledger by id, with its stored vector; fails when the store is out of step."""
        with Ledger(self.folder, read_only=True) as ledger:
            generation = ledger.current_generation()
            assert generation is not None
            live = {found.chunk.id: found for found in ledger.all_chunks(generation.number)}
            assert ledger.stale_rows(generation.number) == []
            assert list(ledger.unsynced_chunks(generation.number)) == []
            by_words = {i for found in live.values() for i in self._found_by_words(ledger, found.chunk.text)}
        store = self.open_store()
        try:
            assert set(store.chunk_ids()) == live.keys()
            assert store.count() == len(live)
            vectors = store.vectors(list(live))
        finally:
            store.close()
        assert by_words == live.keys()
        return {i: (live[i].source, live[i].chunk, vectors[i].tobytes()) for i in sorted(live)}

    def _found_by_words(self, ledger: Ledger, text: str) -> list[str]:
        generation = ledger.current_generation()
        assert generation is not None
        return [chunk_id for chunk_id, _ in ledger.find_words(generation.number, text, 1000).ranking]

    def sections(self, source: str) -> list[str]:
        """The texts of a document's chunks, in order."""
        chunks = [chunk for path, chunk, _ in self.contents().values() if path == source]
        return [chunk.text for chunk in sorted(chunks, key=lambda chunk: int(chunk.start))]

    def ids(self, source: str) -> set[str]:
        return {chunk_id for chunk_id, (path, _, _) in self.contents().items() if path == source}


class CountingEmbedder:
    """The hashing embedder behind a service: it counts, keeps what it was sent, and fails on demand.

    Args:
        fails_after: So many texts are embedded; the request that would pass it fails.
        refuses: Texts with this word are refused for good.
        status: What a refusal says.
        batch_texts: As of every embedder.
        dimension: Another one is another embedder.
    """

    name = "counting"
    max_tokens = 512
    cutoff = 0.15
    token_overhead = 0

    def __init__(
        self,
        *,
        fails_after: int | None = None,
        refuses: str | None = None,
        status: int = 400,
        batch_texts: int = 4,
        dimension: int = 64,
    ) -> None:
        self._inner: Any = build_component("embedding", "hashing", {"dimension": dimension}, Parts())
        self._fails_after = fails_after
        self._refuses = refuses
        self._status = status
        self.fingerprint = f"counting:{dimension}"
        self.dimension = dimension
        self.batch_texts = batch_texts
        self.requests = 0
        self.sent: list[str] = []

    def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        if self._fails_after is not None and len(self.sent) + len(texts) > self._fails_after:
            raise ServiceError("the service is down", service="counting", status=503)
        if self._refuses and any(self._refuses in text for text in texts):
            raise RefusedError("the service does not like it", service="counting", status=self._status)
        assert len(texts) <= self.batch_texts
        self.sent += texts
        self.requests += 1
        vectors: FloatArray = self._inner.embed_documents(texts)
        return vectors

    def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        vectors: FloatArray = self._inner.embed_queries(texts)
        return vectors

    def count_tokens(self, text: str) -> int:
        count: int = self._inner.count_tokens(text)
        return count
