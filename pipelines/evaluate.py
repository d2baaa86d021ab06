"""Measure with questions whose answers are known: `python -m pipelines.evaluate COMMAND`.

Exit status: 0 measured, 2 an error with a message, 70 what nobody foresaw.
"""

from __future__ import annotations

import argparse

from kb import command
from pipelines import (
    _evaluate_abstain,
    _evaluate_chunking,
    _evaluate_citations,
    _evaluate_golden,
    _evaluate_negation,
    _evaluate_retrieval,
    _evaluate_verdicts,
)

EVALUATIONS = (
    _evaluate_golden,
    _evaluate_retrieval,
    _evaluate_chunking,
    _evaluate_abstain,
    _evaluate_negation,
    _evaluate_verdicts,
    _evaluate_citations,
)
"""Each adds one subcommand, whose `run` prints what was measured."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command and give its exit status."""
    return command.run(lambda: _run(_parser().parse_args(arguments)))


def _run(options: argparse.Namespace) -> int:
    options.run(options)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = command.Parser(
        prog="python -m pipelines.evaluate",
        description="Measure with questions whose answers are known.",
        epilog="exit status: 0 measured, 2 an error with a message",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for evaluation in EVALUATIONS:
        evaluation.add_to(commands)
    for one in commands.choices.values():
        one.add_argument("--json", action="store_true", help="print one JSON object with everything measured")
        one.add_argument(
            "--config", type=command.not_blank, metavar="FILE", help="the configuration file (default: ./config.toml)"
        )
    return parser


if __name__ == "__main__":
    command.leave(main())
