"""The pages for users say what is so: links, settings, commands, examples and lists are checked against the project."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from kb import background, display, errors, recall, records
from kb.answers import Answer, Citation, Claim, Usage, Verdict
from kb.components import component_module
from kb.embedding import e5, hashing, openai, sentence_transformers
from kb.evaluation.golden import KINDS, load_questions
from kb.generation import extractive
from kb.loading import loader_suffixes
from kb.settings import ComponentOptions, Settings, component_names, explain_validation, load_settings
from kb.settings_tables import ComponentSection
from tests.pages import GUIDES, PAGES, ROOT, Block, anchors, blocks, commands, in_code, marked_table, name_of, prose

LANGUAGES = {"English": "en", "Chinese": "zh", "Japanese": "ja"}
NUMERALS = ("no", "one", "two", "three", "four", "five")

Key = tuple[str, ...]


PYTHON = [block for block in blocks() if block.language == "python"]
TOML = [block for block in blocks() if block.language == "toml"]

# ------------------------------------------------------------------------------------- links and names


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_relative_link_leads_to_a_file_and_heading(page: Path) -> None:
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        path, _, anchor = target.partition("#")
        if not re.match(r"https?:|mailto:", target):
            file = (page.parent / path).resolve() if path else page
            if not file.exists() or (anchor and anchor not in anchors(file)):
                broken.append(target)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_file_that_is_named_exists(page: Path) -> None:
    ours = re.compile(r"(?:kb|pipelines|tests|benchmarks|docs|knowledge_base)/[\w./-]*")
    named = [name for code in in_code(prose(page)) if (name := code.strip()) and ours.fullmatch(name)]
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", GUIDES, ids=name_of)
def test_no_placeholder_is_left(page: Path) -> None:
    assert re.findall(r"\{\{.*?\}\}", page.read_text(encoding="utf-8")) == []


# -------------------------------------------------------------------------------------------- settings


def options_of(kind: str, name: str) -> type[ComponentOptions]:
    found: type[ComponentOptions] = component_module(kind, name).__dict__.get("Options", ComponentOptions)
    return found


@cache
def defaults() -> dict[Key, Any]:
    """Every key that can be set, with its default; tables are keys without one."""
    found: dict[Key, Any] = {}

    def add(path: Key, table: BaseModel) -> None:
        for key in type(table).model_fields:
            value = getattr(table, key)
            if isinstance(value, BaseModel):
                found[*path, key] = None
                add((*path, key), value)
            else:
                found[*path, key] = to_jsonable_python(value)
        if isinstance(table, ComponentSection):
            for name in component_names(path[-1]):
                found[*path, name] = None
                add((*path, name), options_of(path[-1], name)())

    settings = Settings()
    add((), settings)
    for folder in ("documents_dir", "data_dir"):
        found[(folder,)] = getattr(settings, folder).as_posix()
    return found


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_variable_that_is_named_is_a_setting(page: Path) -> None:
    variables = re.findall(r"\bKB_[A-Z0-9_]+", page.read_text(encoding="utf-8"))
    keys = {variable: tuple(variable.removeprefix("KB_").lower().split("__")) for variable in variables}
    assert [variable for variable, key in keys.items() if key not in defaults()] == []


@pytest.mark.parametrize("page", GUIDES, ids=name_of)
def test_every_section_and_key_that_is_named_is_a_setting(page: Path) -> None:
    unknown = []
    for code in in_code(prose(page).replace("\n", " ")):
        if found := re.fullmatch(r"\[([a-z][\w.]+)\](?: (\w+)(?: = .*)?)?", code):
            path = (*found[1].split("."), *filter(None, [found[2]]))
            unknown += [code] if path not in defaults() else []
    assert unknown == []


def test_every_default_that_is_named_is_the_default() -> None:
    rows = re.findall(r"^\| `(?:\[([\w.]+)\] )?(\w+)` \| `(.+?)` \|", prose(ROOT / "docs" / "configuring.md"), re.M)
    told = {
        (*filter(None, section.split(".")), key): tomllib.loads(f"v = {value}")["v"] for section, key, value in rows
    }
    assert len(told) >= 15
    assert told == {key: defaults()[key] for key in told}


def test_every_default_in_brackets_behind_a_key_is_the_default() -> None:
    told = [
        ((*section.split("."), key), value)
        for page in GUIDES
        for section, key, value in re.findall(r"`\[([\w.]+)\] (\w+)` \(([\d.]+)\)", " ".join(prose(page).split()))
    ]
    assert len(told) >= 3
    assert [f"{key}: {value}" for key, value in told if float(value) != defaults()[key]] == []


def test_the_page_on_retrieval_gives_the_constants_of_the_code() -> None:
    text = " ".join(prose(ROOT / "docs" / "retrieval.md").split())
    assert f"| `e5` | {e5.CUTOFF} |" in text
    assert f"| `openai`, text-embedding-3-small | {openai.CUTOFFS['text-embedding-3-small']} |" in text
    assert f"| `openai`, other models | {openai.UNMEASURED_CUTOFF} |" in text
    assert f"| `sentence_transformers` | {sentence_transformers.CUTOFF} |" in text
    assert f"| `hashing` | {hashing.CUTOFF} |" in text
    assert f"{background.SHARE_TAKEN_OFF} of what it exceeds the lowest one by" in text
    assert f"{recall._OF_EACH_SCRIPT} more of each script" in text
    terms = (
        f"similarity to the question + {extractive._WORD_WEIGHT} × share of the question's words"
        f" + {extractive._CHUNK_WEIGHT} × similarity of its chunk + {extractive._FORM_BONUS} if it has the form"
    )
    assert terms in text.replace("> ", "")
    known = f"{extractive._KNOWN_SHARE} of the question's words (by their weight; {extractive._KNOWN_SHARE_UNSPACED} in"
    assert f"One of the first {extractive._COVERING_HITS} hits holds at least {known} Chinese and Japanese" in text
    quoted = extractive.Options()
    assert f"up to {NUMERALS[quoted.max_sentences - 1]} more that score at least {quoted.closeness} of it" in text


def test_the_lists_of_components_are_complete() -> None:
    """In the README's layout and in the table of sections."""
    readme, configuring = (prose(page) for page in (ROOT / "README.md", ROOT / "docs" / "configuring.md"))
    for kind in ("loading", "chunking", "embedding", "store", "rerank", "generation"):
        (row,) = re.findall(rf"^\| `kb/{kind}/` \| (.+) \|$", readme, re.M)
        assert set(in_code(row)) == set(component_names(kind))
        if kind != "loading":
            (row,) = re.findall(rf"^\| `\[{kind}\]` \| .+ \| (.+) \|$", configuring, re.M)
            assert set(in_code(row)) == set(component_names(kind))


