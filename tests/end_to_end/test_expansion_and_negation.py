"""Other wordings and exclusions, from a folder of documents to what a person is shown."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kb.display import hits_as_text
from kb.errors import MissingKeyError
from kb.knowledge_base import KnowledgeBase
from kb.query import main
from tests.end_to_end._bases import Place
from tests.llm_server import Reply, Request, ScriptedServer, chat_reply, error_reply, scripted_server

DOCUMENTS = {
    "deploying.md": """# Deploying

## Releases

To deploy a release, run `make release` on the main branch; the new version is live after two minutes. A change of
texts needs no staging, and what has changed the database waits until its checks on staging have passed.

## Staging

Staging is a copy of production. Deploy to staging by `make stage`. The staging database is filled anew each night.
""",
    "部署.md": """# 部署

## 发布

运行发布命令即可部署到生产环境，两分钟后生效。文字修改无需预发布环境。

## 预发布环境

预发布环境是生产环境的副本。预发布环境每晚重建，账号向平台组申请。
""",
    "デプロイ.md": """# デプロイ

## リリース

リリースコマンドで本番にデプロイします。文言の変更ではステージングは不要です。

## ステージング

ステージングは本番の写しです。ステージングのデータは毎晩作り直されます。
""",
    "office.md": """# Office

## Hours

The office is open from nine to five.

## Start

