"""Bring a collection in step with a folder: `python -m pipelines.ingest [FOLDER]`.

Exit status: 0 done, 1 done but a file failed, 2 could not run, 70 what nobody foresaw.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kb.ingest.report import IngestReport

DONE, FILE_FAILED, ERROR, UNFORESEEN, INTERRUPTED = 0, 1, 2, 70, 130

# Skipped files are listed up to this number; the JSON report has all of them.
_LISTED = 20


def main(arguments: list[str] | None = None) -> int:
    """Run the command and give its exit status."""
    options = _parser().parse_args(arguments)
    from kb.errors import KbError

    try:
        return _run(options)
    except KbError as error:
        print(f"error: {error}", file=sys.stderr)
        return ERROR
    except KeyboardInterrupt:
        print("interrupted; what was done is kept, the same command goes on from here", file=sys.stderr)
        return INTERRUPTED
    except Exception:  # noqa: BLE001  the last resort: show it whole, with a status of its own
        import traceback

        traceback.print_exc()
        return UNFORESEEN


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pipelines.ingest",
        description="Read a folder of documents into a collection; a second run does only what has changed.",
    )
    parser.add_argument("folder", nargs="?", help="the folder (default: documents_dir of the settings, knowledge_base)")
    parser.add_argument("--collection", metavar="NAME", help="the collection to write to")
    parser.add_argument("--config", metavar="FILE", help="the configuration file (default: ./config.toml)")
    parser.add_argument(
        "--rebuild", action="store_true", help="build the collection anew beside the old one, then swap"
    )
    parser.add_argument(
        "--allow-removals", action="store_true", help="accept another folder, or the loss of many files"
    )
    parser.add_argument("--json", action="store_true", help="print the report as one JSON object")
    parser.add_argument("--quiet", action="store_true", help="print only problems")
    return parser


def _run(options: argparse.Namespace) -> int:
    from kb.knowledge_base import KnowledgeBase

    overrides: dict[str, Any] = {"collection": options.collection} if options.collection else {}
    quiet = options.quiet or options.json
    with KnowledgeBase.open(options.config, quiet=quiet, **overrides) as base:
        report = base.ingest(options.folder, rebuild=options.rebuild, allow_removals=options.allow_removals)
    if options.json:
        print(json.dumps(report.as_dict(), ensure_ascii=False))
    else:
        _print(report, quiet=options.quiet)
    return FILE_FAILED if report.failed else DONE


def _print(report: IngestReport, *, quiet: bool) -> None:
    from kb.display import safe

    skipped = [problem for problem in report.problems if problem.status == "skipped"]
    others = [problem for problem in report.problems if problem.status != "skipped"]
    for problem in (*others, *(() if quiet else skipped[:_LISTED])):
        print(safe(f"{problem.status}: {problem.path}: {problem.reason}"), file=sys.stderr)
    if quiet:
        return
    if len(skipped) > _LISTED:
        print(f"skipped: {len(skipped) - _LISTED} more, all listed by --json", file=sys.stderr)
    print(
        f"{report.files} files: {report.indexed} indexed, {report.unchanged} unchanged, {report.skipped} skipped, "
        f"{report.failed} failed; {report.removed} removed"
    )
    print(
        f"{report.chunks_total} chunks ({report.chunks_added} added, {report.chunks_removed} removed); "
        f"{report.embedded} texts embedded, {report.tokens} tokens, {report.seconds:.1f} s"
    )


if __name__ == "__main__":
    sys.exit(main())
