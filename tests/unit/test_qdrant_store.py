"""What is Qdrant's own; what every store promises is in tests/contracts/test_stores.py."""

from __future__ import annotations

import datetime
import ipaddress
import json
import threading
import traceback
import uuid
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from qdrant_client import models
from qdrant_client.local.qdrant_local import QdrantLocal

from kb.components import Parts, StorePlace, StoreRow
from kb.errors import ConfigError, IndexMismatchError, KbError, MissingKeyError, StoreError
from kb.records import Chunk
from kb.settings import explain_validation
from kb.store._qdrant_calls import point_id
from kb.store.qdrant import Options, QdrantStore, build, drop
from tests.chroma_server import free_port
from tests.qdrant_server import QdrantStandIn, qdrant_stand_in

DIMENSION = 8
KEY = "sekrit-0123456789"


@pytest.fixture
def place(tmp_path: Path) -> StorePlace:
    return StorePlace(tmp_path / "generations" / "1", "知识库", "kb-0123456789", "embedder-a", DIMENSION)


@pytest.fixture
def server() -> Iterator[QdrantStandIn]:
    with qdrant_stand_in() as running:
        yield running


def open_store(place: StorePlace, **options: Any) -> QdrantStore:
    return build(Options(**options), Parts(place=place, secret={"A_KEY": KEY, "OTHER_KEY": "another-key"}.get))


def axis(index: int) -> NDArray[np.float32]:
    vector = np.zeros(DIMENSION, dtype=np.float32)
    vector[index] = 1.0
    return vector


def row(chunk_id: str, index: int, page: int | None = None, text: str = "text") -> StoreRow:
    return StoreRow(Chunk(chunk_id, "d", text, 4, 8, page, ("Guide", "Setup"), "Guide"), "d.md", axis(index))


def refused(place: StorePlace, **options: Any) -> KbError:
    """The error of opening, which is one line and never shows the key, nor does its traceback."""
    with pytest.raises(KbError) as caught:
        open_store(place, **options).close()
    assert "\n" not in str(caught.value)
    assert KEY not in "".join(traceback.format_exception(caught.value))
    return caught.value


# ------------------------------------------------------------------------------------------- what is stored


def test_a_point_is_named_by_a_uuid_of_its_chunk_and_says_all_of_it(place: StorePlace, server: QdrantStandIn) -> None:
    with closing(open_store(place, url=server.url)) as store:
        store.upsert([row("a", 0, page=3, text="退款 リファンド"), row("b", 1)])
    name = f"{place.slug}-g1"
    shared = {"source": "d.md", "document_id": "d", "heading": "Guide › Setup", "start": 4, "end": 8, "header": "Guide"}
    points = {point.id: point for point in server.held.scroll(name, with_vectors=True)[0]}
    # Written out, as it must never change: it is RFC 9562's version 5.
    assert points.keys() == {point_id("a"), point_id("b")}
    assert point_id("a") == str(uuid.uuid5(uuid.UUID("6f2a9a4e-5d0c-5b7f-9c1e-2b1d8b1c7a55"), "a"))
    assert points[point_id("a")].payload == {"chunk_id": "a", "text": "退款 リファンド", "page": 3, **shared}
    assert points[point_id("b")].payload == {"chunk_id": "b", "text": "text", **shared}
    assert points[point_id("a")].vector == axis(0).tolist()
    info = server.read(name)
    assert info["config"]["metadata"] == {"collection": "知识库", "fingerprint": "embedder-a", "dimension": DIMENSION}
    assert info["config"]["params"]["vectors"]["distance"] == "Cosine"
    assert server.indexes[name] == {"source": "keyword", "document_id": "keyword", "page": "integer"}


@pytest.mark.parametrize(("batch_size", "sent"), [(100, 3), (250, 1), (10_000, 1)])
def test_points_are_sent_in_batches(place: StorePlace, server: QdrantStandIn, batch_size: int, sent: int) -> None:
    with closing(open_store(place, url=server.url, batch_size=batch_size)) as store:
        store.upsert([row(f"c{i}", i % DIMENSION) for i in range(250)])
        assert store.count() == 250
    assert server.requests.count(f"PUT /collections/{place.slug}-g1/points") == sent


