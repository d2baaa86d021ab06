"""When a watched folder is ingested again: after a change of what counts, and when the folder itself goes or comes."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, Queue

import pytest

from kb.errors import ConfigError
from kb.ingest.watch import watch_folder

SECONDS = 30.0
"""A busy machine is slow."""
QUIET_SECONDS = 1.0
"""So long nothing comes when nothing is due: changes are taken together for less than half of it."""


class Runs:
    """What `watch_folder` calls: it can be waited for, and fails on demand."""

    def __init__(self) -> None:
        self._calls: Queue[None] = Queue()
        self.fails = 0

    def __call__(self) -> bool:
        self.fails -= 1
        self._calls.put(None)
        return self.fails < 0

    def wait(self) -> None:
        self._calls.get(timeout=SECONDS)

    def none_comes(self) -> bool:
        try:
            self._calls.get(timeout=QUIET_SECONDS)
        except Empty:
            return True
        return False


@contextmanager
def watched(root: Path, *not_in: Path, fails: int = 0) -> Iterator[Runs]:
    runs, stop = Runs(), threading.Event()
    runs.fails = fails
    thread = threading.Thread(
        target=watch_folder, args=(root, not_in, runs), kwargs={"stop": stop, "retry_seconds": 0.1}
    )
    thread.start()
    try:
        runs.wait()  # the first one is due at once
        yield runs
    finally:
        stop.set()
        thread.join(SECONDS)
        assert not thread.is_alive()


def test_changes_that_come_together_are_one_run_and_those_of_nobodys_files_are_none(tmp_path: Path) -> None:
    root, data = tmp_path / "documents", tmp_path / "documents" / "kb_data"
    data.mkdir(parents=True)
    (root / ".git").mkdir()
    with watched(root, data) as runs:
        (data / "ledger.sqlite").write_text("x", encoding="utf-8")
        (root / ".git" / "index").write_text("x", encoding="utf-8")
        (root / "~$open.docx").write_text("x", encoding="utf-8")
        assert runs.none_comes()
        for number in range(20):
            (root / f"{number}.md").write_text("x", encoding="utf-8")
        runs.wait()
        assert runs.none_comes()
        for change in (lambda: (root / ".kbignore").write_text("*.txt"), (root / "1.md").unlink):
            change()
            runs.wait()


def test_a_folder_that_goes_and_comes_back_is_noticed_and_watched_again(tmp_path: Path) -> None:
    root = tmp_path / "documents"
    root.mkdir()
    with watched(root) as runs:
        root.rename(tmp_path / "away")
        runs.wait()
        root.mkdir()  # as when a disk is not mounted, and another one after it
        runs.wait()
        (root / "a.md").write_text("x", encoding="utf-8")
        runs.wait()


def test_what_failed_is_tried_again_without_a_change_until_it_is_done(tmp_path: Path) -> None:
    with watched(tmp_path, fails=3) as runs:
        for _ in range(3):
            runs.wait()
        assert runs.none_comes()


def test_a_data_folder_around_the_documents_hides_no_change(tmp_path: Path) -> None:
    with watched(tmp_path, tmp_path, tmp_path / "notes") as runs:
        (tmp_path / "a.md").write_text("x", encoding="utf-8")
        runs.wait()


def test_a_missing_package_is_an_error_that_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    with pytest.raises(ConfigError, match=r"pip install 'kb\[watch\]'"):
        watch_folder(tmp_path, (), lambda: True)
