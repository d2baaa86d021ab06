"""The real `openai` client, unchanged, asks a real server: whole and streamed, in step and with an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import openai
import pytest

from kb.markers import find_markers
from tests.commands import INGEST, run
from tests.web_server import WebServer, serving

TOKEN = "a-token-that-nobody-guesses-0123"
DOCUMENTS = {
    "limits.md": "# Limits\n\nA 429 means too many requests. Wait as long as Retry-After says.\n",
    "handbook/leave.md": "# Leave\n\nEmployees have 28 days of leave a year. Unused days of leave expire in March.\n",
    "退款.md": "# 退款政策\n\n退款在七天内退回原支付方式。运费不予退还。\n",
    "休暇.md": "# 休暇規程\n\n有給休暇は年に二十日あります。申請は三日前までに行います。\n",
    "spy.md": "# Pixel\n\nThe logo ![pixel](http://evil.example/who.png) of the zeppelin is blue!\n",
}
QUESTIONS = [
    ("What does a 429 mean?", "limits.md"),
    ("退款在几天内退回原支付方式？", "退款.md"),
    ("有給休暇は何日ありますか？", "休暇.md"),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    folder = tmp_path_factory.mktemp("served")
    for name, text in DOCUMENTS.items():
        file = folder / "documents" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    web = "[web]\ningest_at_start = false\nworkers = 1\n"
    (folder / "config.toml").write_text('documents_dir = "documents"\ndata_dir = "data"\n')
    assert run(INGEST, cwd=folder).returncode == 0
    assert run(INGEST, "--collection", "other", cwd=folder).returncode == 0
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with serving(folder, web, env={"KNOWLEDGE_BASE_TOKEN": TOKEN}, headers=headers) as served:
        yield served


@pytest.fixture
def client(server: WebServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key=TOKEN, max_retries=0) as made:
        yield made


def user(text: str) -> list[Any]:
    return [{"role": "user", "content": text}]


@pytest.mark.parametrize(("question", "source"), QUESTIONS)
def test_a_whole_answer_has_its_sources_below_it_and_each_marker_leads_to_its_quote(
    server: WebServer, client: openai.OpenAI, question: str, source: str
) -> None:
    answer = client.chat.completions.create(model="kb", messages=user(question))
    message = answer.choices[0].message
    content = message.content or ""
    body = server.client.post("/ask", json={"question": question}).json()
    assert content.startswith(body["text"])
    assert content.removeprefix(body["text"]).startswith(f"\n\n[1] {source}")
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.total_tokens == 0
    assert message.annotations
    for annotation in message.annotations:
        cited = annotation.url_citation
        marker = content[cited.start_index : cited.end_index]
        link = {name: values[0] for name, values in parse_qs(urlsplit(cited.url).query).items()}
        assert marker == f"[{link['number']}]"
        assert cited.url.startswith(server.url + "/?")
        quote = next(c for c in body["citations"] if str(c["start"]) == link["start"])
        assert (quote["document_id"], str(quote["end"])) == (link["document"], link["end"])


@pytest.mark.parametrize(("question", "source"), QUESTIONS)
def test_a_stream_is_the_same_in_pieces(client: openai.OpenAI, question: str, source: str) -> None:
    whole = client.chat.completions.create(model="kb", messages=user(question))
    chunks = list(
        client.chat.completions.create(
            model="kb", messages=user(question), stream=True, stream_options={"include_usage": True}
        )
    )
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert deltas[0].role == "assistant"
    assert "".join(delta.content or "" for delta in deltas) == whole.choices[0].message.content
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    annotations = (deltas[-1].model_extra or {})["annotations"]
    assert annotations == [one.model_dump() for one in whole.choices[0].message.annotations or []]
    assert chunks[-1].usage is not None
    assert len({chunk.id for chunk in chunks}) == 1


def test_with_an_event_loop_it_is_the_same(server: WebServer, client: openai.OpenAI) -> None:
    async def asked() -> tuple[str | None, str]:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key=TOKEN, max_retries=0) as one:
            whole = await one.chat.completions.create(model="kb", messages=user(QUESTIONS[0][0]))
            stream = await one.chat.completions.create(model="kb", messages=user(QUESTIONS[0][0]), stream=True)
            pieces = [chunk.choices[0].delta.content or "" async for chunk in stream]
            return whole.choices[0].message.content, "".join(pieces)

    content, pieces = asyncio.run(asked())
    assert content == pieces
    assert (
        content == client.chat.completions.create(model="kb", messages=user(QUESTIONS[0][0])).choices[0].message.content
    )


def test_earlier_messages_are_what_a_follow_up_leans_on(client: openai.OpenAI) -> None:
    first = "How many days of leave do employees have?"
    answer = client.chat.completions.create(model="kb", messages=user(first)).choices[0].message.content
    messages: list[Any] = [
        {"role": "system", "content": "You are a pirate."},
        {"role": "user", "content": [{"type": "text", "text": first}]},
        {"role": "assistant", "content": answer},
        {"role": "user", "content": "And when do they expire?"},
    ]
    done = client.chat.completions.create(model="kb", messages=messages, temperature=0.3, user="someone")
    assert "March" in (done.choices[0].message.content or "")
    notes = (done.model_extra or {})["kb"]["notes"]
    assert notes[0].startswith("searched as: ")
    assert "leave" in notes[0]


def test_what_the_documents_do_not_say_is_said_so_without_sources(client: openai.OpenAI) -> None:
    message = client.chat.completions.create(model="kb", messages=user("Xyzzy plugh?")).choices[0].message
    assert message.content
    assert find_markers(message.content) == []
    assert message.annotations == []


def test_a_document_makes_no_client_load_an_image(client: openai.OpenAI) -> None:
    question = user("What is the logo of the zeppelin?")
    whole = client.chat.completions.create(model="kb", messages=question).choices[0].message.content or ""
    stream = client.chat.completions.create(model="kb", messages=question, stream=True)
    assert whole == "".join(chunk.choices[0].delta.content or "" for chunk in stream)
    assert "pixel" in whole
    assert "![" not in whole


def test_collections_are_models(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["kb", "kb/knowledge_base", "kb/other"]
    assert client.models.retrieve("kb/other").id == "kb/other"
    answer = client.chat.completions.create(model="kb/other", messages=user(QUESTIONS[0][0]))
    assert answer.model == "kb/other"
    message = answer.choices[0].message
    assert "[1] limits.md" in (message.content or "")
    assert message.annotations
    assert "?collection=other&document=" in message.annotations[0].url_citation.url


@pytest.mark.parametrize(
    ("changed", "error", "says"),
    [
        ({"model": "gpt-4o"}, openai.NotFoundError, "gpt-4o"),
        ({"model": "kb/nowhere"}, openai.NotFoundError, "nowhere"),
        ({"messages": user("x" * 4001)}, openai.BadRequestError, "4,000"),
        ({"messages": user("  ")}, openai.BadRequestError, "empty"),
        ({"messages": []}, openai.BadRequestError, "messages"),
        ({"messages": [{"role": "assistant", "content": "a"}]}, openai.BadRequestError, "last one"),
        ({"n": 2}, openai.BadRequestError, "one answer"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, openai.BadRequestError, "tools"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}]},
            openai.BadRequestError,
            "only text",
        ),
        ({"extra_headers": {"Authorization": "Bearer wrong"}}, openai.AuthenticationError, "token"),
        ({"extra_headers": {"Host": "evil.example"}}, openai.APIStatusError, "not called so"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
@pytest.mark.parametrize("stream", [False, True])
def test_what_is_refused_is_an_error_that_the_client_knows(
    client: openai.OpenAI, changed: dict[str, Any], error: type[Exception], says: str, stream: bool
) -> None:
    asked = {"model": "kb", "messages": user("What does a 429 mean?"), "stream": stream, **changed}
    with pytest.raises(error, match=says):
        client.chat.completions.create(**asked)


def test_what_is_not_offered_is_told_in_the_same_form(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="nothing at this address"):
        client.embeddings.create(model="kb", input="a")


def test_no_collection_yet_is_told(tmp_path: Path) -> None:
    with serving(tmp_path, "[web]\ningest_at_start = false\nworkers = 1\n") as served:
        client = openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0)
        for stream in (False, True):
            with pytest.raises(openai.NotFoundError, match="ingest"):
                client.chat.completions.create(model="kb", messages=user("What?"), stream=stream)
        client.close()
