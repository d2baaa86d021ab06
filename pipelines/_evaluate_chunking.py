"""`python -m pipelines.evaluate chunking FOLDER`: how documents are cut."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kb import command
from pipelines._tables import aligned

if TYPE_CHECKING:
    from kb.evaluation.chunking import ChunkingResult

COLUMNS = ("questions", "chunks", "recall", "precision", "iou")


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    chunking = commands.add_parser(
        "chunking",
        help="how much of the right passages, and how little else, the retrieved chunks hold",
        description="Chroma's chunking evaluation: cut the corpora of FOLDER by the configured chunker, search the "
        "chunks by vector alone, and compare the five nearest of each question with the passages that answer it. "
        "The configured collection is neither read nor changed.",
    )
    chunking.add_argument(
        "folder",
        type=Path,
        metavar="FOLDER",
        help="holds questions.csv (columns question, references, corpus_id) and each corpus as <corpus_id>.md",
    )
    chunking.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Measure and print."""
    from kb.evaluation.chunking import evaluate, load_data
    from kb.knowledge_base import KnowledgeBase

    with KnowledgeBase.open(options.config, quiet=False) as base:
        result = evaluate(base, load_data(options.folder), quiet=False)
    for reference in result.unfound:
        command.say(f"warning: not in its corpus, so it counts nowhere: {reference}")
    if options.json:
        command.write_json(result.as_dict())
    else:
        command.write("\n".join(lines(result)) + "\n")


def lines(result: ChunkingResult) -> list[str]:
    """The configuration, a line of figures for all questions and for those of each corpus, and the time."""
    made = result.configuration
    options = ", ".join(f"{key} {value}" for key, value in made["options"].items())
    rows = [("", *COLUMNS), ("all", *_cells(result.figures()))]
    rows += [(corpus, *_cells(result.figures(corpus))) for corpus in result.corpora()]
    took = result.seconds
    return [
        f"chunker {made['chunking']} ({options}), embedder {made['embedding']}, top {made['top_k']}",
        "",
        *aligned(rows),
        "",
        f"{took.total:.1f} s: chunking {took.chunking:.1f}, embedding {took.embedding:.1f}, search {took.search:.1f}; "
        f"{result.embedded:,} texts embedded, the others were known",
    ]


def _cells(figures: dict[str, float | int]) -> list[str]:
    return [f"{figures[name]:.1%}" if isinstance(figures[name], float) else f"{figures[name]:,}" for name in COLUMNS]
