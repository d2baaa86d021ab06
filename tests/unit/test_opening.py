"""The commands that messages tell people to type."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kb.opening import CollectionStore
from kb.settings import load_settings


def command(root: Path | None = None, *, config: str | None = None, rebuild: bool = False, **overrides: Any) -> str:
    return CollectionStore(*load_settings(config, **overrides)).ingest_command(root, rebuild=rebuild)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path.cwd()


def test_defaults_are_left_out(folder: Path) -> None:
    plain = "python -m pipelines.ingest"
    assert command() == command(folder / "knowledge_base") == plain
    (folder / "config.toml").write_text('documents_dir = "notes"\n')
    assert command(folder / "notes") == command(folder / "notes", config="config.toml") == plain
    assert command(rebuild=True) == f"{plain} --rebuild"


def test_what_is_no_default_is_given_and_quoted(folder: Path) -> None:
    (folder / "my notes.toml").write_text('collection = "笔记 1"\n')
    assert command(folder / "elsewhere", config="my notes.toml", rebuild=True) == (
        f"python -m pipelines.ingest {folder / 'elsewhere'} --collection '笔记 1' "
        f"--config '{folder / 'my notes.toml'}' --rebuild"
    )


def test_a_collection_that_was_asked_for_is_given_though_it_has_the_default_name(folder: Path) -> None:
    (folder / "config.toml").write_text('collection = "notes"\n')
    assert command(collection="knowledge_base") == "python -m pipelines.ingest --collection knowledge_base"


def test_a_store_is_named_with_its_server() -> None:
    def name(**store: Any) -> str:
        return CollectionStore(*load_settings(store=store)).name

    assert name() == name(use="chroma", chroma={"url": ""}) == "chroma"
    assert name(use="chroma", chroma={"url": "http://host:8000"}) == "chroma at http://host:8000"
    assert name(use="memory", chroma={"url": "http://host:8000"}) == "memory"
