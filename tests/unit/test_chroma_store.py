"""What is Chroma's own; what every store promises is in tests/contracts/test_stores.py."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import chromadb
import chromadb.api.client
import numpy as np
import pytest
from chromadb.config import Settings
from numpy.typing import NDArray

from kb.components import Parts, StorePlace, StoreRow
from kb.errors import ConfigError, IndexMismatchError, StoreError
from kb.records import Chunk
from kb.store.chroma import ChromaStore, Options, build, drop
from tests.chroma_server import chroma_server, free_port

DIMENSION = 8


@pytest.fixture
def place(tmp_path: Path) -> StorePlace:
    return StorePlace(tmp_path / "generations" / "1", "知识库", "kb-0123456789", "embedder-a", DIMENSION)


def open_store(place: StorePlace, **options: Any) -> ChromaStore:
    return build(Options(**options), Parts(place=place))


def axis(index: int) -> NDArray[np.float32]:
    vector = np.zeros(DIMENSION, dtype=np.float32)
    vector[index] = 1.0
    return vector


def row(chunk_id: str, index: int, page: int | None = None, header: str = "Guide") -> StoreRow:
    return StoreRow(Chunk(chunk_id, "d", "text", 4, 8, page, ("Guide", "Setup"), header), "d.md", axis(index))


def client_at(place: StorePlace) -> Any:
    return chromadb.PersistentClient(os.path.realpath(place.folder), settings=Settings(anonymized_telemetry=False))


def soon(condition: Callable[[], bool]) -> bool:
    """Whether it holds within some seconds: Chroma closes its files in a thread of its own."""
    deadline = time.monotonic() + 5
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def test_an_l2_collection_is_noticed_by_its_distance(place: StorePlace) -> None:
    with client_at(place) as client:
        client.create_collection(place.slug, embedding_function=None)
    with pytest.raises(StoreError, match=r"measures distance by 'l2', not 'cosine'.*--rebuild"):
        open_store(place)


def test_a_collection_of_someone_else_is_not_taken_for_ours(place: StorePlace) -> None:
    with client_at(place) as client:
        client.create_collection(place.slug, configuration={"hnsw": {"space": "cosine"}}, embedding_function=None)
    with pytest.raises(StoreError, match="was not made by kb"):
        open_store(place)


def index_settings(store: ChromaStore) -> dict[str, Any]:
    collection = store._client.get_collection(store._name, embedding_function=None)
    return dict(collection.configuration_json["hnsw"])


@pytest.mark.parametrize("option", ["max_neighbors", "ef_construction"])
def test_another_shape_of_the_index_than_the_stored_one_is_refused(place: StorePlace, option: str) -> None:
    open_store(place, **{option: 24}).close()
    place = replace(place, rebuild_command="ingest --collection notes --rebuild")
    with pytest.raises(StoreError, match=rf"{option} = 24, but \[store.chroma\] says 1.*: {place.rebuild_command}"):
        open_store(place, ef_search=50)
    store = open_store(place, **{option: 24})
    assert index_settings(store)["ef_search"] == 100, "what is refused changes nothing"
    store.close()


OTHER_SETTINGS = {"ef_search": 50, "sync_threshold": 1_000, "resize_factor": 1.5}


def test_settings_that_can_be_changed_are_changed_in_the_collection_that_is_there(place: StorePlace) -> None:
    store = open_store(place)
    store.upsert([row(f"c{i}", i) for i in range(DIMENSION)])
    shape = {key: value for key, value in index_settings(store).items() if key not in OTHER_SETTINGS}
    store.close()
    for settings in (OTHER_SETTINGS, OTHER_SETTINGS, {}):
        store = open_store(place, **settings)
        assert (
            index_settings(store) == shape | {"ef_search": 100, "sync_threshold": 100, "resize_factor": 1.2} | settings
        )
        assert store.search(axis(2)[None], 1) == [[("c2", 1.0)]]
        store.upsert([row("c2", 2)])
        store.close()


def test_the_collection_says_what_it_is_and_its_rows_what_they_are(place: StorePlace) -> None:
    store = open_store(place)
    store.upsert([row("a", 0, page=3), row("b", 1, header="")])
    store.close()
    with client_at(place) as client:
        collection = client.get_collection(place.slug, embedding_function=None)
        assert collection.metadata == {"collection": "知识库", "fingerprint": "embedder-a", "dimension": DIMENSION}
        assert collection.configuration_json["hnsw"]["space"] == "cosine"
        stored = collection.get(include=["metadatas", "documents"])
    shared = {"source": "d.md", "document_id": "d", "heading": "Guide › Setup", "start": 4, "end": 8}
    assert stored["ids"] == ["a", "b"]
    assert stored["documents"] == ["text", "text"]
    assert stored["metadatas"] == [{**shared, "page": 3, "header": "Guide"}, shared]


def test_a_panic_of_the_rust_half_is_a_store_error(place: StorePlace) -> None:
    store = open_store(place)
    with pytest.raises(StoreError, match="could not be written") as caught, store._errors("written"):
        store._client.create_collection("panics", metadata={"list": [1, 2]}, embedding_function=None)
    assert not isinstance(caught.value.__cause__, Exception)
    store.close()


def test_an_interrupt_of_the_user_stays_one(place: StorePlace) -> None:
    store = open_store(place)
    with pytest.raises(KeyboardInterrupt), store._errors("written"):
        raise KeyboardInterrupt
    store.close()


def test_a_damaged_database_is_a_store_error_and_the_folder_can_be_used_again_in_this_process(
    place: StorePlace,
) -> None:
    place.folder.mkdir(parents=True)
    (place.folder / "chroma.sqlite3").write_bytes(b"this is no database at all" * 100)
    with pytest.raises(StoreError, match="could not be opened"):
        open_store(place)
    shutil.rmtree(place.folder)
    store = open_store(place)
    store.upsert([row("a", 0)])
    assert store.count() == 1
    store.close()


def test_closing_releases_every_file(place: StorePlace) -> None:
    if not Path("/proc/self/fd").exists():
        pytest.skip("open files are counted through /proc, which this system does not have")

    def open_files() -> list[str]:
        links = [path for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
        return [target for target in map(os.path.realpath, links) if str(place.folder) in target]

    store = open_store(place)
    store.upsert([row("a", 0)])
    assert open_files()
    store.close()
    assert soon(lambda: not open_files())
    with pytest.raises(IndexMismatchError):
        open_store(replace(place, fingerprint="embedder-b"))
    assert soon(lambda: not open_files())


def test_two_stores_on_two_spellings_of_a_folder_share_one_system_and_close_apart(place: StorePlace) -> None:
    first = open_store(place)
    (place.folder.parent / "link").symlink_to(place.folder)
    second = open_store(replace(place, folder=place.folder.parent / "link"))
    assert first._client._system is second._client._system
    first.upsert([row("a", 0)])
    assert second.count() == 1
    first.close()
    assert second.search(axis(0)[None], 5) == [[("a", 1.0)]]
    second.close()


def test_a_store_without_a_place_says_what_is_missing() -> None:
    with pytest.raises(ConfigError, match="needs a place"):
        build(Options(), Parts())


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://host", "http://", "http://host:port", "http://host/path"])
def test_a_url_that_is_none_of_a_server_is_a_config_error(place: StorePlace, url: str) -> None:
    with pytest.raises(ConfigError, match=r"\[store.chroma\] url"):
        open_store(place, url=url)


def test_a_server_that_does_not_answer_is_a_store_error_that_names_it(place: StorePlace) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(StoreError, match=f"Check that a Chroma server runs at {url}"):
        open_store(place, url=url)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    with chroma_server(tmp_path / "server") as url:
        yield url


def test_on_a_server_a_collection_works_as_in_a_folder(place: StorePlace, server: str) -> None:
    store = open_store(place, url=server)
    store.upsert([row("a", 0, page=3), row("b", 1), row("c", 2)])
    store.upsert([row("a", 0, page=None)])
    assert store.search(axis(0)[None], 5) == [[("a", 1.0), ("b", 0.0), ("c", 0.0)]]
    assert store.search(axis(0)[None], 5, {"page": 3}) == [[]]
    store.delete(["b", "never"])
    np.testing.assert_array_equal(store.vectors(["a", "b"])["a"], axis(0))
    store.close()
    with pytest.raises(StoreError, match="is closed"):
        store.count()

    again = open_store(place, url=server)
    assert sorted(again.chunk_ids()) == ["a", "c"]
    again.delete_document("d")
    assert again.count() == 0
    again.close()
    with pytest.raises(IndexMismatchError):
        open_store(replace(place, fingerprint="embedder-b"), url=server)
    assert not place.folder.exists()


def test_on_a_server_settings_are_changed_as_in_a_folder(place: StorePlace, server: str) -> None:
    open_store(place, url=server).close()
    store = open_store(place, url=server, **OTHER_SETTINGS)
    assert index_settings(store).items() >= OTHER_SETTINGS.items()
    store.close()


def test_on_a_server_each_generation_has_a_collection_of_its_own_that_can_be_dropped(
    place: StorePlace, server: str
) -> None:
    options = Options(url=server)
    first, second = open_store(place, url=server), open_store(replace(place, generation=2), url=server)
    first.upsert([row("a", 0)])
    second.upsert([row("b", 0), row("c", 1)])
    assert (first.count(), second.count()) == (1, 2)
    drop(options, Parts(), place.slug, 1)
    drop(options, Parts(), place.slug, 1)
    assert [collection.name for collection in second._client.list_collections()] == [f"{place.slug}-g2"]
    assert second.count() == 2
    with pytest.raises(StoreError, match="could not be read"):
        first.count()
    first.close()
    second.close()


def test_a_generation_cannot_be_dropped_from_a_server_that_does_not_answer() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(StoreError, match=f"'notes-g1' at {url} could not be deleted"):
        drop(Options(url=url), Parts(), "notes", 1)


def test_dropping_a_generation_of_a_folder_leaves_the_folder_to_the_caller(place: StorePlace) -> None:
    open_store(place).close()
    drop(Options(), Parts(), place.slug, 1)
    assert (place.folder / "chroma.sqlite3").exists()


def test_a_chroma_that_takes_166_records_a_call_is_never_given_more(
    place: StorePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[int] = []

    class Collection(chromadb.Collection):
        def add(self, ids: Any, *arguments: Any, **options: Any) -> None:
            given.append(len(ids))
            super().add(ids, *arguments, **options)

        def upsert(self, ids: Any, *arguments: Any, **options: Any) -> None:
            given.append(len(ids))
            super().upsert(ids, *arguments, **options)

        def delete(self, ids: Any = None, *arguments: Any, **options: Any) -> Any:
            given.append(len(ids))
            return super().delete(ids, *arguments, **options)

    monkeypatch.setattr(chromadb.api.client.Client, "get_max_batch_size", lambda client: 166)
    monkeypatch.setattr(chromadb.api.client, "Collection", Collection)
    with closing(open_store(place)) as store:
        for vector in (0, 1):  # all are new, then all are there
            store.upsert([row(f"c{number}", (number + vector) % DIMENSION) for number in range(400)])
        assert store.count() == 400
        store.delete([f"c{number}" for number in range(40, 400)])
        assert sorted(store.chunk_ids()) == sorted(f"c{number}" for number in range(40))
    assert len(given) == 3 + 3 + 3
    assert max(given) == 166


def test_more_ids_than_chroma_takes_in_a_list_are_read_and_deleted_in_pages(place: StorePlace) -> None:
    ids = [f"c{number}" for number in range(100_000)]  # over 32,766 Chroma fails
    with closing(open_store(place)) as store:
        store.upsert([row("c1", 1), row("c39999", 2), row("c99999", 3)])
        assert store.vectors(ids).keys() == {"c1", "c39999", "c99999"}
        store.delete(ids[:40_000])
        assert list(store.chunk_ids()) == ["c99999"]
