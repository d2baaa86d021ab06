"""Bring a collection in step with a folder: `python -m pipelines.ingest [FOLDER]`.

Exit status: 0 done, 1 done but a file failed, 2 could not run, 70 what nobody foresaw.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kb import command

if TYPE_CHECKING:
    from kb.ingest.report import IngestReport, Problem

DONE, FILE_FAILED = 0, 1

# Skipped files are listed up to this number; the JSON report has all of them.
_LISTED = 20
# Warnings of the same words are listed for so many files; of more, the first stands for all.
_ALIKE = 3


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
    parser.add_argument("--json", action="store_true", help="print the report as one JSON object")
    parser.add_argument("--log-json", type=command.not_blank, metavar="FILE", help="append each step as a line of JSON")
    parser.add_argument("--quiet", action="store_true", help="print only problems, and no progress")
    return parser


def _run(options: argparse.Namespace) -> int:
    from kb.knowledge_base import KnowledgeBase
    from kb.logs import logged

    overrides: dict[str, Any] = {"collection": options.collection} if options.collection else {}
    with (
        logged(options.log_json, quiet=options.quiet),
        KnowledgeBase.open(options.config, quiet=options.quiet, **overrides) as base,
    ):
        report = base.ingest(options.folder, rebuild=options.rebuild, allow_removals=options.allow_removals)
    if options.json:
        command.write_json(report.as_dict())
    else:
        _say_problems(report, quiet=options.quiet)
        if not options.quiet:
            command.write(_in_words(report))
    return FILE_FAILED if report.failed else DONE


def _say_problems(report: IngestReport, *, quiet: bool) -> None:
    """One line for each, those that lost something first."""
    skipped = [problem for problem in report.problems if problem.status == "skipped"]
    others = [problem for problem in report.problems if problem.status != "skipped"]
    for line in _lines([*others, *(() if quiet else skipped[:_LISTED])]):
        command.say(line)
    if not quiet and len(skipped) > _LISTED:
        command.say(f"skipped: {len(skipped) - _LISTED} more, all listed by --json")


def _lines(problems: Sequence[Problem]) -> Iterator[str]:
    """One line for each problem, but one for a warning that many files share: all are in the JSON report."""
    files = Counter(problem.reason for problem in problems if problem.status == "warning")
    for problem in problems:
        number = files[problem.reason] if problem.status == "warning" else 1
        if number > _ALIKE:
            files[problem.reason] = 0
            yield f"warning: {number:,} files, {problem.path} the first: {problem.reason}"
        elif number:
            yield f"{problem.status}: {problem.path}: {problem.reason}"


def _in_words(report: IngestReport) -> str:
    removed = f"; {report.removed} removed" if report.removed else ""
    return (
        f"{_count(report.files, 'file')}: {report.indexed} indexed, {report.unchanged} unchanged, "
        f"{report.skipped} skipped, {report.failed} failed{removed}\n"
        f"{_count(report.chunks_total, 'chunk')} ({report.chunks_added} added, {report.chunks_removed} removed); "
        f"{_count(report.embedded, 'text')} embedded, {_count(report.tokens, 'token')}, {report.seconds:.1f} s\n"
    )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


if __name__ == "__main__":
    command.leave(main())
