"""`python -m pipelines.evaluate golden`: how good the answers are."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kb import command
from pipelines._tables import aligned

if TYPE_CHECKING:
    from kb.evaluation.golden import Figures, GoldenResult, Outcome

QUESTIONS = Path(__file__).parents[1] / "tests" / "golden" / "questions.toml"

COLUMNS = {
    "found": "in top 5",
    "first": "first",
    "right": "right",
    "answerable_declined": "declined",
    "unanswerable_declined": "declined, no answer exists",
}


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    golden = commands.add_parser(
        "golden",
        help="questions whose answers in the ingested documents are known",
        description="Ask the golden questions of the ingested documents: are the sources found, the answers right, "
        "and questions without an answer declined?",
    )
    golden.add_argument("--questions", type=Path, default=QUESTIONS, metavar="FILE", help="the questions (TOML)")
    golden.add_argument("--failures", action="store_true", help="list the questions that went wrong")
    golden.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Ask and print."""
    from kb.evaluation.golden import evaluate, load_questions
    from kb.knowledge_base import KnowledgeBase

    questions = load_questions(options.questions)
    with KnowledgeBase.open(options.config) as base:
        changed = base.changed_since_ingest()
        if changed:
            command.say(f"warning: {changed}; to bring it in: python -m pipelines.ingest")
        result = evaluate(base, questions)
    if options.json:
        command.write_json(result.as_dict())
        return
    lines = table(result)
    if options.failures:
        lines += failure_lines(result.failures())
    command.write("\n".join(lines) + "\n")


def table(result: GoldenResult) -> list[str]:
    """One line for each group of questions, under a line of headings."""
    rows = [("", "questions", *COLUMNS.values())]
    rows += [(name, *_cells(figures)) for name, figures in result.groups()]
    return [f"embedder {result.embedder}, generator {result.generator}", "", *aligned(rows)]


def _cells(figures: Figures) -> list[str]:
    shares = figures.shares
    percent = ("–" if (share := shares[name]) is None else f"{share:.1%}" for name in COLUMNS)
    return [str(figures.answerable + figures.unanswerable), *percent]


def failure_lines(outcomes: Iterable[Outcome]) -> list[str]:
    """What went wrong with each question, what was wanted and what came."""
    from kb.display import safe

    lines = []
    for outcome in outcomes:
        asked = outcome.question
        found = ("found" if outcome.found else "not found") if asked.answerable else "there is no answer"
        given = ("right" if outcome.right else "answered otherwise") if outcome.answered else "declined"
        lines += ["", f"{asked.id} ({asked.kind}): {found}, {given}", f"  asked   {asked.question}"]
        lines += [f"  wanted  {piece.source}: {piece.phrase}" for piece in asked.evidence]
        lines += [f"  hits    {', '.join(outcome.hits)}", f"  answer  {' '.join(outcome.answer.split())}"]
    return [safe(line) for line in lines]
