"""What `pipelines/import.py` does; in a file of its own, as no program can import a module named like a keyword."""

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
        prog="python -m pipelines.import",
        description="Fill a collection from a file that pipelines.export wrote. Nothing is embedded.",
        epilog="exit status: 0 done, 2 an error with a message",
    )
    parser.add_argument("file", type=command.not_blank, metavar="FILE", help="fill the collection from it")
    parser.add_argument(
        "--collection", type=command.name, metavar="NAME", help="the collection (default: as configured)"
    )
    parser.add_argument(
        "--config", type=command.not_blank, metavar="FILE", help="the configuration file (default: ./config.toml)"
    )
    parser.add_argument("--replace", action="store_true", help="replace what the collection holds, once all is read")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def _run(options: argparse.Namespace) -> int:
    from kb.knowledge_base import KnowledgeBase

    overrides: dict[str, Any] = {"collection": options.collection} if options.collection else {}
    with KnowledgeBase.open(options.config, quiet=options.json, **overrides) as base:
        imported = base.upkeep.import_(options.file, replace=options.replace)
    if options.json:
        command.write_json(asdict(imported))
    else:
        command.write(in_words.of_import(imported))
    return 0