def test_a_batch_of_long_vectors_stays_below_what_a_server_takes(place: StorePlace, server: QdrantStandIn) -> None:
    place = replace(place, dimension=4_096)
    vectors = np.random.default_rng(1).normal(size=(300, 4_096)).astype(np.float32)
    rows = [StoreRow(row(f"c{i}", 0).chunk, "d.md", vector) for i, vector in enumerate(vectors)]
    with closing(open_store(place, url=server.url, batch_size=10_000)) as store:
        store.upsert(rows)  # in one request it would be 413
        assert store.count() == 300


def test_a_server_is_told_how_to_search_and_how_to_index(place: StorePlace, server: QdrantStandIn) -> None:
    name = f"{place.slug}-g1"
    with closing(open_store(place, url=server.url, max_neighbors=24)) as store:
        store.upsert([row("a", 0)])
        assert store.search(axis(0)[None], 1) == [[("a", 1.0)]]
    assert server.hnsw[name] == {"m": 24, "ef_construct": 100}
    with closing(open_store(place, url=server.url, exact=True, ef_search=300)) as store:
        assert store.search(axis(0)[None], 1) == [[("a", 1.0)]]
    assert [(one.hnsw_ef, one.exact) for one in server.parameters if one] == [(100, False), (300, True)]
    assert server.hnsw[name] == {"m": 16, "ef_construct": 100}


def test_a_collection_whose_maker_died_gets_the_indexes_that_it_lacks(place: StorePlace, server: QdrantStandIn) -> None:
    open_store(place, url=server.url).close()
    name = f"{place.slug}-g1"
    del server.indexes[name]["page"]
    before = len(server.requests)
    open_store(place, url=server.url).close()
    assert "page" in server.indexes[name]
    assert server.requests[before:].count(f"PUT /collections/{name}/index") == 1


# ----------------------------------------------------------------------------------- collections of others


@pytest.mark.parametrize(
    ("shape", "metadata", "told"),
    [
        (models.VectorParams(size=DIMENSION, distance=models.Distance.DOT), {}, "measures distance by 'Dot', not"),
        (models.VectorParams(size=DIMENSION, distance=models.Distance.COSINE), None, "was not made by kb"),
        (models.VectorParams(size=DIMENSION, distance=models.Distance.COSINE), {"made": "by"}, "was not made by kb"),
        ({"text": models.VectorParams(size=DIMENSION, distance=models.Distance.COSINE)}, {}, "was not made by kb"),
    ],
)
@pytest.mark.parametrize("on_server", [True, False])
def test_a_collection_of_someone_else_is_not_taken_for_ours(
    place: StorePlace, server: QdrantStandIn, shape: Any, metadata: Any, told: str, on_server: bool
) -> None:
    if on_server:
        server.held.create_collection(f"{place.slug}-g1", vectors_config=shape, metadata=metadata)
    else:
        with closing(QdrantLocal(str(place.folder / "qdrant"))) as client:
            client.create_collection(place.slug, vectors_config=shape, metadata=metadata)
    error = refused(place, url=server.url if on_server else "")
    assert told in str(error)
    assert "--rebuild" in str(error)
    if on_server:
        assert server.collections == [f"{place.slug}-g1"], "it is left alone"


def test_a_point_that_kb_did_not_write_is_noticed(place: StorePlace, server: QdrantStandIn) -> None:
    with closing(open_store(place, url=server.url)) as store:
        stranger = models.PointStruct(id=7, vector=axis(0).tolist(), payload={"chunk_id": "a"})
        server.held.upsert(f"{place.slug}-g1", [stranger])
        for call in (lambda: list(store.chunk_ids()), lambda: store.search(axis(0)[None], 1)):
            with pytest.raises(StoreError, match="the point 7 is not one that kb wrote"):
                call()


def test_a_server_that_keeps_no_metadata_is_refused_and_left_as_it_was(place: StorePlace) -> None:
    with qdrant_stand_in(version="1.15.4") as old:
        error = refused(place, url=old.url)
        assert f"the Qdrant server at {old.url} is older than 1.16" in str(error)
        assert old.collections == []


def test_another_embedder_is_refused_on_a_server_too(place: StorePlace, server: QdrantStandIn) -> None:
    open_store(place, url=server.url).close()
    with pytest.raises(IndexMismatchError):
        open_store(replace(place, fingerprint="embedder-b"), url=server.url)


