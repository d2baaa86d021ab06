"""Chat services that answer in odd forms, or not at all: whole and streamed give the same text, or the same error."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from kb.errors import ServiceError
from kb.services.chat import OpenAIChat
from tests.end_to_end._chats import (
    HELLO,
    HITS,
    answered_both_ways,
    chat,
    generator,
    streamed,
    whole_and_streamed,
)
from tests.llm_server import (
    Reply,
    Request,
    Script,
    Serve,
    chat_reply,
    chunk,
    json_reply,
    stream_bytes,
    stream_reply,
)


def message_reply(finish: str | None = "stop", **message: Any) -> Reply:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return json_reply({"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]})


def both(whole: Reply, parts: Reply) -> Script:
    return lambda request: parts if request.body.get("stream") else whole


def raw_stream(data: bytes, cut: int = 0, drops: bool = False) -> Reply:
    pieces = [data[at : at + cut] for at in range(0, len(data), cut)] if cut else [data]
    return Reply(200, pieces, content_type="text/event-stream", drops=drops)


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {**chunk(None), "choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


TEXT = "Refunds take 30 days [1], 返金は30日以内です😀 [3], 运费不退。"
USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}

# ── forms of a stream ──

LETTERS = [chunk(letter) for letter in TEXT]
STREAMS: dict[str, bytes] = {
    "as OpenAI sends it": stream_bytes([chunk("", role="assistant"), *LETTERS, chunk(None, "stop")]),
    "no choices, no delta, no text": stream_bytes(
        [
            {**chunk(None), "choices": []},
            {**chunk(None), "choices": None},
            {key: value for key, value in chunk(None).items() if key != "choices"},
            chunk(None, role="assistant"),
            chunk(""),
            *LETTERS,
            {**chunk(None), "choices": [{"index": 0, "delta": None, "finish_reason": None}]},
            {**chunk(None), "choices": [{"index": 0, "finish_reason": None}]},
            chunk(None, "stop"),
            {**chunk(None), "choices": [], "usage": USAGE},
        ]
    ),
    "lists of parts": stream_bytes(
        [
            *[delta(content=[{"type": "text", "text": letter}]) for letter in TEXT],
            delta(content=[]),
            delta("stop", content=[{"type": "image_url", "image_url": {"url": "x"}}]),
        ]
    ),
    "thinking in fields of its own": stream_bytes(
        [delta(reasoning_content="The user "), delta(reasoning="asks.", content=None), *LETTERS, chunk(None, "stop")]
    ),
    "thinking in parts of its own": stream_bytes(
        [
            delta(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "The user asks."}]}]),
            *LETTERS,
            chunk(None, "stop"),
        ]
    ),
    "another choice beside it": stream_bytes(
        [
            chunk(TEXT[:9]),
            {**chunk(None), "choices": [{"index": 1, "delta": {"content": "Other."}, "finish_reason": "stop"}]},
            chunk(TEXT[9:], "stop"),
        ]
    ),
    "the end with the last letter, and no mark of the end": stream_bytes(
        [*LETTERS[:-1], chunk(TEXT[-1], "stop")], done=False
    ),
    "comments, heartbeats, other fields": b": open\n\nretry: 10\n\nevent: ping\n: x\n\n"
    + stream_bytes(LETTERS, done=False).replace(b"\n\n", b"\nid: 7\n\n: heartbeat\n\n")
    + stream_bytes([chunk(None, "stop")]),
    "carriage returns": stream_bytes([*LETTERS, chunk(None, "stop")]).replace(b"\n", b"\r\n"),
    "no blank behind the colon": stream_bytes([*LETTERS, chunk(None, "stop")]).replace(b"data: ", b"data:"),
}


@pytest.mark.parametrize("cut", [0, 1, 5, 64])
@pytest.mark.parametrize("form", STREAMS)
def test_every_form_of_a_stream_gives_the_text_that_the_whole_reply_has(serve: Serve, form: str, cut: int) -> None:
    server = serve(both(chat_reply(TEXT), raw_stream(STREAMS[form], cut)))
    assert whole_and_streamed(chat(server.base_url)).text == TEXT


def test_a_connection_that_breaks_behind_the_model_s_last_word_has_lost_nothing(serve: Serve) -> None:
    server = serve(
        both(chat_reply(TEXT), raw_stream(stream_bytes([*LETTERS, chunk(None, "stop")], done=False), drops=True))
    )
    assert whole_and_streamed(chat(server.base_url)).text == TEXT


@pytest.mark.parametrize(
    "message",
    [
        {"content": TEXT},
        {"content": [{"type": "text", "text": TEXT[:5]}, {"type": "text", "text": TEXT[5:]}]},
        {"content": [TEXT[:5], {"type": "output_text", "text": TEXT[5:]}]},
        {"content": [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": TEXT}, {"type": "text"}]},
        {"content": TEXT, "reasoning_content": "The user asks.", "reasoning": "Hm."},
        {"content": None, "refusal": TEXT},
        {"content": [], "refusal": TEXT},
    ],
    ids=["text", "parts", "texts and parts", "thinking part", "thinking fields", "refusal", "no parts"],
)
def test_every_form_of_a_whole_reply_gives_its_text(serve: Serve, message: dict[str, Any]) -> None:
    server = serve(both(message_reply(**message), stream_reply([*LETTERS, chunk(None, "stop")])))
    assert whole_and_streamed(chat(server.base_url)).text == TEXT


@pytest.mark.parametrize("choices", [[], None, [None], ["x"], [{}], [{"index": 0, "message": None}]])
def test_a_reply_of_nothing_is_an_error_or_empty_and_never_a_crash(serve: Serve, choices: Any) -> None:
    body = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": choices}
    built = generator(serve(lambda request: json_reply(body)).base_url)
    with pytest.raises(ServiceError, match=r"no answer|empty reply"):
        built.generate("How long?", HITS)
    with pytest.raises(ServiceError, match=r"broke off|empty reply"):
        streamed(built.stream("How long?", HITS))


@pytest.mark.parametrize("at", [0, 3])
@pytest.mark.parametrize(
    ("error", "says"),
    [
        ({"message": "overloaded\x1b[31m sk-test-3f9c2b7d41e8a6", "code": 503}, r"overloaded \[key\]"),
        ("过载", "过载"),
        ({"code": 500}, "no reason given|error occurred"),
        ({"message": None, "type": "x"}, "no reason given|error occurred"),
    ],
    ids=["object", "text", "no message", "null message"],
)
def test_an_error_in_the_place_of_an_answer_is_shown_whole_and_streamed(
    serve: Serve, error: Any, says: str, at: int
) -> None:
    chunks: Sequence[dict[str, Any]] = [*LETTERS[:at], {"error": error}, *LETTERS[at:], chunk(None, "stop")]
    built = generator(serve(both(json_reply({"error": error}), stream_reply(chunks))).base_url)
    with pytest.raises(ServiceError, match=says):
        built.generate("How long?", HITS)
    with pytest.raises(ServiceError, match=says):
        streamed(built.stream("How long?", HITS))


# ── thinking ──

ANSWERS = ("Refunds take 30 days [1].", "运费不退 [2]。", "返金は30日以内です [3]。")
THINKING = (
    "<think>\nThe user asks [2].\n</think>\n\n",
    "<thinking>用户问运费 [1]。</thinking>",
    "返金は？ [1]\n</think>\n",
)


@pytest.mark.parametrize("cut", [0, 1, 3])
@pytest.mark.parametrize("thinking", THINKING)
@pytest.mark.parametrize("answer", ANSWERS)
def test_what_a_model_thinks_never_reaches_the_answer(serve: Serve, thinking: str, answer: str, cut: int) -> None:
    said = thinking + answer
    pieces = [said[at : at + 2] for at in range(0, len(said), 2)]
    server = serve(both(chat_reply(said), stream_reply([*map(chunk, pieces), chunk(None, "stop")], cut)))
    found = answered_both_ways(generator(server.base_url, model="deepseek-r1"), "How long?")
    assert found.text == answer
    assert found.answered


def test_a_model_that_was_seen_to_begin_within_its_thinking_is_held_back_from_then_on(serve: Serve) -> None:
    said = "用户问退款。</think>30 天 [1]。"
    server = serve(both(chat_reply(said), stream_reply([*map(chunk, said), chunk(None, "stop")])))
    built = generator(server.base_url, model="some-model")
    with pytest.raises(ServiceError, match=r"thinking.*unopened_thinking = true"):
        streamed(built.stream("要几天？", HITS))
    assert answered_both_ways(built, "要几天？").text == "30 天 [1]。"
    told = generator(server.base_url, model="some-model", unopened_thinking=True)
    assert streamed(told.stream("要几天？", HITS))[1].text == "30 天 [1]。"


def test_a_model_of_which_that_is_known_streams_all_the_same_where_the_service_sets_thinking_off(serve: Serve) -> None:
    come = threading.Event()
    in_time: list[bool] = []

    def pieces() -> Iterator[bytes]:
        yield stream_bytes([delta(reasoning_content="Hm."), chunk(TEXT[0])], done=False)
        in_time.append(come.wait(10))
        yield stream_bytes([chunk(TEXT[1:], "stop")])

    server = serve(lambda request: Reply(200, pieces(), "text/event-stream"))
    stream = chat(server.base_url, model="deepseek-r1").stream(HELLO)
    first = next(stream)
    come.set()
    assert (first, "".join(stream)) == (TEXT[0], TEXT[1:])
    assert in_time == [True], "the first letter came while the rest was not known"


@pytest.mark.parametrize(
    ("finish", "says"), [("stop", "empty reply"), ("length", "used up its greatest length.*max_tokens")]
)
@pytest.mark.parametrize("said", ["<think>The user asks whether", "<think>全部</think>", "<think>a</think>\n\n"])
def test_a_reply_of_nothing_but_thinking_is_empty(serve: Serve, said: str, finish: str, says: str) -> None:
    server = serve(both(chat_reply(said, finish), stream_reply([*map(chunk, said), chunk(None, finish)])))
    built = generator(server.base_url)
    with pytest.raises(ServiceError, match=says):
        built.generate("How long?", HITS)
    with pytest.raises(ServiceError, match=says):
        streamed(built.stream("How long?", HITS))


def test_thinking_without_marks_that_is_cut_off_is_empty_where_the_setting_says_so(serve: Serve) -> None:
    said = "The user asks whether"
    server = serve(both(chat_reply(said, "length"), stream_reply([*map(chunk, said), chunk(None, "length")])))
    assert whole_and_streamed(chat(server.base_url, unopened_thinking=True)).text == ""
    assert whole_and_streamed(chat(server.base_url)).text == said


@pytest.mark.parametrize("answer", ["Write `<think>` and `</think>` [1].", "A model says <think>x</think> first [1]."])
def test_marks_within_an_answer_stay(serve: Serve, answer: str) -> None:
    server = serve(both(chat_reply(answer), stream_reply([*map(chunk, answer), chunk(None, "stop")])))
    assert answered_both_ways(generator(server.base_url), "How?").text == answer


# ── parameters that a service refuses ──


def refusing(names: Sequence[str], say: Callable[[str], Reply]) -> Script:
    def script(request: Request) -> Reply:
        for name in names:
            if name in request.body:
                return say(name)
        return stream_reply([chunk("fine"), chunk(None, "stop")]) if request.body["stream"] else chat_reply("fine")

    return script


WORDINGS: dict[str, Callable[[str], Reply]] = {
    "OpenAI": lambda name: json_reply({"error": {"message": "m", "param": name, "code": "unsupported_parameter"}}, 400),
    "a message": lambda name: json_reply({"error": {"message": f"Parameter '{name}' is not supported."}}, 400),
    "an error of text": lambda name: json_reply({"error": f"this model does not support {name}"}, 400),
    "at the top": lambda name: json_reply(
        {"object": "error", "message": f"Unrecognized request argument: {name}"}, 400
    ),
    "detail": lambda name: json_reply(
        {"detail": [{"type": "extra_forbidden", "loc": ["body", name], "msg": "Extra inputs are not permitted"}]}, 422
    ),
    "plain text": lambda name: Reply(400, [f"unknown field `{name}`".encode()], "text/plain"),
}


@pytest.mark.parametrize("wording", WORDINGS)
def test_a_parameter_that_is_refused_is_left_out_however_the_service_says_so_and_that_is_remembered(
    serve: Serve, wording: str
) -> None:
    server = serve(refusing(["stream_options", "max_tokens", "temperature"], WORDINGS[wording]))
    talk = chat(server.base_url, max_tokens=77)
    assert "".join(talk.stream(HELLO)) == "fine"
    assert len(server.requests) == 4, "refused three times, and answered"
    assert server.requests[-1].body["max_completion_tokens"] == 77
    assert "".join(talk.stream(HELLO)) == talk.complete(HELLO) == "fine"
    assert len(server.requests) == 6, "what was refused is not sent again"


@pytest.mark.parametrize(
    "message",
    [
        "max_tokens is too large: 90000. This model supports at most 4096 completion tokens",
        "This model's maximum context length is 8192 tokens; your request has 9000",
        "temperature must be between 0 and 2",
        "Unsupported country",
        "The model 'x' is unknown",
    ],
)
def test_a_request_that_is_refused_for_something_else_is_not_sent_again(serve: Serve, message: str) -> None:
    server = serve(lambda request: json_reply({"error": {"message": message}}, 400))
    with pytest.raises(ServiceError, match="refused the request"):
        chat(server.base_url).complete(HELLO)
    assert len(server.requests) == 1


# ── what was used ──


def with_usage(text: str, usage: Any) -> Script:
    body = json.loads(next(iter(chat_reply(text).pieces)))
    chunks = [*map(chunk, text), chunk(None, "stop")]
    if usage is not None:
        chunks.append({**chunk(None), "choices": [], "usage": usage})
    return both(json_reply({**body, "usage": usage}), stream_reply(chunks))


def test_usage_is_asked_for_and_told_as_the_service_counts_it(serve: Serve) -> None:
    server = serve(with_usage("Yes [1].", {"prompt_tokens": 1_000, "completion_tokens": 200, "total_tokens": 1_200}))
    usage = answered_both_ways(generator(server.base_url, model="gpt-4o"), "Is it?").usage
    assert usage is not None
    assert (usage.requests, usage.prompt_tokens, usage.completion_tokens) == (1, 1_000, 200)
    assert usage.dollars == pytest.approx((1_000 * 2.5 + 200 * 10.0) / 1e6)
    assert not usage.estimated
    assert [request.body.get("stream_options") for request in server.requests] == [None, {"include_usage": True}]


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": None, "completion_tokens": 3}, {"prompt_tokens": -1}])
def test_usage_that_a_service_does_not_tell_is_estimated_and_says_so(serve: Serve, usage: Any) -> None:
    text = "<think>嗯。</think>是的 [1]。"
    server = serve(with_usage(text, usage))
    found = answered_both_ways(generator(server.base_url, model="my-own"), "是吗？").usage
    assert found is not None
    assert found.estimated
    assert found.dollars is None, "nobody knows what it costs"
    assert found.completion_tokens == len(text.encode()) // 3, "what it thought is paid for as well"
    assert found.prompt_tokens > 30


def test_the_last_count_of_a_stream_counts(serve: Serve) -> None:
    counts = [{"prompt_tokens": 5, "completion_tokens": n, "total_tokens": 5 + n} for n in (1, 2, 3)]
    chunks = [{**chunk("a"), "usage": count} for count in counts]
    server = serve(lambda request: stream_reply([*chunks, chunk(None, "stop")]))
    talk: OpenAIChat = chat(server.base_url)
    usage = streamed(talk.stream(HELLO))[1].usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.estimated) == (5, 3, False)
