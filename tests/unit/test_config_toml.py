"""The project's config.toml shows every key with its default and a reason, and nothing else."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from kb.components import component_module
from kb.settings import ComponentOptions, Settings, component_names, explain_validation, load_settings

PROJECT_CONFIG = Path(__file__).parents[2] / "config.toml"
COMPONENT_KINDS = ("loading", "chunking", "embedding", "store", "rerank", "generation")


def defaults() -> dict[str, Any]:
    """All defaults as config.toml would hold them: settings, and the options of every component."""
    table: dict[str, Any] = Settings().model_dump(mode="json")
    for kind in COMPONENT_KINDS:
        for name in component_names(kind):
            options = component_module(kind, name).__dict__.get("Options", ComponentOptions)()
            if type(options).model_fields:
                # Field by field, as a dump leaves out what must not be stored, such as passwords.
                table[kind][name] = {
                    key: to_jsonable_python(getattr(options, key)) for key in type(options).model_fields
                }
    return table


def without_none(table: dict[str, Any]) -> dict[str, Any]:
    return {
        key: without_none(value) if isinstance(value, dict) else value
        for key, value in table.items()
        if value is not None
    }


def unset_keys(table: dict[str, Any], path: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    found = set()
    for key, value in table.items():
        if isinstance(value, dict):
            found |= unset_keys(value, (*path, key))
        elif value is None:
            found.add((*path, key))
    return found


def test_config_toml_holds_every_key_with_its_default_and_no_other() -> None:
    written = tomllib.loads(PROJECT_CONFIG.read_text(encoding="utf-8"))
    assert written == without_none(defaults())


def test_config_toml_shows_the_keys_without_a_default_as_comments() -> None:
    section: tuple[str, ...] = ()
    shown = set()
    for line in PROJECT_CONFIG.read_text(encoding="utf-8").splitlines():
        if heading := re.fullmatch(r"\[([\w.]+)\]", line):
            section = tuple(heading.group(1).split("."))
        elif unset := re.fullmatch(r"# unset: (\w+) = .+", line):
            shown.add((*section, unset.group(1)))
    assert shown == unset_keys(defaults())


def test_config_toml_gives_a_reason_above_every_key() -> None:
    lines = PROJECT_CONFIG.read_text(encoding="utf-8").splitlines()
    bare = [
        line
        for above, line in zip(["", *lines], lines, strict=False)
        if re.match(r"(# unset: )?\w+ = ", line) and not re.match(r"# (?!unset: )\w.{15,}", above)
    ]
    assert bare == []


def test_config_toml_is_accepted_as_it_is() -> None:
    settings, _ = load_settings(PROJECT_CONFIG)
    assert settings.documents_dir == PROJECT_CONFIG.parent / "knowledge_base"
    for kind in COMPONENT_KINDS:
        section = getattr(settings, kind)
        for name in component_names(kind):
            options: type[ComponentOptions] = component_module(kind, name).__dict__.get("Options", ComponentOptions)
            assert explain_validation(options, section.options(name), f"{kind}.{name}") == options()


def test_every_options_class_refuses_unknown_keys_and_hides_inputs() -> None:
    for kind in COMPONENT_KINDS:
        for name in component_names(kind):
            options: type[BaseModel] = component_module(kind, name).__dict__.get("Options", ComponentOptions)
            assert issubclass(options, ComponentOptions), f"kb/{kind}/{name}.py"
            assert options.model_config.get("extra") == "forbid", f"kb/{kind}/{name}.py"
            assert options.model_config.get("hide_input_in_errors"), f"kb/{kind}/{name}.py"
