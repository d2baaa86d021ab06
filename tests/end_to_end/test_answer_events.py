"""Answers by a chat model through the whole pipeline: checked while they stream, and the same asynchronously."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kb.answers import Answer, AnswerReady, ClaimChecked, Failed, StreamEvent, TextPiece
from kb.errors import ConfigError, ServiceError
from kb.knowledge_base import KnowledgeBase
from kb.prompts import not_found_text
from tests.llm_server import (
    Reply,
    Request,
    ScriptedServer,
    chat_script,
    chunk,
    error_reply,
    scripted_server,
    stream_bytes,
)

DOCUMENTS = {
    "refunds.md": "# Refunds\n\nRefunds are paid within 30 days. You need the receipt. Shipping is not refunded.\n",
    "退款.md": "# 退款\n\n退款在七个工作日内处理。需要提供订单号。运费不退。\n",
    "返金.md": "# 返金\n\n返金は三十日以内に行われます。領収書が必要です。\n",
}
QUESTION = "When are refunds paid, 退款 and 返金?"
SAID = ("Refunds are paid within 30 days.", "退款在七个工作日内处理。", "返金は三十日以内に行われます。")
WRONG = "Refunds are paid within 90 days."
Ask = Callable[..., KnowledgeBase]


class Model:
    """A chat model that cites whichever context holds a sentence; `replies` are asked for one after the other."""

    def __init__(self) -> None:
        self.replies: list[list[str]] = []
        self.asked = 0

    def __call__(self, request: Request) -> Reply:
        asked = request.body["messages"][1]["content"]
        sentences = self.replies[min(self.asked, len(self.replies) - 1)]
        self.asked += 1
        text = "\n".join(f"{sentence} [{_number(asked, sentence)}]" for sentence in sentences)
        return chat_script(text)(request)


def _number(asked: str, sentence: str) -> int:
    """The number of the context that holds a sentence, or that of refunds.md."""
    before, found, _ = asked.partition(sentence)
    if not found:
        before = asked.partition("Refunds are paid")[0]
    return before.count("\n</context-") + 1


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def server(model: Model) -> Iterator[ScriptedServer]:
    with scripted_server(model) as running:
        yield running


@pytest.fixture
def opened(tmp_path: Path, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ask]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-1234567890")
    folder = tmp_path / "documents"
    folder.mkdir()
    for name, text in DOCUMENTS.items():
        (folder / name).write_text(text, "utf-8")
    bases: list[KnowledgeBase] = []

    def open_base(**generation: str) -> KnowledgeBase:
        base = KnowledgeBase.open(
            None,
            documents_dir=folder,
            data_dir=tmp_path / "data",
            embedding={"use": "hashing"},
            store={"use": "memory"},
            loading={"isolated": False},
            retrieval={"cutoff": -1.0},
            generation={"use": "openai", **generation},
            chat={"answer": {"base_url": server.base_url, "model": "a-model", "retries": 0}},
        )
        base.ingest()
        bases.append(base)
        return base

    yield open_base
    for base in bases:
        base.close()


def comparable(answer: Answer) -> Answer:
    return replace(answer, seconds=0.0)


async def collected(base: KnowledgeBase) -> list[StreamEvent]:
    return [event async for event in base.stream_async(QUESTION)]


def test_claims_in_three_languages_are_checked_against_what_they_cite(opened: Ask, model: Model) -> None:
    model.replies = [[*SAID, WRONG]]
    answer = opened().ask(QUESTION)
    assert [claim.verdict for claim in answer.claims][:3] == ["supported"] * 3
    assert answer.claims[3].verdict != "supported"
    assert any("90" in reason for reason in answer.claims[3].reasons)
    assert answer.support == 3 / 4
    assert {citation.source for citation in answer.citations} == set(DOCUMENTS)
    assert [claim.evidence[0].quote for claim in answer.claims[:3]] == list(SAID)


def test_asynchronous_and_other_answers_are_equal(opened: Ask, model: Model) -> None:
    model.replies = [[*SAID, WRONG]]
    base = opened()
    whole = comparable(base.ask(QUESTION))
    events = asyncio.run(collected(base))
    assert isinstance(events[-1], AnswerReady)
    assert comparable(events[-1].answer) == whole
    assert "".join(event.text for event in events if isinstance(event, TextPiece)) == whole.text
    assert [event.claim for event in events if isinstance(event, ClaimChecked)] == list(whole.claims)
    assert comparable(asyncio.run(base.ask_async(QUESTION))) == whole
    assert asyncio.run(base.search_async(QUESTION)).hits == whole.hits


def test_questions_at_the_same_time_do_not_mix(opened: Ask, model: Model) -> None:
    model.replies = [list(SAID)]
    base = opened()

    async def several() -> list[Answer]:
        return await asyncio.gather(*(base.ask_async(f"{QUESTION} {number}") for number in range(8)))

    answers = asyncio.run(several())
    assert [answer.question for answer in answers] == [f"{QUESTION} {number}" for number in range(8)]
    assert all(answer.support == 1 for answer in answers)


def test_a_sentence_without_support_is_left_out_before_anyone_sees_it(opened: Ask, model: Model) -> None:
    invented = "Bananas grow on Jupiter in winter."
    model.replies = [[SAID[0], invented, SAID[1]]]
    base = opened(on_unsupported="drop")
    shown = [event.text for event in base.stream(QUESTION) if isinstance(event, TextPiece)]
    assert "Jupiter" not in "".join(shown)
    answer = base.ask(QUESTION)
    assert answer.text == "".join(shown)
    assert answer.support == 1
    assert any("left out" in note for note in answer.notes)


def test_the_model_is_told_what_had_no_support_and_writes_again(
    opened: Ask, model: Model, server: ScriptedServer
) -> None:
    invented = "Bananas grow on Jupiter in winter."
    model.replies = [[SAID[0], invented], [SAID[0]]]
    answer = opened(on_unsupported="regenerate").ask(QUESTION)
    assert "Jupiter" not in answer.text
    assert answer.support == 1
    messages = server.requests[-1].body["messages"]
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "user"]
    assert invented in messages[-1]["content"]
    assert SAID[0] not in messages[-1]["content"]
    assert answer.usage is not None
    assert answer.usage.requests == 2


def test_a_generator_that_only_quotes_cannot_write_again(opened: Ask) -> None:
    base = opened(use="extractive", on_unsupported="regenerate")
    with pytest.raises(ConfigError, match='on_unsupported = "regenerate" needs a generator that writes'):
        base.ask(QUESTION)


@pytest.mark.parametrize(
    ("said", "own"),
    [
        ("The name of the payer is not mentioned in the provided documents.", True),
        ("The documents do not say who pays refunds.", False),
        ("资料中没有提到谁支付退款。", False),
        ("資料には記載がありません。", False),
    ],
)
def test_a_refusal_in_the_models_own_words_is_no_answer(
    opened: Ask, server: ScriptedServer, said: str, own: bool
) -> None:
    server.script = chat_script(said)
    base = opened()
    events = list(base.stream(QUESTION))
    answer = base.ask(QUESTION)
    assert not answer.answered
    assert answer.claims == ()
    assert answer.text == (said if own else not_found_text("en"))
    assert "".join(event.text for event in events if isinstance(event, TextPiece)) == answer.text
    assert any("in its own words" in note for note in answer.notes)
    assert not any(isinstance(event, ClaimChecked) for event in events)


def test_a_service_that_fails_is_an_event_and_then_the_error(opened: Ask, server: ScriptedServer) -> None:
    server.script = lambda request: error_reply(500, "overloaded")
    base = opened()
    found: list[StreamEvent] = []
    with pytest.raises(ServiceError):
        found.extend(base.stream(QUESTION))
    assert isinstance(found[-1], Failed)
    assert not any(isinstance(event, AnswerReady) for event in found)


def test_cancelling_the_task_closes_the_connection_of_a_model_that_has_fallen_silent(
    opened: Ask, server: ScriptedServer
) -> None:
    over = threading.Event()

    def silent(request: Request) -> Reply:
        def pieces() -> Iterator[bytes]:
            yield stream_bytes([chunk("Refunds ")], done=False)
            over.wait(30)

        return Reply(200, pieces(), "text/event-stream")

    server.script = silent
    base = opened()

    async def cancelled() -> float:
        task = asyncio.ensure_future(collected(base))
        while not server.requests:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        began = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - began

    seconds = asyncio.run(cancelled())
    over.set()
    assert seconds < 10
    server.script = chat_script(f"{SAID[0]} [1]")
    assert base.ask(QUESTION).answered, "the base goes on answering"
