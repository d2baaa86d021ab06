"""The compose files are what they claim: settings are accepted, paths exist, nothing is open to strangers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from kb.components import component_module
from kb.settings import explain_validation, load_settings

FOLDER = Path(__file__).parents[2] / "docs" / "compose"
FILES = sorted(FOLDER.glob("*.yaml"))
OWN = "kb"
SERVER = "web"


def services(file: Path) -> dict[str, Any]:
    told: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))["services"]
    return told


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_settings_of_a_compose_file_are_accepted_and_name_its_server(
    file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in services(file)[OWN]["environment"].items():
        monkeypatch.setenv(name, value)
    store = load_settings()[0].store
    assert store.use == file.stem
    table = store.options(store.use)
    options = explain_validation(component_module("store", store.use).Options, table, f"store.{store.use}")
    host = re.fullmatch(r"http://([a-z]+):\d+", options.url)
    assert host is not None
    assert host[1] in services(file)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_no_engine_can_be_reached_from_outside_and_all_of_them_keep_their_data(file: Path) -> None:
    for name, service in services(file).items():
        assert "ports" not in service or name == SERVER
        assert service["volumes"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_server_asks_for_a_token_and_is_published_to_this_machine_alone(
    file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    server = services(file)[SERVER]
    for name, value in server["environment"].items():
        monkeypatch.setenv(name, value)
    settings = load_settings()[0]
    assert settings.store.use == file.stem
    assert not settings.web.ingest_at_start
    assert server["environment"][settings.web.token_env].startswith("${KNOWLEDGE_BASE_TOKEN:?")
    assert server["ports"] == [f"127.0.0.1:{settings.web.port}:{settings.web.port}"]
    assert server["command"][:3] == ["python", "-m", "kb.serve"]
    assert server["image"] == services(file)[OWN]["image"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_image_is_built_from_files_that_are_there(file: Path) -> None:
    build = services(file)[OWN]["build"]
    context = (FOLDER / build["context"]).resolve()
    assert (context / "requirements.lock").is_file()
    assert (context / build["dockerfile"]).is_file()
    extras = set(build["args"]["EXTRAS"].split(","))
    known = set(re.findall(r"(?m)^([a-z-]+) = \[", (context / "pyproject.toml").read_text(encoding="utf-8")))
    assert extras <= known


def test_the_variables_of_the_image_are_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    text = (FOLDER / "Dockerfile").read_text(encoding="utf-8")
    variables = dict(re.findall(r"\b(KB_[A-Z0-9_]+)=(\S+)", text))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    settings = load_settings()[0]
    assert (str(settings.documents_dir), str(settings.data_dir)) == ("/documents", "/data")
    assert settings.embedding.options("e5")["cache_dir"] == "/data/model"
