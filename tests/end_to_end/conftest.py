"""What several of these tests need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

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
