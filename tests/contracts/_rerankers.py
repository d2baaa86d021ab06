"""How the contract suite builds each reranker. One without an entry in `SETUPS` is built with its defaults."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from kb.components import Parts, Reranker, build_component
from kb.services.chat import OpenAIChat
from kb.settings import ChatPurpose
from tests.llm_server import Request, ScriptedServer, chat_reply, error_reply, scripted_server
from tests.rerank_server import rerank_script, word_score


@dataclass(frozen=True)
class Setup:
    """What a reranker is built with, and the server behind it, if it has one."""

    options: dict[str, Any] = field(default_factory=dict)
    parts: Parts = field(default_factory=Parts)
    server: ScriptedServer | None = None

    def build(self, name: str) -> Reranker:
        reranker: Reranker = build_component("rerank", name, self.options, self.parts)
        return reranker

    @property
    def requests(self) -> int:
        return len(self.server.requests) if self.server else 0

    def fail(self) -> None:
        """From now on the service refuses everything."""
        assert self.server is not None
        self.server.script = lambda request: error_reply(500, "overloaded")


@contextlib.contextmanager
def _endpoint() -> Iterator[Setup]:
    with scripted_server(rerank_script) as server:
        yield Setup({"base_url": server.base_url, "retries": 0, "max_documents": 2}, server=server)


def rating(request: Request) -> float:
    """What a judge says that knows words only, 0 to 10."""
    asked = request.body["messages"][-1]["content"]
    passage, question = re.split(r"</passage-\w+>\s*Question: ", asked)
    return round(10 * word_score(question, passage), 1)


@contextlib.contextmanager
def _llm_judge() -> Iterator[Setup]:
    with scripted_server(lambda request: chat_reply(f"{rating(request):g}")) as server:
        purpose = ChatPurpose(base_url=server.base_url, model="a-model", retries=0)
        yield Setup(parts=Parts(chat=lambda: OpenAIChat(purpose, {"OPENAI_API_KEY": "none"}.get)), server=server)


SERVICES: dict[str, Callable[[], AbstractContextManager[Setup]]] = {"endpoint": _endpoint, "llm_judge": _llm_judge}
"""Those that have a server behind them."""


@contextlib.contextmanager
def _maxsim() -> Iterator[Setup]:
    yield Setup(parts=Parts(embedder=build_component("embedding", "e5", {}, Parts())))


SETUPS = {**SERVICES, "maxsim": _maxsim}


def setup_for(name: str) -> AbstractContextManager[Setup]:
    """The setup of component `name`."""
    return SETUPS[name]() if name in SETUPS else contextlib.nullcontext(Setup())
