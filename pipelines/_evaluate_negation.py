"""`python -m pipelines.evaluate negation FILE`: whether documents that differ in a negation are told apart."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kb import command
from pipelines._tables import aligned

if TYPE_CHECKING:
    from kb.evaluation.negation import NegationResult


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    negation = commands.add_parser(
        "negation",
        help="whether two documents that differ in a negation are told apart, by each stage and each reranker",
        description="Ingest the documents of FILE into a collection of its own and ask both questions of each pair: "
        "a system is right when each ranks its own document first (chance: 25 %%). The configured collection is "
        "neither read nor changed.",
    )
    negation.add_argument(
        "file", type=Path, metavar="FILE", help="a JSON object a line: q1 belongs to doc1, q2 to doc2, as in NevIR"
    )
    negation.add_argument(
        "--rerank",
        action="append",
        default=[],
        metavar="NAME",
        help="measure this reranker as well as the configured one; may be given again",
    )
    negation.add_argument("--limit", type=_number, metavar="N", help="only the first N pairs")
    negation.set_defaults(run=run)


def _number(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r}; allowed: a number from 1")
    return int(text)


def run(options: argparse.Namespace) -> None:
    """Measure and print."""
    from kb.evaluation.negation import evaluate, load_data
    from kb.knowledge_base import KnowledgeBase

    data = load_data(options.file, options.limit)
    with KnowledgeBase.open(options.config, quiet=False) as base:
        result = evaluate(base, data, options.rerank)
    if options.json:
        command.write_json(result.as_dict())
        return
    command.write("\n".join(lines(result)) + "\n")


def lines(result: NegationResult) -> list[str]:
    """A line for each system, then what rerankers said."""
    from kb.display import safe

    rows = [("", "pairs right", "between", "seconds")]
    for one in result.systems:
        low, high = one.between
        rows.append((one.name, f"{one.accuracy:.1%}", f"{low:.1%} and {high:.1%}", f"{one.seconds:.1f}"))
    pairs = len(result.systems[0].right)
    head = f"{result.dataset}: {pairs:,} pairs; embedder {result.configuration['embedding']}; by chance 25 %"
    notes = [f"{one.name}: {note}" for one in result.systems for note in one.notes]
    return [head, "", *aligned(rows), *([""] if notes else []), *map(safe, notes)]
