"""Stopping what is under way at a service: the service sees the connection closed, whoever waits goes on at once."""

from __future__ import annotations

import contextlib
import gc
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextvars import copy_context
from pathlib import Path
from typing import Any

import pytest

from kb.components import Message, Parts, build_component
from kb.errors import ServiceError, StoppedError
from kb.services.cancel import NEVER, Cancellation, cancelled_by, current
from kb.services.clock import Clock
from kb.services.replies import replies
from tests.certificates import loopback_certificate
from tests.end_to_end._chats import HELLO, HITS, chat, generator
from tests.llm_server import (
    Reply,
    Request,
    Serve,
    chat_reply,
    chunk,
    error_reply,
    stream_bytes,
    stream_reply,
)

PATIENCE = 20.0
"""Longer than a busy machine needs, far shorter than the services here go on."""
FOREVER = 60.0


def waited_for(what: Callable[[], object]) -> bool:
    until = time.monotonic() + PATIENCE
    while not what() and time.monotonic() < until:
        time.sleep(0.01)
    return bool(what())


def writes_on(request: Request) -> Reply:
    """A model that goes on writing until nobody listens any more."""

    def pieces() -> Iterator[bytes]:
        until = time.monotonic() + FOREVER
        while time.monotonic() < until:
            yield stream_bytes([chunk("退款 ")], done=False)
            time.sleep(0.01)

    return Reply(200, pieces(), "text/event-stream")


class FallsSilent:
    """A model that says one word and then nothing, until the client leaves."""

    def __init__(self) -> None:
        self.over = threading.Event()

    def __call__(self, request: Request) -> Reply:
        def pieces() -> Iterator[bytes]:
            yield stream_bytes([chunk("Refunds ")], done=False)
            self.over.wait(FOREVER)

        return Reply(200, pieces(), "text/event-stream")


def says_nothing(request: Request) -> Reply:
    """A service that takes a request and answers when nobody waits any more."""
    return Reply(200, [b"{}"], wait_seconds=FOREVER)


def heard(stream: Iterable[str], said: list[str]) -> None:
    for piece in stream:
        said.append(piece)  # one by one: another thread looks at what has come


class Asked:
    """A call in a thread of its own, which a cancellation stops."""

    def __init__(self, ask: Callable[[], object]) -> None:
        self.stop = Cancellation()
        self.ended: BaseException | object = None
        self._thread = threading.Thread(target=self._run, args=(ask,), daemon=True)
        self._thread.start()

    def _run(self, ask: Callable[[], object]) -> None:
        try:
            with cancelled_by(self.stop):
                self.ended = ask()
        except BaseException as error:  # noqa: BLE001  looked at by the test
            self.ended = error

    def stopped_after(self) -> float:
        """Stop it; how many seconds it then went on."""
        started = time.monotonic()
        self.stop.cancel()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "it still waits"
        assert isinstance(self.ended, StoppedError), self.ended
        return time.monotonic() - started


# ── closing a generator ──


@pytest.mark.parametrize("through", ["chat", "generator"])
def test_closing_a_stream_closes_the_connection(serve: Serve, through: str) -> None:
    server = serve(writes_on)
    talk = chat(server.base_url)
    stream: Any = talk.stream(HELLO) if through == "chat" else generator(server.base_url).stream("How long?", HITS)
    assert next(stream).strip() == "退款"
    assert server.left == []
    stream.close()
    assert waited_for(lambda: server.left)


def test_a_stream_that_nobody_holds_any_more_is_closed(serve: Serve) -> None:
    server = serve(writes_on)
    stream = chat(server.base_url).stream(HELLO)
    next(stream)
    del stream
    gc.collect()
    assert waited_for(lambda: server.left)


def test_a_stream_may_be_continued_and_closed_in_other_threads_and_contexts(serve: Serve) -> None:
    server = serve(writes_on)
    stream = chat(server.base_url).stream(HELLO)
    found: list[object] = []
    for step in (lambda: next(stream), lambda: next(stream), stream.close):
        thread = threading.Thread(target=lambda step=step: found.append(copy_context().run(step)))
        thread.start()
        thread.join(PATIENCE)
    assert found == ["退款 ", "退款 ", None]
    assert waited_for(lambda: server.left)


# ── from another thread ──


def test_waiting_for_the_next_word_ends_at_once(serve: Serve) -> None:
    model = FallsSilent()
    server = serve(model)
    said: list[str] = []
    asked = Asked(lambda: heard(chat(server.base_url).stream(HELLO), said))
    assert waited_for(lambda: said)
    assert asked.stopped_after() < 5
    assert said == ["Refunds "]
    model.over.set()


def test_the_service_sees_a_whole_reply_left_before_it_has_answered(serve: Serve) -> None:
    server = serve(says_nothing)
    asked = Asked(lambda: chat(server.base_url).complete(HELLO))
    assert waited_for(lambda: server.requests)
    asked.stopped_after()
    assert waited_for(lambda: server.left)


def test_a_connection_that_is_used_again_is_stopped_as_well(serve: Serve) -> None:
    server = serve(lambda request: chat_reply("fine") if len(server.requests) == 1 else says_nothing(request))
    talk = chat(server.base_url)
    talk.complete(HELLO)
    asked = Asked(lambda: talk.complete(HELLO))
    assert waited_for(lambda: len(server.requests) == 2)
    asked.stopped_after()
    assert waited_for(lambda: server.left)


def test_a_generator_keeps_the_cancellation_that_it_started_with(serve: Serve) -> None:
    server = serve(writes_on)
    stop = Cancellation()
    stream = generator(server.base_url).stream("How long?", HITS)
    with cancelled_by(stop):
        next(stream)
    assert current() is NEVER
    next(stream)
    stop.cancel()
    with pytest.raises(StoppedError):
        list(stream)
    assert waited_for(lambda: server.left)


