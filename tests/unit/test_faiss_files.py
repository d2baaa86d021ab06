"""Damage of the FAISS store's files is told: by their sizes without FAISS, by checksums before FAISS reads them."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from kb.errors import IndexMismatchError, StoreError
from kb.store._faiss_files import BOOK, connect, damage
from kb.store._faiss_state import read_state
from tests.faiss_tasks import DIMENSION, made_rows, names, open_store

MEND = r"mend it \(nothing is embedded\): python -m pipelines\.status --repair$"
ROWS = 200
OPTIONS: dict[str, dict[str, Any]] = {
    "flat": {"index": "flat", "fold_rows": 150},
    "hnsw": {"index": "hnsw", "fold_rows": 150, "max_neighbors": 4},
    "ivf": {"index": "ivf", "fold_rows": 150},
}


@pytest.fixture(scope="module", params=OPTIONS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def healthy(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """180 rows in an index, 20 in the tail."""
    folder = tmp_path_factory.mktemp("faiss") / "1"
    store = open_store(folder, **OPTIONS[kind])
    store.upsert(made_rows(names(0, 180)))
    store.upsert(made_rows(names(180, ROWS), seed=1))
    store.close()
    return folder


def the(folder: Path, pattern: str) -> Path:
    (file,) = folder.glob(pattern)
    return file


def test_whole_files_are_whole(healthy: Path, tmp_path: Path) -> None:
    assert damage(healthy, filled=True) is None
    assert damage(tmp_path, filled=False) is None, "nothing was filled yet"
    assert damage(tmp_path / "nowhere", filled=False) is None
    assert damage(tmp_path, filled=True) == f"{BOOK} is missing"


def test_looking_needs_no_faiss() -> None:
    code = "import sys, kb.store._faiss_files; print({'faiss', 'numpy'} & set(sys.modules))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "set()\n"


def test_a_book_that_was_only_begun_is_no_damage_unless_it_was_filled(tmp_path: Path) -> None:
    (tmp_path / BOOK).touch()
    assert damage(tmp_path, filled=False) is None
    assert damage(tmp_path, filled=True) == f"{BOOK} holds nothing"
    store = open_store(tmp_path)
    assert store.count() == 0
    store.close()


def test_every_file_that_is_missing_or_cut_off_is_told_and_opening_says_what_mends_it(
    kind: str, healthy: Path, tmp_path: Path
) -> None:
    files = sorted(file.name for file in healthy.iterdir())
    assert len(files) == 3
    for name in files:
        size = (healthy / name).stat().st_size
        for cut in (None, 0, 20, size // 2, size - 1):
            folder = tmp_path / f"{name} {cut}"
            shutil.copytree(healthy, folder)
            if cut is None:
                (folder / name).unlink()
            else:
                os.truncate(folder / name, cut)
            told = damage(folder, filled=True)
            assert told is not None, f"{name} {cut}"
            assert name in told
            if name != BOOK or cut not in (
                None,
                0,
                size - 1,
            ):  # an empty one is begun anew, and half a page not noticed
                with pytest.raises(StoreError, match=MEND):
                    open_store(folder, **OPTIONS[kind])


def test_an_index_that_grew_is_damaged_and_a_tail_that_did_is_what_an_interrupted_run_left(
    kind: str, healthy: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "1"
    shutil.copytree(healthy, folder)
    with the(folder, "tail-*").open("ab") as file:
        file.write(b"half a row")
    assert damage(folder, filled=True) is None
    store = open_store(folder, **OPTIONS[kind])
    added = made_rows(["more"], seed=3)
    store.upsert(added)
    assert store.vectors(["more"])["more"].tobytes() == added[0].vector.tobytes()
    store.close()
    with the(folder, "index-*").open("ab") as file:
        file.write(b"\0")
    assert "were written" in str(damage(folder, filled=True))


def test_a_flipped_byte_before_the_vectors_never_reaches_faiss(kind: str, healthy: Path, tmp_path: Path) -> None:
    folder = tmp_path / "1"
    shutil.copytree(healthy, folder)
    connection = connect(folder, create=False)
    state = read_state(connection)
    connection.close()
    assert state is not None
    index = the(folder, "index-*")
    whole = index.read_bytes()
    assert 40 < state.head_bytes < len(whole)
    # Each of the first, then some of a graph, a table or centres.
    for place in (*range(48), *range(48, state.head_bytes, max(1, state.head_bytes // 60))):
        if place < state.head_bytes:
            index.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
            with pytest.raises(StoreError, match=rf"what stands before its vectors has changed.*{MEND}"):
                open_store(folder, **OPTIONS[kind])


def test_a_vector_that_changed_is_found_at_the_first_and_the_last_row(kind: str, healthy: Path, tmp_path: Path) -> None:
    places = [("tail-*", -1)] if kind == "ivf" else [("index-*", -4 * DIMENSION * 180), ("tail-*", -1)]
    for number, (pattern, place) in enumerate(places):
        folder = tmp_path / str(number)
        shutil.copytree(healthy, folder)
        file = the(folder, pattern)
        content = bytearray(file.read_bytes())
        content[place] ^= 1
        file.write_bytes(content)
        with pytest.raises(StoreError, match=rf"row (0|199) is not the vector that was stored\. {MEND}"):
            open_store(folder, **OPTIONS[kind])


def test_a_vector_that_changed_anywhere_is_no_answer(kind: str, healthy: Path, tmp_path: Path) -> None:
    folder = tmp_path / "1"
    shutil.copytree(healthy, folder)
    store = open_store(folder, **OPTIONS[kind])
    questions = made_rows(names(0, 180))
    seen = {store.search(row.vector[None], 1)[0][0] for row in questions}
    assert seen == {(row.chunk.id, 1.0) for row in questions}
    store.close()
    index = the(folder, "index-*")
    content = bytearray(index.read_bytes())
    (place,) = re.finditer(re.escape(questions[90].vector.tobytes()), content)
    content[place.start() + 2] ^= 1
    index.write_bytes(content)
    store = open_store(folder, **OPTIONS[kind])
    told = rf"row 90 is not the vector that was stored\. {MEND}"
    with pytest.raises(StoreError, match=told):
        store.search(questions[90].vector[None], 180)
    with pytest.raises(StoreError, match=told):
        store.rows(["c00090"])
    assert store.vectors(["c00091"])["c00091"].tobytes() == questions[91].vector.tobytes()
    store.close()


def test_a_book_that_lists_other_rows_is_damaged(kind: str, healthy: Path, tmp_path: Path) -> None:
    folder = tmp_path / "1"
    shutil.copytree(healthy, folder)
    with sqlite3.connect(folder / BOOK) as connection:
        connection.execute("DELETE FROM rows WHERE row = 5")
    connection.close()
    with pytest.raises(StoreError, match=rf"its book lists 199 rows, and 200 were stored\. {MEND}"):
        open_store(folder, **OPTIONS[kind])


def test_a_damaged_one_is_not_taken_for_one_of_another_embedder(kind: str, healthy: Path, tmp_path: Path) -> None:
    folder = tmp_path / "1"
    shutil.copytree(healthy, folder)
    with sqlite3.connect(folder / BOOK) as connection:
        connection.execute("UPDATE state SET fingerprint = 'another'")
    connection.close()
    with pytest.raises(IndexMismatchError, match="another"):
        open_store(folder, **OPTIONS[kind])


def test_looking_while_this_process_has_the_store_open_disturbs_nothing(
    kind: str, healthy: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "1"
    shutil.copytree(healthy, folder)
    store = open_store(folder, **OPTIONS[kind])
    for turn in range(3):
        assert damage(folder, filled=True) is None
        store.upsert(made_rows(names(300, 330), seed=turn))
    assert store.count() == ROWS + 30
    store.close()


def test_looking_costs_next_to_nothing(healthy: Path) -> None:
    used = time.process_time()
    for _ in range(20):
        damage(healthy, filled=True)
    assert (time.process_time() - used) / 20 < 0.05
