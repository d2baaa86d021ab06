"""Damage of the index's files is told by their sizes, before Chroma opens them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from kb.components import Parts, StorePlace, StoreRow, build_component
from kb.records import Chunk
from kb.store._chroma_files import damage

ROWS = 250
"""More than are logged before the index files are written."""


@pytest.fixture(scope="module", params=[3, ROWS], ids=["all in the log", "indexed"])
def healthy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chroma") / "1"
    folder.mkdir()
    store = build_component(
        "store", "chroma", {"sync_threshold": 50}, Parts(place=StorePlace(folder, "c", "ccc", "f", 8))
    )
    vectors = np.random.default_rng(0).normal(size=(request.param, 8)).astype(np.float32)
    store.upsert([StoreRow(Chunk(f"{i:04}", "d", f"t{i}", i, i + 1), "s", v) for i, v in enumerate(vectors)])
    store.close()
    return folder


def copy(healthy: Path, folder: Path) -> Path:
    """A copy that was last touched long ago, as a real one: what is being written is looked at again."""
    shutil.copytree(healthy, folder / "1")
    settle(folder / "1")
    return folder / "1"


def settle(folder: Path) -> None:
    for file in (*folder.rglob("*"), folder):
        os.utime(file, (1, 1))


def index_files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*.*") if file.is_file())


def test_whole_files_are_whole(healthy: Path, tmp_path: Path) -> None:
    assert damage(healthy, filled=True) is None
    assert damage(tmp_path, filled=False) is None, "nothing was filled yet"
    assert damage(tmp_path / "nowhere", filled=False) is None


def test_every_file_that_is_missing_or_cut_off_is_named(healthy: Path, tmp_path: Path) -> None:
    files = index_files(healthy)
    assert len(files) >= 5
    for number, file in enumerate(files):
        size = file.stat().st_size
        for cut in (None, *({0, size // 2, size - 1} if size else ())):
            folder = copy(healthy, tmp_path / f"{number} {cut}")
            target = folder / file.relative_to(healthy)
            if cut is None:
                target.unlink()
            else:
                os.truncate(target, cut)
            settle(folder)
            # SQLite itself finds out when whole pages are missing.
            whole_pages = file.suffix == ".sqlite3" and cut and cut % 512 == 0
            told = damage(folder, filled=True)
            assert whole_pages or (told is not None and file.name in told), f"{file.name} cut to {cut}: {told}"


def test_a_folder_of_the_index_that_is_missing_is_missed(healthy: Path, tmp_path: Path) -> None:
    folder = copy(healthy, tmp_path)
    (index,) = (entry for entry in folder.iterdir() if entry.is_dir())
    shutil.rmtree(index)
    settle(folder)
    assert damage(folder, filled=True) == f"the folder {index.name} of the index is missing"


def test_files_that_are_being_written_are_looked_at_again(healthy: Path, tmp_path: Path) -> None:
    folder = copy(healthy, tmp_path)
    file = next(file for file in index_files(folder) if file.name == "length.bin")
    content = file.read_bytes()
    file.write_bytes(content[:-1])
    write_later = f"import time; time.sleep(0.3); open({str(file)!r}, 'wb').write({content!r})"
    with subprocess.Popen([sys.executable, "-c", write_later]):
        assert damage(folder, filled=True) is None


def test_looking_costs_next_to_nothing(healthy: Path) -> None:
    started = time.perf_counter()
    for _ in range(20):
        damage(healthy, filled=True)
    assert (time.perf_counter() - started) / 20 < 0.05
