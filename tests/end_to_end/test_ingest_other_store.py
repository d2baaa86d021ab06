"""Another store is configured, or another server: it is filled from the ledger, and nobody asks an empty one."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import chromadb
import numpy as np
import pytest
from chromadb.config import Settings

from kb.errors import IndexMismatchError, KbError, StoreError
from kb.knowledge_base import KnowledgeBase
from kb.ledger.ledger import Ledger
from kb.store._chroma_calls import close_client
from tests.chroma_server import chroma_server
from tests.end_to_end._bases import CHUNKING, NUMBERS, CountingEmbedder, Place, a_text
from tests.end_to_end.test_ingest_interrupted import interrupted_at

INGEST = r"python -m pipelines\.ingest"


def a_collection(tmp_path: Path, store: str = "memory", **options: Any) -> Place:
    place = Place(tmp_path / "documents", tmp_path / "data", store, CountingEmbedder(), options)
    place.write("a.md", a_text(NUMBERS[:4]))
    place.write("b.md", a_text(["zebra"]))
    place.ingest()
    return place


def assert_same(one: dict[str, tuple[Any, ...]], other: dict[str, tuple[Any, ...]]) -> None:
    """Compare contents; Chroma gives a vector back with another last bit now and then."""
    assert {i: row[:2] for i, row in one.items()} == {i: row[:2] for i, row in other.items()}
    for i, (_, _, vector) in one.items():
        np.testing.assert_allclose(np.frombuffer(vector, "<f4"), np.frombuffer(other[i][2], "<f4"), atol=1e-6)


@pytest.mark.parametrize(("first", "second"), [("memory", "chroma"), ("chroma", "memory")])
def test_another_store_is_refused_by_questions_until_an_ingest_has_filled_it_without_embedding(
    tmp_path: Path, first: str, second: str
) -> None:
    place = a_collection(tmp_path, first)
    before = place.contents()
    other = replace(place, store=second)
    with pytest.raises(StoreError, match=rf"'{second}' does not hold .* is in '{first}'.* embedded twice\): {INGEST}$"):
        other.found("zebra")
    report = other.ingest()
    assert (report.unchanged, report.embedded, report.embedding_calls, report.chunks_added) == (2, 0, 0, 0)
    assert_same(other.contents(), before)
    assert len(other.found("zebra")) == 1
    with pytest.raises(StoreError, match=f"is in '{second}'"):
        place.found("zebra")

    # And back: what the first one holds is out of date by now.
    place.write("a.md", a_text(NUMBERS[2:6]))
    shutil.move(place.documents / "b.md", place.documents / "c.md")
    other.ingest()
    expected = other.contents()
    assert expected != before
    assert place.ingest().embedded == 0
    assert_same(place.contents(), expected)
    assert [chunk.text for _, chunk, _ in expected.values() if "zebra" in chunk.text] == place.found("zebra")


def test_an_interrupt_at_any_line_of_filling_another_store_is_mended_by_the_next_ingest(tmp_path: Path) -> None:
    start = a_collection(tmp_path, "chroma")
    start.write("a.md", a_text([*NUMBERS[1:4], "lion"]))
    line, lines, expected = 0, 0, None
    while lines >= line:
        line += 2  # half of them take 10 s
        place = replace(start, store="memory", data=tmp_path / f"interrupted{line}")
        shutil.copytree(start.data, place.data)
        lines = interrupted_at(line, place.ingest, r"synced_store|in_step")
        with suppress(StoreError):
            assert len(place.found("zebra")) == 1, f"line {line}: a store that is not full is refused"
        assert place.ingest().failed == 0
        expected = expected or place.contents()
        assert place.contents() == expected, f"line {line}"
        assert len(place.found("zebra")) == 1, f"line {line}"
    assert line > 20


def test_the_command_that_mends_is_given_whole(tmp_path: Path) -> None:
    documents, config = tmp_path / "my documents", tmp_path / "other.toml"
    documents.mkdir()
    (documents / "a.md").write_text(a_text(NUMBERS[:4]))
    config.write_text(f'data_dir = "{(tmp_path / "data").as_posix()}"\n[embedding]\nuse = "hashing"\n')

    def opened(**more: Any) -> KnowledgeBase:
        table: dict[str, Any] = {"collection": "笔记", "chunking": CHUNKING, "store": {"use": "memory"}}
        return KnowledgeBase.open(config, **(table | more))

    with opened() as base:
        base.ingest(documents)
    command = f"python -m pipelines.ingest '{documents}' --collection '笔记' --config {config}"
    other_embedder = {"embedding": {"use": "hashing", "hashing": {"dimension": 64}}}
    for changes, kind, mend in (
        ({"store": {"use": "chroma"}}, StoreError, command),
        (other_embedder, IndexMismatchError, f"{command} --rebuild"),
    ):
        with opened(**changes) as base, pytest.raises(KbError) as refused:
            base.search("one")
        assert isinstance(refused.value, kind)
        assert str(refused.value).endswith(f": {mend}")
    with opened(**other_embedder) as base, pytest.raises(IndexMismatchError, match=re.escape(f"{command} --rebuild")):
        base.ingest(documents)
    with opened(collection="nobody") as base, pytest.raises(KbError) as refused:
        base.search("one")
    assert f"python -m pipelines.ingest --collection nobody --config {config}; or" in str(refused.value)


# On a server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with chroma_server(tmp_path_factory.mktemp("server") / "data") as url:
        yield url


@pytest.fixture
def on_server(tmp_path: Path, server: str) -> Iterator[Place]:
    yield a_collection(tmp_path, "chroma", url=server)
    with client_at(server) as client:
        for name in collections(server):
            client.delete_collection(name)


@contextmanager
def client_at(url: str) -> Iterator[Any]:
    client = chromadb.HttpClient(
        "127.0.0.1", int(url.rpartition(":")[2]), settings=Settings(anonymized_telemetry=False)
    )
    try:
        yield client
    finally:
        close_client(client)


def collections(url: str) -> list[str]:
    with client_at(url) as client:
        return sorted(collection.name for collection in client.list_collections())


def test_a_rebuild_on_a_server_leaves_the_old_generation_alone_until_the_new_one_is_complete(
    on_server: Place, server: str
) -> None:
    answers = []

    class Asking(CountingEmbedder):
        """Asks the old generation whenever it embeds."""

        def embed_documents(self, texts: Any) -> Any:
            answers.append([hit.source for hit in reader.search("zebra", cutoff=0.3).hits])
            return super().embed_documents(texts)

    before = on_server.contents()
    assert collections(server) == ["knowledge_base-g1"]
    with on_server.open() as reader:
        other = on_server.with_embedder(Asking(dimension=32, batch_texts=2))
        other.ingest(rebuild=True)
        assert answers == [["b.md"]] * 3
    assert collections(server) == ["knowledge_base-g2"]
    assert other.contents().keys() == before.keys()
    assert len(other.found("zebra")) == 1


def test_settings_of_the_index_that_cannot_be_changed_are_taken_by_a_rebuild_on_a_server(
    on_server: Place, server: str
) -> None:
    before = on_server.contents()
    other = replace(on_server, store_options={"url": server, "max_neighbors": 24})
    with pytest.raises(StoreError, match=f"max_neighbors = 16, but .*{INGEST} --rebuild"):
        other.found("zebra")
    assert other.ingest(rebuild=True).embedded == 0
    assert_same(other.contents(), before)
    assert collections(server) == ["knowledge_base-g2"]


def test_a_move_to_a_server_and_between_servers_is_a_move_to_another_store(
    on_server: Place, server: str, tmp_path: Path
) -> None:
    before = on_server.contents()
    embedded = replace(on_server, store_options={})
    with pytest.raises(StoreError, match=f"'chroma' does not hold .* is in 'chroma at {server}'"):
        embedded.found("zebra")
    assert embedded.ingest().embedded == 0
    assert_same(embedded.contents(), before)
    with chroma_server(tmp_path / "second") as second:
        moved = replace(on_server, store_options={"url": second})
        with pytest.raises(StoreError, match=f"'chroma at {second}' does not hold .* is in 'chroma'"):
            moved.found("zebra")
        assert moved.ingest().embedded == 0
        assert_same(moved.contents(), before)


def test_a_server_that_lost_everything_is_noticed_and_filled_again(on_server: Place, server: str) -> None:
    before = on_server.contents()
    with client_at(server) as client:
        client.delete_collection("knowledge_base-g1")
    with pytest.raises(StoreError, match=r"holds 0 where 5 were written.*python -m pipelines\.status --repair"):
        on_server.found("zebra")
    assert on_server.ingest(rebuild=True).embedded == 0
    assert_same(on_server.contents(), before)


def test_what_a_deleted_ledger_left_on_a_server_is_taken_out_by_the_next_first_ingest(on_server: Place) -> None:
    shutil.rmtree(on_server.data)
    on_server.write("a.md", a_text(["lion"]))
    on_server.ingest()
    assert len(on_server.contents()) == 2
    assert len(on_server.found("lion")) == 1


def test_a_generation_that_a_server_could_not_delete_is_deleted_by_the_next_ingest(
    on_server: Place, server: str
) -> None:
    left_over = on_server.folder / "generations" / "7"
    left_over.mkdir()
    with client_at(server) as client:
        client.create_collection("knowledge_base-g7", embedding_function=None)
    away = {"store": {"use": "chroma", "chroma": {"url": "http://127.0.0.1:9"}}}
    (left_over / "in-step-with-ledger").write_text("chroma at http://127.0.0.1:9")
    marker = on_server.folder / "generations" / "1" / "in-step-with-ledger"
    here = marker.read_text()
    marker.write_text("chroma at http://127.0.0.1:9")  # so that nothing else is asked of the server that is away
    assert on_server.ingest(options=away).unchanged == 2
    assert left_over.exists()
    marker.write_text(here)
    (left_over / "in-step-with-ledger").write_text(here)
    on_server.ingest()
    assert not left_over.exists()
    assert collections(server) == ["knowledge_base-g1"]


def test_what_a_server_holds_goes_with_a_deleted_collection_whatever_is_configured_now(
    on_server: Place, server: str
) -> None:
    left_over = on_server.folder / "generations" / "7"  # of a run that died
    left_over.mkdir()
    (left_over / "in-step-with-ledger").write_text("chroma at http://127.0.0.1:9")
    with on_server.open() as base:
        with pytest.raises(StoreError, match="could not be deleted"):
            base.upkeep.delete()
        (left_over / "in-step-with-ledger").write_text("chroma")
        assert base.upkeep.repair().chunks == 5
        assert base.upkeep.check().faults == ()
    assert collections(server) == ["knowledge_base-g2"]
    with replace(on_server, store="memory", store_options={}).open() as base:
        base.upkeep.delete()
    assert (collections(server), on_server.folder.exists()) == ([], False)


def test_a_question_while_chunks_are_taken_out_is_answered(tmp_path: Path) -> None:
    place = a_collection(tmp_path)
    with place.open() as reader, Ledger(place.folder) as ledger:
        store = place.open_store()
        stale = ledger.remove_documents(1, [next(iter(ledger.sources(1)))])
        store.delete(stale)  # and the run has not come to forget them yet
        store.close()
        assert len(reader.search("zebra", cutoff=-1).hits) == 5 - len(stale)
