"""What a message says about a wrong setting, and what it never says."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field, model_validator

from kb.errors import ConfigError
from kb.settings import ComponentOptions, explain_validation, load_settings

WriteSettings = Callable[..., Path]
"""The fixture `project`: writes config.toml and .env, gives their folder."""

SECRET = "sk-proj-9f2Jq7LmZx81Kd"


def refusal(config: str | Path | None = None, **overrides: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        load_settings(config, **overrides)
    return str(caught.value)


@pytest.mark.parametrize(
    ("config", "parts"),
    [
        ("colection = 'x'", ["colection", "unknown key", "collection"]),
        ("[retreival]\ntop_k = 3", ["retreival", "unknown key", "retrieval"]),
        (
            "[retrieval]\ntopk = 3",
            ["[retrieval] topk", "unknown key", "allowed: candidates, cutoff, exact_up_to, group_by, "],
        ),
        ("[chat.answer]\nmodle = 'x'", ["[chat.answer] modle", "unknown key", "model"]),
        ("[embedding]\nusing = 'e5'", ["[embedding] using", "unknown key", "e5", "use"]),
        ("[embedding.e6]\nthreads = 1", ["[embedding] e6", "unknown key", "e5"]),
        ("[loading]\nuse = 'pdf'", ["[loading] use", "unknown key", "max_file_megabytes"]),
        ("[embedding]\nuse = 'e6'", ["[embedding] use", "allowed: ", "e5", "'e6'"]),
        ("[embedding]\nuse = 3", ["[embedding] use", "string", "3"]),
        ("[retrieval]\ntop_k = 'five'", ["[retrieval] top_k", "integer", "'five'"]),
        ("[retrieval]\ntop_k = 2.5", ["[retrieval] top_k", "integer", "2.5"]),
        ("[retrieval]\ntop_k = true", ["[retrieval] top_k", "not be true or false"]),
        ("[retrieval]\ntop_k = 0", ["[retrieval] top_k", "greater than or equal to 1", "0"]),
        ("[retrieval]\ncutoff = 'high'", ["[retrieval] cutoff", "number or 'auto'", "'high'"]),
        ("[retrieval]\ncutoff = 70", ["[retrieval] cutoff", "'auto' or a cosine similarity from -1 to 1", "70"]),
        ("[retrieval]\ncutoff = nan", ["[retrieval] cutoff", "from -1 to 1", "nan"]),
        ("[keyword]\nenabled = 'maybe'", ["[keyword] enabled", "boolean", "'maybe'"]),
        ("[keyword]\nfusion_k = 0", ["[keyword] fusion_k", "greater than 0"]),
        ("[ingest]\nmax_removal_share = 50", ["[ingest] max_removal_share", "less than or equal to 1", "50"]),
        ("[chat.answer]\nbase_url = 'api.example.com/v1'", ["[chat.answer] base_url", "https://", "api.example.com"]),
        ("retrieval = 5", ["retrieval", "write [retrieval]", "KB_RETRIEVAL__KEY"]),
        ("embedding = 'e5'", ["embedding", "write [embedding]", "'e5'"]),
        ("[chat]\nanswer = 'gpt-4o'", ["[chat] answer", "write [chat.answer]"]),
        ("[chunking]\nrecursive = 300", ["[chunking] recursive", "write [chunking.recursive]", "300"]),
        ("collection = ''", ["collection", "blank"]),
        ("collection = 7", ["collection", "string", "7"]),
        ("data_dir = ' '", ["data_dir", "blank"]),
        ("data_dir = 7", ["data_dir", "path of a folder", "7"]),
        ("data_dir = '~nobody-of-this-name/x'", ["data_dir", "home"]),
        ("[retrieval\ntop_k = 3", ["TOML", "line 1"]),
        ("top_k = ", ["TOML"]),
    ],
)
def test_a_fault_in_the_file_names_file_section_key_and_what_is_allowed(
    project: WriteSettings, config: str, parts: list[str]
) -> None:
    folder = project(config=config)
    message = refusal()
    assert message.startswith(f"{folder / 'config.toml'}: ")
    assert [part for part in parts if part not in message] == []


def test_several_faults_are_told_at_once(project: WriteSettings) -> None:
    project(config="[retrieval]\ntop_k = 0\n[keyword]\ncandidates = 0")
    message = refusal()
    assert "[retrieval] top_k" in message
    assert "[keyword] candidates" in message


@pytest.mark.parametrize(
    ("variable", "value", "parts"),
    [
        ("KB_RETRIEVAL__TOP_K", "five", ["[retrieval] top_k", "integer", "'five'"]),
        ("Kb_Retrieval__Top_K", "five", ["[retrieval] top_k", "integer"]),
        ("KB_RETRIEVAL__TOPK", "5", ["[retrieval] topk", "unknown key", "top_k"]),
        ("KB_EMBEDDING__USE", "e6", ["[embedding] use", "allowed: ", "e5", "'e6'"]),
        ("KB_EMBEDDING__E6__THREADS", "1", ["[embedding] e6", "unknown key"]),
        ("KB_EMBEDDING", "e5", ["embedding", "KB_EMBEDDING__KEY", "'e5'"]),
        ("KB_CHAT__ANSWER", "gpt-4o", ["[chat] answer", "KB_CHAT__ANSWER__KEY"]),
        ("KB_DATADIR", "/tmp", ["unknown variable", "KB_DATA_DIR"]),
        ("KB_OPENAI_API_KEY", SECRET, ["unknown variable", "KB_DATA_DIR"]),
        ("KB_", "x", ["unknown variable"]),
        ("KB_DATA_DIR__X", "y", ["data_dir", "path of a folder"]),
        ("KB_RETRIEVAL__", "y", ["[retrieval]", "unknown key"]),
    ],
)
def test_a_fault_in_a_variable_names_the_variable_and_where_it_is_set(
    project: WriteSettings, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, parts: list[str]
) -> None:
    folder = project(config="[retrieval]\ntop_k = 6\n[embedding]\nuse = 'e5'", env=f"{variable}={value}")
    message = refusal()
    assert message.startswith(f"{folder / '.env'}: {variable}: ")
    assert [part for part in parts if part not in message] == []
    project(env="")
    monkeypatch.setenv(variable, value)
    message = refusal()
    assert message.startswith(f"environment variable {variable}: ")
    assert [part for part in parts if part not in message] == []


def test_two_variables_that_contradict_each_other_are_refused(project: WriteSettings) -> None:
    project(env="KB_DATA_DIR=x\nKB_DATA_DIR__SUB=y")
    message = refusal()
    assert "KB_DATA_DIR__SUB" in message
    assert "KB_DATA_DIR is set as well" in message


def test_a_fault_in_an_argument_says_so_although_the_file_sets_the_key_too(project: WriteSettings) -> None:
    project(config="[retrieval]\ntop_k = 6")
    assert refusal(retrieval={"top_k": 0}).startswith("argument: [retrieval] top_k: ")
    assert refusal(retrieval={"topk": 1}).startswith("argument: [retrieval] topk: unknown key")
    assert refusal(retreival={}).startswith("argument: retreival: unknown key")


def test_a_file_that_is_no_text_is_named(project: WriteSettings) -> None:
    folder = project()
    (folder / "config.toml").write_bytes(b"collection = '\xff\xfe'")
    assert refusal().startswith(f"{folder / 'config.toml'}: ")
    (folder / "config.toml").unlink()
    (folder / ".env").write_bytes(b"KB_COLLECTION=\xff\xfe")
    assert refusal().startswith(f"{folder / '.env'}: ")


# ----------------------------------------------------------------------------------- component options


class Sizes(ComponentOptions):
    size_tokens: int = Field(300, ge=16)


def sizes(**overrides: Any) -> Sizes:
    settings, _ = load_settings(**overrides)
    return explain_validation(Sizes, settings.chunking.options("recursive"), "chunking.recursive")


def test_a_wrong_component_option_names_the_place_that_set_it(
    project: WriteSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project(config="[chunking.recursive]\nsize = 300")
    with pytest.raises(ConfigError) as caught:
        sizes()
    message = str(caught.value)
    assert message.startswith(f"{folder / 'config.toml'}: [chunking.recursive] size: unknown key; allowed: ")
    assert "size_tokens" in message

    project(config="", env="KB_CHUNKING__RECURSIVE__SIZE_TOKENS=many")
    with pytest.raises(
        ConfigError, match=r"\.env: KB_CHUNKING__RECURSIVE__SIZE_TOKENS: \[chunking\.recursive\] size_t"
    ):
        sizes()

    monkeypatch.setenv("KB_CHUNKING__RECURSIVE__SIZE_TOKENS", "few")
    with pytest.raises(ConfigError, match=r"^environment variable KB_CHUNKING__RECURSIVE__SIZE_TOKENS: .*'few'"):
        sizes()

    with pytest.raises(ConfigError, match=r"^argument: \[chunking\.recursive\] size_tokens: .*not be true or false"):
        sizes(chunking={"recursive": {"size_tokens": True}})


def test_component_options_are_converted_and_checked(project: WriteSettings) -> None:
    project(env="KB_CHUNKING__RECURSIVE__SIZE_TOKENS=200")
    assert sizes().size_tokens == 200


def test_a_plain_table_of_options_is_explained_without_a_place() -> None:
    class Options(ComponentOptions):
        size: int = Field(3, ge=1)

    with pytest.raises(ConfigError, match=r"^\[chunking\.x\] size: should be greater than or equal to 1 \(it is 0\)$"):
        explain_validation(Options, {"size": 0}, "chunking.x")
    with pytest.raises(ConfigError, match=r"^\[chunking\.x\] sice: unknown key; allowed: size$"):
        explain_validation(Options, {"sice": 0}, "chunking.x")


def test_a_fault_between_two_keys_names_their_table(project: WriteSettings) -> None:
    class Options(ComponentOptions):
        size_tokens: int = 300
        overlap_tokens: int = 0

        @model_validator(mode="after")
        def _overlap_is_smaller(self) -> Options:
            if self.overlap_tokens >= self.size_tokens:
                raise ValueError("overlap_tokens should be less than size_tokens")
            return self

    folder = project(config="[chunking.recursive]\noverlap_tokens = 300")
    table = load_settings()[0].chunking.options("recursive")
    with pytest.raises(ConfigError) as caught:
        explain_validation(Options, table, "chunking.recursive")
    expected = f"{folder / 'config.toml'}: [chunking.recursive]: overlap_tokens should be less than size_tokens"
    assert str(caught.value) == expected


def test_a_list_can_stand_in_a_variable() -> None:
    class Options(ComponentOptions):
        suffixes: tuple[str, ...] = ()

    for text, expected in (('["a", "b,c"]', ("a", "b,c")), ("a", ("a",)), ("[]", ())):
        assert explain_validation(Options, {"suffixes": text}, "loading.x").suffixes == expected
    with pytest.raises(ConfigError, match=r"^\[loading\.x\] suffixes: should be a valid tuple \(it is '\[a'\)$"):
        explain_validation(Options, {"suffixes": "[a"}, "loading.x")


def test_a_fault_inside_a_list_names_the_key_and_not_the_index() -> None:
    class Options(ComponentOptions):
        suffixes: tuple[int, ...] = ()

    with pytest.raises(ConfigError, match=r"^\[loading\.x\] suffixes: should be a valid integer \(it is 'a'\)$"):
        explain_validation(Options, {"suffixes": [1, "a"]}, "loading.x")


def secret_faults() -> Iterator[tuple[str, str]]:
    """(config.toml, .env): a key that was pasted where it doesn't belong."""
    yield f"OPENAI_API_KEY = '{SECRET}'", ""
    yield f"[chat]\nanswer = '{SECRET}'", ""
    yield f"[chat.answer]\napi_key = '{SECRET}'", ""
    yield f"[chat.answer]\napi_key_env = '{SECRET}'", ""
    yield f"[chat.answer]\nretries = '{SECRET}'", ""
    yield f"[chat.answer]\nbase_url = '{SECRET}'", ""
    yield f"[chat.answer]\nbase_url = 'ftp://me:{SECRET}@host'", ""
    yield f"[embedding]\nuse = '{SECRET}'", ""
    yield f"embedding = '{SECRET}'", ""
    yield f"[retrieval]\ncutoff = ['{SECRET}']", ""
    yield f"OPENAI_API_KEY = {SECRET}", ""
    yield "", f"KB_API_KEY={SECRET}"
    yield "", f"KB_CHAT={SECRET}"
    yield "", f"KB_CHAT__ANSWER__API_KEY={SECRET}"
    yield "", f"KB_CHAT__ANSWER__TEMPERATURE={SECRET}"


@pytest.mark.parametrize(("config", "env"), list(secret_faults()))
def test_a_secret_is_in_no_message_and_no_traceback(project: WriteSettings, config: str, env: str) -> None:
    project(config=config, env=env)
    with pytest.raises(ConfigError) as caught:
        load_settings()
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_a_key_without_the_usual_form_is_not_shown_either(project: WriteSettings) -> None:
    project(config="[retrieval]\ntop_k = 'hunter2'", env="MY_SERVICE_TOKEN=hunter2")
    message = refusal()
    assert "hunter2" not in message
    assert "[retrieval] top_k" in message


def test_a_password_that_is_a_setting_is_not_shown() -> None:
    class Options(ComponentOptions):
        passwords: tuple[int, ...] = ()

    with pytest.raises(ConfigError, match=r"^\[loading\.x\] passwords: should be a valid integer$"):
        explain_validation(Options, {"passwords": ["open sesame"]}, "loading.x")
