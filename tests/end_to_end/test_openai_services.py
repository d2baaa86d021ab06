"""The real `openai` client over a socket: against llmock, and against a server that follows a script."""

from __future__ import annotations

import json
import logging
import random
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kb.abilities import CountsRequests, CountsTokens
from kb.answers import Generated
from kb.components import Chat, Embedder, Message, Parts, build_component
from kb.errors import AuthenticationError, ConfigError, KbError, MissingKeyError, QuotaError, RefusedError, ServiceError
from kb.prompts import SENTINEL, not_found_text
from kb.records import Chunk, Hit
from kb.services.chat import OpenAIChat
from kb.services.tokens import TokenCounter
from kb.settings import ChatPurpose
from tests.llm_server import (
    LlmockServer,
    Reply,
    Request,
    Script,
    ScriptedServer,
    chat_reply,
    chat_script,
    chunk,
    embedding_rows,
    embeddings_reply,
    error_reply,
    json_reply,
    llmock_server,
    stream_reply,
    vector_for,
)

KEY = "sk-test-3f9c2b7d41e8a6"
DIMENSION = 8


@pytest.fixture(scope="module")
def llmock_process() -> Iterator[LlmockServer]:
    with llmock_server() as server:
        yield server


@pytest.fixture
def mock(llmock_process: LlmockServer) -> LlmockServer:
    llmock_process.reset()
    return llmock_process


def secrets(**values: str) -> Callable[[str], str | None]:
    return {"OPENAI_API_KEY": KEY, **values}.get


def embedder(base_url: str, **options: Any) -> Any:
    table = {"base_url": base_url, "dimensions": DIMENSION, "vocabulary": "bytes", "retries": 0, **options}
    return build_component("embedding", "openai", table, Parts(secret=secrets()))


def chat(base_url: str, **purpose: Any) -> OpenAIChat:
    return OpenAIChat(ChatPurpose(base_url=base_url, **{"retries": 0, **purpose}), secrets())


def generator(base_url: str, **purpose: Any) -> Any:
    return build_component("generation", "openai", {}, Parts(chat=lambda: chat(base_url, **purpose)))


def hit(text: str, number: int = 1) -> Hit:
    return Hit(Chunk(f"c{number}", f"d{number}", text, 0, len(text)), f"file{number}.md", 0.9, "dense", 0.9)


HITS = (hit("Refunds are paid within 30 days.", 1), hit("运费不退。", 2))
HELLO = [Message("user", "hello")]


def right_embeddings(request: Request) -> Reply:
    return embeddings_reply(request, embedding_rows(request, DIMENSION))


def expected_rows(texts: list[str]) -> np.ndarray[Any, Any]:
    rows = np.array([vector_for(text, DIMENSION) for text in texts])
    unit: np.ndarray[Any, Any] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit


def streamed(parts: Any) -> tuple[str, Generated]:
    pieces = []
    while True:
        try:
            pieces.append(next(parts))
        except StopIteration as stop:
            return "".join(pieces), stop.value


# ── embeddings ──


def test_embedder_offers_what_the_pipeline_asks_of_it(serve: Callable[[Script], ScriptedServer]) -> None:
    built: Embedder = embedder(serve(right_embeddings).base_url)
    assert isinstance(built, CountsTokens)
    assert isinstance(built, CountsRequests)
    texts = ["一つ目の文", "second text", "第三"]
    vectors = built.embed_documents(texts)
    assert vectors.dtype == np.float32
    assert vectors.shape == (3, DIMENSION)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(vectors, expected_rows(texts), atol=1e-6)
    np.testing.assert_array_equal(built.embed_queries(texts[:1])[0], vectors[0])
    assert built.requests == 2


def test_no_texts_give_no_rows_and_no_request(serve: Callable[[Script], ScriptedServer]) -> None:
    server = serve(right_embeddings)
    assert embedder(server.base_url).embed_documents([]).shape == (0, DIMENSION)
    assert server.requests == []


