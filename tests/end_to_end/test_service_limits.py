"""Embedding and chatting at a service that limits, refuses and fails; its minute passes in a second."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kb.abilities import EmbedsInParts
from kb.components import Message, Parts
from kb.embedding.openai import OpenAIEmbedder, Options
from kb.errors import AuthenticationError, QuotaError, ServiceError
from kb.services.chat import OpenAIChat
from kb.services.clock import Clock
from kb.settings import ChatPurpose
from tests.end_to_end._bases import NUMBERS, Place, a_text
from tests.limited_server import DIMENSION, Limited, limited_server
from tests.llm_server import Reply, Request, embedding_rows, embeddings_reply, error_reply, scripted_server, vector_for

ROOT = Path(__file__).parents[2]
CLOCK = Clock(60.0)
TOKENS = 20_000
TEXTS = [f"{i:04d}" + "x" * 496 for i in range(100)]  # two windows and a half
CHUNKING = {"chunking": {"recursive": {"size_tokens": 60, "min_tokens": 0}}}


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


def embedder(base_url: str, **options: Any) -> Any:
    table = {"base_url": base_url, "model": "a-model", "dimensions": DIMENSION, "vocabulary": "bytes", **options}
    return OpenAIEmbedder(Options(**table), Parts(secret=lambda name: "none"), CLOCK)


def expected(texts: list[str]) -> np.ndarray[Any, Any]:
    rows = np.array([vector_for(text, DIMENSION) for text in texts])
    unit: np.ndarray[Any, Any] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit


def child(code: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
    )


def right(request: Request) -> Reply:
    return embeddings_reply(request, embedding_rows(request, DIMENSION))


# The limit on tokens


@pytest.mark.parametrize(
    "service",
    [{"retry_after": True}, {}, {"tells": True}],
    ids=["with Retry-After", "without a word", "with x-ratelimit headers"],
)
def test_a_window_that_is_smaller_than_what_is_to_be_sent_is_found_and_used(service: dict[str, Any]) -> None:
    limited = Limited(CLOCK, TOKENS, **service)
    with limited_server(limited) as base_url:
        started = CLOCK.now()
        vectors = embedder(base_url).embed_documents(TEXTS)
        seconds = CLOCK.now() - started
    np.testing.assert_allclose(vectors, expected(TEXTS), atol=1e-6)
    assert Counter(limited.answered) == Counter(TEXTS), "each is embedded once"
    # Two windows have to pass; benchmarks/embedding_limits.py measures what a busy machine blurs here.
    assert 120 <= seconds <= 240
    assert limited.statuses[429] <= 40


def test_a_configured_limit_is_never_hit_and_no_request_is_larger() -> None:
    limited = Limited(CLOCK, TOKENS)
    with limited_server(limited) as base_url:
        vectors = embedder(base_url, tokens_per_minute=TOKENS).embed_documents(TEXTS)
    np.testing.assert_allclose(vectors, expected(TEXTS), atol=1e-6)
    assert set(limited.statuses) == {200}
    assert limited.largest <= TOKENS


def test_where_few_requests_are_allowed_they_are_large() -> None:
    limited = Limited(CLOCK, 10**9, requests=2)
    with limited_server(limited) as base_url:
        built = embedder(base_url, requests_per_minute=2)
        assert len(built.embed_documents(TEXTS)) == len(TEXTS)
    assert limited.statuses == {200: 2}


def test_a_request_larger_than_the_window_is_halved_until_it_passes() -> None:
    limited = Limited(CLOCK, 1_200, window_seconds=6)
    with limited_server(limited) as base_url:
        assert len(embedder(base_url).embed_documents(TEXTS[:6])) == 6
    assert limited.largest <= 4_000
    assert limited.statuses[200] >= 3


def test_a_text_larger_than_the_configured_limit_is_sent_alone() -> None:
    with scripted_server(right) as server:
        texts = ["x" * 700, "y" * 90, "z" * 900]
        vectors = embedder(server.base_url, tokens_per_minute=500).embed_documents(texts)
    np.testing.assert_allclose(vectors, expected(texts), atol=1e-6)
    assert sorted(len(request.body["input"]) for request in server.requests) == [1, 1, 1]


def test_after_a_wait_of_an_hour_was_refused_the_next_call_is_sent_at_once() -> None:
    replies = [error_reply(429, "daily limit", Retry_After="3600")]
    with scripted_server(lambda request: replies.pop() if replies else right(request)) as server:
        built = embedder(server.base_url)
        with pytest.raises(ServiceError, match="in 3600 seconds"):
            built.embed_documents(TEXTS[:1])
        started = CLOCK.now()
        assert len(built.embed_documents(TEXTS[:1])) == 1
        assert CLOCK.now() - started < 60


# Failures


@pytest.mark.parametrize("seed", range(2))
def test_when_a_third_of_the_calls_fails_in_every_way_all_is_embedded_once_and_in_order(
    seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="kb")
    limited = Limited(CLOCK, 10**9, failures=0.3, seed=seed)
    with limited_server(limited) as base_url:
        built = embedder(base_url, max_batch_items=2)
        parts = [(list(part.rows), part.vectors) for part in built.embed_parts(TEXTS)]
    rows = [row for part, _ in parts for row in part]
    assert sorted(rows) == list(range(len(TEXTS)))
    vectors = np.concatenate([vectors for _, vectors in parts if vectors is not None])
    np.testing.assert_allclose(vectors[np.argsort(rows)], expected(TEXTS), atol=1e-6)
    assert limited.statuses[429] + limited.statuses[500] > 5
    assert {"rate limited", "request failed"} <= set(caplog.messages), "a log says what a run waits for"
    assert Counter(limited.answered) == Counter(TEXTS), "what was answered whole is not sent again"


def test_a_service_that_only_fails_is_given_up_after_the_retries() -> None:
    with scripted_server(lambda request: error_reply(500, "down")) as server:
        with pytest.raises(ServiceError, match="down"):
            embedder(server.base_url, retries=2).embed_documents(TEXTS[:3])
        assert len(server.requests) == 3


def test_a_service_that_lets_nothing_pass_is_given_up_after_some_windows() -> None:
    started = CLOCK.now()
    with (
        scripted_server(lambda request: error_reply(429, "slow down")) as server,
        pytest.raises(ServiceError, match="asked too often"),
    ):
        embedder(server.base_url).embed_documents(TEXTS[:3])
    assert 150 <= CLOCK.now() - started <= 300


def test_a_text_that_always_fails_is_set_aside_while_others_are_answered() -> None:
    def script(request: Request) -> Reply:
        return error_reply(500, "NaN") if TEXTS[7] in request.body["input"] else right(request)

    with scripted_server(script) as server:
        built = embedder(server.base_url, retries=1, max_batch_items=4)
        parts = list(built.embed_parts(TEXTS[:20]))
    aside = [part for part in parts if part.vectors is None]
    assert [list(part.rows) for part in aside] == [[7]]
    assert "while others were answered" in str(aside[0].refused)
    assert sum(len(part.rows) for part in parts) == 20


def test_a_service_that_takes_fewer_inputs_is_sent_fewer_from_then_on() -> None:
    def script(request: Request) -> Reply:
        return error_reply(413, "at most 10") if len(request.body["input"]) > 10 else right(request)

    with scripted_server(script) as server:
        vectors = embedder(server.base_url, in_flight=1).embed_documents([f"text {i}" for i in range(64)])
        sizes = [len(request.body["input"]) for request in server.requests]
    assert len(vectors) == 64
    assert sizes == [64, 32, 16, *[8] * 8]


# In an ingest: the ledger has what was paid for


def test_a_refused_chunk_is_named_and_the_rest_of_its_request_is_indexed(tmp_path: Path) -> None:
    def script(request: Request) -> Reply:
        refused = any("seven" in text for text in request.body["input"])
        return error_reply(400, "invalid input") if refused else right(request)

    with scripted_server(script) as server:
        place = Place(tmp_path / "documents", tmp_path / "data", embedder=embedder(server.base_url))
        place.write("a.md", a_text(NUMBERS))
        place.write("b.md", a_text(["lion", "tiger"], title="b"))
        report = place.ingest(options=CHUNKING)
    assert (report.indexed, report.failed, report.embedded) == (1, 1, 13)
    assert "characters" in report.problems[0].reason
    assert "invalid input" in report.problems[0].reason


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (error_reply(429, "You exceeded your quota", "insufficient_quota", Retry_After="1"), QuotaError),
        (error_reply(401, "no"), AuthenticationError),
    ],
    ids=["no credit", "the key"],
)
def test_when_the_account_ends_the_run_ends_and_what_was_answered_is_not_paid_again(
    tmp_path: Path, reply: Reply, error: type[ServiceError]
) -> None:
    answered: list[str] = []

    def script(request: Request) -> Reply:
        if len(answered) >= 6:
            return reply
        answered.extend(request.body["input"])
        return right(request)

    with scripted_server(script) as server:
        place = Place(tmp_path / "documents", tmp_path / "data", embedder=embedder(server.base_url, max_batch_items=2))
        place.write("a.md", a_text(NUMBERS))
        started = time.monotonic()
        with pytest.raises(error):
            place.ingest(options=CHUNKING)
        assert time.monotonic() - started < 5
        ended = len(server.requests)
        assert ended <= 3 + 4, "none is sent after the first refusal, but those that were under way"
        server.script = right
        report = place.ingest(options=CHUNKING)
    assert report.embedded == 12 - len(answered)
    assert not set(answered) & {text for request in server.requests[ended:] for text in request.body["input"]}


def test_parts_are_kept_before_the_last_request_is_answered(tmp_path: Path) -> None:
    def script(request: Request) -> Reply:
        if "This part is about twelve only." in request.body["input"][0]:
            return Reply(500, [b""], wait_seconds=0.3, headers={"x-should-retry": "false"})
        return right(request)

    with scripted_server(script) as server:
        place = Place(tmp_path / "documents", tmp_path / "data", embedder=embedder(server.base_url, max_batch_items=1))
        place.write("a.md", a_text(NUMBERS))
        with pytest.raises(ServiceError):
            place.ingest(options=CHUNKING)
        server.script = right
        assert place.ingest(options=CHUNKING).embedded == 1


# kill -9 and Ctrl-C

INGEST = """
import sys
from pathlib import Path
from kb.components import Parts
from kb.embedding.openai import OpenAIEmbedder, Options
from tests.end_to_end._bases import Place
built = OpenAIEmbedder(
    Options(base_url=sys.argv[1], model="a-model", dimensions=8, vocabulary="bytes", max_batch_items=3),
    Parts(secret=lambda name: "none"),
)
chunking = {"recursive": {"size_tokens": 60, "min_tokens": 0}}
Place(Path(sys.argv[2]), Path(sys.argv[3]), embedder=built).ingest(options={"chunking": chunking})
"""


def test_after_kill_nine_among_rate_limits_only_what_was_under_way_is_embedded_again(tmp_path: Path) -> None:
    count = itertools.count(1)
    answered: list[list[str]] = []

    def script(request: Request) -> Reply:
        if next(count) % 3 == 0:
            return error_reply(429, "slow down", "rate_limit_exceeded", Retry_After="0.02")
        answered.append(request.body["input"])
        return right(request)

    with scripted_server(script) as server:
        place = Place(tmp_path / "documents", tmp_path / "data", embedder=embedder(server.base_url, max_batch_items=3))
        for number in range(10):
            place.write(f"{number}.md", a_text([f"{word} {number}" for word in NUMBERS]))
        arguments = [server.base_url, str(place.documents), str(place.data)]
        with child(INGEST, *arguments) as process:
            until = time.monotonic() + 60
            while sum(map(len, answered)) < 45 and process.poll() is None and time.monotonic() < until:
                time.sleep(0.005)
            process.kill()
        before = [text for texts in answered for text in texts]
        assert 0 < len(before) < 120, "killed in the middle"
        answered.clear()
        report = place.ingest(options=CHUNKING)
    after = [text for texts in answered for text in texts]
    assert report.chunks_total == 120
    assert len(after) == len(set(after)) == report.embedded
    assert set(before) | set(after) == {chunk.embedded_text for _, chunk, _ in place.contents().values()}
    assert len(set(before) & set(after)) <= 4 * 3, "four requests of three texts were under way"


CHILD = """
import sys
from kb.components import Parts
from kb.embedding.openai import OpenAIEmbedder, Options
built = OpenAIEmbedder(
    Options(base_url=sys.argv[1], model="m", dimensions=8, vocabulary="bytes"), Parts(secret=lambda name: "none")
)
built.embed_documents([str(i) * 500 for i in range(64)])
"""


@pytest.mark.parametrize(
    "reply",
    [Reply(200, [b"{}"], wait_seconds=20), error_reply(429, "slow down", Retry_After="60")],
    ids=["while a request hangs", "while it waits for a window"],
)
def test_ctrl_c_ends_it_at_once(reply: Reply) -> None:
    with scripted_server(lambda request: reply) as server, child(CHILD, server.base_url) as process:
        until = time.monotonic() + 60
        while not server.requests and time.monotonic() < until:
            time.sleep(0.02)
        time.sleep(0.3)
        started = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
        assert time.monotonic() - started < 6, "a second or less, but Python's own end takes longer on a busy machine"
    assert "KeyboardInterrupt" in said


# Chat


def test_chats_with_one_model_share_its_limits_and_never_hit_them() -> None:
    limited = Limited(CLOCK, 10**9, requests=3)
    with limited_server(limited) as base_url:
        purpose = ChatPurpose(base_url=base_url, model="m", requests_per_minute=3, retries=0)
        chats = [OpenAIChat(purpose, lambda name: "none", CLOCK) for _ in range(2)]
        started = CLOCK.now()
        for i in range(7):
            assert chats[i % 2].complete([Message("user", "hello")]) == "fine"
    assert set(limited.statuses) == {200}
    assert CLOCK.now() - started >= 120


def test_a_chat_waits_for_room_among_the_tokens_of_a_minute() -> None:
    limited = Limited(CLOCK, 2_500)
    with limited_server(limited) as base_url:
        purpose = ChatPurpose(base_url=base_url, model="m", tokens_per_minute=2_500, max_tokens=1_000, retries=0)
        chat = OpenAIChat(purpose, lambda name: "none", CLOCK)
        for _ in range(4):
            chat.complete([Message("user", "こんにちは" * 10)])
    assert set(limited.statuses) == {200}


def test_the_embedder_hands_over_parts_and_says_its_limits() -> None:
    built = embedder("http://127.0.0.1:1/v1", tokens_per_minute=7, requests_per_minute=3)
    assert (built.model, built.tokens_per_minute, built.requests_per_minute) == ("a-model", 7, 3)
    assert isinstance(built, EmbedsInParts)
