"""Measure how good the answers are: `python -m pipelines.evaluate golden`.

Exit status: 0 measured, 2 an error with a message.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kb.evaluation.golden import Figures, GoldenResult, Outcome

MEASURED, ERROR = 0, 2

QUESTIONS = Path(__file__).parents[1] / "tests" / "golden" / "questions.toml"

COLUMNS = {
    "found": "in top 5",
    "first": "first",
    "right": "right",
    "answerable_declined": "declined",
    "unanswerable_declined": "declined, no answer exists",
}


def main(arguments: list[str] | None = None) -> int:
    """Run the command and give its exit status."""
    options = _parser().parse_args(arguments)
    from kb.errors import KbError

    try:
        return _golden(options)
    except KbError as error:
        print(f"error: {error}", file=sys.stderr)
        return ERROR


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m pipelines.evaluate", description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    golden = commands.add_parser(
        "golden",
        help="questions whose answers in the ingested documents are known",
        description="Ask the golden questions of the ingested documents: are the sources found, the answers right, "
        "and questions without an answer declined?",
    )
    golden.add_argument("--questions", type=Path, default=QUESTIONS, metavar="FILE", help="the questions (TOML)")
    golden.add_argument("--json", action="store_true", help="print one JSON object with every outcome")
    golden.add_argument("--failures", action="store_true", help="list the questions that went wrong")
    golden.add_argument("--config", metavar="FILE", help="the configuration file (default: ./config.toml)")
    return parser


def _golden(options: argparse.Namespace) -> int:
    from kb.evaluation.golden import evaluate, load_questions
    from kb.knowledge_base import KnowledgeBase

    questions = load_questions(options.questions)
    with KnowledgeBase.open(options.config) as base:
        changed = base.changed_since_ingest()
        if changed:
            print(f"warning: {changed}; to bring it in: python -m pipelines.ingest", file=sys.stderr)
        result = evaluate(base, questions)
    if options.json:
        print(json.dumps(result.as_dict(), ensure_ascii=False))
        return MEASURED
    print("\n".join(table(result)))
    if options.failures:
        print("\n".join(failure_lines(result.failures())))
    return MEASURED


def table(result: GoldenResult) -> list[str]:
    """One line for each group of questions, under a line of headings."""
    rows = [("", "questions", *COLUMNS.values())]
    rows += [(name, *_cells(figures)) for name, figures in result.groups()]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    ]
    return [f"embedder {result.embedder}, generator {result.generator}", "", *lines]


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


if __name__ == "__main__":
    sys.exit(main())
