"""Disks that are full or read-only, and folders that belong to somebody else: said clearly, and nothing is lost."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands import INGEST, command, environment, run
from tests.fork_server import ForkServer

TASKS = "tests.disk_tasks"


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with ForkServer(TASKS) as started:
        yield started


@pytest.fixture(scope="module")
def own_disks(server: ForkServer) -> ForkServer:
    """The server, where its tasks can mount disks of their own."""
    reason = server.call(f"{TASKS}:why_no_mounts")
    if reason:
        pytest.skip(reason)
    return server


# The lock, the ledger and Chroma are the first to find no room; a few kilobytes more or less do not matter.
@pytest.mark.parametrize("free_kilobytes", [0, 200, 300])
def test_a_full_disk_is_said_and_what_was_there_is_kept_and_the_next_run_ends_right(
    tmp_path: Path, own_disks: ForkServer, free_kilobytes: int
) -> None:
    seen = own_disks.call(f"{TASKS}:full_disk", folder=str(tmp_path), free_kilobytes=free_kilobytes)
    assert "ake room" in seen["said"]
    assert "--rebuild" not in seen["said"], "building anew takes even more room"
    assert seen["found"] if isinstance(seen["found"], list) else "make room" in seen["found"]
    assert seen["differs"] == []


def test_a_full_disk_for_the_report_is_one_line_and_status_2_and_what_was_done_is_kept(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# One\n\nText.\n", encoding="utf-8")
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command(INGEST, "docs", "--json"), cwd=tmp_path, env=environment(), stdout=full, stderr=subprocess.PIPE,
            check=False,
        )  # fmt: skip
    assert done.stderr.decode() == "error: the output cannot be written: No space left on device\n"
    assert done.returncode == 2
    assert "0 indexed, 1 unchanged" in run(INGEST, "docs", cwd=tmp_path).stdout


def test_a_read_only_disk_is_said_to_who_ingests_and_who_asks_and_nothing_is_changed(
    tmp_path: Path, own_disks: ForkServer
) -> None:
    seen = own_disks.call(f"{TASKS}:read_only_disk", folder=str(tmp_path))
    assert "knowledge_base cannot be written: Read-only file system. Mend that, or choose another" in seen["said"]
    assert "its disk is read-only, which is needed for questions too" in seen["found"]
    assert (seen["report"]["indexed"], seen["report"]["chunks_total"]) == (1, 1)


CLOSED = {
    "data": "data/knowledge_base cannot be written: Permission denied. Mend that",
    "data/knowledge_base/ledger.sqlite": "ledger.sqlite cannot be read and written by this user",
    "data/knowledge_base/generations/1": "generations/1/in-step-with-ledger cannot be read: Permission denied",
    "data/knowledge_base/generations/1/chroma.sqlite3": "chroma.sqlite3 cannot be read and written by this user",
    "documents": "documents' cannot be listed: Permission denied",
}


def test_a_folder_or_file_that_belongs_to_somebody_else_is_named_and_nothing_is_lost(
    tmp_path: Path, server: ForkServer
) -> None:
    _let_others_in(tmp_path)
    seen = server.call(f"{TASKS}:another_user", folder=str(tmp_path), closed=list(CLOSED))
    assert {path: says for path, says in CLOSED.items() if says not in str(seen["said"][path])} == {}, seen["said"]
    report = seen["report"]
    assert (report["indexed"], report["unchanged"], report["chunks_total"], report["failed"]) == (1, 1, 2, 0)


def _let_others_in(folder: Path) -> None:
    """Let another user reach a test's folder, which only root's tests need."""
    if os.getuid() == 0:
        for path in [folder, *folder.parents][:4]:
            if path.stat().st_uid == 0 and path.name.startswith(("pytest-", "popen-", "test_")):
                path.chmod(0o711)
