"""A collection in Qdrant: in a folder, in memory, and on a server, for which a stand-in answers."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kb.errors import KbError, StoreError
from tests.end_to_end._bases import NUMBERS, CountingEmbedder, Place, a_text
from tests.qdrant_server import QdrantStandIn, qdrant_stand_in

ASK_THE_STORE = {"retrieval": {"exact_up_to": 0}}
"""Else so small a collection is compared by the ledger's vectors."""

CHINESE, JAPANESE = "退款须在三十天内申请。", "返金は三十日以内に申し込むこと。"


@pytest.fixture
def server() -> Iterator[QdrantStandIn]:
    with qdrant_stand_in(key="a-key-of-the-server") as running:
        yield running


def on_server(place: Place, server: QdrantStandIn, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("A_QDRANT_KEY", "a-key-of-the-server")
    return replace(place, store_options={"url": server.url, "api_key_env": "A_QDRANT_KEY"})


def a_place(tmp_path: Path, **options: Any) -> Place:
    place = Place(tmp_path / "documents", tmp_path / "data", "qdrant", CountingEmbedder(), options)
    place.write("a.md", a_text(NUMBERS[:4]))
    place.write("b.md", a_text(["zebra"]))
    place.write("退款.md", f"# 政策\n\n{CHINESE}\n")
    place.write("返金.md", f"# 規則\n\n{JAPANESE}\n")
    return place


def found(place: Place, question: str) -> list[str]:
    return place.found(question, **ASK_THE_STORE)


def assert_same(one: dict[str, tuple[Any, ...]], other: dict[str, tuple[Any, ...]]) -> None:
    assert {i: row[:2] for i, row in one.items()} == {i: row[:2] for i, row in other.items()}
    for i, (_, _, vector) in one.items():
        np.testing.assert_allclose(np.frombuffer(vector, "<f4"), np.frombuffer(other[i][2], "<f4"), atol=1e-6)


@pytest.mark.parametrize("kind", ["folder", "memory", "server"])
def test_documents_are_found_changed_rebuilt_and_moved_to_another_store_and_back(
    tmp_path: Path, kind: str, server: QdrantStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = a_place(tmp_path, in_memory=kind == "memory")
    if kind == "server":
        place = on_server(place, server, monkeypatch)
    assert place.ingest().indexed == 4
    assert len(found(place, "zebra")) == 1
    assert any(CHINESE in text for text in found(place, "退款申请"))
    assert any(JAPANESE in text for text in found(place, "返金の申し込み"))

    place.write("a.md", a_text([*NUMBERS[1:4], "lion"]))
    shutil.move(place.documents / "b.md", place.documents / "c.md")
    place.ingest()
    changed = place.contents()
    assert len(found(place, "lion")) == 1
    assert not any("about one only" in text for text in found(place, "one"))

    place.ingest(rebuild=True)
    assert_same(place.contents(), changed)
    assert len(place.generation_folders) == 1

    other = replace(place, store="memory", store_options={})
    with pytest.raises(StoreError, match=r"'memory' does not hold .* is in 'qdrant"):
        found(other, "zebra")
    assert other.ingest().embedded == 0
    assert_same(other.contents(), changed)
    other.write("d.md", a_text(["tiger"]))
    other.ingest()
    with_tiger = other.contents()
    with pytest.raises(StoreError, match=r"'qdrant.* does not hold .* is in 'memory'"):
        found(place, "tiger")
    assert place.ingest().embedded == 0
    assert_same(place.contents(), with_tiger)
    assert len(found(place, "tiger")) == 1


# ------------------------------------------------------------------------------------- one process at a time


def another_process(place: Place, *doing: str) -> list[str]:
    """What another process gets when it does these things with the base one after another: a line for each."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path\n"
        "from kb.errors import KbError\n"
        "from tests.end_to_end._bases import CountingEmbedder, Place\n"
        "options = {'in_memory': True} if sys.argv[4] == 'memory' else {}\n"
        "place = Place(Path(sys.argv[2]), Path(sys.argv[3]), 'qdrant', CountingEmbedder(), options)\n"
        "for doing in sys.argv[5:]:\n"
        "    try:\n        print(eval(doing))\n"
        "    except KbError as error:\n        print(type(error).__name__, error)\n"
    )
    kind = "memory" if place.store_options.get("in_memory") else "folder"
    told = str(Path(__file__).parents[2]), str(place.documents), str(place.data), kind
    command = [sys.executable, "-W", "error", "-c", code, *told, *doing]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout.splitlines()


ASKING = "len(place.found('zebra', retrieval={'exact_up_to': 0}))"


def test_a_folder_that_another_process_has_open_is_refused_in_one_line_that_says_what_to_do(tmp_path: Path) -> None:
    place = a_place(tmp_path)
    place.ingest()
    place.write("e.md", a_text(["otter"]))
    told = r"StoreError the Qdrant collection .* is open in another process, .* one at a time\. .*\[store\.qdrant\] url"
    with place.open(**ASK_THE_STORE) as base:
        assert len(base.search("zebra", cutoff=0.3).hits) == 1
        lines = another_process(place, ASKING, "place.ingest().indexed")
        assert [bool(re.match(told, line)) for line in lines] == [True, True], lines
        # In this process a second base shares the folder, an ingest included.
        assert len(found(place, "zebra")) == 1
        place.ingest()
        assert base.upkeep.check().faults == ()
    assert len(found(place, "otter")) == 1


def test_what_is_in_memory_is_filled_anew_by_each_process_without_embedding(tmp_path: Path) -> None:
    place = a_place(tmp_path, in_memory=True)
    place.ingest()
    assert len(found(place, "zebra")) == 1
    with place.open() as base:
        assert base.upkeep.check().faults == ()
        assert base.upkeep.status().store_fault is None
    refusal, embedded, hits, faults = another_process(
        place, ASKING, "place.ingest().embedded", ASKING, "place.open().upkeep.check().faults"
    )
    refused = r"StoreError the store 'qdrant in the memory of process \d+ \(\w+\)' does not hold .*: that is in .*"
    assert re.fullmatch(rf"{refused}ingest in this process .*or set in_memory = false", refusal), refusal
    assert (embedded, hits, faults) == ("0", "1", "()")
    # The other process has taken the book with it: what changed there is not in this memory.
    with pytest.raises(StoreError, match="ingest in this process"):
        found(place, "zebra")
    assert place.ingest().embedded == 0
    assert len(found(place, "zebra")) == 1
    assert not list(place.data.rglob("storage.sqlite"))


def test_a_deleted_folder_takes_what_is_in_memory_along(tmp_path: Path) -> None:
    place = a_place(tmp_path, in_memory=True)
    place.ingest()
    shutil.rmtree(place.data)
    other = place.with_embedder(CountingEmbedder(dimension=32))
    other.ingest()
    assert len(found(other, "zebra")) == 1


# ------------------------------------------------------------------------------------------------ on a server


@contextmanager
def on_two_servers() -> Iterator[tuple[QdrantStandIn, QdrantStandIn]]:
    with ExitStack() as running:
        yield running.enter_context(qdrant_stand_in()), running.enter_context(qdrant_stand_in())


def test_old_generations_are_deleted_from_a_server_and_the_collection_with_them(
    tmp_path: Path, server: QdrantStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    class Watching(CountingEmbedder):
        def embed_documents(self, texts: Any) -> Any:
            seen.append((server.collections, [hit.source for hit in reader.search("zebra", cutoff=0.3).hits]))
            return super().embed_documents(texts)

    place = on_server(a_place(tmp_path), server, monkeypatch)
    place.ingest()
    assert server.collections == ["knowledge_base-g1"]
    with place.open(**ASK_THE_STORE) as reader:
        place.with_embedder(Watching(dimension=32, batch_texts=4)).ingest(rebuild=True)
    assert seen
    assert all("knowledge_base-g1" in held and sources == ["b.md"] for held, sources in seen)
    assert server.collections == ["knowledge_base-g2"]
    with place.with_embedder(CountingEmbedder(dimension=32)).open() as base:
        base.upkeep.delete()
    assert server.collections == []


def test_a_move_between_servers_fills_the_new_one_and_sends_no_key_to_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_QDRANT_KEY", "key-of-the-second")
    with on_two_servers() as (first, second):
        second.key = "key-of-the-second"
        place = a_place(tmp_path, url=first.url)
        place.ingest()
        before = place.contents()
        moved = replace(place, store_options={"url": second.url, "api_key_env": "A_QDRANT_KEY"})
        with pytest.raises(
            StoreError, match=f"'qdrant at {second.url}' does not hold .* is in 'qdrant at {first.url}'"
        ):
            found(moved, "zebra")
        (place.folder / "generations" / "7").mkdir()  # what a run that died left at the first
        (place.folder / "generations" / "7" / "in-step-with-ledger").write_text(f"qdrant at {first.url}")
        assert moved.ingest().embedded == 0
        assert "DELETE /collections/knowledge_base-g7" in first.requests
        assert not any("key-of-the-second" in sent.values() for sent in first.headers)
        assert_same(moved.contents(), before)


def test_a_server_that_goes_away_during_an_ingest_costs_nothing_that_was_embedded(
    tmp_path: Path, server: QdrantStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = on_server(a_place(tmp_path), server, monkeypatch)
    server.answer = lambda request: (503, b"") if request.startswith("PUT") and request.endswith("/points") else None
    with pytest.raises(StoreError, match="could not be written: it answered 503"):
        place.ingest()
    paid = place.embedder
    assert isinstance(paid, CountingEmbedder)
    sent = len(paid.sent)
    assert sent > 0
    server.answer = lambda request: None
    place.ingest()
    assert len(paid.sent) == len(set(paid.sent)), "nothing is embedded twice"
    assert len(found(place, "zebra")) == 1
    server.drop("knowledge_base-g1")
    with pytest.raises(KbError, match="has lost rows: it holds 0"):
        found(place, "zebra")
    with place.open() as base:
        base.upkeep.repair()
    assert len(found(place, "zebra")) == 1
    assert server.collections == ["knowledge_base-g2"]


def test_a_password_in_the_address_is_shown_nowhere_and_never_used(tmp_path: Path, server: QdrantStandIn) -> None:
    place = a_place(tmp_path)
    place.ingest()
    secret = replace(place, store_options={"url": server.url.replace("//", "//me:open-sesame@")})
    for ask in (secret.ingest, lambda: found(secret, "zebra")):
        with pytest.raises(KbError) as refused:
            ask()
        assert "open-sesame" not in str(refused.value)
    assert server.requests == []
    assert not any(b"open-sesame" in file.read_bytes() for file in place.data.rglob("*") if file.is_file())
