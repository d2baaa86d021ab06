"""What is known of a sentence-transformers model without torch: its folder, its prompts, what is kept of it."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kb.components import Parts, build_component
from kb.embedding._sentence_facts import Facts, known_facts
from kb.embedding._sentence_folder import checked, digest, own_prompts, stamp
from kb.embedding._sentence_hub import is_hub_name
from kb.errors import ConfigError

FACTS = Facts("abc", 32, 512, 2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder as far as it can be told without loading it."""
    model = tmp_path / "模型"
    (model / "1_Pooling").mkdir(parents=True)
    for name in ("modules.json", "config.json", "tokenizer.json", "1_Pooling/config.json"):
        (model / name).write_text("{}", encoding="utf-8")
    (model / "model.safetensors").write_bytes(b"weights")
    return model


@pytest.mark.parametrize("package", ["torch", "sentence_transformers"])
def test_a_missing_package_is_one_line_with_what_to_install_first(
    monkeypatch: pytest.MonkeyPatch, package: str, folder: Path
) -> None:
    for name in ("torch", "sentence_transformers"):  # Python's own way to say: this import fails
        monkeypatch.setitem(sys.modules, name, None)
    if package == "sentence_transformers":
        monkeypatch.setitem(sys.modules, "torch", json)  # any module will do: only its being there is asked
    with pytest.raises(ConfigError) as caught:
        build_component("embedding", "sentence_transformers", {"model": str(folder)}, Parts())
    told = str(caught.value)
    assert (
        f"needs the package {package!r}, which is not installed: first torch, in the build for your processor" in told
    )
    assert told.endswith("then pip install 'kb[sentence-transformers]'")
    assert "\n" not in told


def _a_file_instead(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("x", encoding="utf-8")


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (shutil.rmtree, r"模型 does not exist; give the folder that holds the model's files"),
        (_a_file_instead, r"模型 is a file; give the folder"),
        (
            lambda model: (model / "modules.json").unlink(),
            r"模型 is no model of sentence-transformers, as it has no mod",
        ),
        (
            lambda model: (model / "model.safetensors").unlink(),
            r"模型 holds no weights \(\*.safetensors or \*.bin\): copy",
        ),
    ],
)
def test_what_is_no_model_is_told_from_one(folder: Path, spoil: Callable[[Path], object], told: str) -> None:
    assert checked(folder) == folder
    spoil(folder)
    with pytest.raises(ConfigError, match=told):
        checked(folder)


def test_the_digest_is_of_all_that_decides_vectors_and_of_nothing_else(folder: Path, tmp_path: Path) -> None:
    before = digest(folder)
    (folder / "README.md").write_text("A card.", encoding="utf-8")
    (folder / "config_sentence_transformers.json").write_text('{"__version__": {}}', encoding="utf-8")
    (folder / "pytorch_model.bin").write_bytes(b"not read beside safetensors")
    (folder / "onnx").mkdir()
    (folder / "onnx" / "config.json").write_text("{}", encoding="utf-8")
    assert digest(folder) == before
    moved = folder.rename(tmp_path / "elsewhere")
    assert digest(moved) == before
    for name in ("model.safetensors", "tokenizer.json", "1_Pooling/config.json", "modules.json"):
        kept = (moved / name).read_bytes()
        (moved / name).write_bytes(kept + b" ")
        assert digest(moved) != before, name
        (moved / name).write_bytes(kept)
    assert digest(moved) == before


def test_the_stamp_changes_with_a_file_s_time_or_size(folder: Path) -> None:
    before = stamp(folder)
    assert stamp(folder) == before
    os.utime(folder / "model.safetensors", ns=(1, 1))
    touched = stamp(folder)
    (folder / "model.safetensors").write_bytes(b"longer weights")
    os.utime(folder / "model.safetensors", ns=(1, 1))
    assert len({before, touched, stamp(folder)}) == 3


@pytest.mark.parametrize(
    ("written", "prompts"),
    [
        (None, ("", "")),
        ('{"prompts": {"query": "查询：", "document": "文档："}}', ("查询：", "文档：")),
        ('{"prompts": {"query": "query: ", "passage": "passage: "}}', ("query: ", "passage: ")),
        ('{"prompts": {"corpus": "c: ", "other": "o"}}', ("", "c: ")),
        ('{"prompts": {"query": 3, "document": null}}', ("", "")),
        ('{"prompts": []}', ("", "")),
        ("[]", ("", "")),
        ("{", ("", "")),
    ],
)
def test_the_prompts_are_those_of_the_model_s_files(
    folder: Path, written: str | None, prompts: tuple[str, str]
) -> None:
    if written is not None:
        (folder / "config_sentence_transformers.json").write_text(written, encoding="utf-8")
    assert own_prompts(folder) == prompts


def test_facts_are_measured_once_and_again_when_what_is_kept_is_damaged(tmp_path: Path) -> None:
    measured: list[int] = []

    def measure() -> Facts:
        measured.append(1)
        return FACTS

    place = tmp_path / "cache"
    assert [known_facts(place, "a model", measure) for _ in range(3)] == [FACTS] * 3
    assert len(measured) == 1
    known_facts(place, "another", measure)
    assert len(measured) == 2
    for damaged in ("", "[]", "{}", '{"digest": "x", "dimension": "many"}'):
        for file in place.iterdir():
            file.write_text(damaged, encoding="utf-8")
        assert known_facts(place, "a model", measure) == FACTS
    assert len(measured) == 6
    assert [file.suffix for file in place.iterdir()] == [".json", ".json"]


def test_where_nothing_can_be_kept_it_is_measured_each_time(tmp_path: Path) -> None:
    (tmp_path / "a file").write_text("in the way", encoding="utf-8")
    assert known_facts(tmp_path / "a file" / "cache", "a model", lambda: FACTS) == FACTS


def test_only_owner_and_name_is_a_name_on_the_hub() -> None:
    assert is_hub_name("moka-ai/m3e-base")
    assert is_hub_name("BAAI/bge-small-zh-v1.5")
    for path in ("/models/m3e", "./m3e", "../m3e", "~/m3e", "m3e", "a/b/c", "a\\b", "模型/m3e", "", "a/"):
        assert not is_hub_name(path), path
