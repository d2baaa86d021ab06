"""Serve the knowledge base to an agent over stdin and stdout: `python -m kb.mcp`. A command only.

What it writes to stdout are messages of the Model Context Protocol and nothing else. Over HTTP the same is at `/mcp` of
`python -m kb.serve`. Exit status: 0 the agent has gone, or ended as asked, 2 an error with a message, 70 what nobody
foresaw.
"""

from __future__ import annotations

import argparse
import os
import signal
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING

from kb import command

if TYPE_CHECKING:
    from kb.web.answering import Wanted
    from kb.web.collections import Collections
    from kb.web.sse import Event


def main(arguments: list[str] | None = None) -> int:
    """Run the command and give its exit status."""
    return command.run(lambda: _run(_parser().parse_args(arguments)))


def _parser() -> argparse.ArgumentParser:
    parser = command.Parser(
        prog="python -m kb.mcp",
        description="Give an agent tools to search, ask and read the documents, by MCP over stdin and stdout.",
        epilog="exit status: 0 the agent has gone, 2 an error with a message",
    )
    parser.add_argument("--collection", type=command.name, metavar="NAME", help="the collection to ask")
    parser.add_argument(
        "--config", type=command.not_blank, metavar="FILE", help="the configuration file (default: ./config.toml)"
    )
    parser.add_argument("--log-json", metavar="FILE", help="append what happens to FILE, one JSON object a line")
    return parser


def _run(options: argparse.Namespace) -> int:
    from kb.components import not_installed
    from kb.logs import logged

    with logged(options.log_json, quiet=False), _stdout_kept() as give_back:
        try:
            from kb.web.agents import agent_server
        except ModuleNotFoundError as error:
            raise not_installed("python -m kb.mcp", "mcp", error) from error
        from kb.knowledge_base import KnowledgeBase
        from kb.web.collections import Collections

        base = KnowledgeBase.open(options.config, **({"collection": options.collection} if options.collection else {}))
        base.prepare()
        collections = Collections(base)
        server = agent_server(InThreads(collections), collections)
        # A thread waits for stdin, which no interrupt ends; nothing is written that could be lost.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: os._exit(0))
        give_back()  # the server takes it at once, and keeps it from everything else as well
        server.run("stdio")
    return 0


@contextmanager
def _stdout_kept() -> Iterator[Callable[[], None]]:
    """Let whatever packages print while they are imported go to stderr, until the yielded function is called."""
    kept = os.dup(1)
    os.dup2(2, 1)

    def give_back() -> None:
        nonlocal kept
        if kept >= 0:
            os.dup2(kept, 1)
            os.close(kept)
            kept = -1

    try:
        yield give_back
    finally:
        give_back()


class InThreads:
    """Answers questions in threads of this process, as one agent asks few at once."""

    def __init__(self, collections: Collections) -> None:
        self._collections = collections

    def stream(self, wanted: Wanted) -> AsyncGenerator[Event, None]:
        """As `Answers`."""
        return self._asked("stream", wanted)

    async def search(self, wanted: Wanted) -> Event:
        """As `Answers`."""
        async with aclosing(self._asked("search", wanted)) as events:
            return await anext(events)

    def _asked(self, way: str, wanted: Wanted) -> AsyncGenerator[Event, None]:
        from kb.asynchronous import iterated
        from kb.web.answering import WAYS

        return iterated(lambda: WAYS[way](self._collections, wanted))


if __name__ == "__main__":
    command.leave(main())