# ------------------------------------------------------------------------------------------------ keys, TLS


def test_the_key_is_sent_with_every_request_and_nothing_warns(place: StorePlace) -> None:
    with qdrant_stand_in(key=KEY) as server, warnings.catch_warnings():
        warnings.simplefilter("error")
        with closing(open_store(place, url=server.url, api_key_env="A_KEY")) as store:
            store.upsert([row("a", 0)])
            assert store.search(axis(0)[None], 1) == [[("a", 1.0)]]
        drop(Options(url=server.url, api_key_env="A_KEY"), Parts(secret={"A_KEY": KEY}.get), place.slug, 1)
        assert server.collections == []
        assert {sent.get("api-key") for sent in server.headers} == {KEY}


@pytest.mark.parametrize(
    ("variable", "told"),
    [("", "It wants a key: name the variable"), ("OTHER_KEY", "It does not take the key in OTHER_KEY")],
)
def test_a_key_that_is_missing_or_wrong_is_told(place: StorePlace, variable: str, told: str) -> None:
    with qdrant_stand_in(key=KEY) as server:
        error = refused(place, url=server.url, api_key_env=variable)
    assert isinstance(error, StoreError)
    assert "it answered 401" in str(error)
    assert told in str(error)


def test_a_key_that_is_named_and_not_set_is_told(place: StorePlace, server: QdrantStandIn) -> None:
    error = refused(place, url=server.url, api_key_env="NO_SUCH_KEY")
    assert isinstance(error, MissingKeyError)
    assert error.variable == "NO_SUCH_KEY"
    assert server.requests == []


def test_a_server_that_gives_the_key_back_does_not_get_it_shown(place: StorePlace, server: QdrantStandIn) -> None:
    told = json.dumps({"status": {"error": f"bad key {KEY} \x1b[31m\n twice"}}).encode()
    server.answer = lambda request: (403, told)
    error = refused(place, url=server.url, api_key_env="A_KEY")
    assert "it answered 403 (bad key [key] [31m twice)" in str(error)


def test_a_key_goes_readable_over_the_network_only_when_that_is_asked_for(place: StorePlace) -> None:
    error = refused(place, url="http://qdrant.example:6333", api_key_env="A_KEY")
    assert isinstance(error, ConfigError)
    assert "would be readable on the way" in str(error)
    parts = Parts(secret={"A_KEY": KEY}.get, place=place)
    from kb.store._qdrant_options import key_of

    for url, allowed in (("http://qdrant.example:6333", True), ("https://qdrant.example", False)):
        assert key_of(Options(url=url, api_key_env="A_KEY", allow_http_key=allowed), parts) == KEY
    for url in ("http://localhost:6333", "http://127.0.0.1:6333", "http://[::1]:6333"):
        assert key_of(Options(url=url, api_key_env="A_KEY"), parts) == KEY


def test_a_key_instead_of_the_name_of_its_variable_is_not_shown() -> None:
    with pytest.raises(ConfigError, match="never the key itself") as caught:
        explain_validation(Options, {"api_key_env": KEY}, "store.qdrant")
    assert KEY not in str(caught.value)


