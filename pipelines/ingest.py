"""Bring a collection in step with a folder: `python -m pipelines.ingest [FOLDER]`.

Exit status: 0 done, 1 done but a file failed, 2 could not run, 70 what nobody foresaw.
"""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING, Any

from kb import command
from pipelines._ingest_report import in_words, say_problems
from pipelines._ingest_watch import watch

if TYPE_CHECKING:
    from kb.ingest.report import IngestReport

DONE, FILE_FAILED = 0, 1


def main(arguments: list[str] | None = None) -> int:
    """Run the command and give its exit status."""
    return command.run(
        lambda: _run(_parser().parse_args(arguments)),
        interrupted="interrupted; what was done is kept, the same command goes on from here",
    )


def _parser() -> argparse.ArgumentParser:
    parser = command.Parser(
        prog="python -m pipelines.ingest",
        description="Read a folder of documents into a collection; a second run does only what has changed.",
        epilog="exit status: 0 done, 1 done but a file failed, 2 an error with a message",
    )
    parser.add_argument(
        "folder",
        nargs="?",
        type=command.not_blank,
        metavar="FOLDER",
        help="the folder (default: documents_dir of the settings, knowledge_base)",
    )
    parser.add_argument("--collection", type=command.name, metavar="NAME", help="the collection to write to")
    parser.add_argument(
        "--config", type=command.not_blank, metavar="FILE", help="the configuration file (default: ./config.toml)"
    )
    parser.add_argument(
        "--rebuild", action="store_true", help="build the collection anew beside the old one, then swap"
    )
    parser.add_argument(
        "--allow-removals", action="store_true", help="accept another folder, or the loss of many files"
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        type=command.name,
        metavar="GLOB",
        help="look only at files that match, in gitignore form from FOLDER on; may be given several times",
    )
    parser.add_argument("--dry-run", action="store_true", help="print the same report and the cost, and do nothing")
    parser.add_argument(
        "--max-cost", type=_dollars, metavar="DOLLARS", help="refuse to do what would cost more, see [ingest.prices]"
    )
    parser.add_argument("--watch", action="store_true", help="ingest again after each change, until Ctrl-C")
    parser.add_argument("--json", action="store_true", help="print the report as one JSON object")
    parser.add_argument("--log-json", type=command.not_blank, metavar="FILE", help="append each step as a line of JSON")
    parser.add_argument("--quiet", action="store_true", help="print only problems, and no progress")
    return parser


def _run(options: argparse.Namespace) -> int:
    from kb.errors import ConfigError
    from kb.knowledge_base import KnowledgeBase
    from kb.logs import logged

    if options.watch and (options.rebuild or options.allow_removals or options.dry_run):
        raise ConfigError("--watch goes with none of --rebuild, --allow-removals, --dry-run: run once with it before")
    overrides: dict[str, Any] = {"collection": options.collection} if options.collection else {}
    with (
        logged(options.log_json, quiet=options.quiet),
        KnowledgeBase.open(options.config, quiet=options.quiet, **overrides) as base,
    ):

        def ingest() -> IngestReport:
            return base.ingest(
                options.folder,
                rebuild=options.rebuild,
                allow_removals=options.allow_removals,
                only=options.only,
                dry_run=options.dry_run,
                max_cost=options.max_cost,
            )

        if options.watch:
            watch(base, options, ingest)
            return DONE
        report = ingest()
    if options.json:
        command.write_json(report.as_dict())
    else:
        say_problems(report.problems, quiet=options.quiet)
        if not options.quiet or options.dry_run:
            command.write(in_words(report))
    return FILE_FAILED if report.failed else DONE


def _dollars(argument: str) -> float:
    try:
        dollars = float(argument.removeprefix("$"))
    except ValueError:
        dollars = math.nan
    if not 0 <= dollars < math.inf:
        raise argparse.ArgumentTypeError("should be a sum in dollars, such as 0.50")
    return dollars


if __name__ == "__main__":
    command.leave(main())
