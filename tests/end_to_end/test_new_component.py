"""A new component is one new file: usable by its name, and held to the contract of its kind."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
NAME = "by_paragraph_demo"

COMPONENT = '''
"""Cut at blank lines; a paragraph that is too long is cut by characters."""

from pydantic import Field

from kb.chunking._spans import Budget, build_chunks, open_budget
from kb.components import Parts
from kb.records import Chunk, Document
from kb.settings import ComponentOptions


class Options(ComponentOptions):
    """How long chunks are."""

    size_characters: int = Field(80, ge=1, le=100)


class ByParagraph:
    """Makes each paragraph a chunk."""

    def __init__(self, size: int, budget: Budget) -> None:
        self._size = size
        self._budget = budget
        self.fingerprint = f"by_paragraph_demo/1 size={size}"

    def chunk(self, document: Document) -> tuple[Chunk, ...]:
        """Cut `document`."""
        spans, at = [], 0
        for paragraph in document.text.split("\\n\\n"):
            for start in range(at, at + len(paragraph), self._size):
                spans.append((start, min(start + self._size, at + len(paragraph))))
            at += len(paragraph) + 2
        return build_chunks(document, spans, self._budget)


def build(options: Options, parts: Parts) -> ByParagraph:
    """Build the chunker; a character is at most four tokens with every known tokenizer."""
    budget = open_budget("chunking.by_paragraph_demo", 4 * options.size_characters, 64, parts)
    return ByParagraph(options.size_characters, budget)
'''

SCRIPT = """
import sys
sys.path.insert(0, "tests/contracts")
from _counting import parts
from kb.components import build_component
from kb.errors import ConfigError
from kb.records import Document
from kb.settings import load_settings

section = load_settings("config.toml")[0].chunking
try:
    chunker = build_component("chunking", section.use, section.options(section.use), parts("words"))
except ConfigError as error:
    print("error:", error)
else:
    for chunk in chunker.chunk(Document("d", "d.md", "One.\\n\\nTwo and more.", "", "markdown")):
        print(chunk.text)
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the package and of the contract suites, with one file added."""
    no_cache = shutil.ignore_patterns("__pycache__", ".hypothesis")
    shutil.copytree(PROJECT / "kb", tmp_path / "kb", ignore=no_cache)
    shutil.copytree(PROJECT / "tests" / "contracts", tmp_path / "tests" / "contracts", ignore=no_cache)
    shutil.copy(PROJECT / "tests" / "conftest.py", tmp_path / "tests")
    shutil.copy(PROJECT / "pyproject.toml", tmp_path)
    (tmp_path / "kb" / "chunking" / f"{NAME}.py").write_text(COMPONENT, encoding="utf-8")
    return tmp_path


def python(folder: Path, *arguments: str) -> str:
    """Run Python in `folder`, whose kb comes before an installed one, and give what it printed."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, encoding="utf-8", timeout=200
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_contract_suite_picks_up_a_new_file_by_itself(copy: Path) -> None:
    suite = "tests/contracts/test_chunkers.py"
    output = python(copy, "-m", "pytest", suite, "-v", "-k", NAME, "-p", "no:cacheprovider")
    passed = set(re.findall(rf"::(\w+)\[[^\n]*{NAME}[^\n]*\] PASSED", output))
    assert "test_chunks_of_any_document_are_as_promised" in passed
    assert "test_a_hard_text_is_cut_to_its_end" in passed
    assert len(passed) >= 4


def test_a_new_file_is_used_by_its_name(copy: Path) -> None:
    (copy / "config.toml").write_text(f'[chunking]\nuse = "{NAME}"\n[chunking.{NAME}]\nsize_characters = 8\n', "utf-8")
    assert python(copy, "-c", SCRIPT).splitlines() == ["One.", "Two and", "more."]


def test_a_misspelt_option_of_a_new_file_names_section_key_and_what_is_allowed(copy: Path) -> None:
    (copy / "config.toml").write_text(f'[chunking]\nuse = "{NAME}"\n[chunking.{NAME}]\nsize_charcters = 8\n', "utf-8")
    message = python(copy, "-c", SCRIPT)
    assert message.startswith("error: ")
    for part in (f"[chunking.{NAME}]", "size_charcters", "allowed: size_characters"):
        assert part in message
