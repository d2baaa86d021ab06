"""A component is found by its file's name, and nothing else is imported."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

import kb
from kb.abilities import CountsTokens
from kb.components import Message, Parts, StorePlace, _to_install, build_component, component_module
from kb.errors import ConfigError
from kb.records import Reranked
from kb.settings import component_names

KB = Path(kb.__file__).parent


@pytest.mark.parametrize("kind", ["loading", "chunking", "embedding", "store", "rerank", "generation"])
def test_the_names_are_the_public_files_of_the_folder(kind: str) -> None:
    names = component_names(kind)
    assert names == tuple(sorted(names))
    assert set(names) == {p.stem for p in (KB / kind).iterdir() if p.suffix == ".py" and p.name[0] != "_"}
    assert names


def test_a_kind_that_does_not_exist_has_no_components() -> None:
    assert component_names("painting") == ()


@pytest.mark.parametrize("name", ["nothing", "", "None", "_rows", "../errors", "none.py"])
def test_an_unknown_name_is_refused_with_the_names_that_there_are(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        component_module("rerank", name)
    assert f"[rerank] use = {name!r}" in str(caught.value)
    assert "allowed: " in str(caught.value)
    assert "none" in str(caught.value).partition("allowed: ")[2].split(", ")


def test_a_component_is_built_from_its_table() -> None:
    reranker = build_component("rerank", "none", {}, Parts())
    assert reranker.rerank("a question", []) == Reranked(())


def test_an_unknown_option_is_refused_with_its_section() -> None:
    with pytest.raises(ConfigError, match=r"^\[rerank\.none\] model: unknown key; allowed: none"):
        build_component("rerank", "none", {"model": "x"}, Parts())


def test_a_package_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "kb.store.chroma", raising=False)
    monkeypatch.setitem(sys.modules, "chromadb", None)  # Python's own way to say: this import fails
    with pytest.raises(ConfigError) as caught:
        component_module("store", "chroma")
    assert "[store] use = 'chroma'" in str(caught.value)
    assert "'chromadb'" in str(caught.value)
    assert str(caught.value).endswith("which is not installed: pip install chromadb")


def test_a_module_whose_package_has_another_name_is_not_told_by_its_own() -> None:
    for module in ("docx", "dotenv", "yaml"):
        (package,) = packages_distributions()[module]
        assert _to_install("none", f"{module}.part") == package.lower()


def test_a_part_of_kb_that_is_missing_is_no_matter_of_installing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "kb.rerank.none", raising=False)
    monkeypatch.setitem(sys.modules, "kb.records", None)
    with pytest.raises(ModuleNotFoundError):
        component_module("rerank", "none")


def test_choosing_a_component_imports_that_file_only() -> None:
    code = (
        "import sys; from kb.components import Parts, build_component; build_component('rerank', 'none', {}, Parts());"
        "print(*[m for m in sys.modules if m.startswith('kb.rerank.') or m.partition('.')[0] in "
        "('chromadb', 'onnxruntime', 'openai', 'numpy')])"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=KB.parent, capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["kb.rerank.none"]


def test_parts_lend_nothing_unless_told() -> None:
    parts = Parts()
    assert (parts.embedder, parts.chat, parts.count_tokens, parts.place) == (None, None, None, None)
    assert parts.secret("OPENAI_API_KEY") is None
    assert parts.quiet


def test_an_ability_is_seen_on_the_object_itself() -> None:
    class Counting:
        token_overhead = 3

        def count_tokens(self, text: str) -> int:
            return len(text)

    assert isinstance(Counting(), CountsTokens)
    assert not isinstance(object(), CountsTokens)


def test_what_is_handed_around_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Message("user", "x").role = "system"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        StorePlace(Path(), "c", "ccc", "f", 3).slug = "d"  # type: ignore[misc]