@pytest.mark.parametrize("encoding_format", ["base64", "float"])
def test_vectors_are_the_same_in_both_formats_they_travel_in(
    serve: Callable[[Script], ScriptedServer], encoding_format: str
) -> None:
    server = serve(right_embeddings)
    vectors = embedder(server.base_url, encoding_format=encoding_format).embed_documents(["a", "b"])
    assert server.requests[0].body["encoding_format"] == encoding_format
    np.testing.assert_allclose(vectors, expected_rows(["a", "b"]), atol=1e-6)


def test_vectors_that_arrive_in_another_order_go_to_their_texts_by_index(
    serve: Callable[[Script], ScriptedServer],
) -> None:
    def shuffled(request: Request) -> Reply:
        rows = embedding_rows(request, DIMENSION)
        random.Random(7).shuffle(rows)
        return embeddings_reply(request, rows)

    texts = [f"text {i}" for i in range(50)]
    vectors = embedder(serve(shuffled).base_url).embed_documents(texts)
    np.testing.assert_allclose(vectors, expected_rows(texts), atol=1e-6)


def _nan(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "embedding": [float("nan")] * DIMENSION} for row in rows]


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda rows: rows[:-1], "2 vectors for 3 texts"),
        (lambda rows: [rows[0], rows[2], rows[2]], "two vectors for text 2"),
        (lambda rows: [rows[0], rows[1], {**rows[2], "index": 3}], "a vector for text 3 of 3"),
        (lambda rows: [*rows, {**rows[0], "index": -1}], "a vector for text -1 of 3"),
        (lambda rows: [rows[0], rows[1], {**rows[2], "index": None}], "a vector for text None of 3"),
        (lambda rows: [], "0 vectors for 3 texts"),
        (_nan, "zero or not finite"),
        (lambda rows: [{**row, "embedding": [0.0] * DIMENSION} for row in rows], "zero or not finite"),
        (lambda rows: [rows[0], rows[1], {**rows[2], "embedding": [1.0]}], "different widths"),
        (lambda rows: [{**row, "embedding": [1.0, 2.0]} for row in rows], "vectors of 2 numbers where 8 were expected"),
        (lambda rows: [{**row, "embedding": "!!"} for row in rows], "no numbers"),
    ],
)
def test_an_answer_without_exactly_one_good_vector_for_each_text_fails_the_batch(
    serve: Callable[[Script], ScriptedServer], spoil: Callable[[Any], Any], says: str
) -> None:
    server = serve(lambda request: embeddings_reply(request, spoil(embedding_rows(request, DIMENSION))))
    with pytest.raises(ServiceError, match=says):
        embedder(server.base_url).embed_documents(["a", "b", "c"])


@pytest.mark.parametrize("in_flight", [1, 4])
def test_three_thousand_long_chunks_stay_within_every_limit_of_a_request_and_come_in_order(
    serve: Callable[[Script], ScriptedServer], in_flight: int
) -> None:
    server = serve(right_embeddings)
    built = embedder(server.base_url, in_flight=in_flight)
    texts = [f"{i:05d}" + "x" * 395 for i in range(3_000)]  # 400 tokens each by the bound that counts bytes
    vectors = built.embed_documents(texts)
    sizes = [len(request.body["input"]) for request in server.requests]
    assert max(sizes) <= 750, "300,000 / 400 = 750"
    assert max(sizes) >= 3_000 / in_flight / 8, "the first requests are small, later ones are not"
    assert sorted(text for request in server.requests for text in request.body["input"]) == texts
    np.testing.assert_allclose(vectors, expected_rows(texts), atol=1e-6)


def test_a_request_holds_at_most_two_thousand_texts(serve: Callable[[Script], ScriptedServer]) -> None:
    server = serve(right_embeddings)
    embedder(server.base_url, in_flight=1).embed_documents([str(i % 10) for i in range(4_001)])
    assert [len(request.body["input"]) for request in server.requests] == [2_000, 2_000, 1]


