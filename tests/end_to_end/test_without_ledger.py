"""A collection on a server, asked where its ledger is not: rows answer, the answer says so, and nothing is made."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import chromadb
import pytest
from chromadb.config import Settings
from qdrant_client import models

from kb.components import Parts, StorePlace, component_module
from kb.errors import ConfigError, IndexMismatchError, NothingIngestedError, StoreError
from kb.filters import Filter
from kb.knowledge_base import KnowledgeBase
from kb.ledger.names import collection_slug
from kb.records import Hit
from kb.store import _chroma_shape
from kb.store._chroma_calls import close_client
from tests.chroma_server import chroma_server, free_port
from tests.commands import QUERY, run
from tests.end_to_end._bases import NUMBERS, Place
from tests.pdf_writer import pdf
from tests.qdrant_server import QdrantStandIn, qdrant_stand_in

ENGLISH, CHINESE, JAPANESE = (
    "The zebra parcel leaves on Monday.",
    "退款须在三十天内申请。",
    "返金は三十日以内に申請すること。",
)
DOCUMENTS = {
    "parcels/zebra.md": f"# Handbook\n\n## Parcels\n\n{ENGLISH}\n",
    "政策/退款.md": f"# 手册\n\n## 退款\n\n{CHINESE}\n",
    "規則/返金.md": f"# 手引き\n\n## 返金\n\n{JAPANESE}\n",
}
QUESTIONS = {
    "When does the zebra parcel leave?": ENGLISH,
    "退款何时申请？": CHINESE,
    "返金はいつ申請すること？": JAPANESE,
}
STORES = ["chroma", "qdrant"]
SAID = "searched by vectors only, not by words"
_number = count(1)


@dataclass(frozen=True)
class Away(Place):
    """Documents whose collection is on a server, under a name of its own."""

    name: str = field(default_factory=lambda: f"知识库 {next(_number)}")
    with_ledger: dict[str, tuple[Hit, ...]] = field(default_factory=dict)
    """What questions found while the ledger was here."""

    def open(self, **overrides: Any) -> KnowledgeBase:
        return super().open(**({"collection": self.name} | overrides))

    def lose_ledger(self) -> None:
        shutil.rmtree(self.data)

    @property
    def slug(self) -> str:
        return collection_slug(self.name)

    @property
    def module(self) -> Any:
        return component_module("store", self.store)

    @property
    def options(self) -> Any:
        return self.module.Options(**self.store_options)

    def generations(self) -> dict[int, str]:
        there: dict[int, str] = self.module.generations(self.options, Parts(), self.slug)
        return there

    def build(self, place: StorePlace) -> Any:
        return self.module.build(self.options, Parts(place=place))

    def hits(self, question: str, where: Filter = None) -> tuple[Hit, ...]:
        with self.open() as base:
            return base.search(question, cutoff=0.1, where=where).hits


@pytest.fixture(scope="module")
def chroma(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with chroma_server(tmp_path_factory.mktemp("server") / "data") as url:
        yield url


@pytest.fixture(scope="module")
def qdrant() -> Iterator[QdrantStandIn]:
    with qdrant_stand_in() as server:
        yield server


def a_place(request: pytest.FixtureRequest, folder: Path, store: str) -> Away:
    server = request.getfixturevalue(store)
    url = server if isinstance(server, str) else server.url
    place = Away(folder / "documents", folder / "data", store, store_options={"url": url})
    for name, text in DOCUMENTS.items():
        place.write(name, text)
    return place


@pytest.fixture(params=STORES)
def away(request: pytest.FixtureRequest, tmp_path: Path) -> Away:
    return a_place(request, tmp_path, request.param)


@pytest.fixture(scope="module", params=STORES)
def lost(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Away:
    """One that is ingested, and its ledger gone; nobody changes it."""
    place = a_place(request, tmp_path_factory.mktemp("lost"), request.param)
    place.write("book.pdf", pdf([[f"The ferry {n} sails to the island."] * 6 for n in NUMBERS[:3]]))
    place.ingest()
    for question in QUESTIONS:
        place.with_ledger[question] = place.hits(question)
    place.lose_ledger()
    return place


def places(hits: tuple[Hit, ...]) -> dict[str, tuple[Any, ...]]:
    return {hit.chunk.id: (hit.source, hit.chunk, pytest.approx(hit.similarity, abs=1e-5)) for hit in hits}


def test_rows_answer_in_every_language_and_nothing_is_made(lost: Away) -> None:
    there = lost.generations()
    with lost.open() as base:
        for question, sentence in QUESTIONS.items():
            answer = base.ask(question, cutoff=0.1)
            assert answer.answered
            assert sentence in answer.text
            (cited, *_) = answer.citations
            text = next(text for text in DOCUMENTS.values() if sentence in text)
            assert DOCUMENTS[cited.source] == text
            assert cited.quote in sentence
            assert cited.heading == lost.with_ledger[question][0].chunk.heading
            assert answer.notes[0] == (
                f"the ledger of the collection {lost.name!r} is not in {lost.data}: {SAID}, in what "
                f"'{lost.store} at {lost.store_options['url']}' holds (generation 1), where passages may be out of "
                "date or missing"
            )
            hits = base.search(question, cutoff=0.1).hits
            assert {hit.scored_by for hit in hits} == {"dense"}
            known = places(lost.with_ledger[question])
            assert {i: place for i, place in places(hits).items() if i in known} == known
            assert [hit.similarity for hit in hits] == sorted((hit.similarity for hit in hits), reverse=True)
        assert base.search("退款", top_k=1, cutoff=-1.0).hits[1:] == ()
        assert not base.ask("zebra", cutoff=1.0).answered
        assert base.changed_since_ingest() is None
        assert base.root is None
    assert not lost.data.exists()
    assert lost.generations() == there


def test_a_base_that_is_open_loses_its_ledger_and_finds_the_next_one(away: Away) -> None:
    away.ingest()
    with away.open() as base:
        assert not any(SAID in note for note in base.search("zebra").notes)
        away.lose_ledger()
        assert SAID in base.search("zebra").notes[0]
        away.write("neu.md", "# New\n\nThe lion parcel is new.")
        assert base.ingest().indexed == 4
        found = base.search("lion parcel", cutoff=0.1)
        assert not any(SAID in note for note in found.notes)
        assert "lion" in found.hits[0].chunk.text


def test_a_generation_that_another_machine_has_replaced_is_looked_for_anew(away: Away) -> None:
    away.ingest()
    other = replace(away, data=away.data.with_name("here"))
    with other.open() as base:
        assert "(generation 1)" in base.search("zebra").notes[0]
        away.write("parcels/zebra.md", "# Handbook\n\nThe lion parcel leaves.")
        away.ingest(rebuild=True)
        assert away.generations().keys() == {2}
        found = base.search("lion parcel", cutoff=0.1)
        assert "(generation 2)" in found.notes[0]
        assert "lion" in found.hits[0].chunk.text
    assert not other.data.exists()


def test_another_embedder_is_refused_and_the_fitting_generation_is_taken(lost: Away) -> None:
    wider = {"embedding": {"use": "hashing", "hashing": {"dimension": 128}}}
    with lost.open(**wider) as base, pytest.raises(IndexMismatchError, match="--rebuild"):
        base.ask("zebra")
    assert lost.generations().keys() == {1}
    with lost.open() as base, lost.open(**wider) as other:
        embedders = {2: base.embedder, 4: other.embedder}
    try:
        # As while another machine builds it anew, and then goes over to another embedder.
        for number, embedder in embedders.items():
            place = StorePlace(lost.data, lost.name, lost.slug, embedder.fingerprint, embedder.dimension, number)
            lost.build(place).close()
        assert lost.generations().keys() == {1, 2, 4}
        with lost.open() as base:
            assert "(generation 2; as 1 is there too, it may still be built)" in base.search("zebra").notes[0]
        with lost.open(**wider) as base:
            assert "(generation 4)" in base.search("zebra").notes[0]
    finally:
        for number in embedders:
            lost.module.drop(lost.options, Parts(), lost.slug, number)


def test_only_its_own_generations_are_seen_on_a_server_with_others(
    lost: Away, qdrant: QdrantStandIn, chroma: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_chroma_shape, "_LIST_PAGE", 2)
    strangers = [f"{lost.slug}-g2-g3", f"{lost.slug}-g02", f"{lost.slug}-g", f"{lost.slug}x-g4", f"a{lost.slug}-g5"]
    strangers.append(f"{lost.slug}-g6")  # of its name, and not made by kb
    if lost.store == "qdrant":
        shape = models.VectorParams(size=4, distance=models.Distance.COSINE)
        for name in strangers:
            qdrant.held.create_collection(name, vectors_config=shape)
    else:
        port = int(chroma.rpartition(":")[2])
        client = chromadb.HttpClient("127.0.0.1", port, settings=Settings(anonymized_telemetry=False))
        for name in strangers:
            client.create_collection(name, embedding_function=None)
        close_client(client)
    assert lost.generations().keys() == {1}
    with lost.open() as base:
        assert "(generation 1)" in base.search("zebra").notes[0]


def test_a_store_without_a_server_has_no_generations_elsewhere() -> None:
    for store in STORES:
        module: Any = component_module("store", store)
        assert module.generations(module.Options(), Parts(), "notes") == {}


def test_a_collection_that_is_not_there_is_the_usual_error_and_is_not_made(away: Away) -> None:
    with pytest.raises(NothingIngestedError, match="nothing has been ingested into the collection"):
        away.hits("zebra")
    assert away.generations() == {}
    assert not away.data.exists()


@pytest.mark.parametrize("store", STORES)
def test_a_server_that_does_not_answer_is_told(tmp_path: Path, store: str) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    place = Away(tmp_path, tmp_path / "data", store, store_options={"url": url})
    with pytest.raises(StoreError, match=f"the collections at {url} could not be listed: .*server runs at {url}"):
        place.hits("zebra")


def test_a_store_that_is_opened_as_it_is_makes_no_collection(away: Away) -> None:
    place = StorePlace(away.data, away.name, away.slug, "hashing", 64, as_it_is=True)
    with pytest.raises(StoreError, match="could not be opened"):
        away.build(place)
    assert away.generations() == {}
    away.build(replace(place, as_it_is=False)).close()
    assert away.generations() == {1: "hashing"}
    away.build(place).close()


def test_options_that_differ_change_nothing_on_the_server(qdrant: QdrantStandIn, tmp_path: Path) -> None:
    place = Away(tmp_path / "documents", tmp_path / "data", "qdrant", store_options={"url": qdrant.url})
    place.write("a.md", ENGLISH)
    place.ingest()
    place.lose_ledger()
    begun = len(qdrant.requests)
    other = replace(place, store_options={"url": qdrant.url, "max_neighbors": 32})
    with other.open() as base:
        assert base.ask("zebra parcel", cutoff=0.1).answered
    asked = {request.replace(place.slug, "…") for request in qdrant.requests[begun:]}
    assert asked == {
        "GET /collections",
        "GET /collections/…-g1",
        "POST /collections/…-g1/points/query/batch",
        "POST /collections/…-g1/points",
    }


def test_source_and_page_can_be_asked_for_and_what_needs_the_ledger_is_told(lost: Away) -> None:
    question = "ferry to the island"
    assert {hit.source for hit in lost.hits(question, {"source": "./政策/退款.md"})} <= {"政策/退款.md"}
    assert {hit.source for hit in lost.hits("退款申请", {"source": ["政策/退款.md", "規則/返金.md"]})} == {
        "政策/退款.md",
        "規則/返金.md",
    }
    with lost.open() as base:
        on_pages = base.search(question, cutoff=0.1, where={"source": "book.pdf", "page": (2, 3)})
        assert {(hit.source, hit.chunk.page) for hit in on_pages.hits} == {("book.pdf", 2), ("book.pdf", 3)}
        assert on_pages.where == ("source=book.pdf", "page=2-3")
        assert "without the ledger, page= finds only passages that begin on the page" in on_pages.notes
        nothing = base.search(question, where={"source": "no.md"})
        assert (nothing.hits, "no passage matches --where source=no.md" in nothing.notes) == ((), True)
        for where in ({"kind": "pdf"}, {"source": "*.md"}, {"page": (2, None)}, {"page": (1, 99)}, {"path": "政策"}):
            with pytest.raises(ConfigError, match="needs the collection's ledger, which is not in data_dir"):
                base.search(question, where=where)


def test_a_row_that_kb_did_not_write_is_one_line(qdrant: QdrantStandIn, tmp_path: Path) -> None:
    place = Away(tmp_path / "documents", tmp_path / "data", "qdrant", store_options={"url": qdrant.url})
    place.write("a.md", ENGLISH)
    place.ingest()
    place.lose_ledger()
    name = f"{place.slug}-g1"
    (point,) = qdrant.held.scroll(name)[0]
    written = dict(point.payload or {})
    with place.open() as base:
        assert base.ask("zebra parcel", cutoff=0.1).answered
        for wrong in ({"start": 3}, {"source": 5}, {"end": "9"}, {"page": -1}, {"heading": 7}, {"text": "another"}):
            qdrant.held.overwrite_payload(name, written | wrong, [point.id])
            with pytest.raises(StoreError, match="on the server is not one that kb wrote") as told:
                base.search("zebra parcel")
            assert "\n" not in str(told.value)
        qdrant.held.overwrite_payload(name, written, [point.id])
        assert base.ask("zebra parcel", cutoff=0.1).answered


def test_what_else_is_asked_works_or_is_one_line(lost: Away) -> None:
    with lost.open(retrieval={"group_by": "document"}, keyword={"fusion": "rank"}) as base:
        found = base.search_many([*QUESTIONS, " "], cutoff=0.1)
        assert [len(result.hits) > 0 for result in found] == [True, True, True, False]
        excluded = base.search("Which parcel leaves, but not the zebra?", cutoff=0.05)
        assert SAID in excluded.notes[0]
        talk = base.chat()
        assert talk.ask("When does the zebra parcel leave?", cutoff=0.1).answered
        assert any(SAID in note for note in talk.ask("And on Monday?", cutoff=0.1).notes)
        with pytest.raises(NothingIngestedError):
            base.upkeep.check()
    assert not lost.data.exists()


@pytest.mark.parametrize("lost", ["chroma"], indirect=True)
def test_the_command_answers_and_tells_it_once(lost: Away) -> None:
    config = lost.documents.with_name("config.toml")
    config.write_text(
        f'collection = "{lost.name}"\ndata_dir = "{lost.data.as_posix()}"\n'
        f'documents_dir = "{lost.documents.as_posix()}"\n[embedding]\nuse = "hashing"\n'
        f'[store]\nuse = "{lost.store}"\n[store.{lost.store}]\nurl = "{lost.store_options["url"]}"\n',
        encoding="utf-8",
    )
    done = run(
        QUERY,
        "退款何时申请？",
        "--cutoff",
        "0.1",
        "--json",
        "--config",
        str(config),
        cwd=config.parent,
        KB_STORE__USE=None,
    )
    assert done.returncode == 0, done.stderr
    assert CHINESE in json.loads(done.stdout)["text"]
    assert done.stderr.count(SAID) == 1
    assert len(done.stderr.splitlines()) == 1
    assert not lost.data.exists()
