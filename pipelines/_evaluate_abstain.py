"""`python -m pipelines.evaluate abstain DIR`: whether what the documents don't answer is declined."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kb import command
from pipelines._arguments import add_half, add_out
from pipelines._tables import aligned, write_result

if TYPE_CHECKING:
    from kb.evaluation.abstain import AbstainResult

SHARES = {
    "unanswerable_declined": "unanswerable, declined",
    "answerable_declined": "answerable, declined",
    "answerable_right": "answerable, an answer stands in what is quoted",
}


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    abstain = commands.add_parser(
        "abstain",
        help="whether questions that the documents don't answer are declined, and the others are not",
        description="Ingest the documents of DIR into a collection of its own, ask its questions of the whole "
        "pipeline, and say what is declined, and how well each number of the pipeline parts the two kinds of "
        "questions. The configured collection is neither read nor changed.",
    )
    abstain.add_argument(
        "folder",
        type=Path,
        metavar="DIR",
        help="holds corpus.jsonl, and queries.jsonl with _id, text, answerable and answers",
    )
    add_half(abstain)
    add_out(abstain)
    abstain.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Measure and print."""
    from kb.evaluation.abstain import evaluate, load_data
    from kb.knowledge_base import KnowledgeBase

    data = load_data(options.folder)
    with KnowledgeBase.open(options.config, quiet=False) as base:
        result = evaluate(base, data, options.half)
    if options.out:
        write_result(options.out, result.as_dict())
    if options.json:
        command.write_json(result.as_dict())
        return
    command.write("\n".join(lines(result)) + "\n")


def lines(result: AbstainResult) -> list[str]:
    """What was decided, then what each signal would be worth."""
    half = "" if result.half == "all" else f" at {result.half} places"
    without = sum(not outcome.question.answerable for outcome in result.outcomes)
    decided = [
        (SHARES[name], f"{share:.1%}", f"{low:.1%} and {high:.1%}") for name, share, (low, high) in result.shares()
    ]
    areas = [(name, f"{value:.3f}", f"{low:.3f} and {high:.3f}") for name, value, (low, high) in result.areas()]
    return [
        f"{result.dataset}: {len(result.outcomes):,} questions{half}, {without:,} without an answer; "
        f"embedder {result.configuration['embedding']}, generator {result.configuration['generation']['use']}",
        "",
        *aligned([("", "share", "between"), *decided]),
        "",
        "how well each signal tells the answerable ones (area under the ROC curve; .5 is chance):",
        "",
        *aligned([("", "area", "between"), *areas]),
        "",
        f"{result.seconds:.1f} s for all questions",
    ]
