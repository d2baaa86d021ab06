from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from kb.errors import LockedError
from kb.ingest.lock import write_lock
from tests.commands import ROOT
from tests.lock_holder import another_process_holding


def test_a_second_process_is_told_at_once_who_holds_the_lock(tmp_path: Path) -> None:
    with another_process_holding(tmp_path / "kb") as process:
        began = time.monotonic()
        with pytest.raises(LockedError) as caught, write_lock(tmp_path / "kb"):
            pytest.fail("two writers at once")
        assert time.monotonic() - began < 1.0
        assert f"process {process.pid} on " in caught.value.holder
        assert " UTC" in caught.value.holder


def test_the_lock_is_free_after_its_holder_was_killed(tmp_path: Path) -> None:
    with another_process_holding(tmp_path / "kb") as process:
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=10)
    # What the dead process left beside the lock is overwritten by ours.
    told = pytest.raises(LockedError, match=f"process {os.getpid()} ")
    with write_lock(tmp_path / "kb") as lock, told, write_lock(tmp_path / "kb"):
        pass
    assert f"process {process.pid} on " in (lock.died.holder or "")
    with write_lock(tmp_path / "kb") as lock:
        assert lock.died.holder is None


def test_the_lock_is_free_after_its_holder_ended(tmp_path: Path) -> None:
    with another_process_holding(tmp_path / "kb") as process:
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(timeout=10) == 0
    with write_lock(tmp_path / "kb"):
        pass


def test_the_lock_is_free_after_an_error_and_can_be_taken_again(tmp_path: Path) -> None:
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), write_lock(tmp_path):
            raise ZeroDivisionError
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_two_spellings_of_one_folder_share_one_lock(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with write_lock(tmp_path / "real"), pytest.raises(LockedError), write_lock(tmp_path / "link" / ".." / "link"):
        pass


def test_two_collections_have_two_locks(tmp_path: Path) -> None:
    with write_lock(tmp_path / "a"), write_lock(tmp_path / "b"):
        pass


def test_another_thread_of_the_same_process_is_excluded_too(tmp_path: Path) -> None:
    told: list[str] = []

    def try_it() -> None:
        try:
            with write_lock(tmp_path):
                told.append("entered")
        except LockedError:
            told.append("refused")

    with write_lock(tmp_path):
        thread = threading.Thread(target=try_it)
        thread.start()
        thread.join()
    assert told == ["refused"]


def test_the_message_is_clear_when_the_holder_has_not_yet_said_its_name(tmp_path: Path) -> None:
    with write_lock(tmp_path):
        for content in (None, "", "{}", "[1]"):
            (tmp_path / "lock.holder").unlink(missing_ok=True)
            if content is not None:
                (tmp_path / "lock.holder").write_text(content, encoding="utf-8")
            with pytest.raises(LockedError, match="only just begun"), write_lock(tmp_path):
                pass


LEAVE_ONE_BEHIND = """
import subprocess, sys
from pathlib import Path
from kb.ingest.lock import write_lock
with write_lock(Path(sys.argv[1])) as lock:
    sleep = [sys.executable, "-c", "import time; time.sleep(1.5)"]
    subprocess.Popen(sleep, pass_fds=(lock.file,), stdout=subprocess.DEVNULL)
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="a process there cannot inherit the lock")
def test_who_a_killed_holder_left_behind_keeps_others_out_and_they_wait_for_its_end(tmp_path: Path) -> None:
    script = [sys.executable, "-c", LEAVE_ONE_BEHIND, str(tmp_path)]
    with subprocess.Popen(script, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        process.kill()
    began = time.monotonic()
    with write_lock(tmp_path) as lock:
        assert time.monotonic() - began > 0.5
        assert f"process {process.pid} on " in (lock.died.holder or "")
