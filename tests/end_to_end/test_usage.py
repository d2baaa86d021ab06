"""What chat models were asked for one answer: all of its requests together, whole and streamed, in every output."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kb.answers import AnswerReady, TextPiece, Usage, UsageKnown
from kb.components import Message
from kb.knowledge_base import KnowledgeBase
from kb.query import main
from kb.services.replies import replies
from kb.services.usage import Meter, metered, together
from tests.end_to_end._bases import Place
from tests.end_to_end._chats import KEY, chat
from tests.llm_server import (
    Reply,
    Request,
    ScriptedServer,
    chat_reply,
    chunk,
    json_reply,
    scripted_server,
    stream_reply,
)

DOCUMENTS = {
    "deploy.md": "# Deploy\n\n## Staging\n\nDeploy to staging each night.\n\n## Release\n\nDeploy a release by hand.\n",
    "部署.md": "# 部署\n\n## 预发布\n\n每晚部署到预发布环境。\n\n## 发布\n\n手动部署发布版本。\n",
    "デプロイ.md": "# デプロイ\n\n## 本番\n\n本番へは手動でデプロイします。\n",
}
QUESTIONS = (
    "How do I deploy without staging?",
    "不经过预发布环境如何部署？",
    "ステージングなしで本番にデプロイするには？",
)
PROMPT_TOKENS, REPLY_TOKENS = 100, 20


def says(request: Request) -> str:
    """A reply that each purpose can read, told apart by their models."""
    answers = {"expander": "1. how to release", "judge": "8", "checker": "YES", "writer": "By hand [1]."}
    return answers[request.body["model"]]


def counting(request: Request) -> Reply:
    usage = {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": REPLY_TOKENS}
    if request.body.get("stream"):
        return stream_reply(
            [*map(chunk, says(request)), chunk(None, "stop"), {**chunk(None), "choices": [], "usage": usage}]
        )
    (body,) = chat_reply(says(request)).pieces
    return json_reply({**json.loads(body), "usage": usage})


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with scripted_server(counting) as started:
        yield started


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("usage")
    place = Place(folder / "documents", folder / "data")
    for name, text in DOCUMENTS.items():
        place.write(name, text)
    place.ingest()
    return place


def settings(server: ScriptedServer, **more: Any) -> dict[str, Any]:
    models = {"answer": "writer", "judge": "judge", "expand": "expander", "negation": "checker"}
    prices = {name: {"input": 1.0, "output": 10.0} for name in models.values()}
    purposes = {use: {"model": model, "base_url": server.base_url, "retries": 0} for use, model in models.items()}
    return {
        "retrieval": {"cutoff": -1.0},
        "generation": {"use": "openai"},
        "rerank": {"use": "llm_judge"},
        "expansion": {"enabled": True, "wordings": 1},
        "negation": {"check": "model"},
        "chat": {**purposes, "prices": prices},
        **more,
    }


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("question", QUESTIONS)
def test_an_answer_counts_every_chat_request_of_its_question_and_no_other(
    place: Place, server: ScriptedServer, question: str
) -> None:
    with place.open(**settings(server)) as base:
        answer = base.ask(question)
        sent = len(server.requests)
        again = base.ask(question)
    asked = {request.body["model"] for request in server.requests}
    assert asked == {"writer", "judge", "expander", "checker"}
    assert answer.usage is not None
    assert answer.usage == again.usage
    counted = (answer.usage.requests, answer.usage.prompt_tokens, answer.usage.completion_tokens)
    assert counted == (sent, PROMPT_TOKENS * sent, REPLY_TOKENS * sent)
    assert answer.usage.dollars == pytest.approx((PROMPT_TOKENS * 1.0 + REPLY_TOKENS * 10.0) * sent / 1e6)
    assert not answer.usage.estimated


def test_a_stream_tells_usage_once_behind_the_text_also_when_it_is_read_by_several_threads(
    place: Place, server: ScriptedServer
) -> None:
    with place.open(**settings(server)) as base:
        stream = base.stream(QUESTIONS[0])
        events: list[Any] = []
        while not (events and isinstance(events[-1], AnswerReady)):
            thread = threading.Thread(target=lambda: events.append(next(stream)))
            thread.start()
            thread.join(20)
        whole = base.ask(QUESTIONS[0])
    kinds = [type(event) for event in events]
    assert kinds[-2:] == [UsageKnown, AnswerReady]
    assert kinds.count(UsageKnown) == 1
    assert TextPiece in kinds
    assert events[-2].usage == events[-1].answer.usage == whole.usage


def test_without_a_chat_model_there_is_no_usage(place: Place) -> None:
    with place.open(retrieval={"cutoff": -1.0}) as base:
        assert base.ask("How do I deploy a release?").usage is None
        assert not any(isinstance(event, UsageKnown) for event in base.stream("How do I deploy a release?"))


def test_of_a_model_whose_price_nobody_knows_the_sum_is_not_known(place: Place, server: ScriptedServer) -> None:
    known = settings(server)
    known["chat"]["answer"]["model"] = "judge"
    del known["chat"]["prices"]["checker"]
    with place.open(**known) as base:
        usage = base.ask(QUESTIONS[0]).usage
    assert usage is not None
    assert usage.dollars is None
    assert usage.prompt_tokens == PROMPT_TOKENS * len(server.requests)


def test_a_question_that_is_declined_tells_what_it_took_to_find_that_out(place: Place, server: ScriptedServer) -> None:
    with place.open(**{**settings(server), "retrieval": {"cutoff": 1.0}}) as base:
        answer = base.ask("How do I deploy?")
    assert not answer.answered
    assert answer.usage is not None
    assert answer.usage.requests == len(server.requests) == 1, "the other wordings"


def test_the_command_shows_it_in_json_and_with_explain(
    place: Place, server: ScriptedServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.toml"
    config.write_text(
        f'documents_dir = "{place.documents.as_posix()}"\ndata_dir = "{place.data.as_posix()}"\n'
        '[embedding]\nuse = "hashing"\n[store]\nuse = "memory"\n[retrieval]\ncutoff = -1.0\n'
        '[generation]\nuse = "openai"\n'
        f'[chat.answer]\nmodel = "writer"\nbase_url = "{server.base_url}"\n'
        "[chat.prices]\nwriter = { input = 1.0, output = 10.0 }\n",
        encoding="utf-8",
    )
    ask = ["How do I deploy a release?", "--config", str(config)]
    assert main([*ask, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["usage"] == {
        "requests": 1,
        "prompt_tokens": PROMPT_TOKENS,
        "completion_tokens": REPLY_TOKENS,
        "dollars": pytest.approx((PROMPT_TOKENS + 10 * REPLY_TOKENS) / 1e6),
        "estimated": False,
    }
    line = "1 request to chat models, 100 tokens of prompt, 20 of reply, $0.000300"
    assert main([*ask, "--explain"]) == 0
    assert line in capsys.readouterr().out
    assert main(ask) == 0
    assert line not in capsys.readouterr().out


# ── the meter ──


def test_a_meter_counts_what_is_asked_in_other_threads_and_an_outer_one_counts_it_too(server: ScriptedServer) -> None:
    talk = chat(server.base_url, model="judge")
    prompts = [[Message("user", str(number))] for number in range(7)]
    with metered() as outer:
        talk.complete(prompts[0])
        with metered() as inner:
            replies(talk, prompts, 3)
        assert inner.usage is not None
        assert inner.usage.requests == 7
    talk.complete(prompts[0])
    assert outer.usage is not None
    assert outer.usage.requests == 8
    assert outer.usage.prompt_tokens == 8 * PROMPT_TOKENS


def test_sums_of_usage() -> None:
    one, other = Usage(1, 10, 2, 0.5), Usage(2, 5, 1, None, estimated=True)
    assert together(None, None) is None
    assert together(one, None) == together(None, one) == one
    assert together(one, one) == Usage(2, 20, 4, 1.0)
    assert together(one, other) == Usage(3, 15, 3, None, estimated=True)
    meter = Meter()
    meter.add(None)
    assert meter.usage is None


def test_two_bases_asked_at_the_same_time_do_not_count_each_other(place: Place, server: ScriptedServer) -> None:
    found: list[Usage | None] = []

    def ask(base: KnowledgeBase) -> None:
        found.extend(base.ask(QUESTIONS[0]).usage for _ in range(3))

    with place.open(**settings(server)) as one, place.open(**settings(server)) as other:
        alone = one.ask(QUESTIONS[0]).usage
        threads = [threading.Thread(target=ask, args=(base,)) for base in (one, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert found == [alone] * 6
