"""How a collection is, and its upkeep: `python -m pipelines.status`.

Exit status: 0 fine or done, 1 `--check` found a fault or a question was answered with no, 2 could not run.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeAlias

from kb import command
from kb.maintenance import in_words

if TYPE_CHECKING:
    from kb.maintenance.upkeep import Upkeep

FINE, FAULT = 0, 1

_Result: TypeAlias = tuple[int, dict[str, Any], str]
"""Exit status, what `--json` prints, what is printed otherwise."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command and give its exit status."""
    return command.run(
        lambda: _run(_parser().parse_args(arguments)), interrupted="interrupted; the same command can be given again"
    )


def _parser() -> argparse.ArgumentParser:
    parser = command.Parser(
        prog="python -m pipelines.status",
        description="Show how a collection is; check, repair, prune or delete it. Nothing is embedded.",
        epilog="exit status: 0 fine or done, 1 --check found a fault, or the answer was no, 2 an error with a message",
    )
    parser.add_argument(
        "--collection", type=command.name, metavar="NAME", help="the collection (default: as configured)"
    )
    parser.add_argument(
        "--config", type=command.not_blank, metavar="FILE", help="the configuration file (default: ./config.toml)"
    )
    work = parser.add_mutually_exclusive_group()
    work.add_argument("--all", action="store_true", help="show all collections, a line for each")
    work.add_argument("--check", action="store_true", help="compare the ledger with the vector store")
    work.add_argument("--repair", action="store_true", help="build the vector store anew from the ledger")
    work.add_argument("--prune", action="store_true", help="drop vectors that no live chunk uses; asks first")
    work.add_argument("--delete", type=command.name, metavar="NAME", help="delete a collection; asks first")
    parser.add_argument("--yes", action="store_true", help="with --prune and --delete: don't ask")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def _run(options: argparse.Namespace) -> int:
    from kb.knowledge_base import KnowledgeBase

    name = options.delete or options.collection
    overrides: dict[str, Any] = {"collection": name} if name else {}
    with KnowledgeBase.open(options.config, quiet=options.json, **overrides) as base:
        works = {"all": _all, "check": _check, "repair": _repair, "prune": _prune, "delete": _delete}
        chosen = next((work for flag, work in works.items() if getattr(options, flag)), _status)
        exit_status, plain, text = chosen(base.upkeep, options)
    if options.json:
        command.write_json(plain)
    else:
        command.write(text)
    return exit_status


def _status(upkeep: Upkeep, options: argparse.Namespace) -> _Result:
    status = upkeep.status()
    return FINE, status.as_dict(), in_words.of_status(status)


def _all(upkeep: Upkeep, options: argparse.Namespace) -> _Result:
    statuses, unreadable = upkeep.all_statuses()
    for line in unreadable:
        command.say(f"error: {line}")
    plain = {"collections": [status.as_dict() for status in statuses], "unreadable": unreadable}
    return FAULT if unreadable else FINE, plain, in_words.table(statuses)


def _check(upkeep: Upkeep, options: argparse.Namespace) -> _Result:
    checked = upkeep.check()
    return FAULT if checked.faults else FINE, asdict(checked), in_words.of_check(checked)


def _repair(upkeep: Upkeep, options: argparse.Namespace) -> _Result:
    repaired = upkeep.repair()
    return FINE, asdict(repaired), in_words.of_repair(repaired)


def _prune(upkeep: Upkeep, options: argparse.Namespace) -> _Result:
    pruned = upkeep.prune(lambda use: command.agreed(in_words.to_prune(use), yes=options.yes or not use.unused))
    if pruned is None:
        return FAULT, {"vectors": 0}, in_words.NOTHING_DONE
    return FINE, asdict(pruned), in_words.of_prune(pruned)


def _delete(upkeep: Upkeep, options: argparse.Namespace) -> _Result:
    if not command.agreed(in_words.to_delete(options.delete, upkeep.folder_to_delete()), yes=options.yes):
        return FAULT, {"deleted": None}, in_words.NOTHING_DONE
    upkeep.delete()
    return FINE, {"deleted": options.delete}, f"the collection {options.delete!r} is deleted\n"


if __name__ == "__main__":
    command.leave(main())
