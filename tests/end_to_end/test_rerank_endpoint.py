"""The rerank endpoint over a socket, against a server that answers rightly, oddly, or not at all."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from kb import KnowledgeBase
from kb.components import Parts, build_component
from kb.errors import ConfigError
from kb.records import Chunk, Hit, Reranked
from kb.rerank.endpoint import EndpointReranker, Options
from kb.services.clock import Clock
from tests.llm_server import Reply, Request, Script, ScriptedServer, error_reply, json_reply, scripted_server
from tests.rerank_server import in_turn, rerank_script, results, results_reply, right_scores, scored

KEY = "rk-9f3c2b7d41e8a6-test"
QUESTION = "When are refunds paid?"
IN_SEARCH_ORDER = ["c0", "c1", "c2", "c3"]


def hit(number: int, text: str, header: str = "") -> Hit:
    chunk = Chunk(f"c{number}", "d1", text, 0, len(text), header=header)
    return Hit(chunk, "a.md", 0.9 - number / 100, "fused", 0.5)


HITS = tuple(
    hit(number, text)
    for number, text in enumerate(["Opening hours.", "Who pays?", "Refunds are paid within 30 days.", "返金の期限。"])
)


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[ScriptedServer, EndpointReranker]]:
    """One server, and a client of it: a new client takes longer than most tests."""
    with scripted_server(rerank_script) as server:
        yield server, endpoint(server)


@pytest.fixture
def rerank(shared: tuple[ScriptedServer, EndpointReranker]) -> Callable[[Script], Reranked]:
    """Rerank `HITS` by a server that follows the script."""
    server, reranker = shared

    def by(script: Script) -> Reranked:
        server.script = script
        return reranker.rerank(QUESTION, HITS)

    return by


@pytest.fixture
def serve() -> Iterator[Callable[[Script], ScriptedServer]]:
    with ExitStack() as servers:
        yield lambda script: servers.enter_context(scripted_server(script))


Serve = Callable[[Script], ScriptedServer]
Rerank = Callable[[Script], Reranked]


def endpoint(server: ScriptedServer, key: str = KEY, clock: Clock | None = None, **options: Any) -> EndpointReranker:
    table = {"base_url": server.base_url, "retries": 0, "timeout_seconds": 5.0, **options}
    parts = Parts(secret={"RERANK_API_KEY": key, "OPENAI_API_KEY": "sk-not-for-strangers"}.get)
    return EndpointReranker(Options.model_validate(table), parts, clock or Clock())


def ids(reranked: Reranked) -> list[str]:
    return [found.chunk.id for found in reranked.hits]


def failed(reranked: Reranked) -> str:
    """The one note of a reranker that failed and left everything as it came."""
    assert reranked.hits == HITS
    assert reranked.scale is None
    (note,) = reranked.notes
    assert note.startswith("the hits are not reranked, but in the order of the search: ")
    assert "the rerank model 'bge-reranker-v2-m3' at http://127.0.0.1:" in note
    assert "\n" not in note
    return note


def die(server: ScriptedServer) -> None:
    """End the server, and with it the connection that a client has kept."""

    def hang_up(request: Request) -> Reply:
        raise ConnectionResetError

    server.script = hang_up
    server.close()


# ── what is sent ──


def test_the_request_has_the_form_that_all_services_know(serve: Serve) -> None:
    server = serve(rerank_script)
    endpoint(server).rerank(QUESTION, [hit(0, "30 days.", header="Shop › Refunds"), hit(1, "退款")])
    (request,) = server.requests
    assert request.path == "/v1/rerank"
    assert request.authorization == f"Bearer {KEY}"
    assert request.body == {
        "model": "bge-reranker-v2-m3",
        "query": QUESTION,
        "documents": ["Shop › Refunds\n\n30 days.", "退款"],
        "top_n": 2,
    }


def test_the_path_of_another_service_is_a_setting(serve: Serve) -> None:
    server = serve(rerank_script)
    reranker = endpoint(server, base_url=server.base_url.removesuffix("/v1"), path="/v2/rerank", model="rerank-v3.5")
    assert ids(reranker.rerank(QUESTION, HITS))[0] == "c2"
    assert [(request.path, request.body["model"]) for request in server.requests] == [("/v2/rerank", "rerank-v3.5")]


def test_without_a_key_of_its_own_no_other_is_sent(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID"):
        monkeypatch.setenv(name, "sk-not-for-strangers")
    server = serve(rerank_script)
    assert ids(endpoint(server, key="").rerank(QUESTION, HITS))[0] == "c2"
    assert [request.authorization for request in server.requests] == [""]


def test_many_documents_go_in_several_requests_and_come_back_in_one_order(serve: Serve) -> None:
    server = serve(rerank_script)
    whole = endpoint(server).rerank(QUESTION, HITS)
    assert endpoint(server, max_documents=3).rerank(QUESTION, HITS) == whole
    assert [len(request.body["documents"]) for request in server.requests] == [4, 3, 1]


def test_an_address_that_is_missing_is_asked_for() -> None:
    with pytest.raises(ConfigError) as caught:
        build_component("rerank", "endpoint", {}, Parts())
    assert "[rerank.endpoint] base_url" in str(caught.value)
    assert "http://localhost:8000/v1" in str(caught.value)


# ── right answers ──


@pytest.mark.parametrize("order", [(3, 1, 0, 2), (2, 3, 1, 0)])
def test_results_in_any_order_are_mapped_back_by_their_index(rerank: Rerank, order: tuple[int, ...]) -> None:
    scores = [0.1, 0.3, 0.9, 0.2]
    reranked = rerank(lambda request: results_reply([results(scores)[place] for place in order]))
    assert ids(reranked) == ["c2", "c1", "c3", "c0"]
    assert [found.score for found in reranked.hits] == [0.9, 0.3, 0.2, 0.1]
    assert {found.scored_by for found in reranked.hits} == {"endpoint"}
    assert (reranked.notes, reranked.scale) == ((), "ratio")


@pytest.mark.parametrize(
    ("scores", "best_first", "scale"),
    [
        ([-8, 6, -0.5, 2], ["c1", "c3", "c2", "c0"], "logit"),
        ([0.0001, 0.0029, 0.0003, 0.0002], ["c1", "c2", "c3", "c0"], "ratio"),
        ([0, 0, 0, 0], IN_SEARCH_ORDER, "ratio"),
        ([0.5, 0.7, 0.5, 0.7], ["c1", "c3", "c0", "c2"], "ratio"),
        ([1.5, 0.5, 0.5, 0.5], IN_SEARCH_ORDER, "logit"),
    ],
    ids=["logits", "tiny", "zero", "ties", "above one"],
)
def test_scores_of_any_scale_give_their_order(rerank: Rerank, scores: list[float], best_first: Any, scale: str) -> None:
    reranked = rerank(scored(*scores))
    assert (ids(reranked), reranked.scale, reranked.notes) == (best_first, scale, ())


def test_one_candidate_is_scored_and_kept(serve: Serve) -> None:
    reranked = endpoint(serve(scored(0.0029))).rerank(QUESTION, HITS[:1])
    assert [(found.chunk.id, found.score) for found in reranked.hits] == [("c0", 0.0029)]


def test_a_bare_list_with_scores_is_understood(rerank: Rerank) -> None:
    bare = [{"index": index, "score": score} for index, score in enumerate([0.1, 0.2, 0.9, 0.3])]
    assert ids(rerank(lambda request: json_reply(bare))) == ["c2", "c3", "c1", "c0"]


# ── answers that cannot be used ──

RIGHT = results([0.1, 0.2, 0.3, 0.4])
ODD: dict[str, tuple[Any, str]] = {
    "missing": (RIGHT[:3], "3 scores for 4 documents"),
    "none": ([], "0 scores for 4 documents"),
    "twice": ([*RIGHT[:3], RIGHT[0]], "two scores for document 0 of 4"),
    "beyond": ([*RIGHT[:3], {"index": 4, "relevance_score": 1}], "a score for document 4 of 4"),
    "negative": ([*RIGHT[:3], {"index": -1, "relevance_score": 1}], "a score for document -1 of 4"),
    "huge index": ([{"index": 10**400, "relevance_score": 1}], "a score for document of no number of 4"),
    "fraction": ([{"index": 1.0, "relevance_score": 1}], "a score for document 1.0 of 4"),
    "true": ([{"index": True, "relevance_score": 1}], "a score for document True of 4"),
    "text index": ([{"index": "\x1b[31m0", "relevance_score": 1}], "a score for document of no number of 4"),
    "no index": ([{"relevance_score": 1}], "a score for document of no number of 4"),
    "text score": (results([0.1, 0.2, "0.3", 0.4]), "no finite number"),
    "no score": ([{"index": 0}], "no finite number"),
    "nan": (results([0.1, math.nan, 0.3, 0.4]), "no finite number"),
    "infinite": (results([0.1, 0.2, 0.3, -math.inf]), "no finite number"),
    "huge score": (results([0.1, 0.2, 0.3, 10**400]), "no finite number"),
    "no objects": ([0.1, 0.2, 0.3, 0.4], "no answer of a rerank service: check base_url and path"),
    "no list": ({"0": 0.1}, "no answer of a rerank service: check base_url and path"),
}


@pytest.mark.parametrize(("found", "reason"), ODD.values(), ids=ODD)
def test_results_that_do_not_fit_leave_the_order_of_the_search(rerank: Rerank, found: Any, reason: str) -> None:
    assert reason in failed(rerank(lambda request: results_reply(found)))


@pytest.mark.parametrize(
    "reply",
    [
        json_reply(None),
        json_reply("fine"),
        json_reply({"data": []}),
        Reply(200, [b"<html>busy</html>"], content_type="text/html"),
        Reply(200, [b'{"results": [{"ind']),
        Reply(200, [b"[" * 100_000]),
        Reply(200, []),
    ],
    ids=["null", "text", "another form", "page", "cut", "nested", "empty"],
)
def test_what_is_no_answer_leaves_the_order_of_the_search(rerank: Rerank, reply: Reply) -> None:
    assert "no answer of a rerank service" in failed(rerank(lambda request: reply))


@pytest.mark.parametrize(
    ("status", "code", "reason"),
    [
        (400, None, "refused the request (400"),
        (401, None, "refused the key in RERANK_API_KEY (401"),
        (403, None, "refused the key in RERANK_API_KEY (403"),
        (413, None, "refused the request (413"),
        (422, None, "refused the request (422"),
        (429, "insufficient_quota", "no credit left"),
        (429, None, "is asked too often"),
        (500, None, "failed (500"),
        (503, None, "failed (503"),
    ],
)
def test_a_refusal_leaves_the_order_of_the_search(serve: Serve, status: int, code: str | None, reason: str) -> None:
    server = serve(lambda request: error_reply(status, "not today", code))
    note = failed(endpoint(server).rerank(QUESTION, HITS))
    assert reason in note
    assert "not today" in note
    assert len(server.requests) == 1


def test_an_address_without_reranking_is_named_with_what_to_check(serve: Serve) -> None:
    server = serve(lambda request: error_reply(404, "no such page"))
    (note,) = endpoint(server).rerank(QUESTION, HITS).notes
    assert "or no such address (404: no such page): check model and base_url and path" in note


def test_a_key_that_is_wanted_and_not_set_is_asked_for(serve: Serve) -> None:
    server = serve(lambda request: error_reply(401, "who are you?"))
    note = failed(endpoint(server, key="").rerank(QUESTION, HITS))
    assert "wants a key (401: who are you?): put it into RERANK_API_KEY" in note


def test_an_answer_that_takes_too_long_leaves_the_order_of_the_search(serve: Serve) -> None:
    server = serve(lambda request: Reply(200, [b"{}"], wait_seconds=1.0))
    note = failed(endpoint(server, timeout_seconds=0.2).rerank(QUESTION, HITS))
    assert "did not answer within 0.2 seconds" in note


def test_a_server_that_is_gone_leaves_the_order_of_the_search(serve: Serve) -> None:
    server = serve(rerank_script)
    reranker = endpoint(server)
    assert ids(reranker.rerank(QUESTION, HITS))[0] == "c2"
    die(server)
    for _ in range(2):  # by the connection that was kept, and by a new one
        note = failed(reranker.rerank(QUESTION, HITS))
        assert "cannot reach the rerank model" in note
        assert "check base_url and path and the network" in note


def test_one_part_that_fails_leaves_all_in_the_order_of_the_search(serve: Serve) -> None:
    server = serve(in_turn(results_reply(results([0.1, 0.2])), error_reply(422, "too long")))
    failed(endpoint(server, max_documents=2).rerank(QUESTION, HITS))


# ── tries and limits ──


def test_a_rate_limit_is_waited_for(serve: Serve) -> None:
    server = serve(in_turn(error_reply(429, "slow down", Retry_After="30"), results_reply(results([0, 1, 2, 3]))))
    clock = Clock(speed=60)
    before = clock.now()
    assert ids(endpoint(server, clock=clock, retries=1).rerank(QUESTION, HITS)) == ["c3", "c2", "c1", "c0"]
    assert clock.now() - before >= 30
    assert len(server.requests) == 2


def test_a_service_that_failed_once_is_asked_again(serve: Serve) -> None:
    server = serve(in_turn(error_reply(503, "starting"), results_reply(results([0, 1, 2, 3]))))
    assert ids(endpoint(server, clock=Clock(speed=60), retries=1).rerank(QUESTION, HITS))[0] == "c3"


def test_tokens_of_a_minute_are_kept_by_waiting(serve: Serve) -> None:
    clock = Clock(speed=240)
    reranker = endpoint(serve(rerank_script), clock=clock, tokens_per_minute=60)
    before = clock.now()
    for _ in range(2):
        assert ids(reranker.rerank(QUESTION, HITS))[0] == "c2"
    assert clock.now() - before >= 60


def test_the_services_own_count_of_tokens_is_what_counts(serve: Serve) -> None:
    body = {"results": results([0.1, 0.2, 0.9, 0.3]), "usage": {"total_tokens": 20}}
    clock = Clock(speed=20)
    reranker = endpoint(serve(lambda request: json_reply(body)), clock=clock, tokens_per_minute=80)  # we count 52
    before = clock.now()
    for _ in range(2):
        assert ids(reranker.rerank(QUESTION, HITS))[0] == "c2"
    assert clock.now() - before < 60


# ── the key ──


@pytest.mark.parametrize("status", [200, 401, 422, 500])
def test_the_key_is_in_no_note_log_or_error(serve: Serve, status: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    server = serve(lambda request: json_reply({"error": {"message": request.authorization}, "results": KEY}, status))
    reranker = endpoint(server)
    note = failed(reranker.rerank(QUESTION, HITS))
    assert KEY not in note
    assert KEY not in caplog.text
    assert KEY not in repr(vars(reranker)) + json.dumps(Options().model_dump())


# ── in the pipeline ──

DOCUMENTS = {
    "a.md": "# Refund desk\n\nRefunds refunds refunds: the desk for refunds is on the second floor.\n",
    "b.md": "# Deadlines\n\nMoney comes back within thirty days, refunds too.\n",
    "c.md": "# Kitchen\n\nThe refunds poster hangs beside the kitchen.\n",
}


def test_a_search_is_reranked_and_goes_on_without_the_server(serve: Serve, project: Callable[..., Path]) -> None:
    folder = project()
    (folder / "knowledge_base").mkdir()
    for name, text in DOCUMENTS.items():
        (folder / "knowledge_base" / name).write_text(text, encoding="utf-8")
    server = serve(
        lambda request: results_reply(
            results([6.0 if "thirty" in text else -8.0 for text in request.body["documents"]])
        )
    )
    plain: dict[str, Any] = {"embedding": {"use": "hashing"}, "store": {"use": "memory"}, "retrieval": {"cutoff": -1.0}}
    rerank = {"use": "endpoint", "endpoint": {"base_url": server.base_url, "retries": 0, "timeout_seconds": 5.0}}
    with KnowledgeBase.open(**plain) as base:
        base.ingest()
        unranked = base.search("refunds").hits
    with KnowledgeBase.open(**plain, rerank=rerank) as base:
        found = base.search("refunds")
        die(server)
        after = base.search("refunds")
    assert unranked[0].source != "b.md"
    assert found.notes == ()
    assert found.hits[0].source == "b.md"
    assert (found.hits[0].scored_by, found.hits[0].score) == ("endpoint", 6.0)
    assert [(step.stage, step.rank) for step in found.hits[0].steps][-1] == ("endpoint", 1)
    assert "fused" in [step.stage for step in found.hits[0].steps]
    assert after.hits == unranked
    assert len(after.notes) == 1
    assert "cannot reach the rerank model" in after.notes[0]


def test_every_order_of_the_same_results_gives_the_same_hits(rerank: Rerank) -> None:
    assert len({rerank(in_order(order)) for order in permutations(range(4))}) == 1


def in_order(order: Sequence[int]) -> Script:
    """A server that works, and sends its results in this order of the documents."""
    return lambda request: results_reply([results(right_scores(request))[place] for place in order])
