"""`python -m pipelines.evaluate chunking FOLDER`: how documents are cut."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kb import command
from pipelines._arguments import add_half
from pipelines._tables import aligned

if TYPE_CHECKING:
    from kb.evaluation.chunking import ChunkingResult

SHARES = ("recall", "precision", "iou")
COLUMNS = (*SHARES, "hits")


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    chunking = commands.add_parser(
        "chunking",
        help="how much of the right passages, and how little else, the retrieved chunks hold",
        description="Chroma's chunking evaluation: cut the corpora of FOLDER by the configured chunker, search the "
        "chunks by vector alone, by words too and as configured, and compare the hits of each question with the "
        "passages that answer it. The configured collection is neither read nor changed.",
    )
    chunking.add_argument(
        "folder",
        type=Path,
        metavar="FOLDER",
        help="holds questions.csv (columns question, references, corpus_id) and each corpus as <corpus_id>.md",
    )
    add_half(chunking)
    chunking.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Measure and print."""
    from kb.evaluation.chunking import evaluate, load_data
    from kb.knowledge_base import KnowledgeBase

    with KnowledgeBase.open(options.config, quiet=False) as base:
        result = evaluate(base, load_data(options.folder), options.half, quiet=False)
    for reference in result.unfound:
        command.say(f"warning: not in its corpus, so it counts nowhere: {reference}")
    if options.json:
        command.write_json(result.as_dict())
    else:
        command.write("\n".join(lines(result)) + "\n")


def lines(result: ChunkingResult) -> list[str]:
    """The configuration, figures of each system, those of what is configured by corpus, and the time."""
    made, took = result.configuration, result.seconds
    options = ", ".join(f"{key} {value}" for key, value in made["options"].items())
    whole, half = result.figures(), "" if result.half == "all" else f" at {result.half} places"
    rows = [("", *COLUMNS), *((one.name, *_cells(one.figures())) for one in result.systems)]
    by_corpus: list[tuple[str, ...]] = [(result.systems[-1].name, "questions", "chunks", *COLUMNS)]
    for corpus in result.corpora():
        found = result.figures(corpus)
        by_corpus.append((corpus, f"{found['questions']:,}", f"{found['chunks']:,}", *_cells(found)))
    return [
        f"chunker {made['chunking']} ({options}), embedder {made['embedding']}, top {made['top_k']}, "
        f"cutoff {made['cutoff']}, relative threshold {made['relative_threshold']:g}",
        f"{whole['questions']:,} questions{half}, {whole['chunks']:,} chunks",
        "",
        *aligned(rows),
        "",
        *aligned(by_corpus),
        "",
        f"{took.total:.1f} s: chunking {took.chunking:.1f}, embedding {took.embedding:.1f}, ingest {took.ingest:.1f}, "
        f"search {took.search:.1f}; {result.embedded:,} texts embedded, the others were known",
    ]


def _cells(figures: dict[str, float]) -> list[str]:
    return [*(f"{figures[name]:.1%}" for name in SHARES), f"{figures['hits']:.1f}"]