def certificate_for_this_machine(folder: Path) -> tuple[Path, Path]:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "stand-in")])
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    alternative = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    built = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now - day, now + day)
    made = (
        built.add_extension(alternative, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate, private = folder / "certificate.pem", folder / "private.pem"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8
    private.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    return certificate, private


def test_a_server_with_a_certificate_of_its_own_is_trusted_when_its_file_is_named(
    place: StorePlace, tmp_path: Path
) -> None:
    certificate, private = certificate_for_this_machine(tmp_path)
    with qdrant_stand_in(key=KEY, certificate=certificate, private_key=private) as server:
        told = {"url": server.url, "api_key_env": "A_KEY"}
        assert server.url.startswith("https://")
        assert "CERTIFICATE_VERIFY_FAILED" in str(refused(place, **told))
        assert server.requests == []
        with closing(open_store(place, ca_file=str(certificate), **told)) as store:
            store.upsert([row("a", 0)])
            assert store.count() == 1
        error = refused(place, ca_file=str(tmp_path / "none.pem"), **told)
        assert isinstance(error, ConfigError)
        assert "ca_file" in str(error)


# ------------------------------------------------------------------------------- servers that answer otherwise


@pytest.mark.parametrize(
    "url",
    [
        "localhost:6333", "ftp://host", "http://", "http://host:port", "http://host:0", "http://me:pass@host",
        "http://host/?api-key=pass", "http://host/#pass",
    ],
)  # fmt: skip
def test_a_url_that_is_none_of_a_server_is_a_config_error_and_shows_no_password(place: StorePlace, url: str) -> None:
    error = refused(place, url=url)
    assert isinstance(error, ConfigError)
    assert "[store.qdrant] url" in str(error)
    assert "pass" not in str(error).replace("password", "")


def test_a_server_and_memory_at_once_are_a_config_error(place: StorePlace) -> None:
    assert isinstance(refused(place, url="http://localhost:6333", in_memory=True), ConfigError)


def test_a_server_that_does_not_answer_is_told_with_its_address(place: StorePlace) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    assert f"Check that a Qdrant server runs at {url}" in str(refused(place, url=url))
    with pytest.raises(StoreError, match="could not be deleted"):
        drop(Options(url=url), Parts(), place.slug, 1)


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (500, b'{"status":{"error":"disk full"}}', r"it answered 500 \(disk full\)\. Look into the log"),
        (502, b"<html>proxy</html>", r"it answered 502\. Look into the log"),
        (404, b"nothing here", r"it answered 404\. Check \[store\.qdrant\] url"),
        (413, b'{"status":{"error":"too large"}}', r"413 \(too large\)\. Lower \[store\.qdrant\] batch_size"),
        (429, b"", "it answered 429"),
        (301, b"", "it answered 301"),
        (200, b"<html>hello</html>", "does not speak as a Qdrant server does"),
        (200, b'{"result": 3}', "does not speak as a Qdrant server does"),
        (200, b"[" * 100_000, "does not speak as a Qdrant server does"),
        (200, b"", "does not speak as a Qdrant server does"),
    ],
)
def test_an_answer_that_is_none_is_one_line_that_says_what_to_do(
    place: StorePlace, server: QdrantStandIn, status: int, body: bytes, told: str
) -> None:
    server.answer = lambda request: (status, body)
    error = refused(place, url=server.url)
    assert isinstance(error, StoreError)
    with pytest.raises(StoreError, match=told):
        raise error


def test_half_an_answer_and_a_late_one_are_told(place: StorePlace, server: QdrantStandIn) -> None:
    with closing(open_store(place, url=server.url, timeout_seconds=1)) as store:
        store.upsert([row("a", 0)])
        server.cut_off = True
        with pytest.raises(StoreError, match=r"could not be read: what answers there .* or broke off\. Check"):
            store.count()
        server.cut_off, server.delay_seconds = False, 1.5
        with pytest.raises(StoreError, match=r"did not answer in time.*timeout_seconds"):
            store.count()
        server.delay_seconds = 0.0
        assert store.count() == 1


def test_a_collection_that_was_deleted_on_the_server_is_told_with_what_fills_it(
    place: StorePlace, server: QdrantStandIn
) -> None:
    with closing(open_store(place, url=server.url)) as store:
        server.drop(f"{place.slug}-g1")
        with pytest.raises(StoreError, match=r"404 \(Not found: .*if the collection was deleted .*--repair"):
            store.upsert([row("a", 0)])
        drop(Options(url=server.url), Parts(), place.slug, 1)  # of what is not there nothing is to be deleted


def test_answers_of_another_form_than_asked_for_are_errors(place: StorePlace, server: QdrantStandIn) -> None:
    with closing(open_store(place, url=server.url)) as store:
        store.upsert([row("a", 0)])
        short = [{"id": point_id("a"), "vector": [1.0], "payload": {}}]
        lists = {"points": json.dumps({"result": short}).encode(), "batch": b'{"result": []}'}
        server.answer = lambda request: (200, lists[last]) if (last := request.rpartition("/")[2]) in lists else None
        with pytest.raises(StoreError, match=r"a vector of shape \(1,\)"):
            store.vectors(["a"])
        with pytest.raises(StoreError, match=r"does not speak as a Qdrant|gave a vector"):
            store.rows(["a"])
        with pytest.raises(StoreError, match="gave 0 answers to 1 questions"):
            store.search(axis(0)[None], 1)


