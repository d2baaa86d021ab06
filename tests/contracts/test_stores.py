"""What every vector store promises, whatever it is built on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from kb.components import Parts, Store, StoreRow, build_component
from kb.errors import IndexMismatchError, StoreError
from kb.payloads import expected_row
from kb.records import Chunk
from tests.contracts._stores import ALL, DIMENSION, SMALL_PAGES, Open, place_in


@pytest.fixture(scope="module")
def url_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """The server of a variant, started once."""
    with ExitStack() as running:

        @cache
        def start(name: str) -> str:
            server = ALL[name].server
            assert server is not None
            return running.enter_context(server(tmp_path_factory.mktemp(name) / "data"))

        yield start


@pytest.fixture(params=ALL)
def open_store(request: pytest.FixtureRequest, tmp_path: Path, url_of: Callable[[str], str]) -> Iterator[Open]:
    """Open the store under test; whatever was opened is closed at the end."""
    variant = ALL[request.param]
    if reason := variant.missing():
        pytest.skip(reason)
    server = {"url": url_of(request.param)} if variant.server else {}
    open_it = Open(variant.component, {**variant.options, **server}, place_in(tmp_path), variant.in_memory)
    yield open_it
    open_it.close()


def unit(vectors: NDArray[np.float64]) -> NDArray[np.float32]:
    normed: NDArray[np.float32] = (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype(np.float32)
    return normed


def clustered(count: int, seed: int = 7) -> NDArray[np.float32]:
    """Vectors around 40 centres, as texts are: uniform noise has no neighbours worth finding."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(40, DIMENSION))
    return unit(centres[random.integers(0, 40, count)] + 0.35 * random.normal(size=(count, DIMENSION)))


def axis(index: int) -> NDArray[np.float32]:
    vector = np.zeros(DIMENSION, dtype=np.float32)
    vector[index] = 1.0
    return vector


def row(
    chunk_id: str, vector: NDArray[np.float32], *, document: str = "d", page: int | None = None, text: str = "text"
) -> StoreRow:
    chunk = Chunk(chunk_id, document, text, 0, len(text), page, ("Guide", "Setup"), "Guide › Setup")
    return StoreRow(chunk, f"{document}.md", vector)


def ids_found(found: list[list[tuple[str, float]]]) -> list[list[str]]:
    return [[chunk_id for chunk_id, _ in one] for one in found]


def test_an_empty_store_finds_nothing(open_store: Open) -> None:
    store = open_store()
    assert store.search(clustered(3), 5) == [[], [], []]
    assert store.search(clustered(1), 5, {"source": "d.md"}) == [[]]
    assert store.count() == 0
    assert list(store.chunk_ids()) == []
    assert store.vectors(["a"]) == {}


def test_calls_with_nothing_do_nothing(open_store: Open) -> None:
    store = open_store()
    store.upsert([])
    store.delete([])
    store.upsert([row("a", axis(0))])
    assert store.search(np.empty((0, DIMENSION), dtype=np.float32), 5) == []
    assert store.search(axis(0)[None], 0) == [[]]
    assert store.vectors([]) == {}


def test_the_same_upsert_twice_changes_nothing(open_store: Open) -> None:
    store, vectors = open_store(), clustered(20)
    rows = [row(f"c{i:02}", vector, document=f"d{i % 3}") for i, vector in enumerate(vectors)]
    store.upsert(rows)
    once = (store.count(), store.search(vectors[:4], 20), sorted(store.chunk_ids()))
    store.upsert(rows)
    assert (store.count(), store.search(vectors[:4], 20), sorted(store.chunk_ids())) == once


def test_an_upsert_replaces_vector_and_payload_and_all(open_store: Open) -> None:
    store = open_store()
    store.upsert([row("a", axis(0), page=3), row("b", axis(1), page=3)])
    store.upsert([row("a", axis(2), document="other", page=None)])
    assert store.search(axis(2)[None], 1) == [[("a", 1.0)]]
    assert ids_found(store.search(axis(0)[None], 5, {"page": 3})) == [["b"]]
    assert ids_found(store.search(axis(0)[None], 5, {"source": "other.md"})) == [["a"]]
    assert store.count() == 2


