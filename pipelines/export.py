"""Write a whole collection into one file: `python -m pipelines.export FILE`, and `pipelines.import FILE` elsewhere.

Exit status: 0 done, 2 an error with a message, 70 what nobody foresaw.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from kb import command
from kb.maintenance import in_words


def main(arguments: list[str] | None = None) -> int:
    """Run the command and give its exit status."""
    return command.run(
        lambda: _run(_parser().parse_args(arguments)), interrupted="interrupted; nothing was changed, give it again"
    )


def _parser() -> argparse.ArgumentParser:
    parser = command.Parser(
        prog="python -m pipelines.export",
        description="Write a whole collection into one file; pipelines.import fills one from it. Nothing is embedded.",
        epilog="exit status: 0 done, 2 an error with a message",
    )
    parser.add_argument("file", type=command.not_blank, metavar="FILE", help="write the collection into it")
    parser.add_argument(
        "--collection", type=command.name, metavar="NAME", help="the collection (default: as configured)"
    )
    parser.add_argument(
        "--config", type=command.not_blank, metavar="FILE", help="the configuration file (default: ./config.toml)"
    )
    parser.add_argument("--overwrite", action="store_true", help="write over a file that is there")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def _run(options: argparse.Namespace) -> int:
    from kb.knowledge_base import KnowledgeBase

    overrides: dict[str, Any] = {"collection": options.collection} if options.collection else {}
    with KnowledgeBase.open(options.config, quiet=options.json, **overrides) as base:
        exported = base.upkeep.export(options.file, overwrite=options.overwrite)
    if options.json:
        command.write_json({**asdict(exported), "file": str(exported.file)})
    else:
        command.write(in_words.of_export(exported))
    return 0


if __name__ == "__main__":
    command.leave(main())
