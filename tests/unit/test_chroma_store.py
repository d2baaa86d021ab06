"""What is Chroma's own; what every store promises is in tests/contracts/test_stores.py."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import chromadb
import numpy as np
import pytest
from chromadb.config import Settings
from numpy.typing import NDArray

from kb.components import Parts, StorePlace, StoreRow
from kb.errors import ConfigError, IndexMismatchError, StoreError
from kb.records import Chunk
from kb.store.chroma import ChromaStore, Options, build

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


def test_other_index_settings_than_the_stored_ones_are_noticed(place: StorePlace) -> None:
    open_store(place, max_neighbors=24).close()
    with pytest.raises(StoreError, match=r"max_neighbors = 24, but \[store.chroma\] says 16"):
        open_store(place)
    open_store(place, max_neighbors=24).close()


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


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def test_a_server_that_does_not_answer_is_a_store_error_that_names_it(place: StorePlace) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(StoreError, match=f"Check that a Chroma server runs at {url}"):
        open_store(place, url=url)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """A real Chroma server on a free port."""
    port = free_port()
    program = Path(sys.executable).with_name("chroma")
    command = [str(program), "run", "--path", str(tmp_path / "server"), "--host", "127.0.0.1", "--port", str(port)]
    with (tmp_path / "server.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 60
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert process.poll() is None, (tmp_path / "server.log").read_text()
            assert time.monotonic() < deadline, "the Chroma server did not start within a minute"
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=20)


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
