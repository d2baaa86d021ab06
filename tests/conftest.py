"""What all tests share: no setting of the person who runs them reaches a test."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest

# A busy machine is slow now and then, which says nothing about the code; in CI a run must be repeatable.
hypothesis.settings.register_profile("kb", deadline=None, derandomize=bool(os.environ.get("CI")))
hypothesis.settings.load_profile("kb")

# A job in the background ignores Ctrl-C, and so would every process that a test starts and interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)


# Files that take longest begin first, so that no processor waits for another at the end.
# Together with --no-loadscope-reorder: by itself xdist begins with the files of the most tests.
_LONGEST = (
    "test_golden.py",
    "test_ingest_dask.py",
    "test_golden_stores.py",
    "test_quickstart.py",
    "test_stores.py",
    "test_ingest_crash.py",
    "test_workers.py",
    "test_conversation.py",
    "test_ingest_isolation.py",
)


@pytest.hookimpl(trylast=True)  # after the files were shuffled
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    first = {name: place for place, name in enumerate(_LONGEST)}
    items.sort(key=lambda item: first.get(item.path.name, len(first)))


@pytest.fixture(scope="session", autouse=True)
def no_user_settings() -> Iterator[None]:
    """Take the person's own settings and keys out of the environment, before any other fixture runs."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.upper().startswith(("KB_", "OPENAI_")):
                patch.delenv(name)
        yield


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Work in an empty folder; calling the fixture writes its config.toml and .env and gives the folder."""
    monkeypatch.chdir(tmp_path)

    def write(config: str | None = None, env: str | None = None) -> Path:
        for name, text in (("config.toml", config), (".env", env)):
            if text is not None:
                (tmp_path / name).write_text(text, encoding="utf-8")
        return tmp_path

    return write
