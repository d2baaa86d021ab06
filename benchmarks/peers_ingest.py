"""Keeping a folder of Markdown indexed, beside other libraries: `python -m benchmarks.peers_ingest --peers PYTHON`.

kb, LangChain's indexing API and LlamaIndex's ingestion pipeline bring a persistent Chroma collection in
step with the same 2,000 made files (13 MB in three scripts), each in a copy of its own: the first
ingest, a run in which nothing has changed, one sentence edited, one file renamed. They take turns at
each step, as a machine's speed changes from one minute to the next. Each run is a process of its own,
as an ingest is that somebody starts again; its imports are not counted, the opening of its data is.

All cut to 400 tokens by the same tokenizer (e5's) and embed with the same function, which costs next to
nothing, so that what is measured is the libraries. The peers are set up for speed where there is a
choice: cleanup `full` and batches of 2,000 for LangChain; upserts-and-delete, no cache of
transformations, and batches that Chroma takes for LlamaIndex, which sends 41,665 rows and crashes on so
much; both read each file once. After each step all chunks are read from Chroma: none may be of a file
that is no more, or hold the sentence that was edited. Memory is proportional set size, worker processes
included (Linux only).

The peers (`benchmarks/requirements-peers.txt`) want an environment of their own, with kb's packages too.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.ingest_memory import MEGABYTE, children, memory
from benchmarks.made_markdown import made_markdown
from kb.embedding._e5_tokenizer import E5Tokenizer, PieceTable
from kb.embedding._e5_weights import E5Weights
from kb.embedding._manifest import find_weights
from kb.records import EmbeddedPart

ROOT = Path(__file__).resolve().parents[1]
SIZE_TOKENS = 400
DIMENSION = 384
BATCH = 2_000
LLAMA_INDEX_BATCH = 5_000
STEPS = ("first ingest", "nothing changed", "one edit", "a rename")
EDITED, RENAMED, NEW_NAME = "edited.md", "old name.md", "new name.md"
BEFORE, AFTER = "The gate opens at half past six.", "The gate opens at a quarter to eight."
SECONDS_BETWEEN = 0.2


class Costless:
    """Vectors from a hash of the text; counts what it is given."""

    def __init__(self) -> None:
        self.texts = 0

    def vectors(self, texts: Sequence[str]) -> np.ndarray[Any, np.dtype[np.float32]]:
        """Shape (n, 384), unit rows."""
        self.texts += len(texts)
        digests = b"".join(hashlib.shake_128(text.encode()).digest(DIMENSION) for text in texts)
        rows = np.frombuffer(digests, np.int8).reshape(-1, DIMENSION).astype(np.float32)
        unit: np.ndarray[Any, np.dtype[np.float32]] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return unit


class Kb:
    """This project, as shipped but for the embedder and the size of chunks."""

    def __init__(self, documents: Path, data: Path) -> None:
        from kb.knowledge_base import KnowledgeBase

        self._base = KnowledgeBase
        weights = E5Weights(find_weights())
        tokenizer = E5Tokenizer(weights, PieceTable.of(weights))
        tokenizer.load()  # as the peers' has been

        class Embedder(Costless):
            name = fingerprint = "costless"
            dimension, max_tokens, token_overhead = DIMENSION, 512, 0
            cutoff, batch_texts = 0.0, BATCH
            count_tokens, count_words = staticmethod(tokenizer.count), staticmethod(tokenizer.count_words)
            embed_documents = embed_queries = Costless.vectors

            def embed_parts(self, texts: Sequence[str]) -> Generator[EmbeddedPart, None, None]:
                yield EmbeddedPart(range(len(texts)), 0, self.vectors(texts))

        self.costless = Embedder()
        chunking = {"recursive": {"size_tokens": SIZE_TOKENS}}
        self._settings: dict[str, Any] = {"documents_dir": documents, "data_dir": data, "chunking": chunking}
        self.client_path = data / "knowledge_base" / "generations" / "1"

    def run(self) -> None:
        """Bring the collection in step with the folder, as every system's `run` does."""
        with self._base.open(None, **self._settings) as base:
            base.__dict__["embedder"] = self.costless  # as the cached property would
            report = base.ingest()
        assert not report.failed, report


