"""What comparing token by token takes: `python -m benchmarks.maxsim_times [FOLDER]`.

A folder of documents (the sample documents by default) is ingested twice,
with and without `[embedding.e5] keep_token_vectors`. Then questions take turns without reranking, with
kept token vectors and with those computed at the question. Times are the processor's, in this process,
as other programs stretch all others; trust the ratios.
"""

from __future__ import annotations

import argparse
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from statistics import median

from kb.embedding.e5 import E5Embedder
from kb.knowledge_base import KnowledgeBase
from kb.ledger.schema import LEDGER_FILE

SAMPLES = Path(__file__).parents[1] / "knowledge_base"
QUESTIONS = (
    "How do I request a refund?",
    "What is the rate limit?",
    "退款需要多长时间?",
    "返金はいつ行われますか。",
    "When does the office open?",
    "年假有几天?",
)
NO_CUTOFF = -1.0


def main() -> None:
    """Ingest, ask and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=SAMPLES)
    parser.add_argument("--rounds", type=int, default=3, help="of all questions (%(default)s)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as data:
        bases = {
            "no reranking": open_base(arguments.folder, Path(data), keep=True, use="none"),
            "kept": open_base(arguments.folder, Path(data), keep=True, use="maxsim"),
            "computed": open_base(arguments.folder, Path(data), keep=False, use="maxsim"),
        }
        for name in ("computed", "kept"):
            chunks = bases[name].ingest().chunks_total
            print(f"{name}: {chunks} chunks, {sizes(bases[name])}", flush=True)
        print_passes(bases["kept"])
        times: dict[str, list[float]] = {name: [] for name in bases}
        for base in bases.values():
            base.search(QUESTIONS[0])  # opens and loads all
        for question in QUESTIONS * arguments.rounds:
            for name, base in bases.items():
                times[name].append(processor_seconds(partial(base.search, question, cutoff=NO_CUTOFF)))
        for name, seconds in times.items():
            ratio = median(seconds) / median(times["no reranking"])
            print(f"question, {name}: {1000 * median(seconds):.1f} ms, {ratio:.1f} times no reranking")
            bases[name].close()


def open_base(folder: Path, data: Path, *, keep: bool, use: str) -> KnowledgeBase:
    return KnowledgeBase.open(
        None,
        documents_dir=folder,
        data_dir=data / ("kept" if keep else "plain"),
        embedding={"use": "e5", "e5": {"keep_token_vectors": keep}},
        rerank={"use": use},
    )


def sizes(base: KnowledgeBase) -> str:
    with closing(sqlite3.connect(base.folder / LEDGER_FILE)) as connection:
        ((mean, most),) = connection.execute("SELECT AVG(LENGTH(states)), MAX(LENGTH(states)) FROM token_vectors")
    return f"{mean:,.0f} bytes of token vectors a chunk, {most:,} at most" if mean else "no token vectors"


def print_passes(base: KnowledgeBase) -> None:
    """Compare embedding with and without token vectors, text by text."""
    embedder = base.embedder
    assert isinstance(embedder, E5Embedder)
    texts = [hit.chunk.embedded_text for hit in base.search(QUESTIONS[0], 50, NO_CUTOFF).hits]
    ratios = []
    for text in texts:
        plain = processor_seconds(partial(list, embedder.embed_parts([text])))
        ratios.append(processor_seconds(partial(list, embedder.embed_parts_with_states([text]))) / plain)
    print(f"embedding with token vectors takes {median(ratios):.2f} times as long", flush=True)


def processor_seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


if __name__ == "__main__":
    main()