def test_no_setting_allows_more_than_the_limits() -> None:
    for options in ({"max_batch_items": 2_001}, {"max_batch_tokens": 300_001}, {"max_tokens": 8_193}):
        with pytest.raises(ConfigError):
            embedder("http://127.0.0.1:1/v1", **options)


@pytest.mark.parametrize(("text", "says"), [("", "text 1 is blank"), (" \n", "text 1 is blank"), ("é" * 4_097, "8194")])
def test_a_blank_or_too_long_text_is_refused_before_anything_is_sent(
    serve: Callable[[Script], ScriptedServer], text: str, says: str
) -> None:
    server = serve(right_embeddings)
    with pytest.raises(RefusedError, match=says):
        embedder(server.base_url).embed_documents(["good", text])
    assert server.requests == []


def test_the_dimension_of_an_unknown_model_is_measured_once_and_openai_s_are_known(
    serve: Callable[[Script], ScriptedServer],
) -> None:
    server = serve(right_embeddings)
    unknown = embedder(server.base_url, model="m3e-base", dimensions=None)
    assert (unknown.fingerprint, unknown.dimension, unknown.cutoff) == ("openai:m3e-base:8", 8, 0.3)
    assert len(server.requests) == 1
    assert "dimensions" not in server.requests[0].body
    known = embedder(server.base_url, dimensions=None)
    assert (known.fingerprint, known.cutoff) == ("openai:text-embedding-3-small:1536", 0.7)
    assert len(server.requests) == 1


def test_the_base_url_falls_back_to_its_variable(serve: Callable[[Script], ScriptedServer]) -> None:
    server = serve(right_embeddings)
    parts = Parts(secret=secrets(OPENAI_BASE_URL=server.base_url))
    build_component("embedding", "openai", {"dimensions": 8, "vocabulary": "bytes"}, parts).embed_queries(["a"])
    assert [request.path for request in server.requests] == ["/v1/embeddings"]
    assert server.requests[0].authorization == f"Bearer {KEY}"


def test_llmock_embeds_through_the_real_client(mock: LlmockServer) -> None:
    built = embedder(mock.base_url, model="text-embedding-m", dimensions=None, encoding_format="float")
    texts = ["first", "第二", "三つ目"]
    vectors = built.embed_documents(texts)
    assert vectors.shape == (3, built.dimension)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(built.embed_queries(texts[1:2])[0], vectors[1], atol=1e-6)


# ── tokens ──


def test_tokens_are_counted_by_a_safe_bound_and_said_so_once_where_no_vocabulary_can_be_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    counter = TokenCounter("r50k_base")  # no other test loads this one, so nothing is kept in the process
    with caplog.at_level(logging.WARNING):
        assert counter.count("ab é 字 <|endoftext|>") == len("ab é 字 <|endoftext|>".encode())
        assert counter.count("") == 0
        assert counter.count("\ud800") == 3
    assert counter.vocabulary == "bytes"
    assert sum("UTF-8 bytes" in record.message for record in caplog.records) == 1


# ── chat ──