class LangChain:
    """`langchain_core.indexing.index` with its SQL record manager and the Markdown splitter."""

    def __init__(self, documents: Path, data: Path) -> None:
        core = importlib.import_module("langchain_core.documents")
        indexing = importlib.import_module("langchain_core.indexing")
        records = importlib.import_module("langchain_classic.indexes")
        splitters = importlib.import_module("langchain_text_splitters")
        embeddings: Any = importlib.import_module("langchain_core.embeddings").Embeddings
        chroma = importlib.import_module("langchain_chroma")
        costless = self.costless = Costless()

        class Embeddings(embeddings):  # type: ignore[misc]
            def embed_documents(self, texts: list[str]) -> list[list[float]]:
                return costless.vectors(texts).tolist()  # type: ignore[no-any-return]

            def embed_query(self, text: str) -> list[float]:
                return self.embed_documents([text])[0]

        data.mkdir(exist_ok=True)
        self.client_path = data / "chroma"
        count = plain_count()

        def run() -> None:
            splitter = splitters.RecursiveCharacterTextSplitter.from_language(
                splitters.Language.MARKDOWN, chunk_size=SIZE_TOKENS, chunk_overlap=0, length_function=count
            )
            found = [core.Document(page_content=text, metadata={"source": name}) for name, text in read(documents)]
            manager = records.SQLRecordManager("made", db_url=f"sqlite:///{data / 'records.sqlite'}")
            manager.create_schema()
            store = chroma.Chroma(
                "made",
                Embeddings(),
                persist_directory=str(self.client_path),
                collection_configuration={"hnsw": {"space": "cosine"}},
            )
            indexing.index(
                splitter.split_documents(found),
                manager,
                store,
                batch_size=BATCH,
                cleanup="full",
                source_id_key="source",
                key_encoder="sha256",
            )

        self.run = run


class LlamaIndex:
    """`IngestionPipeline` with document store and sentence splitter."""

    def __init__(self, documents: Path, data: Path) -> None:
        core = importlib.import_module("llama_index.core")
        ingestion = importlib.import_module("llama_index.core.ingestion")
        parsing = importlib.import_module("llama_index.core.node_parser")
        embedding: Any = importlib.import_module("llama_index.core.base.embeddings.base").BaseEmbedding
        storing = importlib.import_module("llama_index.core.storage.docstore")
        chroma: Any = importlib.import_module("llama_index.vector_stores.chroma.base")
        chromadb = importlib.import_module("chromadb")
        chroma.MAX_CHUNK_SIZE = LLAMA_INDEX_BATCH
        costless = self.costless = Costless()

        class Embedding(embedding):  # type: ignore[misc]
            def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
                return costless.vectors(texts).tolist()  # type: ignore[no-any-return]

            def _get_text_embedding(self, text: str) -> list[float]:
                return self._get_text_embeddings([text])[0]

            _get_query_embedding = _get_text_embedding

            async def _aget_query_embedding(self, query: str) -> list[float]:
                return self._get_text_embedding(query)

        data.mkdir(exist_ok=True)
        self.client_path = data / "chroma"
        kept = data / "documents.json"
        count = plain_count()

        def run() -> None:
            client = chromadb.PersistentClient(str(self.client_path))
            collection = client.get_or_create_collection(
                "made", configuration={"hnsw": {"space": "cosine"}}, embedding_function=None
            )
            store = storing.SimpleDocumentStore
            pipeline = ingestion.IngestionPipeline(
                transformations=[
                    # It measures by the length of what the tokenizer gives.
                    parsing.SentenceSplitter(
                        chunk_size=SIZE_TOKENS, chunk_overlap=0, tokenizer=lambda text: range(count(text))
                    ),
                    Embedding(embed_batch_size=BATCH),
                ],
                docstore=store.from_persist_path(str(kept)) if kept.exists() else store(),
                docstore_strategy=ingestion.DocstoreStrategy.UPSERTS_AND_DELETE,
                vector_store=chroma.ChromaVectorStore(chroma_collection=collection),
                disable_cache=True,
            )
            found = [
                core.Document(
                    text=text,
                    id_=name,
                    metadata={"source": name},
                    excluded_embed_metadata_keys=["source"],
                    excluded_llm_metadata_keys=["source"],
                )
                for name, text in read(documents)
            ]
            pipeline.run(documents=found)
            pipeline.docstore.persist(str(kept))

        self.run = run


