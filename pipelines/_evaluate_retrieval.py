"""`python -m pipelines.evaluate retrieval DATASET…`: whether the right document is found."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kb import command
from pipelines._arguments import add_half, add_out
from pipelines._tables import aligned, write_result

if TYPE_CHECKING:
    from kb.evaluation.compare import Change
    from kb.evaluation.retrieval import RetrievalResult


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    retrieval = commands.add_parser(
        "retrieval",
        help="whether the right document is found, by each stage and by all",
        description="Ingest the documents of each DATASET into a collection of its own, ask its questions, and "
        "compare what is found with what is right. The configured collection is neither read nor changed.",
    )
    retrieval.add_argument(
        "datasets",
        type=Path,
        nargs="+",
        metavar="DATASET",
        help="a folder with corpus.jsonl, queries.jsonl and qrels.tsv, in the form of BEIR",
    )
    add_half(retrieval)
    add_out(retrieval)
    retrieval.add_argument("--compare", type=Path, metavar="FILE", help="say what differs from an earlier result")
    retrieval.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Measure and print."""
    from kb.evaluation.compare import changes, read
    from kb.evaluation.retrieval import evaluate, load_data
    from kb.knowledge_base import KnowledgeBase

    before = read(options.compare) if options.compare else []
    datasets = [load_data(folder) for folder in options.datasets]
    with KnowledgeBase.open(options.config, quiet=False) as base:
        results = [evaluate(base, data, options.half) for data in datasets]
    found = [result.as_dict() for result in results]
    if options.out:
        write_result(options.out, found)
    compared = list(changes(before, found))
    if options.json:
        command.write_json({"results": found, **({"changes": [_as_dict(one) for one in compared]} if before else {})})
        return
    lines = [line for result in results for line in (*table(result), "")]
    if before:
        lines += [*change_lines(compared), ""]
    command.write("\n".join(lines[:-1]) + "\n")


def table(result: RetrievalResult) -> list[str]:
    """A line for each system, under a line of headings."""
    from kb.evaluation.retrieval import MEASURES

    asked = len(result.systems[-1].each)
    rows = [("", *MEASURES, "nDCG@10 between", "seconds")]
    for one in result.systems:
        low, high = one.intervals["ndcg@10"]
        figures = (f"{value:.4f}" for value in one.means.values())
        rows.append((one.name, *figures, f"{low:.3f} and {high:.3f}", f"{one.seconds:.1f}"))
    half = "" if result.half == "all" else f" at {result.half} places"
    return [
        f"{result.dataset}: {asked:,} questions{half}, {result.documents:,} documents, {result.chunks:,} chunks, of "
        f"which {result.embedded:,} were embedded; embedder {result.configuration['embedding']}",
        "",
        *aligned(rows),
    ]


def change_lines(compared: list[Change]) -> list[str]:
    """A line for each system that was measured before."""
    if not compared:
        return ["nothing of this was measured before"]
    rows = [("nDCG@10", "before", "now", "difference between", "")]
    rows += [
        (f"{c.dataset} {c.system}", f"{c.before:.4f}", f"{c.now:.4f}", f"{c.low:+.4f} and {c.high:+.4f}", c.verdict)
        for c in compared
    ]
    return aligned(rows)


def _as_dict(one: Change) -> dict[str, Any]:
    return {**asdict(one), "verdict": one.verdict}
