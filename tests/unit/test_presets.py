"""The presets of docs/presets load as they are, and hold the constants of the guides that they reproduce."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kb.components import Parts, build_component, component_module
from kb.settings import Settings, explain_validation, load_settings
from kb.settings_tables import ComponentSection, component_names

PRESETS = Path(__file__).parents[2] / "docs" / "presets"


def preset(name: str) -> Settings:
    settings, _ = load_settings(PRESETS / f"{name}.toml")
    return settings


def options(settings: Settings, kind: str, name: str) -> Any:
    """The options of one component as a preset has them."""
    table = getattr(settings, kind).options(name)
    return explain_validation(component_module(kind, name).Options, table, f"{kind}.{name}")


@pytest.mark.parametrize("name", sorted(file.stem for file in PRESETS.glob("*.toml")))
def test_every_preset_is_accepted_with_the_options_of_all_components_that_it_names(name: str) -> None:
    settings = preset(name)
    named = [
        options(settings, kind, component)
        for kind, section in settings
        if isinstance(section, ComponentSection)
        for component in component_names(kind)
        if section.options(component)
    ]
    assert named


def test_the_preset_for_tuning_has_the_constants_of_its_guide() -> None:
    settings = preset("tuning")
    assert settings.chunking.use == "paragraph"
    chunking = options(settings, "chunking", "paragraph")
    assert (chunking.size_characters, chunking.overlap_characters) == (400, 60)
    assert (settings.keyword.enabled, settings.retrieval.candidates, settings.retrieval.cutoff) == (False, 50, -1.0)
    assert (settings.rerank.use, settings.rerank.candidates, settings.retrieval.top_k) == ("endpoint", 50, 5)
    assert options(settings, "rerank", "endpoint").model == "bge-reranker-v2-m3"
    assert (settings.retrieval.relative_threshold, settings.retrieval.group_by) == (0.25, "document")
    assert options(settings, "embedding", "openai").tokens_per_minute == 20_000
    assert build_component("rerank", "endpoint", settings.rerank.options("endpoint"), Parts())


def test_the_preset_for_building_from_scratch_has_the_constants_of_its_guide() -> None:
    settings = preset("from-scratch")
    assert settings.chunking.use == "paragraph"
    chunking = options(settings, "chunking", "paragraph")
    assert (chunking.size_characters, chunking.overlap_characters) == (500, 50)
    assert settings.embedding.use == "sentence_transformers"
    embedding = settings.embedding.options("sentence_transformers")
    assert (embedding["dimension"], embedding["cutoff"]) == (768, 0.3)
    assert (embedding["query_prefix"], embedding["document_prefix"]) == ("", "")
    assert settings.store.use == "faiss"
    assert options(settings, "store", "faiss").index == "flat"
    assert settings.retrieval.top_k == 3
    assert (settings.keyword.enabled, settings.retrieval.candidates) == (False, 3 * settings.retrieval.top_k)
    assert (settings.generation.use, settings.chat.answer.temperature, settings.chat.answer.model) == (
        "openai",
        0.2,
        "",
    )