def test_of_equal_ids_in_one_upsert_the_last_counts(open_store: Open) -> None:
    store = open_store()
    store.upsert([row("a", axis(0)), row("b", axis(5)), row("a", axis(1))])
    assert store.count() == 2
    assert store.search(axis(1)[None], 1) == [[("a", 1.0)]]


def test_similarities_fall_from_1_for_the_same_to_minus_1_for_the_opposite(open_store: Open) -> None:
    store = open_store()
    store.upsert([row("opposite", -axis(0)), row("same", axis(0)), row("right angle", axis(1))])
    ((first, second, third),) = store.search(axis(0)[None], 3)
    assert first == ("same", 1.0)
    assert second == ("right angle", 0.0)
    assert third == ("opposite", -1.0)


def test_identical_vectors_score_exactly_1_and_nothing_scores_above(open_store: Open) -> None:
    store, vectors = open_store(), clustered(200)
    store.upsert([row(f"c{i:03}", vector) for i, vector in enumerate(vectors)])
    for found in store.search(vectors, 10):
        scores = [score for _, score in found]
        assert scores[0] == 1.0
        assert scores == sorted(scores, reverse=True)
        assert all(type(score) is float and -1.0 <= score <= 1.0 for score in scores)


def test_equal_similarities_are_ordered_by_id(open_store: Open) -> None:
    store = open_store()
    store.upsert([row(chunk_id, axis(4)) for chunk_id in ("m", "z", "a", "k")])
    assert ids_found(store.search(axis(4)[None], 10)) == [["a", "k", "m", "z"]]


def test_fewer_rows_than_the_limit_give_fewer(open_store: Open) -> None:
    store = open_store()
    store.upsert([row("a", axis(0)), row("b", axis(1))])
    assert len(store.search(axis(0)[None], 5)[0]) == 2
    assert len(store.search(axis(0)[None], 10**9)[0]) == 2
    assert len(store.search(axis(0)[None], int(np.int64(1)))[0]) == 1


def test_delete_removes_what_it_names_and_ignores_the_unknown(open_store: Open) -> None:
    store = open_store()
    store.upsert([row(name, axis(i)) for i, name in enumerate("abc")])
    store.delete(["b", "never", "b"])
    assert sorted(store.chunk_ids()) == ["a", "c"]
    assert ids_found(store.search(axis(1)[None], 5)) == [["a", "c"]]
    store.delete(["b"])
    assert store.count() == 2


def test_delete_document_removes_all_its_chunks_and_no_others(open_store: Open) -> None:
    store, vectors = open_store(), clustered(30)
    store.upsert([row(f"c{i:02}", vector, document=f"d{i % 3}") for i, vector in enumerate(vectors)])
    store.delete_document("d1")
    store.delete_document("never")
    assert sorted(store.chunk_ids()) == [f"c{i:02}" for i in range(30) if i % 3 != 1]


def test_filters_keep_only_rows_that_equal_every_value(open_store: Open) -> None:
    store = open_store()
    vectors = clustered(24)
    store.upsert(
        [row(f"c{i:02}", vector, document=f"d{i % 2}", page=i % 3 or None) for i, vector in enumerate(vectors)]
    )
    for where, kept in (
        ({"document_id": "d1"}, lambda i: i % 2 == 1),
        ({"source": "d0.md"}, lambda i: i % 2 == 0),
        ({"page": 2}, lambda i: i % 3 == 2),
        ({"page": 2, "document_id": "d1"}, lambda i: i % 3 == 2 and i % 2 == 1),
        ({"source": "none.md"}, lambda i: False),
        ({}, lambda i: True),
    ):
        found = store.search(vectors[:1], 50, where)  # type: ignore[arg-type]
        assert sorted(ids_found(found)[0]) == [f"c{i:02}" for i in range(24) if kept(i)]


def test_a_filter_that_leaves_thousands_of_rows_works(open_store: Open) -> None:
    store, vectors = open_store(), clustered(2_400)
    store.upsert([row(f"c{i:04}", vector, document=f"d{i % 2}") for i, vector in enumerate(vectors)])
    found = ids_found(store.search(vectors[:10], 10, {"document_id": "d1"}))
    assert all(int(chunk_id[1:]) % 2 == 1 for one in found for chunk_id in one)
    assert all(len(one) == 10 for one in found)


