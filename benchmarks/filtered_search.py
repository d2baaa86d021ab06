"""What `--where` costs on a large collection: `python -m benchmarks.filtered_search [--folder F]`.

A ledger and a Chroma collection of 100,000 chunks are made once (some minutes; kept in `--folder` when given):
clustered vectors of 384 numbers, texts of words as frequent as Zipf has it, 10,000 documents. Then questions
without a filter take turns with the same questions under filters that leave 0.1 % to 50 % of the chunks, spread
evenly or in one half of the topics, which is the other half than the question's in the worst case. Each is also
compared with Chroma's own filter. The figure to watch is the ratio to the question without a filter; embedding
is left out. Linux only.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.made_base import CLUSTERS, SHARES, Made, make, open_store
from kb.base import Base
from kb.components import Parts, build_component
from kb.filters import Where
from kb.ledger.ledger import Ledger
from kb.ledger.schema import LEDGER_FILE
from kb.narrowed import Narrowed, Narrowing
from kb.recall import Recall
from kb.retrieval import Retriever
from kb.settings import KeywordSection, RetrievalSection

MIDDLE = 2_000
"""Half of a document's chunks start behind this character."""
MOST_TIMES = 3.0
MOST_MILLISECONDS = 50.0
"""A filtered question may take so many times one without, or so long, whichever is more."""


def measure(folder: Path, made: Made, rounds: int) -> bool:
    """Ask with every filter in turn, print a line for each, and say whether all were fast enough."""
    ledger, store = Ledger(folder, read_only=True), open_store(folder)
    generation = ledger.current_generation()
    assert generation is not None, "it was made to the end"
    base = Base(store, ledger, generation.number, made.fingerprint)
    # Of the first half of the topics: the last filter leaves the other one.
    questions = made.questions([place * 7 % (CLUSTERS // 2) for place in range(rounds)])
    filters = [f"one_in_{share}=true" for share in SHARES] + ["heading=Part 3", "path=half0", "path=half1"]
    fast = True
    for keyword in (True, False):
        recall = Recall(made, base, KeywordSection(enabled=keyword))
        retriever = Retriever(recall, build_component("rerank", "none", {}, Parts()), RetrievalSection(), reranked=30)
        fast &= compare(retriever, questions, [Where.parse([one]) for one in filters])
    bare(folder, made, questions)
    store.close()
    ledger.close()
    return fast


def compare(retriever: Retriever, questions: Sequence[str], filters: Sequence[Where]) -> bool:
    """Print what filters cost with or without search by words, and say whether all were fast enough."""
    base = retriever.recall.base
    ask(retriever, questions[0], None)
    opened, firsts = [], []
    for where in filters:
        started = time.perf_counter()
        opened.append(Narrowing(base).to(where))
        ask(retriever, questions[0], opened[-1])
        firsts.append(time.perf_counter() - started)
    plain: list[float] = []
    filtered: list[list[float]] = [[] for _ in filters]
    for question in questions:
        plain.append(ask(retriever, question, None))
        for times, narrowed in zip(filtered, opened, strict=True):
            times.append(ask(retriever, question, narrowed))
    ours, total = median(plain) * 1000, base.store.count()
    by = "by words and vectors" if retriever.recall.keyword.enabled else "by vectors alone"
    print(f"{total:,} chunks {by}; p50 without a filter {ours:.1f} ms")
    fast = True
    for narrowed, times, first in zip(opened, filtered, firsts, strict=True):
        took = median(times) * 1000
        fast &= took <= max(MOST_TIMES * ours, MOST_MILLISECONDS)
        told = (
            f"  {narrowed.where!s:28} {len(narrowed.chunk_ids) / total:6.1%} {took:8.1f} ms, {took / ours:4.1f} times"
        )
        print(f"{told}; the first question {first * 1000:8.1f} ms", flush=True)
    return fast


def ask(retriever: Retriever, question: str, narrowed: Narrowed | None) -> float:
    """Seconds of one question."""
    started = time.perf_counter()
    retriever.search_many([question], narrowed=narrowed)
    return time.perf_counter() - started


def bare(folder: Path, made: Made, questions: Sequence[str]) -> None:
    """Print what Chroma takes for 50 hits, without and with its own filter."""
    import chromadb
    import chromadb.config

    settings = chromadb.config.Settings(anonymized_telemetry=False)
    (collection,) = chromadb.PersistentClient(os.path.realpath(folder / "store"), settings).list_collections()
    conditions: dict[str, Any] = {
        "collection.query": None,
        "collection.query(where=one document)": {"document_id": "00000001"},
        "collection.query(where=half of all)": {"start": {"$gt": MIDDLE}},
    }
    for name, where in conditions.items():
        times = []
        for vector in made.embed_queries(questions):
            started = time.perf_counter()
            collection.query(vector[np.newaxis], n_results=50, where=where, include=["distances"])
            times.append(time.perf_counter() - started)
        print(f"{name:38} {median(times) * 1000:8.1f} ms")


def main() -> int:
    """Make what is not there, measure, and fail when a filter costs too much."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="where ledger and store are kept for the next time")
    parser.add_argument("--documents", type=int, default=10_000, help="of ten chunks each")
    parser.add_argument("--rounds", type=int, default=30)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as own:
        folder = arguments.folder or Path(own)
        made = Made()
        if not (folder / LEDGER_FILE).exists():
            make(folder, made, arguments.documents)
        return 0 if measure(folder, made, arguments.rounds) else 1


if __name__ == "__main__":
    sys.exit(main())