@pytest.mark.parametrize("block", [b for b in TOML if not b.mark], ids=str)
def test_every_toml_example_is_accepted(block: Block, tmp_path: Path) -> None:
    check_config(block.text, tmp_path)


def check_config(text: str, folder: Path) -> None:
    config = folder / "config.toml"
    config.write_text(text, encoding="utf-8")
    settings, _ = load_settings(config)
    for kind, section in settings:
        if isinstance(section, ComponentSection):
            for name in component_names(kind):
                explain_validation(options_of(kind, name), section.options(name), f"{kind}.{name}")


# -------------------------------------------------------------------------------------------- commands


@cache
def help_of(*program: str) -> str:
    run = subprocess.run(
        [sys.executable, *program, "--help"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        encoding="utf-8",
        check=True,
        timeout=60,
    )
    return run.stdout


def test_every_option_that_a_command_shows_is_in_its_help() -> None:
    unknown, seen = [], set()
    for command in commands():
        words = shlex.split(command)
        if words[0] != "python" or words[1:2] == ["tests/golden/build_base.py"]:  # needs the extra `samples`
            continue
        program = words[1:3] if words[1] == "-m" else words[1:2]
        rest = words[1 + len(program) :]
        if "{" in (choices := help_of(*program)) or "COMMAND" in choices:
            program.append(rest[0])
        seen.add(" ".join(program))
        known = set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", help_of(*program)))
        unknown += [f"{command}: {word}" for word in rest if word.startswith("-") and word not in {*known, "-"}]
    assert unknown == []
    assert {"-m kb.query", "-m pipelines.ingest", "-m pipelines.evaluate golden"} <= seen


def test_every_make_target_that_is_shown_exists() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    shown = {command.split()[1] for command in commands() if command.startswith("make ")}
    assert {"demo", "test", "eval", "bench"} <= shown <= targets


# -------------------------------------------------------------------------------------------- examples


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as the examples expect it, with some of the sample documents, ingested by words alone."""
    folder = tmp_path_factory.mktemp("docs")
    for name in ("handbook/leave-policy.md", "handbook/security-policy.pdf", "api/rate-limits.md", "zh/退款政策.md"):
        target = folder / "knowledge_base" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "knowledge_base" / name, target)
    config = '[embedding]\nuse = "hashing"\n[store]\nuse = "memory"\n'
    (folder / "config.toml").write_text(config, encoding="utf-8")
    run_python(folder, "-m", "pipelines.ingest", "--quiet")
    return folder


def run_python(folder: Path, *arguments: str, package: Path = ROOT, status: int = 0, told: str = "") -> str:
    """Run Python in `folder`, with `kb` from `package`; `told` is what it reads from stdin."""
    run = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(package), "PYTHONIOENCODING": "utf-8"},
        input=told,
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=60,
    )
    assert run.returncode == status, run.stdout + run.stderr
    return run.stdout


# All in one process, as its start takes longer than most of them; each in a namespace of its own.
RUNNER = """
import contextlib, io, json, sys, traceback

results = {}
for name, text in json.load(sys.stdin).items():
    printed, fault = io.StringIO(), ""
    with contextlib.redirect_stdout(printed):
        try:
            exec(compile(text, name, "exec"), {"__name__": "__main__"})
        except BaseException:
            fault = traceback.format_exc()
    results[name] = printed.getvalue(), fault
print(json.dumps(results))
"""

EXAMPLES = [block for block in PYTHON if block.mark == "runs"]


@pytest.fixture(scope="module")
def ran(project: Path) -> dict[str, list[str]]:
    """What each example printed, and the traceback of what it raised."""
    told = json.dumps({str(block): block.text for block in EXAMPLES})
    results: dict[str, list[str]] = json.loads(run_python(project, "-W", "error", "-c", RUNNER, told=told))
    return results


@pytest.mark.parametrize("block", EXAMPLES, ids=str)
def test_every_complete_example_runs_and_prints(block: Block, ran: dict[str, list[str]]) -> None:
    printed, fault = ran[str(block)]
    assert fault == ""
    assert printed.strip()


def test_every_other_python_block_is_a_file_of_an_example() -> None:
    others = [block for block in PYTHON if block.mark != "runs"]
    assert [str(block) for block in others if not block.mark.startswith("file: ")] == []


def test_the_component_of_the_readme_works_by_its_name(project: Path, tmp_path: Path) -> None:
    (source,) = [block for block in PYTHON if block.mark.startswith("file: ")]
    (config,) = [block for block in TOML if block.mark == source.mark.replace("file: ", "with: ")]
    shutil.copytree(ROOT / "kb", tmp_path / "kb", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / source.mark.removeprefix("file: ")).write_text(source.text, encoding="utf-8")
    command = ["-m", "kb.query", "days of leave, requests and limits", "--search-only", "--json", "--cutoff", "-1"]
    command += ["--config", "with.toml"]

    def sources(text: str) -> list[str]:
        (project / "with.toml").write_text((project / "config.toml").read_text("utf-8") + text, encoding="utf-8")
        found = json.loads(run_python(project, *command, "--top-k", "30", package=tmp_path))["hits"]
        return [hit["source"] for hit in found]

    plain, spread = sources(""), sources(config.text)
    most = tomllib.loads(config.text)["rerank"]["spread"]["per_document"]
    counts = {source: min(most, plain.count(source)) for source in plain}
    head = spread[: sum(counts.values())]
    assert {source: head.count(source) for source in head} == counts
    assert sorted(spread) == sorted(plain)
    assert spread != plain
    (project / "with.toml").write_text(
        (project / "config.toml").read_text("utf-8") + config.text.replace("per_document", "per_dokument"), "utf-8"
    )
    run_python(project, *command, package=tmp_path, status=2)


# ------------------------------------------------------------------------------------ lists and counts


@pytest.mark.parametrize("record", [Answer, Citation, Claim, Usage, records.Hit, records.SearchResult])
def test_the_tables_of_records_name_every_field(record: type[Any]) -> None:
    told = [field for row in marked_table(f"fields: {record.__name__}") for field in in_code(row[0])]
    assert sorted(told) == sorted(field.name for field in fields(record))


def test_the_table_of_errors_names_every_error() -> None:
    told = {error for row in marked_table("errors") for error in in_code(row[0])}
    every = {
        name for name, value in vars(errors).items() if isinstance(value, type) and value.__module__ == "kb.errors"
    }
    assert told == every


def test_the_table_of_formats_names_every_suffix() -> None:
    told = {suffix: in_code(row[0])[0] for row in marked_table("suffixes") for suffix in in_code(row[1])}
    assert told == loader_suffixes()


def test_the_json_example_has_the_keys_of_an_answer() -> None:
    (block,) = [block for block in blocks() if block.mark == "json: answer"]
    shown = json.loads(block.text)
    hit = records.Hit(records.Chunk("c", "d", "t", 0, 1), "s", 0.5, "fused", 0.5)
    citation = Citation(1, "s", None, None, 0, 1, "t", "c")
    claim = Claim("t", 0, 1, (1,), "supported", 1.0, (citation,), ("r",))
    answer = Answer("q", True, "t", (citation,), (hit,), 0.1, 0.5, "e", "g", 0.1, claims=(claim,))
    real = display.answer_as_dict(answer)
    assert list(shown) == list(real)
    for key in ("hits", "citations", "claims"):
        assert list(shown[key][0]) == list(real[key][0])
    assert list(shown["claims"][0]["evidence"][0]) == list(real["citations"][0])
    assert shown["claims"][0]["verdict"] in get_args(Verdict)
    assert shown["hits"][0]["scored_by"] in get_args(records.Scorer)


def test_the_counts_of_documents_and_questions_are_right() -> None:
    text = prose(ROOT / "README.md")
    folders = {"Chinese": ["zh"], "Japanese": ["ja"], "English": ["handbook", "api", "support", "operations"]}
    suffixes = {"Markdown": ".md", "PDF": ".pdf", "Word": ".docx", "text": ".txt"}
    questions = load_questions(ROOT / "tests" / "golden" / "questions.toml")
    for language, names in folders.items():
        files = [file for name in names for file in (ROOT / "knowledge_base" / name).iterdir()]
        counts = ", ".join(
            f"{sum(file.suffix == suffix for file in files)} {kind}" for kind, suffix in suffixes.items()
        )
        assert f"| {language} | {len(files)} | {counts} |" in text
        asked = sum(question.language == LANGUAGES[language] for question in questions)
        assert re.search(rf"^\| {language} \| {asked} \| ", text, re.M)
    page = prose(ROOT / "docs" / "retrieval.md")
    assert f"the {len(questions)} golden questions" in page
    answerable = sum(question.answerable for question in questions)
    assert f"{answerable} with an answer, {len(questions) - answerable} without" in " ".join(page.split())
    each = {sum(not q.answerable and q.language == code for q in questions) for code in LANGUAGES.values()}
    assert [f"{count} questions of each language have no answer" in " ".join(text.split()) for count in each] == [True]
    by_kind = [sum(question.kind == kind for question in questions) for kind in KINDS if kind != "unanswerable"]
    told = re.findall(r"^\| (?:worded|in a|needs|answered)[^|]+\| (\d+) \|", page, re.M)
    assert [int(count) for count in told] == by_kind


def test_the_table_of_licences_names_every_package_that_is_needed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = [match[0] for line in project["dependencies"] if (match := re.match(r"[\w-]+", line))]
    (table,) = re.findall(r"^\| licence \| packages \|\n((?:\|.*\n)+)", prose(ROOT / "README.md"), re.M)
    told = re.sub(r"\(.*?\)", "", " ".join(row.split("|")[2] for row in table.splitlines()[1:]))
    assert sorted(re.split(r"[,\s]+", told.strip())) == sorted(needed)
