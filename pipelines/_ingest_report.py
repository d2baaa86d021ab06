"""What an ingest says: problems on stderr, and what was done in two lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kb import command

if TYPE_CHECKING:
    from kb.ingest.report import IngestReport, Problem

# Skipped files are listed up to this number; the JSON report has all of them.
_LISTED = 20
# Warnings of the same words are listed for so many files; of more, the first stands for all.
_ALIKE = 3


def say_problems(problems: Sequence[Problem], *, quiet: bool) -> None:
    """One line for each, those that lost something first."""
    skipped = [problem for problem in problems if problem.status == "skipped"]
    others = [problem for problem in problems if problem.status != "skipped"]
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


def in_words(report: IngestReport) -> str:
    """What was done; of a dry run what would be, and what it would take."""
    text = f"{_files(report)}\n{_chunks(report)}\n"
    return f"dry run, nothing was changed; a run would give:\n{text}{_cost(report)}\n" if report.dry_run else text


def in_a_line(report: IngestReport) -> str:
    """The same for a run among many."""
    return f"{_files(report)}; {_chunks(report)}\n"


def _files(report: IngestReport) -> str:
    removed = f"; {report.removed} removed" if report.removed else ""
    return (
        f"{_count(report.files, 'file')}: {report.indexed} indexed, {report.unchanged} unchanged, "
        f"{report.skipped} skipped, {report.failed} failed{removed}"
    )


def _chunks(report: IngestReport) -> str:
    return (
        f"{_count(report.chunks_total, 'chunk')} ({report.chunks_added} added, {report.chunks_removed} removed); "
        f"{_count(report.embedded, 'text')} embedded, {_count(report.tokens, 'token')}, {report.seconds:.1f} s"
    )


def _cost(report: IngestReport) -> str:
    cost = f"${report.dollars:.4f}" if report.dollars else "nothing"
    if report.dollars is None:
        cost = "unknown, as the model has no price below [ingest.prices]"
    time = "unknown, as no rate is set"
    if report.expected_seconds is not None:
        time = f"{report.expected_seconds:,.0f} s at least, by the rate that is set"
    return f"cost: {cost}; time of the embedding: {time}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
