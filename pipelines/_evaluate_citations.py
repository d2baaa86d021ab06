"""`python -m pipelines.evaluate citations FILE…`: whether what is cited first is what people marked as the proof."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kb import command
from pipelines._arguments import add_half, add_out
from pipelines._tables import aligned, write_result

if TYPE_CHECKING:
    from kb.evaluation.citations import CitationsResult

COLUMNS = {
    "evidence": "first cited is evidence",
    "touches": "or holds a marked clause",
    "answered": "answered",
    "passage": "first cites its passage",
    "f1": "F1 of the answer",
}


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    citations = commands.add_parser(
        "citations",
        help="whether the sentence that is cited first is the one that people marked as the proof",
        description="Ask the questions of each FILE, first of the question's own passage alone, then of all passages "
        "as a collection of its own, and compare the sentence that is cited first with what people marked; beside it "
        "the passage's best sentence by words and by vectors. The configured collection is neither read nor changed.",
    )
    citations.add_argument(
        "files",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="an object a line: id, title, context, question, answers, evidences, as in ExpMRC",
    )
    add_half(citations)
    add_out(citations)
    citations.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Measure and print."""
    from kb.evaluation.citations import evaluate, load_data
    from kb.knowledge_base import KnowledgeBase

    data = [load_data(file) for file in options.files]
    with KnowledgeBase.open(options.config, quiet=False) as base:
        results = [evaluate(base, one, options.half) for one in data]
    every = {"datasets": [result.as_dict() for result in results]}
    if options.out:
        write_result(options.out, every)
    if options.json:
        command.write_json(every)
        return
    command.write("\n\n".join("\n".join(lines(result)) for result in results) + "\n")


def lines(result: CitationsResult) -> list[str]:
    """A line for each way to choose, with where the first figure lies."""
    half = "" if result.half == "all" else f" at {result.half} places"
    rows = [("", *COLUMNS.values(), "seconds")]
    for one in result.systems:
        shares = {name: (value, ends) for name, value, ends in one.shares()}
        cells = [f"{shares[name][0]:.1%}" if name in shares else "–" for name in COLUMNS]
        low, high = shares["evidence"][1]
        cells[0] += f" ({low:.1%}–{high:.1%})"
        rows.append((one.name, *cells, f"{one.seconds:.1f}"))
    return [
        f"{result.dataset}: {len(result.ids):,} questions{half}; embedder {result.configuration['embedding']}, "
        f"generator {result.configuration['generation']['use']}; bm25, dense and the generator choose from the "
        "question's own passage",
        "",
        *aligned(rows),
    ]
