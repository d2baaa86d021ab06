"""What it takes to keep token vectors: `python -m benchmarks.kept_token_vectors [FOLDER]`.

A folder of documents (the sample documents by default) is ingested with `[embedding.e5] keep_token_vectors`. Printed
are their bytes, and how many times as long embedding takes. What a question takes: `python -m
benchmarks.search_speed`.
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
QUESTION = "How do I request a refund?"
NO_CUTOFF = -1.0


def main() -> None:
    """Ingest and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=SAMPLES)
    folder = parser.parse_args().folder
    keep = {"use": "e5", "e5": {"keep_token_vectors": True}}
    with (
        tempfile.TemporaryDirectory() as data,
        KnowledgeBase.open(documents_dir=folder, data_dir=Path(data), embedding=keep) as base,
    ):
        print(f"{base.ingest().chunks_total} chunks, {sizes(base)}", flush=True)
        print_passes(base)


def sizes(base: KnowledgeBase) -> str:
    with closing(sqlite3.connect(base.folder / LEDGER_FILE)) as connection:
        ((mean, most),) = connection.execute("SELECT AVG(LENGTH(states)), MAX(LENGTH(states)) FROM token_vectors")
    return f"{mean:,.0f} bytes of token vectors a chunk, {most:,} at most" if mean else "no token vectors"


def print_passes(base: KnowledgeBase) -> None:
    """Compare embedding with and without token vectors, text by text."""
    embedder = base.embedder
    assert isinstance(embedder, E5Embedder)
    texts = [hit.chunk.embedded_text for hit in base.search(QUESTION, 50, NO_CUTOFF).hits]
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
