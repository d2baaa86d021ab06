"""Spans as the SDK of OpenTelemetry receives them."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from kb.answers import AnswerReady, TextPiece
from kb.errors import ConfigError, ServiceError
from kb.tracing import along, note, span
from tests.end_to_end._bases import Place
from tests.end_to_end._chats import KEY
from tests.end_to_end.test_usage import DOCUMENTS, QUESTIONS, counting, settings
from tests.llm_server import ScriptedServer, error_reply, scripted_server

ROOT = Path(__file__).parents[2]
ON = {"tracing": {"enabled": True}}
STAGES = {"kb.expand", "kb.recall", "kb.rerank", "kb.exclude"}


@pytest.fixture(scope="session")
def exporter() -> InMemorySpanExporter:
    """What the program has set that receives spans; there can be one in a process."""
    found = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(found))
    trace.set_tracer_provider(provider)
    return found


@pytest.fixture
def spans(exporter: InMemorySpanExporter) -> InMemorySpanExporter:
    exporter.clear()
    return exporter


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with scripted_server(counting) as started:
        yield started


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("tracing")
    place = Place(folder / "documents", folder / "data")
    for name, text in DOCUMENTS.items():
        place.write(name, text)
    place.ingest()
    return place


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


def by_name(exporter: InMemorySpanExporter) -> dict[str, list[ReadableSpan]]:
    found: dict[str, list[ReadableSpan]] = {}
    for one in exporter.get_finished_spans():
        found.setdefault(one.name, []).append(one)
    return found


def told(one: ReadableSpan) -> dict[str, Any]:
    return dict(one.attributes or {})


def is_below(one: ReadableSpan, parent: ReadableSpan) -> bool:
    assert one.context is not None
    assert parent.context is not None
    return one.parent is not None and one.parent.span_id == parent.context.span_id


@pytest.mark.parametrize("question", QUESTIONS)
def test_each_stage_of_a_question_has_a_span_below_it_and_tells_counts_and_no_text(
    place: Place, server: ScriptedServer, spans: InMemorySpanExporter, question: str
) -> None:
    with place.open(**settings(server), **ON) as base:
        answer = base.ask(question)
    found = by_name(spans)
    (asked,), (retrieved,), (generated,), (checked,) = (
        found[f"kb.{name}"] for name in ("question", "retrieve", "generate", "check")
    )
    assert asked.parent is None
    assert all(is_below(one, asked) for one in (retrieved, generated, checked))
    for name in STAGES:
        (stage,) = found[name]
        assert is_below(stage, retrieved), name
    (expanded,), (reranked,), (excluded,) = (found[f"kb.{name}"] for name in ("expand", "rerank", "exclude"))
    chats = found["kb.chat"]
    assert all(any(is_below(one, stage) for stage in (expanded, reranked, excluded)) for one in chats)
    assert len(chats) + 1 == len(server.requests), "each request, with the one that writes the answer"
    assert answer.usage is not None
    assert told(asked)["kb.prompt_tokens"] == answer.usage.prompt_tokens
    assert told(asked)["kb.answered"] is True
    assert told(asked)["kb.hits"] == len(answer.hits)
    assert told(generated)["kb.completion_tokens"] == 20
    assert told(reranked) == {"kb.reranker": "llm_judge", "kb.candidates": len(answer.hits), "kb.ranked": True}
    everything = "".join(one.to_json() for one in spans.get_finished_spans())
    for text in (KEY, question, answer.text, *(hit.chunk.text for hit in answer.hits), *DOCUMENTS):
        assert text not in everything


def test_content_is_told_only_where_the_settings_say_so_and_a_key_never(
    place: Place, server: ScriptedServer, spans: InMemorySpanExporter
) -> None:
    with place.open(**settings(server), tracing={"enabled": True, "content": True}) as base:
        answer = base.ask(QUESTIONS[1])
    (asked,) = by_name(spans)["kb.question"]
    assert told(asked)["kb.question"] == QUESTIONS[1]
    assert told(asked)["kb.answer"] == answer.text
    assert KEY not in "".join(one.to_json() for one in spans.get_finished_spans())


def test_a_stream_that_is_read_by_several_threads_has_the_same_spans(
    place: Place, server: ScriptedServer, spans: InMemorySpanExporter
) -> None:
    outside = trace.get_tracer("the program's own")
    with place.open(**settings(server), **ON) as base, outside.start_as_current_span("request") as request:
        stream = base.stream(QUESTIONS[0])
        events = [next(stream)]
        assert trace.get_current_span() is request, "nothing is left behind between two steps"
        while not isinstance(events[-1], AnswerReady):
            thread = threading.Thread(target=lambda: events.append(next(stream)))
            thread.start()
            thread.join(20)
        assert next(stream, None) is None
    found = by_name(spans)
    (asked,), (mine,) = found["kb.question"], found["request"]
    assert is_below(asked, mine)
    assert all(is_below(one, asked) for name in ("retrieve", "generate", "check") for one in found[f"kb.{name}"])
    assert {len(found[name]) for name in found if name != "kb.chat"} == {1}


def test_questions_at_the_same_time_do_not_meet(place: Place, spans: InMemorySpanExporter) -> None:
    with place.open(retrieval={"cutoff": -1.0}, **ON) as base:
        threads = [threading.Thread(target=base.ask, args=(question,)) for question in QUESTIONS]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    found = by_name(spans)
    assert len(found["kb.question"]) == 3
    for asked in found["kb.question"]:
        assert sum(is_below(one, asked) for one in found["kb.retrieve"]) == 1


def test_a_failure_is_told_by_its_kind(place: Place, spans: InMemorySpanExporter) -> None:
    with scripted_server(lambda request: error_reply(500, f"no {KEY}, no {QUESTIONS[0]}")) as server:
        changed = settings(server)
        del changed["rerank"], changed["expansion"], changed["negation"]
        with place.open(**changed, **ON) as base, pytest.raises(ServiceError):
            base.ask(QUESTIONS[0])
    found = by_name(spans)
    for name in ("kb.question", "kb.generate"):
        (failed,) = found[name]
        assert failed.status.status_code is trace.StatusCode.ERROR
        assert failed.status.description == "ServiceError"
        assert not failed.events
    assert found["kb.retrieve"][0].status.status_code is trace.StatusCode.UNSET


def test_a_stream_that_is_closed_ends_its_spans(
    place: Place, server: ScriptedServer, spans: InMemorySpanExporter
) -> None:
    with place.open(**settings(server), **ON) as base:
        stream = base.stream(QUESTIONS[0])
        while not isinstance(next(stream), TextPiece):
            pass
        stream.close()
    found = by_name(spans)
    for name in ("kb.question", "kb.generate"):
        (stopped,) = found[name]
        assert told(stopped)["kb.stopped"] is True
        assert stopped.status.status_code is trace.StatusCode.UNSET


def test_a_search_alone_is_a_span_and_without_the_setting_there_is_none(
    place: Place, spans: InMemorySpanExporter
) -> None:
    with place.open(**ON) as base:
        found = base.search("deploy", cutoff=-1)
    (retrieved,) = by_name(spans)["kb.retrieve"]
    assert told(retrieved)["kb.hits"] == len(found.hits)
    assert retrieved.parent is None
    spans.clear()
    with place.open() as base:
        base.ask("deploy", cutoff=-1)
    assert spans.get_finished_spans() == ()


def test_without_tracing_a_stage_is_passed_through() -> None:
    def steps() -> Iterator[int]:
        yield 1

    same: Any = steps()
    assert along("kb.nothing", same) is same
    with span("kb.nothing", hits=1) as one:
        one.set(hits=2)
        one.text(question="?")
    note(hits=3)


# ── the package ──

ASK = """
import sys
from kb.knowledge_base import KnowledgeBase
documents, data, enabled = sys.argv[1:]
with KnowledgeBase.open(None, documents_dir=documents, data_dir=data, embedding={"use": "hashing"},
        store={"use": "memory"}, retrieval={"cutoff": -1.0}, tracing={"enabled": enabled == "on"}) as base:
    print(base.ask("How do I deploy?").answered, "opentelemetry" in sys.modules)
"""
HIDE = "import sys; sys.modules['opentelemetry'] = None\n"


def run(code: str, place: Place, enabled: str) -> subprocess.CompletedProcess[str]:
    arguments = [sys.executable, "-c", code, str(place.documents), str(place.data), enabled]
    return subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


def test_the_package_is_loaded_only_where_it_is_used(place: Place) -> None:
    assert run(ASK, place, "off").stdout.split() == ["True", "False"]
    assert run(ASK, place, "on").stdout.split() == ["True", "True"]


def test_where_it_is_missing_a_setting_s_error_says_what_to_install(place: Place) -> None:
    assert run(HIDE + ASK, place, "off").stdout.split()[0] == "True"
    failed = run(HIDE + ASK, place, "on")
    assert f"{ConfigError.__name__}: [tracing] enabled = true needs" in failed.stderr
    assert "pip install 'kb[tracing]'" in failed.stderr
