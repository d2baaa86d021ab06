"""What is FAISS's own: rows and their numbers, the tail, folding, numbering anew; the rest is in the contract suite."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kb.components import Parts, Store, StoreRow, build_component
from kb.errors import StoreError
from kb.records import Scalar
from kb.store._faiss_files import BOOK, connect, index_file, tail_file
from kb.store._faiss_state import State, read_state
from kb.store.faiss import FaissStore
from tests.commands import ROOT
from tests.faiss_tasks import DIMENSION, made_rows, made_vectors, names, open_store, place_in

Found = list[list[tuple[str, float]]]


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[Any]:
    """Opens stores in one folder; they are closed at the end."""
    opened: list[FaissStore] = []

    def start(**options: Any) -> FaissStore:
        opened.append(open_store(tmp_path / "1", **options))
        return opened[-1]

    yield start
    for store in opened:
        store.close()


def memory_in(folder: Path) -> Store:
    store: Store = build_component("store", "memory", {}, Parts(place=place_in(folder)))
    return store


def state_of(folder: Path) -> State:
    connection = connect(folder, create=False)
    state = read_state(connection)
    connection.close()
    assert state is not None
    return state


def numbered(folder: Path) -> dict[str, int]:
    connection = connect(folder, create=False)
    found = dict(connection.execute("SELECT chunk_id, row FROM chunks JOIN rows USING (chunk)"))
    connection.close()
    return found


def files(folder: Path) -> dict[str, tuple[int, int]]:
    """Inode and change of every file that is not the book's."""
    kept = [file for file in folder.iterdir() if not file.name.startswith(BOOK)]
    return {file.name: (file.stat().st_ino, file.stat().st_mtime_ns) for file in kept}


# The same as exact search in memory


def assert_same(found: Found, expected: Found) -> None:
    assert [[i for i, _ in one] for one in found] == [[i for i, _ in one] for one in expected]
    for one, other in zip(found, expected, strict=True):
        assert [s for _, s in one] == pytest.approx([s for _, s in other], abs=2e-6)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("upsert"), st.integers(0, 60), st.integers(1, 30), st.integers(0, 3)),
        st.tuples(st.just("delete"), st.integers(0, 60), st.integers(1, 60), st.just(0)),
        st.tuples(st.just("document"), st.integers(0, 2), st.just(0), st.just(0)),
        st.tuples(st.just("reopen"), st.just(0), st.just(0), st.just(0)),
    ),
    max_size=7,
)