def test_only_what_was_asked_for_is_stopped(serve: Serve) -> None:
    server = serve(lambda request: writes_on(request) if request.body.get("stream") else chat_reply("fine"))
    talk = chat(server.base_url)
    other = talk.stream(HELLO)
    next(other)
    asked = Asked(lambda: list(talk.stream(HELLO)))
    assert waited_for(lambda: len(server.requests) == 2)
    asked.stopped_after()
    assert waited_for(lambda: server.left)
    assert len(server.left) == 1
    assert next(other) == "退款 "
    assert talk.complete(HELLO) == "fine"
    other.close()


def test_what_was_stopped_sends_nothing_more(serve: Serve) -> None:
    server = serve(lambda request: chat_reply("fine"))
    talk = chat(server.base_url)
    stop = Cancellation()
    stop.cancel()
    stop.cancel()
    with cancelled_by(stop):
        for ask in (lambda: talk.complete(HELLO), lambda: list(talk.stream(HELLO))):
            with pytest.raises(StoppedError):
                ask()
    assert server.requests == []
    assert talk.complete(HELLO) == "fine"


@pytest.mark.parametrize("status", [429, 503])
def test_waiting_for_the_next_try_is_stopped(serve: Serve, status: int) -> None:
    server = serve(lambda request: error_reply(status, "later", Retry_After="60"))
    asked = Asked(lambda: chat(server.base_url, retries=3).complete(HELLO))
    assert waited_for(lambda: server.requests)
    time.sleep(0.2)
    assert asked.stopped_after() < 5
    assert len(server.requests) == 1


def test_waiting_for_a_rate_limit_is_stopped(serve: Serve) -> None:
    server = serve(lambda request: chat_reply("fine"))
    talk = chat(server.base_url, requests_per_minute=1)
    talk.complete(HELLO)
    asked = Asked(lambda: talk.complete(HELLO))
    time.sleep(0.2)
    assert asked.stopped_after() < 5
    assert len(server.requests) == 1


def test_many_replies_asked_at_the_same_time_are_all_stopped(serve: Serve) -> None:
    server = serve(says_nothing)
    prompts = [[Message("user", str(number))] for number in range(9)]
    asked = Asked(lambda: replies(chat(server.base_url), prompts, 3))
    assert waited_for(lambda: len(server.requests) == 3)
    asked.stopped_after()
    assert waited_for(lambda: len(server.left) == 3)
    assert len(server.requests) == 3


@pytest.mark.parametrize("kind", ["embedding", "rerank"])
def test_embedding_and_reranking_are_stopped(serve: Serve, kind: str) -> None:
    server = serve(says_nothing)
    parts = Parts(secret=lambda name: "none")
    if kind == "embedding":
        table = {"base_url": server.base_url, "dimensions": 8, "vocabulary": "bytes"}
        embedder = build_component("embedding", "openai", table, parts)
        asked = Asked(lambda: embedder.embed_queries(["返金"]))
    else:
        reranker = build_component("rerank", "endpoint", {"base_url": server.base_url}, parts)
        asked = Asked(lambda: reranker.rerank("返金", HITS))
    assert waited_for(lambda: server.requests)
    asked.stopped_after()
    assert waited_for(lambda: server.left)


def test_a_service_that_fails_while_nobody_stops_it_is_no_stop(serve: Serve) -> None:
    server = serve(lambda request: stream_reply([chunk("Half")], done=False, drops=True))
    with cancelled_by(Cancellation()), pytest.raises(ServiceError):
        list(chat(server.base_url).stream(HELLO))


def test_nobody_can_stop_what_has_no_cancellation() -> None:
    current().cancel()
    current().check()


def test_a_wait_by_a_fast_clock_is_as_short_as_it_says() -> None:
    from kb.services.cancel import sleep

    started = time.monotonic()
    sleep(Clock(speed=100.0), 20.0, Cancellation())
    assert 0.2 <= time.monotonic() - started < 5


def test_stopping_while_requests_come_and_go_never_meets_a_stranger(serve: Serve) -> None:
    """A lane that was given back as its request was stopped is not given to another request."""
    server = serve(lambda request: chat_reply("fine"))
    talk = chat(server.base_url)
    failures: list[BaseException] = []

    def others() -> None:
        try:
            for _ in range(30):
                assert talk.complete(HELLO) == "fine"
        except BaseException as error:  # noqa: BLE001  looked at below
            failures.append(error)

    threads = [threading.Thread(target=others) for _ in range(2)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        stop = Cancellation()
        timer = threading.Timer(0.004, stop.cancel)
        timer.start()
        with cancelled_by(stop), contextlib.suppress(StoppedError):
            for _ in range(5):
                talk.complete(HELLO)
        timer.join()
    assert failures == []


# ── over TLS ──


@pytest.mark.parametrize("used_again", [False, True])
def test_an_encrypted_connection_is_stopped_and_closed_as_well(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, used_again: bool
) -> None:
    file = loopback_certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    server = serve(lambda request: writes_on(request) if request.body["stream"] else chat_reply("fine"))
    server.encrypt(file)
    talk = chat(server.base_url)
    if used_again:
        assert talk.complete(HELLO) == "fine"
    said: list[str] = []
    asked = Asked(lambda: heard(talk.stream(HELLO), said))
    assert waited_for(lambda: said)
    assert asked.stopped_after() < 5
    assert waited_for(lambda: server.left)
    stream = talk.stream(HELLO)
    next(stream)
    stream.close()
    assert waited_for(lambda: len(server.left) == 2)
