"""docs/quickstart.ipynb runs from its first cell to its last, without network, and shows what it says and holds."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import pytest

from tests.commands import ROOT

NOTEBOOK = ROOT / "docs" / "quickstart.ipynb"
LEAST_SAME = 0.95
"""Of what it shows. Processors with other instructions round otherwise, and where two passages are nearly as similar to
a question, the other one comes first: between two of them 0.98 is the same."""

NO_NETWORK = """
import ipaddress, socket

def refusing(connect):
    def checked(self, address):
        if self.family != socket.AF_UNIX and not ipaddress.ip_address(address[0]).is_loopback:
            raise RuntimeError(f"the notebook wanted to connect to {address}")
        return connect(self, address)
    return checked

def no_names(host, *rest, **more):
    if host not in (None, "", "localhost", "127.0.0.1", "::1"):
        raise RuntimeError(f"the notebook looked up {host}")
    return lookup(host, *rest, **more)

lookup, socket.getaddrinfo = socket.getaddrinfo, no_names
socket.socket.connect = refusing(socket.socket.connect)
socket.socket.connect_ex = refusing(socket.socket.connect_ex)
"""


def code_cells(notebook: Path) -> list[dict[str, Any]]:
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the notebook beside the sample documents, with the outputs of its run."""
    folder = tmp_path_factory.mktemp("quickstart")
    (folder / "docs").mkdir()
    (folder / "knowledge_base").symlink_to(ROOT / "knowledge_base")
    notebook = Path(shutil.copy(NOTEBOOK, folder / "docs"))
    (folder / "guard").mkdir()
    (folder / "guard" / "sitecustomize.py").write_text(NO_NETWORK)
    (folder / "temporary").mkdir()
    env = {**os.environ, "PYTHONPATH": f"{folder / 'guard'}{os.pathsep}{ROOT}", "TMPDIR": str(folder / "temporary")}
    call = "import socket; socket.create_connection(('192.0.2.1', 9), timeout=1)"
    refused = subprocess.run([sys.executable, "-c", call], env=env, capture_output=True, text=True, check=False)
    assert "the notebook looked up 192.0.2.1" in refused.stderr
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--nbmake", "--overwrite", str(notebook)],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return notebook


def shown(cell: dict[str, Any]) -> str:
    """What a cell printed to stdout, then its result as a notebook shows it."""
    printed = [output["text"] for output in cell["outputs"] if output.get("name") == "stdout"]
    results = [o["data"].get("text/markdown", []) for o in cell["outputs"] if o["output_type"] == "execute_result"]
    return "".join("".join(lines) for lines in (*printed, *results))


def in_html(cell: dict[str, Any]) -> str:
    return "".join("".join(output.get("data", {}).get("text/html", [])) for output in cell["outputs"])


def without_figures(text: str) -> str:
    """Without scores and seconds, whose last digits differ between machines."""
    return re.sub(r"\d+\.\d+", "#", text)


def pieces(cells: Sequence[dict[str, Any]]) -> list[str]:
    """All that cells show, line by line and element by element."""
    return [one for cell in cells for one in re.split(r"\n|(?=<)", without_figures(shown(cell) + in_html(cell)))]


def test_nothing_in_it_says_when_or_where_it_ran() -> None:
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert [cell["metadata"] for cell in notebook["cells"]] == [{}] * len(notebook["cells"])
    assert notebook["metadata"]["language_info"] == {"name": "python"}
    assert not re.search(r"file://|[A-Z]:\\\\|kb-quickstart-\w|/(?:tmp|home|root|Users)/", NOTEBOOK.read_text("utf-8"))


def test_what_it_holds_is_what_a_run_shows(ran: Path) -> None:
    told = "docs/quickstart.ipynb is older than what it shows: python -m docs.make_quickstart --pictures"
    held, fresh = code_cells(NOTEBOOK), code_cells(ran)
    assert [cell["execution_count"] for cell in held] == [cell["execution_count"] for cell in fresh], told
    assert SequenceMatcher(None, pieces(held), pieces(fresh), autojunk=False).ratio() >= LEAST_SAME, told


def test_an_answer_is_held_as_html_too_and_loads_nothing(ran: Path) -> None:
    cells = [cell for cell in code_cells(ran) if in_html(cell)]
    assert len(cells) == len(["English", "Chinese", "Japanese", "hits", "too strict a cutoff", "not answered"])
    for cell in cells:
        assert in_html(cell).startswith('<div class="kb-answer')
        assert not re.search(r"<script|<link|https?:|src=|url\(", in_html(cell))
    titles = re.findall(r'class="kb-title">([^<]+)<', "".join(map(in_html, cells)))
    assert {"Sources", "来源", "出典", "Nearest passages", "Passages found: 3"} == set(titles)


def test_every_cell_runs_and_warns_of_nothing(ran: Path) -> None:
    cells = code_cells(ran)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert [output for cell in cells for output in cell["outputs"] if output.get("name") == "stderr"] == []


def test_it_shows_cited_answers_in_three_languages_and_one_that_is_not_there(ran: Path) -> None:
    of_source = {"".join(cell["source"]): shown(cell) for cell in code_cells(ran)}
    for question in ("How long", "退款政策", "パスワード"):
        assert any(question in source for source in of_source)
    asked = [text for source, text in of_source.items() if source.startswith("base.ask(") and "cutoff" not in source]
    assert len(asked) == 3
    for text in asked:
        assert "[1]" in text
        assert re.search(r"^\*\*\[1\]\*\* .+\n\n> .+", text, re.MULTILINE)
    unanswered = [text for text in of_source.values() if "Nearest passages:" in text]
    assert len(unanswered) == 2  # too strict a cutoff, and a question about something else
    assert any(text.startswith("answered: False\n") for text in unanswered)
