"""What an ingest costs beside Chroma's own part: `python -m benchmarks.ingest_overhead`.

The rows of some thousand made documents go into Chroma three times, part by part in turn, as a
machine's speed changes from one minute to the next:

- bare: `collection.add` of finished ids, vectors, texts and metadata, by a script that opens Chroma for each part,
  as an ingest does;
- prepared: an ingest that is handed its documents, chunks and vectors: store and ledger are left;
- files: an ingest from Markdown files with the `hashing` embedder and worker processes, as shipped otherwise.

The two ingests keep what a bare collection does not: texts, vectors, spans and words, in a ledger that
survives a crash; they go on while Chroma writes, in a process of its own. At last fewer documents are
ingested with the embedded default: nearly all of the time should be the model's. How long each stage
takes is seen from the thread that ingests: what other threads and processes do meanwhile is not in it.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import chromadb
import numpy as np

import kb.ingest.apply
import kb.ingest.survey
from benchmarks.made_markdown import made_markdown
from kb.chunking.recursive import RecursiveChunker
from kb.components import Chunker, Embedder, StoreRow
from kb.embedding.e5 import E5Embedder
from kb.embedding.hashing import HashingEmbedder
from kb.ingest.engine.local import LocalEngine
from kb.ingest.job import Job
from kb.ingest.remembering import RememberingEmbedder
from kb.ingest.run import run
from kb.ingest.store_process import StoreProcess
from kb.ingest.walk import FoundFile
from kb.ingest.workers import Workers
from kb.knowledge_base import KnowledgeBase
from kb.ledger.documents import Documents
from kb.ledger.ledger import Ledger
from kb.ledger.words import Words
from kb.loading import load_document
from kb.opening import CollectionStore
from kb.payloads import payload
from kb.records import Chunk, Document
from kb.settings import load_settings
from kb.store.chroma import ChromaStore

if TYPE_CHECKING:
    from kb.components import FloatArray

DOCUMENT_BYTES = (2_000, 40_000)
BARE_BATCH = 2_000
"""Rows of one `add`: the fastest for Chroma."""
PARTS = 3
BARE, PREPARED, FILES = WAYS = ("bare", "prepared", "files")
LEAST_SHARES = {PREPARED: 0.75, FILES: 0.50}
DEFAULT = "default"
LEAST_IN_MODEL = 0.90

STAGES: Sequence[tuple[str, Any, Sequence[str]]] = (
    ("walk", kb.ingest.survey, ("walk", "make_plan")),
    ("read", kb.ingest.apply, ("_file_hash",)),
    ("cut", RecursiveChunker, ("chunk",)),
    ("embed", HashingEmbedder, ("embed_documents",)),
    ("model", E5Embedder, ("_passages", "_vectors")),
    ("ledger", Ledger, ("unknown_texts", "known_vectors", "put_vectors", "needing_upsert", "mark_dirty")),
    ("ledger", Documents, ("replace_documents",)),
    ("words", Words, ("_index_words",)),
    ("store", ChromaStore, ("upsert", "delete", "count", "close")),
    ("store", CollectionStore, ("open",)),
    ("store", StoreProcess, ("__init__", "begin_upsert", "_done", "delete", "count", "close")),
)


class Stages:
    """Adds up the seconds of each stage; what one calls of another counts for the other."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._open: list[str] = []
        self._since = 0.0

    def timed(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, timed; wherever it is not called from the ingest's own thread, it must not be."""

        @wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            self._switch()
            self._open.append(stage)
            try:
                return function(*arguments, **named)
            finally:
                self._switch()
                self._open.pop()

        return call

    def _switch(self) -> None:
        now = time.perf_counter()
        if self._open:
            self.seconds[self._open[-1]] += now - self._since
        self._since = now

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Time the stages of the ingests inside."""
        with ExitStack() as patches:
            for stage, of, names in STAGES:
                for name in names:
                    patches.enter_context(mock.patch.object(of, name, self.timed(stage, getattr(of, name))))
            begin = Workers.begin
            reading = mock.patch.object(Workers, "begin", lambda *given: self.timed("read", begin(*given)))
            patches.enter_context(reading)
            yield


class PreparedParts:
    """Reading, chunker and embedder in one, which only hand out what was prepared."""

    name = "prepared"
    ahead = 0
    token_overhead = 0
    cutoff = 0.0

    def __init__(self, like: Embedder) -> None:
        self.fingerprint, self.dimension = like.fingerprint, like.dimension
        self.max_tokens, self.batch_texts = like.max_tokens, like.batch_texts
        self._documents: dict[str, Document] = {}
        self._chunks: dict[str, tuple[Chunk, ...]] = {}
        self._vectors: dict[str, FloatArray] = {}

    def prepare(self, document: Document, chunker: Chunker, embedder: Embedder) -> Iterator[StoreRow]:
        """Cut and embed a document now, and give its rows."""
        chunks = self._chunks[document.path] = chunker.chunk(document)
        self._documents[document.path] = document
        texts = [chunk.embedded_text for chunk in chunks]
        self._vectors.update(zip(texts, embedder.embed_documents(texts), strict=True))
        return (StoreRow(chunk, document.path, self._vectors[chunk.embedded_text]) for chunk in chunks)

    def begin(self, file: FoundFile) -> Callable[[], Document]:
        """As `Reading`."""
        return lambda: self._documents[file.relative]

    def chunk(self, document: Document) -> tuple[Chunk, ...]:
        """As `Chunker`."""
        return self._chunks[document.path]

    def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        """As `Embedder`."""
        return np.stack([self._vectors[text] for text in texts])

    def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        """As `Embedder`."""
        return self.embed_documents(texts)

    def count_tokens(self, text: str) -> int:
        """As `CountsTokens`; only the report asks."""
        return len(text)


class Contest:
    """The three ways, each with a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._documents = folder / "documents"
        self._documents.mkdir()
        given: dict[str, Any] = {"documents_dir": self._documents, "embedding": {"use": "hashing"}}
        self._base = KnowledgeBase.open(None, data_dir=folder / "files", **given)
        settings, origins = load_settings(None, data_dir=folder / "prepared", **given)
        self._prepared = PreparedParts(self._base.embedder)
        engine = LocalEngine(self._prepared, self._prepared, lambda: nullcontext(self._prepared))
        self._job = Job(
            root=self._documents,
            data_dir=settings.data_dir,
            folder=settings.data_dir / "knowledge_base",
            collection=settings.collection,
            lent=RememberingEmbedder(self._prepared),
            chunker=self._prepared,
            open_engine=lambda due: nullcontext(engine),
            pipelines={".md": "prepared"},
            store=CollectionStore(settings, origins),
            limits=settings.ingest,
        )
        self._bare = folder / "bare"
        self._number = 0
        self._rows: list[StoreRow] = []
        self.stages = {way: Stages() for way in (PREPARED, FILES)}

    def close(self) -> None:
        """Release files."""
        self._base.close()

    def make_part(self, chunks: int) -> tuple[int, int]:
        """Write documents with so many chunks, and prepare what the first two ways need: chunks and bytes."""
        self._rows, size = [], 0
        while len(self._rows) < chunks:
            number = self._number = self._number + 1
            text = made_markdown(random.Random(number).randint(*DOCUMENT_BYTES), number)
            file = self._documents / f"{number % 40:02}" / f"document {number:05}.md"
            file.parent.mkdir(exist_ok=True)
            size += file.write_bytes(text.encode())
            document = load_document(file, file.relative_to(self._documents).as_posix())
            self._rows += self._prepared.prepare(document, self._base.chunker, self._base.embedder)
        return len(self._rows), size

    def run(self, way: str) -> None:
        """Ingest the part."""
        if way == BARE:
            self._add()
            return
        with self.stages[way].watching():
            report = self._base.ingest() if way == FILES else run(self._job)
        if report.failed or report.chunks_added != len(self._rows):
            raise SystemExit(f"{way}: {report}")

    def _add(self) -> None:
        client: Any = chromadb.PersistentClient(str(self._bare))
        space: Any = {"hnsw": {"space": "cosine"}}
        collection = client.get_or_create_collection("bare", configuration=space, embedding_function=None)
        for start in range(0, len(self._rows), BARE_BATCH):
            batch = self._rows[start : start + BARE_BATCH]
            collection.add(
                ids=[row.chunk.id for row in batch],
                embeddings=np.stack([row.vector for row in batch]),
                documents=[row.chunk.text for row in batch],
                metadatas=[{key: value for key, value in payload(row).items() if value is not None} for row in batch],
            )
        client.close()


def with_the_default(folder: Path, chunks: int) -> tuple[int, float, dict[str, float]]:
    """An ingest as shipped, of about so many chunks: how many there were, the seconds, and those of each stage."""
    documents, stages = folder / "documents", Stages()
    documents.mkdir()
    for number in range(chunks // 20):
        (documents / f"{number}.md").write_text(made_markdown(10_000, number), encoding="utf-8")
    with KnowledgeBase.open(None, documents_dir=documents, data_dir=folder / "data") as base, stages.watching():
        started = time.perf_counter()
        report = base.ingest()
        return report.chunks_total, time.perf_counter() - started, dict(stages.seconds)


def show(way: str, chunks: int, seconds: float, stages: dict[str, float], share: str) -> None:
    """Print one way with its stages."""
    print(f"{way:<10} {seconds:7.1f} s {chunks / seconds:8,.0f} rows/s {share}")
    for stage, spent in (stages | {"the rest": seconds - sum(stages.values())}).items() if stages else ():
        print(f"    {stage:<10} {spent:7.1f} s {spent / seconds:6.0%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=50_000, help="%(default)s")
    parser.add_argument("--default-chunks", type=int, default=3_000, help="with the embedded default; %(default)s")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    seconds: dict[str, float] = defaultdict(float)
    chunks = size = 0
    with tempfile.TemporaryDirectory(prefix="kb-ingest-overhead-") as folder:
        contest = Contest(Path(folder))
        for part in range(PARTS):
            made = contest.make_part(options.chunks // PARTS)
            chunks, size = chunks + made[0], size + made[1]
            for way in WAYS[part % len(WAYS) :] + WAYS[: part % len(WAYS)]:
                started = time.perf_counter()
                contest.run(way)
                seconds[way] += time.perf_counter() - started
        contest.close()
    with tempfile.TemporaryDirectory(prefix="kb-ingest-overhead-") as folder:
        default_chunks, seconds[DEFAULT], default_stages = with_the_default(Path(folder), options.default_chunks)
    shares = {way: seconds[BARE] / seconds[way] for way in WAYS}
    in_model = default_stages["model"] / seconds[DEFAULT]
    stages = {way: dict(found.seconds) for way, found in contest.stages.items()} | {DEFAULT: default_stages}
    if options.json:
        figures = {"seconds": seconds, "shares": shares, "in_model": in_model, "stages": stages}
        print(json.dumps({"chunks": chunks, "bytes": size, "default_chunks": default_chunks, **figures}))
    else:
        print(f"{chunks:,} chunks, {size / 1e6:.1f} MB of Markdown")
        for way in WAYS:
            show(way, chunks, seconds[way], stages.get(way, {}), f"{shares[way]:7.0%} of bare")
        print(f"{default_chunks:,} chunks, with the embedded default")
        show(DEFAULT, default_chunks, seconds[DEFAULT], default_stages, f"{in_model:7.0%} in the model")
    missed = [f"{way}: below {least:.0%} of bare" for way, least in LEAST_SHARES.items() if shares[way] < least]
    if in_model < LEAST_IN_MODEL:
        missed.append(f"{DEFAULT}: below {LEAST_IN_MODEL:.0%} in the model")
    if missed:
        raise SystemExit("; ".join(missed))


if __name__ == "__main__":
    main()
