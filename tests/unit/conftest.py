"""What several unit tests share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.llm_server import Script, ScriptedServer, scripted_server


@pytest.fixture
def serve() -> Iterator[Callable[[Script], ScriptedServer]]:
    """Start servers on loopback that follow a script; they end with the test."""
    with ExitStack() as servers:
        yield lambda script: servers.enter_context(scripted_server(script))
