"""What several of these tests need."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.end_to_end import _sample
from tests.llm_server import Script, ScriptedServer, Serve, scripted_server


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers on loopback are reached directly, whatever the environment says."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts scripted servers, which are closed after the test."""
    with ExitStack() as servers:

        def start(script: Script) -> ScriptedServer:
            return servers.enter_context(scripted_server(script))

        yield start


@pytest.fixture(scope="module")
def sample_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder of its own with the sample documents, ingested with all defaults."""
    made = _sample.ingested(tmp_path_factory.getbasetemp())
    return Path(shutil.copytree(made, tmp_path_factory.mktemp("sample") / "data"))
