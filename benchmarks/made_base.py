"""A large collection, made up: a ledger and a Chroma collection of clustered vectors and texts.

Ten chunks a document, each document in one of 200 clusters, texts of words as frequent as Zipf has it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from kb.components import Parts, StorePlace, StoreRow, build_component
from kb.ledger.documents import SourceRow
from kb.ledger.hashes import HashedChunk, hashed
from kb.ledger.ledger import Ledger
from kb.records import Chunk, Document
from kb.words import STOP_WORDS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kb.components import FloatArray, Store

    Row: TypeAlias = tuple[HashedChunk, FloatArray]
    State: TypeAlias = tuple[SourceRow, Document, list[HashedChunk]]

DIMENSION = 384
CLUSTERS = 200
NOISE = 0.8
"""How long what is added to a cluster's centre is, the centre having length 1."""
CHUNKS_EACH = 10
"""Chunks of a document, which lies in one cluster."""
WORDS = 20_000
WORDS_EACH = 60
WORDS_ASKED = 6
GRAMMAR = len(STOP_WORDS)
"""So many of the commonest words make up half of a text, as they do in English."""
BATCH_DOCUMENTS = 200
_LETTERS = str.maketrans("0123456789", "abcdefghij")
"""Words with digits would be taken for identifiers."""
SHARES = (1000, 100, 10, 2)
"""One document in so many has this in its front matter."""


class Made:
    """Made-up texts and vectors, and an embedder that gives a question its vector."""

    name = fingerprint = "made"
    max_tokens = 512
    cutoff = 0.28
    batch_texts = 1024

    def __init__(self, dimension: int = DIMENSION, seed: int | None = None) -> None:
        """Make the same clusters each time; with a `seed` other texts and vectors in them."""
        self.dimension = dimension
        self._dice = np.random.default_rng(7)
        self._centres = self._unit(self._dice.normal(size=(CLUSTERS, dimension)))
        if seed is not None:
            self._dice = np.random.default_rng(seed)
        self._asked: dict[str, FloatArray] = {}

    def vectors(self, cluster: int, count: int) -> FloatArray:
        """Shape (count, dimension), unit rows around a cluster's centre."""
        noise = self._dice.normal(size=(count, self.dimension)) * NOISE / np.sqrt(self.dimension)
        return self._unit(self._centres[cluster] + noise)

    def text(self, count: int = WORDS_EACH, commonest: int = 1) -> str:
        """Words, the n-th most frequent one about 1/n as frequent as the first; from the `commonest`-th on."""
        ranks = np.exp(self._dice.uniform(np.log(commonest), np.log(WORDS), count)).astype(int)
        return " ".join(f"word{rank}".translate(_LETTERS) for rank in ranks)

    def words_asked(self) -> str:
        """The words of a question, less the commonest: in a language they are grammar, which isn't searched for."""
        return self.text(WORDS_ASKED, commonest=GRAMMAR)

    def questions(self, clusters: Sequence[int]) -> list[str]:
        """One question in each of the clusters."""
        for cluster in clusters:
            self._asked[self.words_asked()] = self.vectors(cluster, 1)[0]
        return list(self._asked)[-len(clusters) :]

    def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        """Not needed."""
        raise NotImplementedError("documents are made with their vectors")

    def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        """The vectors that the questions were made with."""
        return np.stack([self._asked[text] for text in texts])

    @staticmethod
    def _unit(rows: NDArray[np.float64]) -> FloatArray:
        unit: FloatArray = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
        return unit


def open_store(folder: Path) -> Store:
    place = StorePlace(folder / "store", "made", "made", Made.fingerprint, DIMENSION)
    store: Store = build_component("store", "chroma", {}, Parts(place=place))
    return store


def make(folder: Path, made: Made, documents: int) -> None:
    """Fill a ledger and a store in the order of an ingest."""
    store = open_store(folder)
    fill_ledger(
        folder, made, documents, lambda rows: store.upsert([StoreRow(one.chunk, one.source, v) for one, v in rows])
    )
    store.close()


def fill_ledger(folder: Path, made: Made, documents: int, stored: Callable[[Sequence[Row]], None]) -> float:
    """Fill a ledger, and let `stored` have what goes into the store; the seconds it took without that."""
    seconds = 0.0
    with Ledger(folder) as ledger:
        generation = ledger.begin_generation(made.fingerprint, made.dimension).number
        for states, rows in batches(made, documents):
            started = time.perf_counter()
            ledger.put_vectors(made.fingerprint, [(one.text_hash, vector) for one, vector in rows])
            ledger.mark_dirty(generation, [one.chunk.id for one, _ in rows])
            seconds += time.perf_counter() - started
            stored(rows)
            started = time.perf_counter()
            ledger.replace_documents(generation, states)
            seconds += time.perf_counter() - started
        ledger.complete_generation(generation)
    return seconds


def batches(made: Made, documents: int) -> Iterator[tuple[list[State], list[Row]]]:
    """What an ingest writes at a time: documents with their chunks, and chunks with their vectors."""
    for start in range(0, documents, BATCH_DOCUMENTS):
        states: list[State] = []
        rows: list[Row] = []
        for number in range(start, min(start + BATCH_DOCUMENTS, documents)):
            cluster, path = cluster_of(number), path_of(number)
            texts = [made.text() for _ in range(CHUNKS_EACH)]
            chunks, at = [], 0
            for place, text in enumerate(texts):
                headings = (f"Topic {cluster}", f"Part {place}")
                chunks.append(
                    Chunk(f"{number:08}{place:024}", f"{number:08}", text, at, at + len(text), None, headings)
                )
                at += len(text) + 1
            told = {f"one_in_{share}": number % share == share - 1 for share in SHARES}
            document = Document(f"{number:08}", path, "\n".join(texts), "", "markdown", told)
            one = [hashed(chunk, path) for chunk in chunks]
            states.append((SourceRow(document.id, path, 1, 1, "h", "indexed"), document, one))
            rows += zip(one, made.vectors(cluster, CHUNKS_EACH), strict=True)
        yield states, rows


def cluster_of(document: int) -> int:
    """The cluster of a document, by its number."""
    return int(np.random.default_rng(document).integers(CLUSTERS))


def path_of(document: int) -> str:
    """Its path."""
    cluster = cluster_of(document)
    return f"half{cluster * 2 // CLUSTERS}/topic {cluster}/{document}.md"
