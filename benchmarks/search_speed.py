"""What a question takes: `python -m benchmarks.search_speed [--folder F] [--chunks N]`.

1. The sample documents, with the embedded model: fused search, and `maxsim` by kept and by computed token vectors.
2. A made-up collection of 100,000 chunks (made once, some minutes; kept in `--folder` when given): a search by words
   and vectors, in turns with the embedding of the question and Chroma's own `collection.query` for as many neighbours.
3. Its index of words alone: opening it, an answer, and taking in 1,000 changed chunks.

It fails when a figure is above its goal. Nothing else may run meanwhile. Linux only.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.made_base import CLUSTERS, Made, make, open_store
from kb.base import Base
from kb.components import Embedder, Parts, build_component
from kb.knowledge_base import KnowledgeBase
from kb.ledger.ledger import Ledger
from kb.ledger.schema import LEDGER_FILE
from kb.recall import Recall
from kb.records import Chunk
from kb.retrieval import Retriever
from kb.settings import KeywordSection, RetrievalSection

if TYPE_CHECKING:
    from kb.components import FloatArray

SAMPLES = Path(__file__).parents[1] / "knowledge_base"
QUESTIONS = (
    "How do I request a refund?",
    "What does ERR_429 mean and how long should I wait?",
    "退款需要多长时间?",
    "返金はいつ行われますか。",
    "Which plan includes single sign-on?",
    "年假有几天?",
)
CHANGED = 1_000
EARLIER = 100
"""So many other questions are asked before those that are measured, as in a process that has answered for a while."""


class Asking(Made):
    """Embeds questions for the time that it takes, and gives them the vectors that they were made with."""

    def __init__(self, embedder: Embedder) -> None:
        super().__init__()
        self._embedder = embedder

    def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        """As `Made`, but later."""
        self._embedder.embed_queries(texts)
        return super().embed_queries(texts)


class Goals:
    """Prints figures beside their goals, and remembers whether all were met."""

    def __init__(self) -> None:
        self.met = True

    def show(self, name: str, milliseconds: float, most: float | None = None) -> None:
        """Print one figure."""
        missed = most is not None and milliseconds > most
        self.met &= not missed
        goal = "" if most is None else f"  goal {most:,.0f} ms{': MISSED' if missed else ''}"
        print(f"{name:66} {milliseconds:9.1f} ms{goal}", flush=True)


def answer_p50(ledger: Ledger, generation: int, questions: Sequence[str]) -> float:
    """Milliseconds that the index of words takes for a question."""
    return median(timed(partial(ledger.find_words, generation, question, 50)) for question in questions)


def timed(call: Callable[[], Any]) -> float:
    started = time.perf_counter()
    call()
    return (time.perf_counter() - started) * 1000


def sample_documents(goals: Goals, rounds: int) -> None:
    """Questions to the sample documents, one way after the other in turns."""
    with tempfile.TemporaryDirectory() as folder:
        ways: dict[str, tuple[float | None, dict[str, Any]]] = {
            "sample documents, fused": (15, {}),
            "sample documents, maxsim by kept token vectors": (60, {"rerank": {"use": "maxsim"}}),
            "sample documents, maxsim by token vectors computed now": (None, {"rerank": {"use": "maxsim"}}),
        }
        bases = []
        for number, (_, changes) in enumerate(ways.values()):
            keep = {"use": "e5", "e5": {"keep_token_vectors": number < 2}}
            data = Path(folder) / ("computed" if number == 2 else "kept")
            bases.append(KnowledgeBase.open(documents_dir=SAMPLES, data_dir=data, embedding=keep, **changes))
            bases[-1].ingest()
            bases[-1].search(QUESTIONS[0])
        times: list[list[float]] = [[] for _ in bases]
        for round_ in range(rounds):
            for question in QUESTIONS:
                for place, base in enumerate(bases):
                    if place < 2 or not round_:
                        # Another question each time, as people ask: nothing of an earlier one may help.
                        times[place].append(timed(partial(base.search, f"{question} {round_}")))
        for (name, (most, _)), measured, base in zip(ways.items(), times, bases, strict=True):
            goals.show(f"{name}, p50", median(measured), most)
            base.close()


def large_collection(goals: Goals, folder: Path, rounds: int) -> None:
    """Search by words and vectors against the bare query for as many neighbours."""
    import chromadb
    import chromadb.config

    ledger, store = Ledger(folder, read_only=True), open_store(folder)
    generation = ledger.current_generation()
    assert generation is not None, "it was made to the end"
    embedder = build_component("embedding", "e5", {}, Parts())
    asking = Asking(embedder)
    recall = Recall(asking, Base(store, ledger, generation.number, asking.fingerprint), KeywordSection())
    retriever = Retriever(recall, build_component("rerank", "none", {}, Parts()), RetrievalSection(), reranked=30)
    questions = asking.questions([place * 7 % CLUSTERS for place in range(EARLIER + rounds)])
    settings = chromadb.config.Settings(anonymized_telemetry=False)
    (collection,) = chromadb.PersistentClient(os.path.realpath(folder / "store"), settings).list_collections()
    vectors = asking.embed_queries(questions[EARLIER:])

    def query(vector: Any) -> None:
        collection.query(vector[np.newaxis], n_results=50, include=["distances"])

    query(vectors[0])
    for question in questions[:EARLIER]:
        retriever.search_many([question])
    ours, bare, model = [], [], []
    for question, vector in zip(questions[EARLIER:], vectors, strict=True):
        # One after the other, as a program would that asks Chroma by itself.
        model.append(timed(partial(embedder.embed_queries, [question])))
        bare.append(timed(partial(query, vector)))
        ours.append(timed(partial(retriever.search_many, [question])))
    print(f"{store.count():,} chunks")
    goals.show("collection.query for 50, p50", median(bare))
    goals.show("the model alone, p50", median(model))
    goals.show("fused search, p50", median(ours), 3 * median(bare) + median(model))
    store.close()
    ledger.close()


def index_of_words(goals: Goals, folder: Path, made: Made, rounds: int) -> None:
    """The index alone: opening, an answer, and changes, on a copy."""
    questions = [made.words_asked() for _ in range(rounds)]
    with tempfile.TemporaryDirectory() as copy:
        shutil.copy(folder / LEDGER_FILE, copy)
        started = time.perf_counter()
        with Ledger(Path(copy), read_only=True) as ledger:
            generation = ledger.current_generation()
            assert generation is not None, "it was made to the end"
            number = generation.number
            ledger.find_words(number, questions[0], 50)
            goals.show("index of words: opened, with the first answer", (time.perf_counter() - started) * 1000, 300)
            goals.show("index of words: an answer, p50", answer_p50(ledger, number, questions), 10)
        with Ledger(Path(copy)) as ledger:
            ids = ledger.sample_ids(number, CHANGED)
            chunks = [
                Chunk(f"changed{i}", "d", text, 0, len(text)) for i, text in enumerate(map(made.text, [60] * CHANGED))
            ]

            def change() -> None:
                with ledger.transaction():
                    ledger._unindex_words(number, ids)
                    ledger._index_words(number, chunks)

            goals.show(f"index of words: {CHANGED:,} changed chunks", timed(change), 2_000)
            goals.show("index of words: an answer after that, p50", answer_p50(ledger, number, questions), 10)


def main() -> int:
    """Measure, print, and fail when a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="where ledger and store are kept for the next time")
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=20)
    arguments = parser.parse_args()
    goals, made = Goals(), Made()
    sample_documents(goals, arguments.rounds)
    with tempfile.TemporaryDirectory() as own:
        folder = arguments.folder or Path(own)
        if not (folder / LEDGER_FILE).exists():
            make(folder, made, arguments.chunks // 10)
        large_collection(goals, folder, arguments.rounds)
        index_of_words(goals, folder, made, arguments.rounds)
    return 0 if goals.met else 1


if __name__ == "__main__":
    sys.exit(main())