It does not start without a key.
""",
}
KEY = "sk-test-81c5f2"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("negation")
    place = Place(folder / "documents", folder / "data")
    for name, text in DOCUMENTS.items():
        place.write(name, text)
    place.ingest(options={"chunking": {"recursive": {"size_tokens": 200, "min_tokens": 0}}})
    return place


@contextmanager
def opened(place: Place, **overrides: Any) -> Iterator[KnowledgeBase]:
    settings = {"retrieval": {"cutoff": -1.0, "top_k": 20}, "chunking": {"recursive": {"min_tokens": 0}}}
    with place.open(**settings | overrides) as base:
        yield base


def headings(result: Any) -> list[str]:
    return [hit.chunk.heading_path[-1] for hit in result.hits]


# Without a model


@pytest.mark.parametrize(
    ("question", "answers", "excluded"),
    [
        ("How do I deploy without staging?", "Releases", "Staging"),
        ("不经过预发布环境如何部署？", "发布", "预发布环境"),
        ("ステージングを使わずにデプロイするには？", "リリース", "ステージング"),
    ],
)
def test_what_is_mainly_about_the_excluded_thing_is_not_offered_and_that_is_said(
    place: Place, question: str, answers: str, excluded: str
) -> None:
    with opened(place) as base:
        result = base.search(question)
        answer = base.ask(question)
    assert answers in headings(result)
    assert excluded not in headings(result)
    (out,) = [drop for drop in result.dropped if "excludes" in drop.reason]
    assert out.hit.chunk.heading_path[-1] == excluded
    (note,) = [note for note in result.notes if "left out" in note]
    assert f"› {excluded}" in note
    assert note in answer.notes
    assert len(result.hits) + len(result.dropped) == 8, "each candidate once"


@pytest.mark.parametrize(
    "question",
    [
        "Why does staging not start?",
        "What happens without staging?",
        "没有预发布环境怎么办？",
        "なぜステージングにないのか",
    ],
)
def test_an_ordinary_question_leaves_out_nothing(place: Place, question: str) -> None:
    with opened(place) as base, opened(place, negation={"check": "off"}) as off:
        assert base.search(question) == off.search(question)
        assert len(base.search(question).hits) == 8


def test_switched_off_the_excluded_thing_is_offered(place: Place) -> None:
    with opened(place, negation={"check": "off"}) as base:
        assert "Staging" in headings(base.search("How do I deploy without staging?"))


def test_a_key_in_the_environment_alone_sends_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted_server(lambda request: chat_reply("NO")) as server:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        with opened(place) as base:
            assert base.search("How do I deploy without staging?").hits
        assert server.requests == []


@pytest.mark.parametrize("setting", [{"expansion": {"enabled": True}}, {"negation": {"check": "model"}}])
def test_a_model_that_is_configured_without_its_key_is_an_error_at_the_first_question(
    place: Place, setting: dict[str, Any]
) -> None:
    with opened(place, **setting) as base, pytest.raises(MissingKeyError, match="OPENAI_API_KEY"):
        base.search("Where is the office?")


# With a model


@contextmanager
def model(monkeypatch: pytest.MonkeyPatch, script: Any) -> Iterator[ScriptedServer]:
    with scripted_server(script) as server:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        yield server


def test_a_model_decides_which_hits_respect_what_is_excluded(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def only_releases(request: Request) -> Reply:
        return chat_reply("YES" if "make release" in request.body["messages"][-1]["content"] else "NO")

    with model(monkeypatch, only_releases) as server, opened(place, negation={"check": "model"}) as base:
        result = base.search("How do I deploy without staging?", top_k=1)
        assert headings(result) == ["Releases"]
        assert base.search("Where is the office?", top_k=1).hits
    assert len(server.requests) in (5, 8), "rounds of five until one is confirmed, and the ordinary question none"
    assert server.requests[0].body["model"] == "gpt-4o-mini"
    assert server.requests[0].body["max_tokens"] == 4


def test_when_the_model_confirms_nothing_there_is_no_answer_and_it_is_said_why(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with model(monkeypatch, lambda request: chat_reply("否")), opened(place, negation={"check": "model"}) as base:
        answer = base.ask("How do I deploy without staging?")
        assert hits_as_text(base.search("How do I deploy without staging?")).startswith("no candidate was kept")
    assert (answer.answered, len(answer.dropped)) == (False, 8)
    assert any(note.startswith("left out 8 passages not satisfying the question") for note in answer.notes)


def test_grouped_by_document_so_many_documents_are_confirmed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"retrieval": {"cutoff": -1.0, "group_by": "document"}, "negation": {"check": "model"}}
    with model(monkeypatch, lambda request: chat_reply("YES")), opened(place, **settings) as base:
        assert len(base.search("How do I deploy without staging?", top_k=4).hits) == 4


WORDING = "By which command does a new version go live?"


def test_what_another_wording_finds_moves_up(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    question = "Rolling out?"
    with model(monkeypatch, lambda request: chat_reply(f"1. {WORDING}\n2. {question}")) as server:
        with opened(place) as base:
            plain = base.search(question)
        with opened(place, expansion={"enabled": True}) as base:
            found = base.search(question)
            assert [one.question for one in base.search_many(["a?", "", "a?"])] == ["a?", "", "a?"]
        assert len(server.requests) == 2, "each question once, and a blank one never"
    assert found.question == question
    before, after = (result.hits[headings(result).index("Releases")] for result in (plain, found))
    assert headings(found).index("Releases") < headings(plain).index("Releases")
    assert before.similarity < after.similarity == found.best_score
    assert {step.stage for step in after.steps} >= {"wording 2", "expanded"}
    assert after.coverage == before.coverage, "of the words that were asked"
    assert found.notes == (f"searched in other wordings too: (2) {WORDING}",)
    assert server.requests[0].body["model"] == "gpt-4o-mini"


def test_explain_shows_the_wordings_and_what_was_left_out(
    place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.toml"
    config.write_text(
        f'documents_dir = "{place.documents}"\ndata_dir = "{place.data}"\n[embedding]\nuse = "hashing"\n'
        '[store]\nuse = "memory"\n[retrieval]\ncutoff = -1.0\n[expansion]\nenabled = true\n',
        encoding="utf-8",
    )
    with model(monkeypatch, lambda request: chat_reply(WORDING)):
        main(["How do I deploy without staging?", "--explain", "--config", str(config)])
    shown = capsys.readouterr().out
    assert f"Note: searched in other wordings too: (2) {WORDING}" in shown
    assert "→ wording 2 " in shown
    assert "→ expanded " in shown
    assert "deploying.md › Deploying › Staging: mainly about “staging”, which the question excludes" in shown


def test_when_the_service_is_down_the_question_is_searched_as_it_was_asked(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    down = {"expand": {"retries": 0}}
    with (
        model(monkeypatch, lambda request: error_reply(500, "down")),
        opened(place) as plain,
        opened(place, expansion={"enabled": True}, chat=down) as base,
    ):
        assert base.settings.chat.expand.temperature == 0.7, "what is not given keeps its default"
        expected, found = plain.search("Where is the office?"), base.search("Where is the office?")
    assert found.hits == expected.hits
    assert found.notes[0].startswith("only the question as it was asked was searched: ")
    assert KEY not in str(found.notes)


def test_a_reranker_and_the_answer_see_the_original_question(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    class Noting:
        """Passes all hits, and notes the question."""

        def rerank(self, question: str, hits: Any) -> Any:
            from kb.records import Reranked

            asked.append(question)
            return Reranked(tuple(hits))

    with (
        model(monkeypatch, lambda request: chat_reply(WORDING)),
        opened(place, expansion={"enabled": True}) as base,
    ):
        base._reranker = Noting()
        assert base.ask("Where is the office?").question == "Where is the office?"
    assert asked == ["Where is the office?"]