SYSTEMS: dict[str, Any] = {"kb": Kb, "LangChain": LangChain, "LlamaIndex": LlamaIndex}


def plain_count() -> Callable[[str], int]:
    """The tokenizer as a peer's user would have it: an object of the package `tokenizers`."""
    weights = E5Weights(find_weights())
    tokenizer = E5Tokenizer(weights, PieceTable.of(weights))._load_fast()
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False))


def read(documents: Path) -> Iterator[tuple[str, str]]:
    """Every file: relative name and text."""
    for file in sorted(documents.rglob("*.md")):
        yield file.relative_to(documents).as_posix(), file.read_text(encoding="utf-8")


def make_files(folder: Path, files: int) -> int:
    """Write the documents; gives their bytes."""
    size = 0
    for number in range(files):
        text = made_markdown(int(random.Random(number).lognormvariate(8.3, 0.9)), number)
        name = {0: EDITED, 1: RENAMED}.get(number, f"{number % 20:02}/document {number:04}.md")
        if name == EDITED:
            text = f"# Opening hours\n\n{BEFORE}\n\n{text}"
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        size += file.write_bytes(text.encode())
    return size


def change(documents: Path, step: str) -> None:
    """Do to the folder what a step is about."""
    if step == "one edit":
        file = documents / EDITED
        file.write_text(file.read_text(encoding="utf-8").replace(BEFORE, AFTER), encoding="utf-8")
    elif step == "a rename":
        (documents / RENAMED).rename(documents / NEW_NAME)


def kept_chunks(client_path: Path) -> list[tuple[str, str]]:
    """(source, text) of all that is in Chroma; read in a process of its own."""
    chromadb: Any = importlib.import_module("chromadb")
    client = chromadb.PersistentClient(str(client_path))
    (collection,) = client.list_collections()
    found: list[tuple[str, str]] = []
    while True:
        page = collection.get(limit=BATCH, offset=len(found), include=["documents", "metadatas"])
        found += [(row["source"], text) for row, text in zip(page["metadatas"], page["documents"], strict=True)]
        if len(page["ids"]) < BATCH:
            return found


def stale(chunks: Sequence[tuple[str, str]], documents: Path) -> int:
    """Chunks of files that are no more, and of text that is no more."""
    names = {name for name, _ in read(documents)}
    edited = BEFORE not in (documents / EDITED).read_text(encoding="utf-8")
    return sum(source not in names or (edited and BEFORE in text) for source, text in chunks)


def take_part(name: str, folder: Path) -> None:
    """One run of a system: it waits for a line on stdin, and answers with one."""
    import_all(name)
    system = SYSTEMS[name](folder / "documents", folder / "data")
    print(json.dumps({"ready": str(system.client_path)}), flush=True)
    sys.stdin.readline()
    started = time.perf_counter()
    system.run()
    print(json.dumps({"seconds": time.perf_counter() - started, "texts": system.costless.texts}), flush=True)


def import_all(name: str) -> None:
    """Import what a run imports on its way, by a run in an empty place."""
    with tempfile.TemporaryDirectory(prefix="kb-peers-") as elsewhere:
        documents = Path(elsewhere, "documents")
        make_files(documents, 1)
        SYSTEMS[name](documents, Path(elsewhere, "data")).run()


