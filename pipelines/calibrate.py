"""Which cutoff suits your documents: `python -m pipelines.calibrate [QUESTIONS]`.

Exit status: 0 measured, 2 an error with a message, 70 what nobody foresaw.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kb import command

if TYPE_CHECKING:
    from kb.evaluation.calibration import Calibration, Point

_BAR = 20


def main(arguments: list[str] | None = None) -> int:
    """Run the command and give its exit status."""
    return command.run(lambda: _run(_parser().parse_args(arguments)))


def _parser() -> argparse.ArgumentParser:
    parser = command.Parser(
        prog="python -m pipelines.calibrate",
        description="Measure which similarities right and wrong passages have in the ingested documents, and "
        "recommend the cutoff, and with questions the relative threshold. Nothing is written without --write.",
        epilog="exit status: 0 measured, 2 an error with a message",
    )
    parser.add_argument(
        "questions",
        nargs="?",
        type=Path,
        metavar="QUESTIONS",
        help="questions with their evidence, in the form of tests/golden/questions.toml; without, sentences of the "
        "documents are asked",
    )
    parser.add_argument("--collection", type=command.name, metavar="NAME", help="the collection that is measured")
    parser.add_argument(
        "--config", type=command.not_blank, metavar="FILE", help="the configuration file (default: ./config.toml)"
    )
    parser.add_argument(
        "--write", action="store_true", help="set [retrieval] cutoff in the configuration file, and change nothing else"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object with everything measured")
    return parser


def _run(options: argparse.Namespace) -> int:
    from kb.evaluation._one_setting import write_setting
    from kb.evaluation.calibration import calibrate
    from kb.evaluation.golden import load_questions
    from kb.knowledge_base import KnowledgeBase

    questions = load_questions(options.questions, any_language=True) if options.questions else None
    overrides: dict[str, Any] = {"collection": options.collection} if options.collection else {}
    with KnowledgeBase.open(options.config, **overrides) as base:
        found = calibrate(base, questions)
    if options.json:
        command.write_json(found.as_dict())
    else:
        command.write("\n".join(lines(found)) + "\n")
    if options.write:
        file = Path(options.config or "config.toml")
        write_setting(file, "retrieval", "cutoff", found.cutoff)
        command.say(f"{file}: [retrieval] cutoff = {found.cutoff:g} is written")
    return 0


def lines(found: Calibration) -> list[str]:
    """The trade-off as a plot of at most 80 columns, then the lines for config.toml, then what to know of them."""
    from kb.display import safe

    marks = {found.cutoff_now: "now"} | {found.cutoff: "recommended"}
    if found.cutoff == found.cutoff_now:
        marks = {found.cutoff: "as now"}
    asked = f"{found.questions:,} {found.asked}"
    asked += f", {found.unanswerable:,} more without an answer" if found.unanswerable else ""
    told = [f"embedder {found.embedder}; {asked}", "", *_plot("cutoff", found.curve, marks)]
    if found.relative_threshold is not None:
        relative = {found.relative_now: "now"} | {found.relative_threshold: "recommended"}
        shown = [p for number, p in enumerate(found.relative_curve) if number % 2 == 0 or p.value in relative]
        told += ["", *_plot("relative", shown, relative)]
    told += ["", "[retrieval]", f"cutoff = {found.cutoff:g}"]
    if found.relative_threshold is not None:
        told.append(f"relative_threshold = {found.relative_threshold:g}")
    low, high = found.between
    told += [
        "",
        f"With other questions of the kind it would lie between {low:.2f} and {high:.2f} (95 %).",
        f"{found.open_cutoff:g} would keep 98 % of the right passages, for a chat model that judges by itself.",
    ]
    return [*told, *(f"Note: {safe(note)}" for note in found.notes)]


def _plot(name: str, points: Sequence[Point], marks: Mapping[float, str]) -> Iterator[str]:
    yield f"{name:>8}  {'right passages kept':<{_BAR + 7}}  wrong ones let through"
    for point in points:
        mark = marks.get(point.value, "")
        yield f"{point.value:>8.2f}  {_share(point.kept)}  {_share(point.let_through)} {mark}".rstrip()


def _share(share: float) -> str:
    return f"{share:>6.1%} {'#' * round(share * _BAR):<{_BAR}}"


if __name__ == "__main__":
    command.leave(main())