# ---------------------------------------------------------------------------------- in a folder, in memory


def test_stores_of_one_folder_share_it_under_any_spelling_and_close_apart(place: StorePlace) -> None:
    first = open_store(place)
    (place.folder.parent / "link").symlink_to(place.folder)
    second = open_store(replace(place, folder=place.folder.parent / "link"))
    first.upsert([row("a", 0)])
    assert second.count() == 1
    first.close()
    assert second.search(axis(0)[None], 5) == [[("a", 1.0)]]
    second.close()
    with closing(QdrantLocal(str(place.folder / "qdrant"))) as anyone:  # the lock is free again
        assert anyone.count(place.slug).count == 1


def test_many_threads_may_ask_and_write_at_a_time(place: StorePlace) -> None:
    with closing(open_store(place)) as store, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: store.upsert([row(f"c{i}-{j}", i) for j in range(20)]), range(DIMENSION)))
        found = list(pool.map(lambda i: store.search(axis(i % DIMENSION)[None], 20)[0], range(40)))
        assert store.count() == 160
    for i, hits in enumerate(found):
        assert {chunk_id.partition("-")[0] for chunk_id, _ in hits} == {f"c{i % DIMENSION}"}


def test_a_failed_opening_releases_the_folder(place: StorePlace) -> None:
    open_store(place).close()
    with pytest.raises(IndexMismatchError):
        open_store(replace(place, fingerprint="embedder-b"))
    QdrantLocal(str(place.folder / "qdrant")).close()


@pytest.mark.parametrize("damage", ["meta.json", "storage.sqlite"])
def test_damaged_files_are_a_store_error_that_says_how_to_mend_them(place: StorePlace, damage: str) -> None:
    with closing(open_store(place)) as store:
        store.upsert([row("a", 0)])
    (file,) = (place.folder / "qdrant").rglob(damage)
    file.write_bytes(b"this is neither JSON nor a database" * 100)
    with pytest.raises(StoreError, match=r"could not be opened: .*mend it \(nothing is embedded\): .*--repair"):
        open_store(place)


def test_more_points_than_qdrant_likes_without_a_server_warn_nobody(
    place: StorePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With its own limit lowered the client warns, as it would of 20,000.
    for kind in (
        "qdrant_client.local.qdrant_local.QdrantLocal",
        "qdrant_client.local.local_collection.LocalCollection",
    ):
        monkeypatch.setattr(f"{kind}.LARGE_DATA_THRESHOLD", 10)
    rows = [row(f"c{i}", i % DIMENSION) for i in range(30)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            with closing(open_store(place)) as store:
                store.upsert(rows)
                assert store.count() == 30
    with pytest.warns(UserWarning, match="Local mode is not recommended"):
        QdrantLocal(str(place.folder / "qdrant")).close()


def test_memory_is_kept_for_the_process_and_freed_with_its_folder(place: StorePlace) -> None:
    from kb.store._qdrant_clients import _of_memory

    with closing(open_store(place, in_memory=True)) as store:
        store.upsert([row("a", 0)])
    other = replace(place, folder=place.folder.parent / "2", generation=2)
    with closing(open_store(other, in_memory=True)) as store:
        assert store.count() == 0
    with closing(open_store(place, in_memory=True)) as store:
        assert store.count() == 1
    assert not list(place.folder.rglob("*.sqlite"))
    held = len(_of_memory)
    (place.folder / "kept-in-memory").unlink()
    with closing(open_store(other, in_memory=True)):
        assert len(_of_memory) == held - 1
    with closing(open_store(place, in_memory=True)) as store:
        assert store.count() == 0


def test_closing_while_others_ask_ends_in_answers_or_in_our_error(place: StorePlace) -> None:
    store, told = open_store(place), []
    store.upsert([row("a", 0)])
    started = threading.Barrier(5)

    def ask() -> None:
        started.wait()
        try:
            while True:
                assert store.search(axis(0)[None], 1) == [[("a", 1.0)]]
        except StoreError as error:
            told.append(str(error))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    started.wait()
    store.close()
    for thread in threads:
        thread.join(timeout=20)
    assert len(told) == 4
    assert all("is closed" in one for one in told)
