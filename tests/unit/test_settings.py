"""Where settings come from, and which place wins."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from kb.errors import ConfigError
from kb.settings import Settings, load_settings

WriteSettings = Callable[..., Path]
"""The fixture `project`: writes config.toml and .env, gives their folder."""

SECRET = "sk-proj-9f2Jq7LmZx81Kd"


# ---------------------------------------------------------------------------------- which one wins


def test_without_any_file_the_defaults_hold(project: WriteSettings) -> None:
    folder = project()
    settings, origins = load_settings()
    assert origins.config is None
    assert settings.documents_dir == folder / "knowledge_base"
    assert settings.data_dir == folder / "kb_data"
    unchanged = {name: getattr(settings, name).model_dump() for name in ("retrieval", "chat", "embedding", "ingest")}
    assert unchanged == {name: getattr(Settings(), name).model_dump() for name in unchanged}


def test_each_place_wins_over_the_ones_below_it(project: WriteSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    project()
    assert load_settings()[0].retrieval.top_k == 5
    project(config="[retrieval]\ntop_k = 6")
    assert load_settings()[0].retrieval.top_k == 6
    project(env="KB_RETRIEVAL__TOP_K=7")
    assert load_settings()[0].retrieval.top_k == 7
    monkeypatch.setenv("KB_RETRIEVAL__TOP_K", "8")
    assert load_settings()[0].retrieval.top_k == 8
    assert load_settings(retrieval={"top_k": 9})[0].retrieval.top_k == 9


def test_places_are_merged_key_by_key(project: WriteSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    project(
        config="[retrieval]\ntop_k = 6\ncandidates = 60\n[chunking.recursive]\nsize_tokens = 200\nmin_tokens = 20",
        env="KB_RETRIEVAL__CUTOFF=0.4\nKB_CHUNKING__RECURSIVE__SIZE_TOKENS=250",
    )
    monkeypatch.setenv("KB_CHUNKING__RECURSIVE__HEADER_TOKENS", "0")
    settings, _ = load_settings(retrieval={"top_k": 3})
    assert (settings.retrieval.top_k, settings.retrieval.candidates, settings.retrieval.cutoff) == (3, 60, 0.4)
    options = settings.chunking.options("recursive")
    assert options == {"size_tokens": "250", "min_tokens": 20, "header_tokens": "0"}


def test_a_variable_may_be_written_in_any_case_and_upper_case_wins(
    project: WriteSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    project(env="kb_retrieval__candidates=70")
    monkeypatch.setenv("Kb_Retrieval__Top_K", "4")
    assert load_settings()[0].retrieval.top_k == 4
    assert load_settings()[0].retrieval.candidates == 70
    monkeypatch.setenv("KB_RETRIEVAL__TOP_K", "5")
    assert load_settings()[0].retrieval.top_k == 5


def test_the_environment_wins_over_another_spelling_in_the_env_file(
    project: WriteSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    project(env="KB_COLLECTION=from_file")
    monkeypatch.setenv("kb_collection", "from_environment")
    assert load_settings()[0].collection == "from_environment"


def test_an_empty_variable_counts_as_not_set(project: WriteSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = project(config="collection = 'mine'", env="KB_DATA_DIR=\nKB_RETRIEVAL__TOP_K=\n")
    monkeypatch.setenv("KB_COLLECTION", " ")
    settings, _ = load_settings()
    assert (settings.data_dir, settings.collection, settings.retrieval.top_k) == (folder / "kb_data", "mine", 5)


def test_other_variables_do_not_disturb(project: WriteSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    project(env=f"OPENAI_API_KEY={SECRET}\nOPENAI_BASE_URL=\nOPENAI_MODEL=gpt-4o\nexport EDITOR=vi\nLONELY\n# note\n")
    monkeypatch.setenv("KBD_LAYOUT", "de")
    settings, _ = load_settings()
    assert settings.embedding.use == "e5"
    assert SECRET not in repr(settings)


def test_settings_alone_are_the_defaults_whatever_the_environment_says(
    project: WriteSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    project(config="[retrieval]\ntop_k = 6")
    monkeypatch.setenv("KB_RETRIEVAL__TOP_K", "8")
    assert Settings().retrieval.top_k == 5
    load_settings()
    assert Settings().retrieval.top_k == 5


def test_values_are_converted_from_text(project: WriteSettings) -> None:
    project(
        env="KB_KEYWORD__ENABLED=false\nKB_KEYWORD__FUSION_K=2.5\nKB_RETRIEVAL__CUTOFF=auto\nKB_CHAT__ANSWER__RETRIES=0"
    )
    settings, _ = load_settings()
    assert (settings.keyword.enabled, settings.keyword.fusion_k) == (False, 2.5)
    assert (settings.retrieval.cutoff, settings.chat.answer.retries) == ("auto", 0)


def test_one_load_leaves_nothing_behind_for_the_next(project: WriteSettings) -> None:
    project(config="[retrieval]\ntop_k = 6")
    load_settings(keyword={"enabled": False})
    with pytest.raises(ConfigError):
        load_settings(retrieval={"top_k": 0})
    assert load_settings()[0].keyword.enabled is True
    assert load_settings()[0].retrieval.top_k == 6


# ----------------------------------------------------------------------------------- files, folders


def test_relative_folders_start_from_the_folder_of_the_file(
    project: WriteSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project(config="documents_dir = 'docs'\ndata_dir = './data'")
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    settings, origins = load_settings("../config.toml")
    assert origins.config == folder / "config.toml"
    assert (settings.documents_dir, settings.data_dir) == (folder / "docs", folder / "data")


def test_relative_folders_of_arguments_start_from_the_working_folder(
    project: WriteSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project(config="data_dir = 'data'")
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    settings, _ = load_settings("../config.toml", data_dir="here")
    assert settings.data_dir == folder / "elsewhere" / "here"


def test_absolute_and_home_folders_stay_what_they_are(project: WriteSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = project(config="documents_dir = '~/docs'\ndata_dir = '/var/kb'")
    monkeypatch.setenv("HOME", str(folder / "home"))
    settings, _ = load_settings()
    assert (settings.documents_dir, settings.data_dir) == (folder / "home" / "docs", Path("/var/kb"))


def test_a_linked_file_belongs_to_the_folder_of_the_link(project: WriteSettings) -> None:
    folder = project()
    (folder / "versions").mkdir()
    (folder / "versions" / "3.toml").write_text("data_dir = 'data'", encoding="utf-8")
    (folder / "config.toml").symlink_to(folder / "versions" / "3.toml")
    assert load_settings()[0].data_dir == folder / "data"


def test_the_env_file_is_the_one_beside_the_configuration(
    project: WriteSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project(config="", env="KB_COLLECTION=beside_config")
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere" / ".env").write_text("KB_COLLECTION=elsewhere", encoding="utf-8")
    monkeypatch.chdir(folder / "elsewhere")
    assert load_settings("../config.toml")[0].collection == "beside_config"


def test_a_missing_file_that_was_asked_for_is_an_error(project: WriteSettings) -> None:
    folder = project()
    with pytest.raises(ConfigError, match="--config") as caught:
        load_settings("other.toml")
    assert str(folder / "other.toml") in str(caught.value)


def test_files_written_on_windows_are_read(project: WriteSettings) -> None:
    folder = project()
    (folder / "config.toml").write_bytes(b"\xef\xbb\xbfcollection = 'mine'\r\n[retrieval]\r\ntop_k = 6\r\n")
    (folder / ".env").write_bytes(b"\xef\xbb\xbfKB_RETRIEVAL__CANDIDATES=70\r\n")
    settings, _ = load_settings()
    assert (settings.collection, settings.retrieval.top_k, settings.retrieval.candidates) == ("mine", 6, 70)


@pytest.mark.parametrize("name", ["知识库", "ナレッジベース", "Ünïcode notes", "a/b"])
def test_a_collection_has_a_name_in_any_script(project: WriteSettings, name: str) -> None:
    project(config=f"collection = {name!r}")
    assert load_settings()[0].collection == name
    project(config="", env=f"KB_COLLECTION={name}")
    assert load_settings()[0].collection == name


def test_settings_travel_to_another_process(project: WriteSettings) -> None:
    project(config="[chunking.recursive]\nsize_tokens = 200")
    settings, _ = load_settings()
    copy = pickle.loads(pickle.dumps(settings))
    assert copy.model_dump() == settings.model_dump()
    assert copy.chunking.options("recursive") == {"size_tokens": 200}


def test_secret_is_read_from_the_environment_then_from_the_env_file(
    project: WriteSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    project(env=f'OPENAI_API_KEY="{SECRET}"\nEMPTY=\n')
    _, origins = load_settings()
    assert origins.secret("OPENAI_API_KEY") == SECRET
    assert origins.secret("EMPTY") is None
    assert origins.secret("ABSENT") is None
    monkeypatch.setenv("OPENAI_API_KEY", " other \n")
    assert load_settings()[1].secret("OPENAI_API_KEY") == "other"
    monkeypatch.setenv("OPENAI_API_KEY", "")
    assert load_settings()[1].secret("OPENAI_API_KEY") is None
