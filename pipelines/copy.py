"""Fill another vector store with a collection, verified, without an embedding: `python -m pipelines.copy --to STORE`.

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
        prog="python -m pipelines.copy",
        description=(
            "Copy a collection into another vector store and compare all of it. Nothing is embedded, and the "
            "collection stays where it is until the settings name the other store."
        ),
        epilog="exit status: 0 done, 2 an error with a message",
    )
    parser.add_argument(
        "--to", required=True, type=command.not_blank, metavar="STORE", help="the other store, as [store] use names it"
    )
    parser.add_argument(
        "--set",
        dest="options",
        action="append",
        default=[],
        type=_option,
        metavar="KEY=VALUE",
        help="an option of the other store that is not in its section, as url=https://host; as often as needed",
    )
    parser.add_argument(
        "--collection", type=command.name, metavar="NAME", help="the collection (default: as configured)"
    )
    parser.add_argument(
        "--config", type=command.not_blank, metavar="FILE", help="the configuration file (default: ./config.toml)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def _option(argument: str) -> tuple[str, str]:
    key, equals, value = argument.partition("=")
    if not equals or not key.isidentifier():
        raise argparse.ArgumentTypeError("should be the name of an option, = and its value")
    return key, command.as_text(value)


def _run(options: argparse.Namespace) -> int:
    from kb.knowledge_base import KnowledgeBase

    overrides: dict[str, Any] = {"collection": options.collection} if options.collection else {}
    with KnowledgeBase.open(options.config, quiet=options.json, **overrides) as base:
        copied = base.upkeep.copy(options.to, **dict(options.options))
    if options.json:
        command.write_json(asdict(copied))
    else:
        command.write(in_words.of_copy(copied))
    return 0


if __name__ == "__main__":
    command.leave(main())