def test_the_request_carries_the_purpose_s_settings(serve: Callable[[Script], ScriptedServer]) -> None:
    server = serve(chat_script("fine"))
    purpose = {"model": "my-model", "temperature": 0.7, "max_tokens": 3}
    assert chat(server.base_url, **purpose).complete([Message("system", "be brief"), *HELLO]) == "fine"
    body = server.requests[0].body
    assert {name: body[name] for name in purpose} == purpose
    assert body["messages"] == [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello"}]


def test_model_falls_back_to_its_variable_and_then_to_the_default() -> None:
    purpose = ChatPurpose(base_url="http://127.0.0.1:1/v1")
    assert OpenAIChat(purpose, secrets(OPENAI_MODEL="gpt-x")).name == "openai:gpt-x"
    assert OpenAIChat(purpose, secrets()).name == "openai:gpt-4o"


def test_llmock_streams_the_same_text_as_whole(mock: LlmockServer) -> None:
    talk: Chat = chat(mock.base_url)
    pieces = list(talk.stream(HELLO))
    assert len(pieces) > 1
    assert "".join(pieces) == talk.complete(HELLO)


@pytest.mark.parametrize("cut", [0, 1, 7])
def test_a_stream_with_odd_chunks_and_characters_cut_in_two_gives_the_whole_text(
    serve: Callable[[Script], ScriptedServer], cut: int
) -> None:
    text = "返金は30日以内です。😀 ok"
    chunks = [
        {**chunk(None), "choices": []},
        chunk(None, role="assistant"),
        chunk(""),
        *map(chunk, text),
        {**chunk(None), "choices": [{"index": 0, "delta": None, "finish_reason": None}]},
        chunk(None, "stop"),
        {**chunk(None), "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}},
    ]
    server = serve(lambda request: stream_reply(chunks, cut))
    pieces = list(chat(server.base_url).stream(HELLO))
    assert "".join(pieces) == text
    assert all(pieces)


@pytest.mark.parametrize(
    "reply",
    [
        stream_reply([chunk("Half of")], done=False, drops=True),
        stream_reply([chunk("Half of")], done=True),
        stream_reply([chunk("Half of"), {"error": {"message": "overloaded", "code": "x"}}]),
        Reply(
            200,
            [b'data: {"choices": [{"index": 0, "delta": {"content": "Half of"}}]}\n\ndata: {bro\n\n'],
            "text/event-stream",
        ),
    ],
    ids=["dropped", "ends early", "error inside", "no JSON"],
)
def test_a_broken_stream_is_an_error_and_never_a_short_answer(
    serve: Callable[[Script], ScriptedServer], reply: Reply
) -> None:
    stream = iter(chat(serve(lambda request: reply).base_url).stream(HELLO))
    assert next(stream) == "Half of"
    with pytest.raises(ServiceError):
        next(stream)


@pytest.mark.parametrize("kind", ["disconnect", "truncate", "malformed"])
def test_no_stream_that_llmock_breaks_passes_for_whole(mock: LlmockServer, kind: str) -> None:
    mock.script({"type": "stream_fault", "kind": kind, "after_chunks": 2})
    with pytest.raises(ServiceError):
        list(chat(mock.base_url).stream(HELLO))


def test_a_model_that_refuses_the_usual_parameters_is_asked_in_its_own(
    serve: Callable[[Script], ScriptedServer],
) -> None:
    def reasoning_model(request: Request) -> Reply:
        for name in ("max_tokens", "temperature"):
            if name in request.body:
                message = f"Unsupported parameter: '{name}'"
                return json_reply({"error": {"message": message, "param": name, "code": "unsupported_parameter"}}, 400)
        return chat_reply("thought about it")

    server = serve(reasoning_model)
    talk = chat(server.base_url, max_tokens=77)
    assert talk.complete(HELLO) == "thought about it"
    assert server.requests[-1].body["max_completion_tokens"] == 77
    assert talk.complete(HELLO) == "thought about it"
    assert len(server.requests) == 4  # refused twice, answered, and then remembered


# ── waiting and giving up ──


def test_a_rate_limit_is_waited_for_as_long_as_the_service_asks(mock: LlmockServer) -> None:
    mock.script({"type": "fail", "status": 429, "retry_after": 1, "times": 1})
    started = time.monotonic()
    assert chat(mock.base_url, retries=2).complete(HELLO)
    assert time.monotonic() - started >= 1
    assert len(mock.requests()) == 2


def test_a_rate_limit_that_stays_is_one_clear_error_after_the_retries(
    serve: Callable[[Script], ScriptedServer],
) -> None:
    server = serve(lambda request: error_reply(429, "slow down", "rate_limit_exceeded", Retry_After="0.05"))
    with pytest.raises(ServiceError, match="asked too often") as raised:
        chat(server.base_url, retries=2).complete(HELLO)
    assert type(raised.value) is ServiceError
    assert raised.value.status == 429
    assert len(server.requests) == 3


def test_a_wait_of_an_hour_is_not_waited(serve: Callable[[Script], ScriptedServer]) -> None:
    server = serve(lambda request: error_reply(429, "daily limit", Retry_After="3600"))
    with pytest.raises(ServiceError, match="in 3600 seconds"):
        chat(server.base_url, retries=2).complete(HELLO)
    assert len(server.requests) == 1


def test_an_empty_account_stops_at_once(serve: Callable[[Script], ScriptedServer]) -> None:
    server = serve(lambda request: error_reply(429, "You exceeded your quota", "insufficient_quota", Retry_After="1"))
    with pytest.raises(QuotaError, match="no credit left"):
        chat(server.base_url, retries=5).complete(HELLO)
    with pytest.raises(QuotaError):
        embedder(server.base_url, retries=5).embed_documents(["a"])
    assert len(server.requests) == 2


def test_a_server_error_is_tried_again(mock: LlmockServer) -> None:
    mock.script({"type": "fail", "status": 503, "times": 1})
    assert list(chat(mock.base_url, retries=1).stream(HELLO))


def test_a_service_that_hangs_is_given_up_after_the_timeout(serve: Callable[[Script], ScriptedServer]) -> None:
    server = serve(lambda request: Reply(200, [b"{}"], wait_seconds=1.5))
    with pytest.raises(ServiceError, match=r"did not answer within 0\.3 seconds"):
        chat(server.base_url, timeout_seconds=0.3).complete(HELLO)


# ── one clear line, and never the key ──


def _closed_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@pytest.mark.parametrize("ask", ["chat", "stream", "embed"])
@pytest.mark.parametrize(
    ("reply", "error", "says"),
    [
        (error_reply(401, f"Incorrect API key provided: {KEY}."), AuthenticationError, ["OPENAI_API_KEY", "401"]),
        (error_reply(403, "no access to model"), AuthenticationError, ["OPENAI_API_KEY", "403"]),
        (error_reply(404, "The model does not exist", "model_not_found"), RefusedError, ["gpt-none", "/v1", "404"]),
        (error_reply(400, "maximum context length is 8192"), RefusedError, ["gpt-none", "maximum context length"]),
        (error_reply(413, "too large"), RefusedError, ["413"]),
        (error_reply(402, "Insufficient Balance"), QuotaError, ["no credit left"]),
        (error_reply(500, f"\x1b[31mboom\x1b[0m\n{KEY} " + "x" * 5_000), ServiceError, ["boom [key] xxx", "500"]),
        (Reply(502, [b"<html><body>Bad gateway</body></html>"], "text/html"), ServiceError, ["502", "an HTML page"]),
        (Reply(200, [b"<html>hello</html>"], "text/html"), ServiceError, ["base_url", "broke off"]),
        (Reply(200, [b'{"choi'], "application/json"), ServiceError, ["base_url", "broke off"]),
        (json_reply({"hello": "there"}), ServiceError, ["base_url", "broke off"]),
        (json_reply(["hello"]), ServiceError, ["base_url", "broke off"]),
        (None, ServiceError, ["cannot reach", "base_url"]),
    ],
    ids=["401", "403", "404", "400", "413", "402", "500", "502", "page", "half", "other", "list", "refused"],
)
def test_each_failure_is_one_clear_line_without_the_key(
    serve: Callable[[Script], ScriptedServer], ask: str, reply: Reply | None, error: type[KbError], says: list[str]
) -> None:
    base_url = serve(lambda request: reply).base_url if reply else f"http://127.0.0.1:{_closed_port()}/v1"
    asks: dict[str, Callable[[], object]] = {
        "embed": lambda: embedder(base_url, model="gpt-none").embed_documents(["a"]),
        "chat": lambda: chat(base_url, model="gpt-none").complete(HELLO),
        "stream": lambda: list(chat(base_url, model="gpt-none").stream(HELLO)),
    }
    with pytest.raises(error) as raised:
        asks[ask]()
    assert type(raised.value) is error
    message = str(raised.value)
    shown = "".join(traceback.format_exception(raised.value))
    assert KEY not in shown
    assert KEY not in repr(vars(raised.value))
    assert message.isprintable()
    assert len(message) < 600
    if says[-1] == "broke off":
        assert any(part in message for part in says)
    else:
        assert all(part in message for part in says), message


def test_an_address_without_v1_gets_a_hint(mock: LlmockServer) -> None:
    with pytest.raises(RefusedError, match="which for most services ends in /v1"):
        chat(mock.base_url.removesuffix("/v1")).complete(HELLO)
    with pytest.raises(RefusedError, match="should end before /chat/completions"):
        chat(mock.base_url + "/chat/completions").complete(HELLO)


def test_a_password_in_the_address_is_not_shown() -> None:
    password = "hunter2"
    talk = chat(f"http://me:{password}@127.0.0.1:{_closed_port()}/v1")
    with pytest.raises(ServiceError, match="cannot reach") as raised:
        talk.complete(HELLO)
    assert password not in "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize("value", [None, "", "  "])
def test_a_missing_key_names_the_variable_and_the_example_file(value: str | None) -> None:
    purpose = ChatPurpose(base_url="http://127.0.0.1:1/v1", api_key_env="MY_KEY")
    with pytest.raises(MissingKeyError, match=r"MY_KEY is not set.*\.env\.example"):
        OpenAIChat(purpose, {"MY_KEY": value}.get)
    with pytest.raises(MissingKeyError, match="MY_KEY is not set"):
        build_component("embedding", "openai", {"api_key_env": "MY_KEY"}, Parts(secret={"MY_KEY": value}.get))


@pytest.mark.parametrize("key", ["sk-ключ-0123456789", "two words-0123456789", "line\nbreak-0123456789"])
def test_a_key_that_no_header_can_carry_is_named_but_not_shown(key: str) -> None:
    with pytest.raises(ConfigError, match="OPENAI_API_KEY holds characters") as raised:
        OpenAIChat(ChatPurpose(base_url="http://127.0.0.1:1/v1"), secrets(OPENAI_API_KEY=key))
    assert "0123456789" not in str(raised.value)


@pytest.mark.parametrize("address", ["api.example.com/v1", "ftp://example.com", "http://", "http://host:port/v1"])
def test_an_address_that_is_none_is_a_setting_s_error(address: str) -> None:
    with pytest.raises(ConfigError, match="OPENAI_BASE_URL"):
        OpenAIChat(ChatPurpose(), secrets(OPENAI_BASE_URL=address))


def test_importing_the_rules_loads_no_client() -> None:
    code = "import kb.citations, kb.prompts, kb.settings, sys; print([m for m in sys.modules if 'openai' in m])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


# ── the generator ──


@pytest.mark.parametrize(
    ("said", "text", "answered"),
    [
        (
            "Refunds take 30 days [1], 运费不退【2】.\n",
            "Refunds take 30 days [1], 运费不退【2】.".replace("【2】", "[2]"),
            True,
        ),
        ("\n Within 30 days [1, 7][99]. See array[2].", "Within 30 days [1]. See array[2].", True),
        (SENTINEL, not_found_text("en"), False),
        (f"\n**{SENTINEL}**\n", not_found_text("en"), False),
        (f"{SENTINEL}\nBut maybe 30 days [1].", not_found_text("en"), False),
        (f"Within 30 days [1].\n\n{SENTINEL}", "Within 30 days [1].", True),
        (f"I cannot tell.\n`{SENTINEL}`", "I cannot tell.", False),
        ("NOT_IN_STOCK is a status [1].", "NOT_IN_STOCK is a status [1].", True),
        ("N", "N", True),
        ("The provided documents do not mention refunds. Please ask support.", not_found_text("en"), False),
        ("资料中没有提到退款。", not_found_text("en"), False),
        ("資料には返金についての記載がありません [9]。", not_found_text("en"), False),
        ("The documents do not mention it [2].", "The documents do not mention it [2].", True),
        ("The documents do not mention fees. Refunds take 30 days.",) * 2 + (True,),
        ("30 days [1](https://evil.example/?q=1). ![](//evil.example/x)", "30 days [1]. (link removed)", True),
        ("Within 30 days [source 1], 运费不退（来源2）。", "Within 30 days [1], 运费不退[2]。", True),
        ("30 days.", "30 days.", True),
    ],
)
def test_whole_and_streamed_answers_are_equal(
    serve: Callable[[Script], ScriptedServer], said: str, text: str, answered: bool
) -> None:
    server = serve(chat_script(said))
    built = generator(server.base_url)
    whole = built.generate("How long do refunds take?", HITS)
    pieces, generated = streamed(built.stream("How long do refunds take?", HITS))
    assert pieces == generated.text
    assert generated == whole
    assert (whole.text, whole.answered) == (text, answered)
    assert SENTINEL not in whole.text
    assert [request.body.get("stream", False) for request in server.requests] == [False, True]


def test_what_the_model_cited_without_having_seen_it_is_reported(serve: Callable[[Script], ScriptedServer]) -> None:
    built = generator(serve(chat_script("Yes [1][99].")).base_url)
    assert any("[99]" in note for note in built.generate("Is it?", HITS).notes)
    uncited = generator(serve(chat_script("Yes.")).base_url).generate("Is it?", HITS)
    assert any("cites no source" in note for note in uncited.notes)


def test_a_question_without_hits_is_declined_in_its_language_without_a_request(
    serve: Callable[[Script], ScriptedServer],
) -> None:
    server = serve(chat_script("never"))
    built = generator(server.base_url)
    assert built.generate("退款要几天？", []) == Generated(not_found_text("zh"), answered=False)
    assert streamed(built.stream("返金は何日？", [])) == (
        not_found_text("ja"),
        Generated(not_found_text("ja"), answered=False),
    )
    assert server.requests == []


def test_the_model_sees_contexts_sources_and_question(serve: Callable[[Script], ScriptedServer]) -> None:
    server = serve(chat_script("Yes [1]."))
    generator(server.base_url).generate("How long?", HITS)
    sent = json.dumps(server.requests[0].body, ensure_ascii=False)
    for part in ("Refunds are paid within 30 days.", "运费不退。", "file1.md", "file2.md", "How long?", SENTINEL):
        assert part in sent


def test_an_answer_cut_at_its_greatest_length_says_so(serve: Callable[[Script], ScriptedServer]) -> None:
    def cut_off(request: Request) -> Reply:
        if request.body.get("stream"):
            return stream_reply([chunk("Within 30"), chunk(" days [1] and", "length")])
        return chat_reply("Within 30 days [1] and", "length")

    built = generator(serve(cut_off).base_url)
    whole = built.generate("How long?", HITS)
    assert any("max_tokens" in note for note in whole.notes)
    assert streamed(built.stream("How long?", HITS))[1] == whole


@pytest.mark.parametrize(
    ("finish", "says"), [("stop", "empty reply"), ("length", "max_tokens"), ("content_filter", "filter")]
)
def test_an_empty_reply_is_an_error_that_says_why(
    serve: Callable[[Script], ScriptedServer], finish: str, says: str
) -> None:
    def empty(request: Request) -> Reply:
        return stream_reply([chunk(None, finish)]) if request.body.get("stream") else chat_reply(None, finish)

    built = generator(serve(empty).base_url)
    with pytest.raises(ServiceError, match=says):
        built.generate("How long?", HITS)
    with pytest.raises(ServiceError, match=says):
        streamed(built.stream("How long?", HITS))


def test_llmock_answers_through_the_generator(mock: LlmockServer) -> None:
    built = generator(mock.base_url)
    whole = built.generate("How long do refunds take?", HITS)
    assert whole.text
    assert streamed(built.stream("How long do refunds take?", HITS)) == (whole.text, whole)