@pytest.mark.parametrize("where", [{"heading": "x"}, {"page": "2"}, {"source": 3}, {"page": True}])
def test_a_filter_that_cannot_be_answered_is_an_error(open_store: Open, where: dict[str, str | int]) -> None:
    store = open_store()
    store.upsert([row("a", axis(0))])
    with pytest.raises(StoreError, match="cannot filter by"):
        store.search(axis(0)[None], 5, where)


def test_vectors_come_back_as_they_were_stored(open_store: Open) -> None:
    store, vectors = open_store(), clustered(50)
    store.upsert([row(f"c{i:02}", vector) for i, vector in enumerate(vectors)])
    back = store.vectors(["c07", "never", "c31", "c07"])
    assert sorted(back) == ["c07", "c31"]
    for chunk_id, vector in back.items():
        assert vector.dtype == np.float32
        assert vector.shape == (DIMENSION,)
        np.testing.assert_allclose(vector, vectors[int(chunk_id[1:])], atol=1e-6)


def test_rows_come_back_with_all_that_was_stored_of_them(open_store: Open) -> None:
    store, vectors = open_store(), clustered(3)
    whole = row("a", vectors[0], page=3, text="退款 🦜\n\nリファンド\x00")
    bare = StoreRow(Chunk("b", "e", "", 7, 7), os.fsdecode(b"caf\xe9.md"), vectors[1])
    store.upsert([whole, bare, row("c", vectors[2])])
    back = store.rows(["a", "never", "b", "a"])
    assert sorted(back) == ["a", "b"]
    for given in (whole, bare):
        expected, stored = expected_row(given), back[given.chunk.id]
        assert stored.place == expected.place
        assert stored.vector.dtype == np.float32
        np.testing.assert_allclose(stored.vector, expected.vector, atol=1e-6)
    assert store.rows([]) == {}


def test_everything_survives_reopening(open_store: Open) -> None:
    store, vectors = open_store(), clustered(60)
    store.upsert([row(f"c{i:02}", vector, document=f"d{i % 3}") for i, vector in enumerate(vectors)])
    store.delete(["c05"])
    before = (store.search(vectors[:5], 10), store.search(vectors[:5], 10, {"source": "d1.md"}), store.count())
    store.close()
    again = open_store()
    assert (again.search(vectors[:5], 10), again.search(vectors[:5], 10, {"source": "d1.md"}), again.count()) == before


