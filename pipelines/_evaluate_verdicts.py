"""`python -m pipelines.evaluate verdicts`: whether claims are told apart that their source supports or doesn't."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kb import command
from pipelines._arguments import add_half, add_out
from pipelines._tables import aligned, write_result

if TYPE_CHECKING:
    from kb.components import Embedder
    from kb.evaluation.verdicts import VerdictResult
    from kb.verdicts import Nearness

FOLDER = Path("../shared/data")
KINDS = {
    "right": "right",
    "about": "supported or refuted",
    "wrong": "wrong",
    "number": "a number changed",
    "name": "a name changed",
    "negation": "a negation changed",
}


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    verdicts = commands.add_parser(
        "verdicts",
        help="whether claims that their source supports are told from those that it doesn't, without a model",
        description="Judge claims whose verdict is known: sentences that prove an answer, the same reworded, with "
        "another text, and with a number, a name or a negation changed by rule. No collection is read or changed.",
    )
    verdicts.add_argument(
        "folder",
        nargs="?",
        type=Path,
        default=FOLDER,
        metavar="DIR",
        help="holds citations/expmrc-en.jsonl and -zh.jsonl, retrieval/scifact and retrieval/jaquad, or some of them "
        f"(default: {FOLDER})",
    )
    verdicts.add_argument(
        "--embedder", action="store_true", help="ask the configured embedder where words don't decide, as answers do"
    )
    add_half(verdicts)
    add_out(verdicts)
    verdicts.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Measure and print."""
    from kb.evaluation.verdicts import evaluate, load_pairs
    from kb.knowledge_base import KnowledgeBase

    pairs = load_pairs(options.folder, options.half)
    if options.embedder:
        with KnowledgeBase.open(options.config, quiet=False) as base:
            result = evaluate(pairs, options.half, _nearness(base.embedder), base.embedder.name)
    else:
        result = evaluate(pairs, options.half)
    if options.out:
        write_result(options.out, result.as_dict())
    if options.json:
        command.write_json(result.as_dict())
        return
    command.write("\n".join(lines(result)) + "\n")


def _nearness(embedder: Embedder) -> Nearness:
    def nearness(claim: str, sentences: Sequence[str]) -> Sequence[float]:
        own, *others = embedder.embed_documents([claim, *sentences])
        return [float(one @ own) for one in others]

    return nearness


def lines(result: VerdictResult) -> list[str]:
    """The areas, then how many claims of each kind are flagged."""
    half = "" if result.half == "all" else f" of the questions at {result.half} places"
    areas = [
        (one.name, f"{one.right:,}", f"{one.others:,}", f"{one.area:.3f}", f"{one.between[0]:.3f}–{one.between[1]:.3f}")
        for one in result.areas()
    ]
    rows = [
        (
            f"{one.language}  {f'  {one.variety}' if one.variety else KINDS[one.kind]}",
            f"{one.claims:,}",
            f"{one.flagged:.1%}",
            f"{one.between[0]:.1%}–{one.between[1]:.1%}",
        )
        for one in result.shares()
    ]
    each = 1000 * result.seconds / len(result.judged)
    return [
        f"{len(result.judged):,} claims{half}; similarities asked of: {result.nearness}",
        "",
        "how well the score tells right claims from all others (area under the ROC curve):",
        "",
        *aligned([("", "right", "others", "area", "95 %"), *areas]),
        "",
        "not called supported:",
        "",
        *aligned([("", "claims", "share", "95 %"), *rows]),
        "",
        f"{each:.2f} ms a claim",
    ]
