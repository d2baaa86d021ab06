"""A chat model as judge over a socket: what it is asked, several at a time, and replies of every kind."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kb import KnowledgeBase
from kb.components import Parts, build_component
from kb.errors import ConfigError, MissingKeyError
from kb.records import Chunk, Hit, Reranked
from kb.services.chat import OpenAIChat
from kb.settings import load_settings
from tests.llm_server import Reply, Request, Script, ScriptedServer, chat_reply, error_reply, scripted_server

KEY = "sk-test-3f9c2b7d41e8a6"
QUESTION = "When are refunds paid?"


def hit(number: int, text: str) -> Hit:
    chunk = Chunk(f"c{number}", "d1", text, 0, len(text), header="Shop rules")
    return Hit(chunk, "a.md", 0.9 - number / 100, "fused", 0.5)


HITS = tuple(hit(number, f"passage {number}") for number in range(6))


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def serve() -> Iterator[Callable[[Script], ScriptedServer]]:
    with ExitStack() as servers:
        yield lambda script: servers.enter_context(scripted_server(script))


Serve = Callable[[Script], ScriptedServer]


def judge(server: ScriptedServer, in_flight: int = 4, **purpose: Any) -> Any:
    settings, _ = load_settings(chat={"judge": {"base_url": server.base_url, "retries": 0, **purpose}})
    secret = {"OPENAI_API_KEY": KEY, "OPENAI_MODEL": "the-answers-own"}.get
    parts = Parts(chat=lambda: OpenAIChat(settings.chat.judge, secret))
    return build_component("rerank", "llm_judge", {"in_flight": in_flight}, parts)


def place(request: Request) -> int:
    """Which of `HITS` is to be rated."""
    (number,) = [n for n in range(len(HITS)) if f"passage {n}\n" in request.body["messages"][-1]["content"]]
    return number


def says(replies: Mapping[int, str | None]) -> Script:
    return lambda request: chat_reply(replies.get(place(request), "0"))


def ids(reranked: Reranked) -> list[str]:
    return [found.chunk.id for found in reranked.hits]


IN_SEARCH_ORDER = [found.chunk.id for found in HITS]


def test_each_hit_is_rated_by_a_request_of_its_own_with_the_guides_settings(serve: Serve) -> None:
    server = serve(says({2: "9", 4: "10", 1: "3"}))
    reranked = judge(server).rerank(QUESTION, HITS)
    assert ids(reranked) == ["c4", "c2", "c1", "c0", "c3", "c5"]
    assert [found.score for found in reranked.hits] == [10, 9, 3, 0, 0, 0]
    assert {found.scored_by for found in reranked.hits} == {"judge"}
    assert (reranked.scale, reranked.notes) == ("ratio", ())
    assert sorted(place(request) for request in server.requests) == [0, 1, 2, 3, 4, 5]
    for request in server.requests:
        assert {key: request.body[key] for key in ("model", "temperature", "max_tokens")} == {
            "model": "gpt-4o-mini",
            "temperature": 0,
            "max_tokens": 3,
        }
        assert "Shop rules\n\npassage" in request.body["messages"][-1]["content"]


def test_replies_of_every_kind_are_read_or_count_nothing_and_are_counted(serve: Serve) -> None:
    replies = {0: "I cannot", 1: "Score: 7/10", 2: '```json\n{"score": 8}\n```', 3: "seven", 4: "", 5: None}
    reranked = judge(serve(says(replies))).rerank(QUESTION, HITS)
    assert ids(reranked) == ["c2", "c1", "c3", "c0", "c4", "c5"]
    assert [found.score for found in reranked.hits] == [8, 7, 7, 0, 0, 0]
    (note,) = reranked.notes
    assert note.startswith("3 of 6 ratings by openai:gpt-4o-mini were no number and count 0")


def test_equal_ratings_keep_retrievals_order_however_the_replies_arrive(serve: Serve) -> None:
    def script(request: Request) -> Reply:
        time.sleep(0.05 * (len(HITS) - place(request)))  # the last one is answered first
        return chat_reply("5")

    assert ids(judge(serve(script), in_flight=6).rerank(QUESTION, HITS)) == IN_SEARCH_ORDER


@pytest.mark.parametrize("most", [1, 3])
def test_no_more_than_the_option_says_are_rated_at_the_same_time(serve: Serve, most: int) -> None:
    guard = threading.Lock()
    now = largest = 0

    def script(request: Request) -> Reply:
        nonlocal now, largest
        with guard:
            now += 1
            largest = max(largest, now)
        time.sleep(0.05)
        with guard:
            now -= 1
        return chat_reply("5")

    judge(serve(script), in_flight=most).rerank(QUESTION, HITS)
    assert largest <= most
    assert (largest > 1) == (most > 1)


@pytest.mark.parametrize(
    ("refusal", "reason"),
    [
        (error_reply(500, "overloaded"), "failed (500: overloaded)"),
        (error_reply(401, "no"), "refused the key in OPENAI_API_KEY"),
        (error_reply(429, "no", "insufficient_quota"), "no credit left"),
        (error_reply(422, "a passage that is not liked"), "refused the request (422"),
        (Reply(200, [b"{}"]), "no answer of an OpenAI-compatible service"),
        (Reply(200, [b"{}"], wait_seconds=1.5), "did not answer within 0.5 seconds"),
    ],
    ids=["500", "401", "quota", "422", "odd", "time-out"],
)
def test_one_rating_that_fails_leaves_all_in_the_order_of_the_search(
    serve: Serve, refusal: Reply, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server = serve(lambda request: refusal if place(request) == 3 else chat_reply("9"))
    timeout_seconds = 0.5 if refusal.wait_seconds else 20.0
    reranked = judge(server, timeout_seconds=timeout_seconds).rerank(QUESTION, HITS)
    assert (reranked.hits, reranked.scale) == (HITS, None)
    (note,) = reranked.notes
    assert reason in note
    assert KEY not in note + caplog.text


def test_no_more_is_asked_once_a_rating_has_failed(serve: Serve) -> None:
    server = serve(lambda request: error_reply(401, "no"))
    reranker = judge(server, in_flight=2)
    before = set(threading.enumerate())
    reranker.rerank(QUESTION, HITS)
    for thread in set(threading.enumerate()) - before:
        if thread.name == "kb-chat":
            thread.join()
    assert 1 <= len(server.requests) <= 2


def test_the_guides_model_stays_when_another_setting_of_the_judge_is_changed(project: Callable[..., Path]) -> None:
    project('[chat.judge]\nmax_tokens = 8\n[chat.answer]\nmodel = "large"\n')
    purposes = load_settings()[0].chat
    assert (purposes.judge.model, purposes.judge.max_tokens, purposes.judge.temperature) == ("gpt-4o-mini", 8, 0)
    assert (purposes.answer.model, purposes.answer.max_tokens) == ("large", 1000)


def test_without_a_chat_model_the_judge_says_what_is_missing() -> None:
    with pytest.raises(ConfigError, match=r"\[chat\.judge\]"):
        build_component("rerank", "llm_judge", {}, Parts())


def test_a_search_is_ordered_by_the_judge_of_the_settings(serve: Serve, project: Callable[..., Path]) -> None:
    (project() / "knowledge_base").mkdir()
    for name, text in {"a.md": "Refunds, refunds, refunds.", "b.md": "Refunds take thirty days."}.items():
        Path("knowledge_base", name).write_text(text, encoding="utf-8")
    server = serve(lambda request: chat_reply("9" if "thirty" in request.body["messages"][-1]["content"] else "1"))
    settings: dict[str, Any] = {
        "embedding": {"use": "hashing"},
        "store": {"use": "memory"},
        "retrieval": {"cutoff": -1.0, "relative_threshold": 0.25},
        "rerank": {"use": "llm_judge"},
        "chat": {"judge": {"base_url": server.base_url}},
    }
    with KnowledgeBase.open(**settings) as base:
        base.ingest()
        with pytest.raises(MissingKeyError, match="gpt-4o-mini"):
            base.search("refunds")
    project(env=f"OPENAI_API_KEY={KEY}\n")
    with KnowledgeBase.open(**settings) as base:
        found = base.search("refunds")
    assert [(hit.source, hit.scored_by, hit.score) for hit in found.hits] == [("b.md", "judge", 9.0)]
    assert [dropped.hit.source for dropped in found.dropped] == ["a.md"]
