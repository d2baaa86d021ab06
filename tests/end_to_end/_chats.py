"""Chat models and generators at a scripted service, as several test files build them."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from kb.answers import Generated
from kb.components import Message, Parts, build_component
from kb.records import Chunk, Hit
from kb.services.chat import OpenAIChat, Reply
from kb.settings import ChatPurpose

KEY = "sk-test-3f9c2b7d41e8a6"
HELLO = [Message("user", "hello")]


def secrets(**values: str) -> Callable[[str], str | None]:
    return {"OPENAI_API_KEY": KEY, **values}.get


def chat(base_url: str, variables: dict[str, str] | None = None, **purpose: Any) -> OpenAIChat:
    return OpenAIChat(ChatPurpose(base_url=base_url, **{"retries": 0, **purpose}), secrets(**(variables or {})))


def generator(base_url: str, **purpose: Any) -> Any:
    return build_component("generation", "openai", {}, Parts(chat=lambda: chat(base_url, **purpose)))


def hit(text: str, number: int = 1) -> Hit:
    return Hit(Chunk(f"c{number}", f"d{number}", text, 0, len(text)), f"file{number}.md", 0.9, "dense", 0.9)


HITS = (hit("Refunds are paid within 30 days.", 1), hit("运费不退。", 2), hit("返金は30日以内です。", 3))


def streamed(parts: Generator[str, None, Any]) -> tuple[list[str], Any]:
    """The pieces of a stream, and what it returned."""
    pieces = []
    while True:
        try:
            pieces.append(next(parts))
        except StopIteration as stop:
            return pieces, stop.value


def whole_and_streamed(talk: OpenAIChat) -> Reply:
    """What a chat replies, after a look whether the stream gives the same."""
    whole = talk.reply(HELLO)
    pieces, last = streamed(talk.stream(HELLO))
    assert all(pieces), "no empty pieces"
    assert "".join(pieces) == last.text
    assert (last.text, last.ending) == (whole.text, whole.ending)
    return whole


def answered_both_ways(built: Any, question: str) -> Generated:
    """What a generator answers, after a look whether the stream gives the same."""
    whole: Generated = built.generate(question, HITS)
    pieces, generated = streamed(built.stream(question, HITS))
    assert "".join(pieces) == generated.text
    assert generated == whole
    return whole
