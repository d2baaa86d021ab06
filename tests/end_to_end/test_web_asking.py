"""A real server and a real client: whole answers, streams and searches are those of the knowledge base itself."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb import KnowledgeBase
from kb.markers import find_markers
from tests.web_server import WebServer, serving

DOCUMENTS = {
    "limits.md": "# Limits\n\nA 429 means too many requests. Wait as long as Retry-After says.\n",
    "handbook/leave.md": "# Leave\n\nEmployees have 28 days of leave a year. Unused days expire in March.\n",
    "退款.md": "# 退款政策\n\n退款在七天内退回原支付方式。运费不予退还。\n",
    "休暇.md": "# 休暇規程\n\n有給休暇は年に二十日あります。申請は三日前までに行います。\n",
}
QUESTIONS = [
    ("What does a 429 mean?", "limits.md"),
    ("How many days of leave do employees have?", "handbook/leave.md"),
    ("退款在几天内退回原支付方式？", "退款.md"),
    ("有給休暇は何日ありますか？", "休暇.md"),
]

CHROMA = {"KB_STORE__USE": "chroma"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    folder = tmp_path_factory.mktemp("served")
    for name, text in DOCUMENTS.items():
        file = folder / "documents" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    with KnowledgeBase.open(**settings(folder)) as base:
        base.ingest()
    with serving(folder, "[web]\ningest_at_start = false\nworkers = 2\n", env=CHROMA) as served:
        yield served


def settings(folder: Path) -> dict[str, Any]:
    return {
        "documents_dir": folder / "documents",
        "data_dir": folder / "data",
        "embedding": {"use": "hashing"},
        "store": {"use": "chroma"},
    }


def ask(server: WebServer, **asked: Any) -> httpx.Response:
    return server.client.post("/ask", json=asked)


def streamed(server: WebServer, **asked: Any) -> list[tuple[str, dict[str, Any]]]:
    with server.client.stream("POST", "/ask/stream", json=asked) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        return list(server.events(response))


def text_of(server: WebServer, document_id: str) -> str:
    with KnowledgeBase.open(**settings(server.folder)) as base:
        document = base.catalogue.document(document_id)
    assert document is not None
    return document.text


@pytest.mark.parametrize(("question", "source"), QUESTIONS)
def test_an_answer_is_that_of_the_knowledge_base_and_each_quote_stands_where_it_says(
    server: WebServer, question: str, source: str
) -> None:
    body = ask(server, question=question).json()
    with KnowledgeBase.open(**settings(server.folder)) as base:
        answer = base.ask(question)
    assert (body["text"], body["answered"]) == (answer.text, True)
    assert body["citations"][0]["source"] == source
    for citation in body["citations"]:
        text = text_of(server, citation["document_id"])
        assert text[citation["start"] : citation["end"]] == citation["quote"]
    assert body["turn"]["question"] == question


@pytest.mark.parametrize(("question", "source"), QUESTIONS)
def test_a_stream_begins_with_hits_and_its_pieces_are_the_answer(server: WebServer, question: str, source: str) -> None:
    events = streamed(server, question=question)
    names = [name for name, _ in events]
    assert names[0] == "hits"
    assert names[-1] == "done"
    assert set(names[1:-1]) == {"text", "citation", "verdict"}
    assert source in [hit["source"] for hit in events[0][1]["hits"]]
    done = events[-1][1]
    assert "".join(told["text"] for name, told in events if name == "text") == done["text"]
    assert [told for name, told in events if name == "verdict"] == done["claims"]
    whole = ask(server, question=question).json()
    assert {**whole, "seconds": 0} == {**done, "seconds": 0}


def test_what_the_documents_do_not_say_is_no_answer(server: WebServer) -> None:
    body = ask(server, question="Who won the chess championship of 1972?").json()
    assert body["answered"] is False
    assert body["citations"] == []


@pytest.mark.parametrize(("question", "source"), QUESTIONS)
def test_a_search_finds_passages_with_their_places(server: WebServer, question: str, source: str) -> None:
    found = server.client.get("/search", params={"q": question, "top_k": 2}).json()
    hit = found["hits"][0]
    assert hit["source"] == source
    assert text_of(server, hit["document_id"])[hit["start"] : hit["end"]] == hit["text"]
    assert len(found["hits"]) <= 2


def test_a_filter_narrows_what_is_asked(server: WebServer) -> None:
    params = {"q": "How many days of leave do employees have?", "where": "path=handbook"}
    found = server.client.get("/search", params=params).json()
    assert {hit["source"] for hit in found["hits"]} == {"handbook/leave.md"}


@pytest.mark.parametrize(
    ("asked", "status", "says"),
    [
        ({"question": "a", "collection": "nowhere"}, 404, "nowhere"),
        ({"question": "  \u3000\ufeff "}, 422, "empty"),
        ({"question": "x" * 4001}, 422, "4,000"),
        ({"question": "a", "where": ["colour=red"]}, 422, "colour"),
        ({"question": "a", "where": ["kind"]}, 422, "kind"),
        ({"question": "a", "top_k": 0}, 422, "top_k"),
        ({"question": "a", "unknown": 1}, 422, "unknown"),
    ],
)
def test_a_question_that_cannot_be_asked_is_told_why(
    server: WebServer, asked: dict[str, Any], status: int, says: str
) -> None:
    for response in (ask(server, **asked), server.client.post("/ask/stream", json=asked)):
        assert response.status_code == status
        assert says in response.json()["message"]


def test_answers_of_many_who_ask_at_once_are_not_mixed_up(server: WebServer) -> None:
    def asked(number: int) -> None:
        question, source = QUESTIONS[number % len(QUESTIONS)]
        events = streamed(server, question=question)
        assert events[0][1]["question"] == question
        assert events[-1][1]["question"] == question
        assert {citation["source"] for citation in events[-1][1]["citations"]} == {source}

    with ThreadPoolExecutor(16) as clients:
        list(clients.map(asked, range(48)))


def test_an_answer_has_what_its_description_says(server: WebServer) -> None:
    described = server.client.get("/openapi.json").json()["components"]["schemas"]["AnswerBody"]
    body = ask(server, question=QUESTIONS[0][0]).json()
    assert set(described["required"]) <= set(body)
    json.dumps(body, allow_nan=False)


FOLLOW_UPS = [
    ("How many days of leave do employees have?", "And when do unused ones expire?"),
    ("退款在几天内退回原支付方式？", "运费呢？"),
    ("有給休暇は何日ありますか？", "申請はいつまでですか？"),
]


@pytest.mark.parametrize(("first", "then"), FOLLOW_UPS)
def test_a_follow_up_with_what_was_said_is_answered_as_in_one_conversation(
    server: WebServer, first: str, then: str
) -> None:
    with KnowledgeBase.open(**settings(server.folder)) as base:
        session = base.chat()
        answers = [session.ask(first), session.ask(then), session.ask(first)]
    history: list[dict[str, Any]] = []
    for answer in answers:
        body = ask(server, question=answer.question, history=history).json()
        assert (body["text"], body["notes"]) == (answer.text, list(answer.notes))
        assert [(c["number"], c["chunk_id"]) for c in body["citations"]] == [
            (c.number, c.chunk_id) for c in answer.citations
        ]
        history.append(body["turn"])


JSON_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
CITED = st.fixed_dictionaries(
    {"number": st.integers(1, 12), "chunk_id": st.sampled_from([*"abc", "0" * 32]) | JSON_TEXT.filter(bool)}
)
TURNS = st.fixed_dictionaries(
    {
        "question": JSON_TEXT | st.sampled_from([question for question, _ in QUESTIONS]),
        "searched": JSON_TEXT,
        "text": JSON_TEXT,
        "cited": st.lists(CITED, max_size=6),
        "mentioned": st.lists(CITED, max_size=3),
    }
)


@hypothesis.settings(max_examples=60)
@given(st.lists(TURNS, max_size=4), st.sampled_from(["And in March?", "为什么？", "なぜですか？", QUESTIONS[1][0]]))
def test_a_made_up_history_leads_to_an_answer_whose_numbers_name_one_passage_each(
    server: WebServer, history: list[dict[str, Any]], question: str
) -> None:
    if history:
        found = server.client.get("/search", params={"q": question}).json()["hits"]
        history[0]["cited"] += [{"number": 1, "chunk_id": hit["chunk_id"]} for hit in found[:2]]  # one number for two
    response = ask(server, question=question, history=history)
    assert response.status_code == 200, response.text
    body = response.json()
    numbers = {citation["number"]: citation["chunk_id"] for citation in body["citations"]}
    assert len(numbers) == len({citation["chunk_id"] for citation in body["citations"]})
    if body["answered"]:
        assert {number for marker in find_markers(body["text"]) for number in marker.numbers} <= set(numbers)


@pytest.mark.parametrize(
    "turn",
    [
        {"question": "a"},
        {"question": "a", "searched": "a", "text": "b", "cited": [{"number": 0, "chunk_id": "c"}]},
        {"question": "a", "searched": "a" * 100_001, "text": "b"},
        {"question": "a", "searched": "a", "text": "b", "more": 1},
        "a",
    ],
)
def test_a_history_that_is_none_is_refused(server: WebServer, turn: object) -> None:
    assert ask(server, question="a?", history=[turn]).status_code == 422
    assert ask(server, question="a?", history=[turn] * 21).status_code in (413, 422)


def test_a_long_history_takes_no_long_time(server: WebServer) -> None:
    said = "and in a b c, 呢？ " * 500
    turn = {"question": said, "searched": said, "text": "x" * 5_000}
    started = time.monotonic()
    assert ask(server, question="And in March?", history=[turn] * 20).status_code == 200
    assert time.monotonic() - started < 10