class Participant:
    """A system with its folder, and the most memory that a run of it took."""

    def __init__(self, name: str, python: Path, folder: Path) -> None:
        self.documents = folder / "documents"
        self._command = [str(python), "-m", "benchmarks.peers_ingest", "--take-part", name, str(folder)]
        self.peak = 0
        self.steps: dict[str, dict[str, float]] = {}

    def step(self, step: str) -> None:
        """Change the folder, run, and look what is in Chroma then."""
        process = subprocess.Popen(
            self._command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        client_path = self._answer(process)["ready"]
        change(self.documents, step)
        threading.Thread(target=self._watch, args=(process,), daemon=True).start()
        assert process.stdin is not None, "it is a pipe"
        process.stdin.write("go\n")
        process.stdin.flush()
        self.steps[step] = self._answer(process)
        process.communicate()
        look = f"from benchmarks.peers_ingest import *; print(json.dumps(kept_chunks(Path({client_path!r}))))"
        done = subprocess.run([sys.executable, "-c", look], cwd=ROOT, stdout=subprocess.PIPE, check=True)
        chunks = json.loads(done.stdout)
        self.steps[step] |= {"chunks": len(chunks), "stale": stale(chunks, self.documents)}

    def _answer(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        assert process.stdout is not None, "it is a pipe"
        line = process.stdout.readline()
        if not line:
            raise SystemExit(f"a process ended with status {process.wait()}: {' '.join(self._command)}")
        found: dict[str, Any] = json.loads(line)
        return found

    def _watch(self, process: subprocess.Popen[str]) -> None:
        while process.poll() is None:
            self.peak = max(self.peak, sum(map(memory, (process.pid, *children(process.pid)))))
            time.sleep(SECONDS_BETWEEN)


def compare(python: Path, files: int) -> tuple[int, dict[str, Participant]]:
    """All steps by all systems in turn: bytes, and what each did."""
    with tempfile.TemporaryDirectory(prefix="kb-peers-") as name:
        folder = Path(name)
        size = make_files(folder / "documents", files)
        participants = {}
        for system in SYSTEMS:
            own = folder / system
            shutil.copytree(folder / "documents", own / "documents")
            participants[system] = Participant(system, python, own)
        for at, step in enumerate(STEPS):
            names = list(participants)
            for system in names[at % len(names) :] + names[: at % len(names)]:
                participants[system].step(step)
    return size, participants


def faults(participants: dict[str, Participant]) -> Iterator[str]:
    """What must not be."""
    ours, *others = participants.values()
    for step in STEPS:
        mine = ours.steps[step]
        if mine["stale"]:
            yield f"{step}: {mine['stale']} stale chunks"
        for name, other in zip(list(participants)[1:], others, strict=True):
            for what in ("seconds",) if step == STEPS[0] else ("seconds", "texts"):
                if mine[what] > other.steps[step][what]:
                    yield f"{step}: {name} needs fewer {what}"
    if ours.peak > min(other.peak for other in others):
        yield "another one takes less memory"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=Path, metavar="PYTHON", help="the Python of an environment with the peers")
    parser.add_argument("--files", type=int, default=2_000, help="%(default)s")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--take-part", nargs=2, metavar=("SYSTEM", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.take_part:
        take_part(options.take_part[0], Path(options.take_part[1]))
        return
    # Not resolved: a virtual environment's Python is a link.
    python = options.peers.absolute() if options.peers else Path(sys.executable)
    size, participants = compare(python, options.files)
    if options.json:
        found = {name: {"peak_bytes": one.peak, "steps": one.steps} for name, one in participants.items()}
        print(json.dumps({"files": options.files, "bytes": size, "systems": found}))
    else:
        print(f"{options.files:,} files, {size / 1e6:.1f} MB, {SIZE_TOKENS} tokens")
        for step in STEPS:
            print(step)
            for name, one in participants.items():
                did = one.steps[step]
                print(
                    f"    {name:<12} {did['seconds']:7.2f} s {did['texts']:7,.0f} texts embedded "
                    f"{did['chunks']:7,.0f} chunks {did['stale']:4.0f} stale"
                )
        print("most memory")
        for name, one in participants.items():
            print(f"    {name:<12} {one.peak / MEGABYTE:7.0f} MB")
    if wrong := list(faults(participants)):
        raise SystemExit("; ".join(wrong))


if __name__ == "__main__":
    main()
