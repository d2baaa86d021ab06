"""`python -m pipelines.ingest --watch`: a folder in use, from the first run to Ctrl-C."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
from pathlib import Path
from queue import Queue
from typing import IO

import pytest

from kb.ingest.lock import write_lock
from pipelines import ingest
from tests.commands import INGEST, SECONDS, command, environment
from tests.end_to_end._bases import UNREADABLE, Place, a_text


def lines_of(stream: IO[str]) -> Queue[str]:
    lines: Queue[str] = Queue()

    def read() -> None:
        for line in stream:
            lines.put(line)

    threading.Thread(target=read, daemon=True).start()
    return lines


def test_each_change_is_one_line_what_fails_is_said_and_ctrl_c_ends_it(tmp_path: Path) -> None:
    place = Place(tmp_path / "docs", tmp_path / "kb_data")
    for name in ("a", "b", "c"):
        place.write(f"{name}.md", a_text([name]))
    place.write("picture.png", b"no document")
    with subprocess.Popen(
        command(INGEST, str(place.documents), "--watch"),
        cwd=tmp_path,
        env=environment(KB_LOADING__ISOLATED="false"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            follow(place, process, tmp_path)
        finally:
            process.kill()


def follow(place: Place, process: subprocess.Popen[str], elsewhere: Path) -> None:
    assert process.stdout
    assert process.stderr
    said, complaints = lines_of(process.stdout), lines_of(process.stderr)
    assert re.match(r"\d\d:\d\d:\d\d 4 files: 3 indexed, 0 unchanged", said.get(timeout=2 * SECONDS))
    assert complaints.get(timeout=SECONDS).startswith("skipped: picture.png: ")
    with write_lock(place.folder):  # held only while it works
        pass
    place.write("d.md", UNREADABLE)
    assert "3 unchanged, 1 skipped, 1 failed" in said.get(timeout=SECONDS)
    assert complaints.get(timeout=SECONDS).startswith("failed: d.md: ")
    away = place.documents.rename(elsewhere / "away")
    assert "does not exist (is a disk not mounted?)" in complaints.get(timeout=SECONDS)
    away.rename(place.documents)
    assert "3 unchanged, 1 skipped, 1 failed" in said.get(timeout=SECONDS)
    place.write("d.md", a_text(["d"]))
    assert "1 indexed, 3 unchanged" in said.get(timeout=SECONDS)
    process.send_signal(signal.SIGINT)
    assert process.wait(SECONDS) == 0
    assert (said.qsize(), complaints.qsize()) == (0, 0), "what was complained about once is not said again"


@pytest.mark.parametrize("other", ["--rebuild", "--allow-removals", "--dry-run"])
def test_watching_goes_with_nothing_that_is_meant_once(other: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ingest.main(["docs", "--watch", other]) == 2
    assert "--watch goes with none of" in capsys.readouterr().err


def test_a_folder_that_is_not_there_and_never_was_is_no_folder_to_wait_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KB_EMBEDDING__USE", "hashing")
    assert ingest.main(["nowhere", "--watch"]) == 2
    assert "nowhere does not exist" in capsys.readouterr().err
