"""How the contract suite builds each generator. One without an entry in `SETUPS` is built with its defaults."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from kb.components import AnswerGenerator, Parts, build_component
from kb.prompts import SENTINEL
from kb.services.chat import OpenAIChat
from kb.settings import ChatPurpose
from tests.llm_server import Reply, Request, chat_script, scripted_server

_ABOUT = re.compile(r"refund|退款|返金", re.IGNORECASE)
_CONTEXT = re.compile(r"<context-(\w+) \[(\d+)\]>\n[^\n]*\n\n(.*?)\n</context-\1>", re.DOTALL)


def _written(request: Request) -> Reply:
    """A model that repeats what the contexts say about refunds, if the question is about them."""
    asked = request.body["messages"][1]["content"]
    contexts = _CONTEXT.findall(asked)
    question = asked.rpartition("</context-")[2]
    said = [f"{text} [{number}]" for _, number, text in contexts if _ABOUT.search(text)]
    text = "\n".join(said) if _ABOUT.search(question) and said else SENTINEL
    return chat_script(text)(request)


@contextlib.contextmanager
def _openai() -> Iterator[AnswerGenerator]:
    with scripted_server(_written) as server:
        purpose = ChatPurpose(base_url=server.base_url, model="a-model", retries=0)
        parts = Parts(chat=lambda: OpenAIChat(purpose, {"OPENAI_API_KEY": "none"}.get))
        yield build_component("generation", "openai", {}, parts)


@contextlib.contextmanager
def _extractive() -> Iterator[AnswerGenerator]:
    yield build_component(
        "generation", "extractive", {}, Parts(embedder=build_component("embedding", "e5", {}, Parts()))
    )


SETUPS: dict[str, Callable[[], AbstractContextManager[AnswerGenerator]]] = {
    "openai": _openai,
    "extractive": _extractive,
}


def generator_for(name: str) -> AbstractContextManager[AnswerGenerator]:
    """The generator `name`, ready to be asked."""
    return (
        SETUPS[name]() if name in SETUPS else contextlib.nullcontext(build_component("generation", name, {}, Parts()))
    )
