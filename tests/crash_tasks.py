"""What the processes of a crash test do: ingest and die at a named step, ingest anew, look, compare."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import chromadb.api.rust  # noqa: F401  imported by Chroma when a client is made
import numpy as np

import kb.ingest.run
import kb.store.chroma
from kb.errors import KbError
from kb.ledger.hashes import text_hash
from kb.ledger.ledger import Ledger
from tests.crash_steps import die_at
from tests.end_to_end._bases import CountingEmbedder, Place, a_text

if TYPE_CHECKING:
    from kb.components import FloatArray

BATCH_TEXTS = 4
_ROW = ("ids", "documents", "metadatas", "embeddings")
OPTIONS: dict[str, Any] = {"ingest": {"batch_chunks": 6, "max_removal_share": 1.0}}


class LoggedEmbedder(CountingEmbedder):
    """The hashing embedder; writes down what it is about to embed, so that a crash hides nothing."""

    def __init__(self, dimension: int, log: Path) -> None:
        super().__init__(dimension=dimension, batch_texts=BATCH_TEXTS)
        self._log = log

    def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        line = json.dumps({"embedder": self.fingerprint, "texts": [text_hash(text) for text in texts]})
        log = os.open(self._log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(log, f"{line}\n".encode())
        os.close(log)
        return super().embed_documents(texts)


def place_at(folder: str, data: str, store: str, dimension: int) -> Place:
    base = Path(folder)
    return Place(base / "documents", base / data, store, LoggedEmbedder(dimension, base / f"{data}.embedded"))


def ingest(
    *,
    folder: str,
    data: str = "data",
    store: str = "chroma",
    dimension: int = 32,
    size_tokens: int = 24,
    rebuild: bool = False,
    beside: bool = False,
    kill: Sequence[Any] = (),
) -> dict[str, Any]:
    """Bring the collection in step.

    Args:
        folder: Where documents and data are.
        data: The data's folder there.
        store: The store's name.
        dimension: Of the embedder.
        size_tokens: Of a chunk.
        rebuild: Build anew.
        beside: Have the store open in a process of its own, as when there is much to write.
        kill: A step, `before`, `during` or `after`, and at which call of it.
    """
    if beside:
        kb.ingest.run._BESIDE_FROM_BYTES = 0
    if kill:
        die_at(*kill)
    chunking = {"recursive": {"size_tokens": size_tokens, "min_tokens": 0}}
    return (
        place_at(folder, data, store, dimension)
        .ingest(options=OPTIONS | {"chunking": chunking}, rebuild=rebuild)
        .as_dict()
    )


def ingest_or_say(**arguments: Any) -> dict[str, Any] | str:
    """The same; of an error that kb raises, what it says."""
    try:
        return ingest(**arguments)
    except KbError as error:
        return f"{type(error).__name__}: {error}"


def take_rows_back(*, folder: str, rows: int) -> None:
    """Lose rows that the store had taken, as a power cut does with what was not on the disk yet."""
    store = place_at(folder, "data", "chroma", 32).open_store()
    store.delete(sorted(store.chunk_ids())[:rows])
    store.close()


# ── looking at what is left ──


def search(*, folder: str, dimension: int) -> list[str]:
    """Ask for the first chunk of every document, as a reader does: what is wrong with the answers."""
    place = place_at(folder, "data", "chroma", dimension)
    faults = []
    with Ledger(place.folder, read_only=True) as ledger, place.open() as base:
        generation = ledger.current_generation()
        assert generation is not None
        live = {found.chunk.id: found for found in ledger.all_chunks(generation.number)}
        first = {found.chunk.document_id: found.chunk for found in reversed(live.values())}
        for chunk, result in zip(first.values(), base.search_many([c.text for c in first.values()]), strict=True):
            if not any(hit.chunk.text == chunk.text for hit in result.hits):
                faults.append(f"not found: {chunk.text!r}")
            faults += [f"not live: {hit.chunk.text!r}" for hit in result.hits if hit.chunk.id not in live]
    return faults


def read(*, folder: str, dimension: int, question: str, chunks: int, until: str, anew: bool) -> dict[str, Any]:
    """Ask one question again and again until the file `until` is there, and once more then.

    Args:
        folder: As of `ingest`.
        dimension: As of `ingest`.
        question: What is asked.
        chunks: So many are to be found, at any time.
        until: The path of a file.
        anew: Open the knowledge base for each question, as a command does; else it stays open, as in a notebook.

    Returns:
        How many times it asked, what was wrong, and the texts found last. Of each document all hits must have one last
        word, its version.
    """
    place = place_at(folder, "data", "chroma", dimension)
    faults: Counter[str] = Counter()
    asked, last, base = 0, False, place.open()
    texts: list[str] = []
    while not last:
        time.sleep(0.05)  # for the ingest, on a machine of few processors
        last = Path(until).exists()
        asked += 1
        try:
            hits = base.search(question, top_k=chunks, cutoff=-1.0).hits
        except KbError as error:
            faults[f"{type(error).__name__}: {error}"] += 1
            continue
        texts = [hit.chunk.text for hit in hits]
        versions: dict[str, set[str]] = {}
        for hit in hits:
            versions.setdefault(hit.source, set()).add(hit.chunk.text.split()[-1])
        faults.update(
            f"{len(found)} states of {source} in one answer" for source, found in versions.items() if len(found) > 1
        )
        if len(hits) != chunks:
            faults[f"{len(hits)} chunks were found"] += 1
        if anew:
            base.close()
            base = place.open()
    base.close()
    return {"asked": asked, "faults": faults, "texts": texts}


def compare(*, folder: str, dimension: int) -> list[str]:
    """What differs between the collection and a fresh one of the same documents; both ledger and store."""
    ours, fresh = (_all_of(place_at(folder, data, "chroma", dimension)) for data in ("data", "fresh"))
    faults = []
    for name in ours:
        for key in sorted(ours[name].keys() | fresh[name].keys()):
            if ours[name].get(key) != fresh[name].get(key):
                faults.append(f"{name} {key}: {ours[name].get(key)} instead of {fresh[name].get(key)}")
    return faults


def _all_of(place: Place) -> dict[str, dict[str, Any]]:
    """All that ledger and store hold; fails when they are out of step."""
    place.contents()
    store: Any = place.open_store()
    rows = store._collection.get(include=["documents", "metadatas", "embeddings"])
    store.close()
    stored = {row[0]: row[1:] for row in zip(*(rows[key] for key in _ROW), strict=True)}
    with Ledger(place.folder, read_only=True) as ledger:
        generation = ledger.current_generation()
        assert generation is not None
        live = {found.chunk.id: found for found in ledger.all_chunks(generation.number)}
        known = ledger.known_vectors(generation.fingerprint, [found.text_hash for found in live.values()])
        for chunk_id, found in live.items():
            # Chroma gives a vector as it came, or as its index has it: brought to unit length once more.
            np.testing.assert_allclose(stored[chunk_id][2], known[found.text_hash], rtol=0, atol=1e-6)
        return {
            "chunk": {i: (found.source, found.chunk) for i, found in live.items()},
            "vector": {i: known[found.text_hash].tobytes() for i, found in live.items()},
            "row": {i: (text, metadata) for i, (text, metadata, _) in stored.items()},
            "source": dict(ledger.sources(generation.number)),
            "document": {i: ledger.document(generation.number, i) for i in ledger.document_ids(generation.number)},
        }


def _warm_up() -> None:
    """Import what is imported late, and fill caches, by an ingest and a question with a store that is no Chroma."""
    with tempfile.TemporaryDirectory(prefix="kb-crash-") as folder:
        place = place_at(folder, "data", "memory", 32)
        place.write("a.md", a_text(["one"]))
        place.ingest()
        place.found("one")


_warm_up()