def test_what_was_acknowledged_survives_a_process_that_dies(open_store: Open, tmp_path: Path) -> None:
    code = (
        "import json, os, sys, signal, pathlib; sys.path.insert(0, sys.argv[1])\n"
        "import tests.contracts.test_stores as t\n"
        "s = t.Open(sys.argv[2], json.loads(sys.argv[3]), t.place_in(pathlib.Path(sys.argv[4])))()\n"
        "s.upsert([t.row(f'c{i:02}', v) for i, v in enumerate(t.clustered(60))]); s.delete(['c05'])\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    told = str(Path(__file__).parents[2]), open_store.component, json.dumps(open_store.options), str(tmp_path)
    ended = subprocess.run([sys.executable, "-c", code, *told], check=False)
    assert ended.returncode == -9
    store = open_store()
    if open_store.in_memory:  # what another process had is gone, and nothing of it may pass for an index
        assert (store.count(), store.search(clustered(60)[:1], 1)) == (0, [[]])
        return
    assert sorted(store.chunk_ids()) == [f"c{i:02}" for i in range(60) if i != 5]
    assert store.search(clustered(60)[:1], 1) == [[("c00", 1.0)]]


def test_another_embedder_is_refused_with_both_values(open_store: Open) -> None:
    store = open_store()
    store.upsert([row("a", axis(0))])
    store.close()
    with pytest.raises(IndexMismatchError) as caught:
        open_store(fingerprint="embedder-b")
    assert (caught.value.stored, caught.value.configured) == ("embedder-a", "embedder-b")
    with pytest.raises(IndexMismatchError, match="64 dimensions"):
        open_store(dimension=64)
    assert open_store().count() == 1


def test_vectors_of_another_shape_or_not_finite_are_refused_and_nothing_is_stored(open_store: Open) -> None:
    store = open_store()
    for wrong in (np.ones(DIMENSION + 1, dtype=np.float32), np.full(DIMENSION, np.nan, dtype=np.float32)):
        with pytest.raises(StoreError, match="nothing of this batch was stored"):
            store.upsert([row("a", axis(0)), row("b", wrong)])
        with pytest.raises(StoreError, match="cannot search"):
            store.search(wrong[None], 3)
    assert store.count() == 0


def test_ids_can_be_deleted_while_they_are_walked_through(open_store: Open) -> None:
    store = open_store()
    store.upsert([row(f"c{i:02}", vector) for i, vector in enumerate(clustered(40))])
    for chunk_id in store.chunk_ids():
        store.delete([chunk_id])
    assert store.count() == 0


def test_more_rows_than_one_batch_are_written_read_and_deleted(
    open_store: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, numbers in SMALL_PAGES.items():
        for name, number in numbers.items():
            monkeypatch.setattr(f"{module}.{name}", number)
    store, count = open_store(), 600
    vectors = clustered(count)
    store.upsert([row(f"c{i:04}", vector, document=f"d{i // 550}") for i, vector in enumerate(vectors)])
    ids = sorted(store.chunk_ids())
    assert ids == [f"c{i:04}" for i in range(count)]
    assert len(store.vectors(ids)) == count
    store.delete(ids[550:])
    assert store.count() == 550
    store.delete_document("d0")
    assert store.count() == 0


def test_text_of_any_script_and_a_file_name_that_is_no_text_are_stored(open_store: Open) -> None:
    store = open_store()
    odd = os.fsdecode(b"caf\xe9")  # a lone surrogate
    store.upsert([row("a", axis(0), document=odd, text="退款 リファンド 🦜\x00 ‏עברית"), row("b", axis(1), text="")])
    assert ids_found(store.search(axis(0)[None], 5, {"source": f"{odd}.md"})) == [["a"]]
    store.delete_document(odd)
    assert list(store.chunk_ids()) == ["b"]


def test_a_closed_store_says_so(open_store: Open) -> None:
    store = open_store()
    store.upsert([row("a", axis(0))])
    store.close()
    store.close()
    for call in (
        store.count,
        lambda: store.search(axis(0)[None], 1),
        lambda: store.upsert([row("a", axis(0))]),
        lambda: store.delete(["a"]),
        lambda: store.vectors(["a"]),
        lambda: store.rows(["a"]),
        lambda: list(store.chunk_ids()),
    ):
        with pytest.raises(StoreError, match="is closed"):
            call()


def test_the_nearest_are_those_of_exact_search(open_store: Open, tmp_path: Path) -> None:
    count, limit = 3_000, 10
    vectors, queries = clustered(count), clustered(100, seed=11)
    rows = [row(f"c{i:04}", vector) for i, vector in enumerate(vectors)]
    exact: Store = build_component("store", "memory", {}, Parts(place=place_in(tmp_path / "exact")))
    store = open_store()
    for one in (exact, store):
        one.upsert(rows)
    hits = 0
    for found, expected in zip(store.search(queries, limit), exact.search(queries, limit), strict=True):
        truth = dict(expected)
        hits += len(truth.keys() & dict(found).keys())
        for chunk_id, score in found:
            if chunk_id in truth:
                assert score == pytest.approx(truth[chunk_id], abs=2e-6)
    assert hits / (len(queries) * limit) >= 0.95


def test_one_call_with_many_questions_equals_many_calls(open_store: Open) -> None:
    store, queries = open_store(), clustered(230, seed=3)
    store.upsert([row(f"c{i:03}", vector) for i, vector in enumerate(clustered(300))])
    together = store.search(queries, 3)
    for index in range(0, 230, 23):
        assert store.search(queries[index : index + 1], 3) == [together[index]]