@given(steps=STEPS)
@settings(max_examples=15)
def test_whatever_is_done_it_holds_and_finds_what_memory_does(
    steps: list[tuple[str, int, int, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("same")
    exact, store = memory_in(folder / "memory"), open_store(folder / "faiss", fold_rows=6)
    for what, first, count, seed in [("upsert", 0, 20, 0), *steps]:
        if what == "upsert":
            rows = made_rows(names(first, first + count), seed)
            rows += [replace(rows[0], chunk=replace(rows[0].chunk, id=f"twin {first}"))]
            for one in (exact, store):
                one.upsert(rows)
        elif what == "delete":
            for one in (exact, store):
                one.delete(names(first, first + count))
        elif what == "document":
            for one in (exact, store):
                one.delete_document(f"d{first}")
        else:
            store.close()
            store = open_store(folder / "faiss", fold_rows=6)
    questions = made_vectors(4, seed=8)
    filters: list[dict[str, Scalar] | None] = [None, {"document_id": "d1"}, {"page": 2, "source": "d0.md"}]
    for where in filters:
        for limit in (1, 5, 200):
            assert_same(store.search(questions, limit, where), exact.search(questions, limit, where))
    ids = sorted(exact.chunk_ids())
    assert sorted(store.chunk_ids()) == ids
    vectors = exact.vectors(ids)
    assert {i: v.tobytes() for i, v in store.vectors(ids).items()} == {i: v.tobytes() for i, v in vectors.items()}
    assert {i: row.place for i, row in store.rows(ids).items()} == {i: row.place for i, row in exact.rows(ids).items()}
    assert_each_row_is_its_chunk(folder / "faiss", vectors)
    store.close()


def assert_each_row_is_its_chunk(folder: Path, vectors: dict[str, NDArray[np.float32]]) -> None:
    """Row i of the index file, as FAISS itself reads it, is chunk i of the book; so it goes on in the tail."""
    state, rows = state_of(folder), numbered(folder)
    assert rows.keys() == vectors.keys()
    index = faiss.read_index(str(index_file(folder, state.serial))) if state.indexed else None
    tail = np.fromfile(tail_file(folder, state.serial), "<f4").reshape(-1, DIMENSION) if state.tail_rows else None
    for i, row in rows.items():
        if row < state.indexed:
            assert index is not None
            assert index.reconstruct(row).tobytes() == vectors[i].tobytes()
        else:
            assert tail is not None
            assert tail[row - state.indexed].tobytes() == vectors[i].tobytes()


@pytest.fixture(scope="module")
def many() -> list[StoreRow]:
    rows = made_rows(names(0, 9_000), documents=2)
    # A run of equal vectors, longer than what is asked for beyond a limit.
    return [replace(row, vector=rows[100].vector) if 100 < place < 180 else row for place, row in enumerate(rows)]


@pytest.mark.parametrize("index", ["flat", "hnsw", "ivf"])
def test_dead_rows_a_filter_of_thousands_and_equal_ones_in_an_index(
    many: list[StoreRow], index: str, stores: Any, tmp_path: Path
) -> None:
    store, exact = stores(index=index, fold_rows=2_000), memory_in(tmp_path / "exact")
    gone = names(300, 1_500)
    for one in (store, exact):
        one.upsert(many)
        one.delete(gone)
    state = state_of(tmp_path / "1")
    assert (state.indexed, state.dead) == (9_000, 1_200), "the index is asked, and leaves dead rows out"
    questions = np.vstack([many[100].vector, made_vectors(29, seed=4)])
    for where in (None, {"document_id": "d1"}):
        found, expected = (one.search(questions, 10, where) for one in (store, exact))
        assert not {i for one in found for i, _ in one} & set(gone)
        if index == "flat":
            assert_same(found, expected)
            assert [i for i, _ in found[0]] == sorted(i for i, _ in found[0]), "of 80 equal ones the first by id"
        hits = sum(len(dict(a).keys() & dict(b).keys()) for a, b in zip(found[1:], expected[1:], strict=True))
        assert hits / (29 * 10) >= 0.95
        for number in (0, 7):
            assert store.search(questions[number : number + 1], 10, where) == [found[number]]


# What is written


def test_a_small_change_writes_what_changed_and_leaves_the_index_alone(
    many: list[StoreRow], stores: Any, tmp_path: Path
) -> None:
    store, folder = stores(), tmp_path / "1"
    store.upsert(many)
    (name,) = before = files(folder)
    assert name.startswith("index-")
    store.upsert(made_rows(["c00005", "new", "新しい"], seed=9))
    store.delete(["c00007"])
    after = files(folder)
    assert after[name] == before[name]
    assert tail_file(folder, state_of(folder).serial).stat().st_size == 3 * 4 * DIMENSION
    # Where only payloads differ, not even the tail grows.
    store.upsert([replace(row, source="renamed.md") for row in many[10:20]])
    assert files(folder) == after
    assert {row.source for row in store.rows(names(10, 20)).values()} == {"renamed.md"}
    assert store.count() == 9_001


def test_row_numbers_stay_until_dead_rows_are_a_quarter(stores: Any, tmp_path: Path) -> None:
    store, folder = stores(fold_rows=10), tmp_path / "1"
    store.upsert(made_rows(names(0, 100)))
    store.delete(names(0, 24))
    assert numbered(folder) == {f"c{number:05}": number for number in range(24, 100)}
    store.delete(["c00024"])
    assert numbered(folder) == {f"c{number:05}": number - 25 for number in range(25, 100)}
    state = state_of(folder)
    assert (state.rows, state.dead, state.indexed) == (75, 0, 75)
    assert files(folder).keys() == {index_file(folder, state.serial).name}
    store.delete(names(0, 100))
    assert (store.count(), files(folder), state_of(folder).rows) == (0, {}, 0)
    store.upsert(made_rows(["a"]))
    assert store.count() == 1


def test_lists_are_made_when_there_are_rows_enough_and_more_of_them_when_rows_grow(stores: Any, tmp_path: Path) -> None:
    store, folder = stores(index="ivf", fold_rows=8), tmp_path / "1"

    def lists() -> int | None:
        state = state_of(folder)
        return faiss.read_index(str(index_file(folder, state.serial))).nlist if state.indexed else None

    seen = []
    for start, end in ((0, 38), (38, 80), (80, 200), (200, 1_000)):
        store.upsert(made_rows(names(start, end), seed=start))
        seen.append(lists())
    assert seen == [None, 80 // 39, 200 // 39, 1_000 // 39]
    store.upsert(made_rows(names(1_000, 1_130), seed=3))
    assert lists() == 1_000 // 39, "added to the lists that there are"
    assert store.search(made_rows(names(0, 38))[5].vector[None], 1) == [[("c00005", 1.0)]]


def test_a_vector_that_is_not_of_unit_length_is_refused_and_nothing_is_stored(stores: Any) -> None:
    store, rows = stores(), made_rows(["a", "短い", "c"])
    with pytest.raises(StoreError, match=r"chunk 短い of d1\.md: its vector is not of length 1.*nothing of this batch"):
        store.upsert([rows[0], replace(rows[1], vector=rows[1].vector * np.float32(1.01)), rows[2]])
    assert store.count() == 0
    # Half precision makes lengths differ a little, which must not hide a neighbour.
    off = [replace(row, vector=row.vector.astype(np.float16).astype(np.float32)) for row in made_rows(names(0, 50))]
    store.upsert(off)
    assert store.search(off[9].vector[None], 1) == [[("c00009", 1.0)]]


# Options


def test_an_index_of_other_options_is_refused_and_those_that_only_steer_a_search_count_at_once(stores: Any) -> None:
    store = stores(index="hnsw", fold_rows=10)
    store.upsert(made_rows(names(0, 50)))
    store.close()
    for other in ({}, {"index": "ivf"}, {"index": "hnsw", "max_neighbors": 8}, {"index": "hnsw", "ef_construction": 9}):
        with pytest.raises(StoreError, match=r"built with index = hnsw.*--rebuild$"):
            stores(**other)
    again = stores(index="hnsw", ef_search=200, fold_rows=500)
    assert again.count() == 50


def test_as_long_as_there_is_no_index_another_one_can_be_chosen(stores: Any, tmp_path: Path) -> None:
    store = stores(index="hnsw")
    store.upsert(made_rows(names(0, 50)))
    store.close()
    store = stores(index="flat", fold_rows=10)
    store.upsert(made_rows(names(50, 60), seed=1))
    assert state_of(tmp_path / "1").shape == "index = flat"
    assert store.count() == 60


# Beside each other


def test_a_reader_sees_what_another_store_writes_folds_and_numbers_anew(stores: Any) -> None:
    writer, reader = stores(fold_rows=20), stores(fold_rows=20)
    for start in range(0, 200, 25):
        rows = made_rows(names(start, start + 25), seed=start)
        writer.upsert(rows)
        assert reader.search(rows[3].vector[None], 1) == [[(rows[3].chunk.id, 1.0)]]
    writer.delete(names(0, 150))
    assert reader.count() == 50
    assert sorted(reader.chunk_ids()) == names(150, 200)
    assert reader.search(made_rows(names(175, 200), seed=175)[3].vector[None], 1) == [[("c00178", 1.0)]]


WRITER = """
import sys
from pathlib import Path
from tests.faiss_tasks import made_rows, names, open_store
store = open_store(Path(sys.argv[1]), fold_rows=20)
for turn in range(10):
    store.upsert(made_rows(names(100, 190), seed=turn))
    store.delete(names(100, 190))
print(store.count())
"""


def test_a_reader_beside_a_process_that_writes_finds_always_the_same_of_what_stays(stores: Any, tmp_path: Path) -> None:
    store = stores(fold_rows=20)
    stay = made_rows(names(0, 100), seed=50)
    store.upsert(stay)
    command = [sys.executable, "-c", WRITER, str(tmp_path / "1")]
    questions = np.stack([row.vector for row in stay[::10]])
    asked = 0
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as writer:
        while writer.poll() is None:
            assert [one[0] for one in store.search(questions, 3)] == [(row.chunk.id, 1.0) for row in stay[::10]]
            assert store.vectors(["c00050"])["c00050"].tobytes() == stay[50].vector.tobytes()
            asked += 1
        assert writer.stdout is not None
        assert (writer.returncode, writer.stdout.read()) == (0, "100\n")
    assert asked > 5


def test_threads_may_ask_while_another_writes(stores: Any) -> None:
    store, stay = stores(fold_rows=20), made_rows(names(0, 60), seed=50)
    store.upsert(stay)
    wrong: list[Any] = []

    def ask() -> None:
        for row in stay:
            found = store.search(row.vector[None], 1)
            if found != [[(row.chunk.id, 1.0)]]:
                wrong.append(found)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for turn in range(6):
        store.upsert(made_rows(names(100, 150), seed=turn))
    for thread in threads:
        thread.join()
    assert wrong == []


# No room, no permission


def test_a_disk_without_room_is_one_clear_error_and_nothing_acknowledged_is_lost(stores: Any, tmp_path: Path) -> None:
    store = stores(fold_rows=5_000)
    kept = made_rows(names(0, 3_000))
    store.upsert(kept)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    full = tail_file(tmp_path / "1", state_of(tmp_path / "1").serial).stat().st_size + 1_000
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (full, limits[1]))
        with pytest.raises(StoreError, match=r"^the FAISS index of collection '知识库' in .* could not be written: "):
            store.upsert(made_rows(names(3_000, 3_100), seed=1))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (store.count(), stores(fold_rows=5_000).count()) == (3_000, 3_000)
    assert store.search(kept[7].vector[None], 1) == [[("c00007", 1.0)]]
    store.upsert(made_rows(names(3_000, 3_100), seed=1))
    assert store.vectors(["c03005"])["c03005"].tobytes() == made_rows(names(3_000, 3_100), seed=1)[5].vector.tobytes()


def test_an_index_that_cannot_be_written_leaves_the_rows_where_they_are(stores: Any, tmp_path: Path) -> None:
    store, folder = stores(fold_rows=2_000), tmp_path / "1"
    store.upsert(made_rows(names(0, 1_990)))
    blocked = index_file(folder, 2).with_name("index-2.faiss.unfinished")
    blocked.mkdir()  # so that no file can be written there, not even by root
    with pytest.raises(StoreError, match="could not be"):
        store.upsert(made_rows(names(1_990, 2_000), seed=1))
    assert store.count() == 2_000, "the rows are in the tail"
    blocked.rmdir()
    store.upsert(made_rows(["one more"], seed=2))
    assert state_of(folder).indexed == 2_001


@pytest.mark.parametrize("name", ["知识库", "ナレッジ", os.fsdecode(b"caf\xe9")], ids=["zh", "ja", "no text"])
def test_a_folder_of_any_name_will_do(tmp_path: Path, name: str) -> None:
    for start in (0, 30):
        store = open_store(tmp_path / name, index="hnsw", fold_rows=10)
        store.upsert(made_rows(names(start, start + 30), seed=start))
        store.close()
    assert state_of(tmp_path / name).indexed == 60
    store = open_store(tmp_path / name, index="hnsw")
    assert store.search(made_vectors(30, seed=30)[5:6], 1) == [[("c00035", 1.0)]]
    store.close()


def test_a_folder_that_cannot_be_made_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(StoreError, match=r"the FAISS index of collection '知识库' in .* could not be opened: "):
        open_store(tmp_path / "file" / "1")


# Mapped


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="only Linux says what is mapped")
@pytest.mark.parametrize("index", ["flat", "hnsw", "ivf"])
def test_the_index_and_the_tail_are_mapped_and_not_loaded(
    many: list[StoreRow], index: str, stores: Any, tmp_path: Path
) -> None:
    writer = stores(index=index, fold_rows=1_000, ef_construction=8, max_neighbors=4)
    writer.upsert(many[:1_500])
    writer.upsert(many[1_500:1_550])
    writer.close()
    store = stores(index=index, ef_construction=8, max_neighbors=4)
    mapped = Path("/proc/self/maps").read_text()
    state = state_of(tmp_path / "1")
    for file in (index_file(tmp_path / "1", state.serial), tail_file(tmp_path / "1", state.serial)):
        assert str(file) in mapped
    assert store.search(many[1_520].vector[None], 1) == [[("c01520", 1.0)]]
    store.close()
    del store
    assert str(tmp_path) not in Path("/proc/self/maps").read_text(), "closing lets go of them"
