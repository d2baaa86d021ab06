"""A file that hangs or crashes its parser is one line of the report; everything else is as if it weren't there."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from kb.ledger.ledger import Ledger
from tests.commands import INGEST, command, environment
from tests.end_to_end._bases import Place, a_text
from tests.hostile import copy_with_loader, is_running

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits and processes as Linux has them")

DEEDS = {
    "a_hang": "hang",
    "c_crash": "segfault",
    "e_exit": "exit",
    "f_memory": "memory",
    "g_noise": "noise These words are between much noise.",
    "h_boom": "explode 3",
    "j_killed": "kill",
}
SMALL_CHUNKS = {"KB_CHUNKING__RECURSIVE__SIZE_TOKENS": "24", "KB_CHUNKING__RECURSIVE__MIN_TOKENS": "0"}
LIMITS = {
    "KB_LOADING__MAX_SECONDS": "4",
    "KB_LOADING__MAX_MEMORY_MEGABYTES": "200",
    "KB_LOADING__MAX_TEXT_MEGABYTES": "2",
}
TEXTS = {"b.md": a_text(["one"]), "d.md": "# 标题\n\n这是第一段，讲的是运费。", "i.txt": "これは倉庫についての文です。"}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_with_loader(tmp_path_factory.mktemp("package"))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "documents", tmp_path / "data")


def settings(place: Place, package: Path, **variables: str) -> dict[str, str]:
    folders = {"KB_DOCUMENTS_DIR": str(place.documents), "KB_DATA_DIR": str(place.data)}
    return environment(**folders, **SMALL_CHUNKS, **LIMITS | variables) | {"PYTHONPATH": str(package)}


def ingest(place: Place, package: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(INGEST, *arguments),
        cwd=package,
        env=settings(place, package, **variables),
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


def write_bad_and_good(place: Place) -> None:
    for name, deed in DEEDS.items():
        place.write(f"{name}.deed", deed)
    for name, text in TEXTS.items():
        place.write(name, text)


def contents(place: Place) -> list[tuple[Any, ...]]:
    """All chunks, by document and position."""
    with Ledger(place.folder, read_only=True) as ledger:
        generation = ledger.current_generation()
        assert generation is not None
        return [(found.source, found.chunk) for found in ledger.all_chunks(generation.number)]


def test_each_bad_file_is_one_line_and_the_rest_is_indexed(place: Place, package: Path) -> None:
    write_bad_and_good(place)
    done = ingest(place, package)
    assert done.returncode == 1
    assert "10 files: 4 indexed, 0 unchanged, 0 skipped, 6 failed" in done.stdout
    expected = {
        "a_hang": "not read within 4 seconds",
        "c_crash": "crashed (SIGSEGV)",
        "e_exit": "exit status 3",
        "f_memory": "more than 200 MB of memory",
        "h_boom": "more than 2 MB",
        "j_killed": "was killed (SIGKILL)",
    }
    lines = done.stderr.splitlines()
    assert [line.split(": ")[1] for line in lines] == [f"{name}.deed" for name in expected]
    for line, said in zip(lines, expected.values(), strict=True):
        assert line.startswith("failed: ")
        assert said in line
    sources = {source for source, _ in contents(place)}
    assert sources == {*TEXTS, "g_noise.deed"}


def test_what_was_read_before_stays_when_the_file_crashes_its_parser_now(place: Place, package: Path) -> None:
    place.write("a.deed", "give Parcels are weighed at the gate.")
    place.write("b.md", a_text(["one"]))
    assert ingest(place, package, "--quiet").returncode == 0
    place.write("a.deed", "segfault")
    for _ in range(2):  # it is tried again, and reported again, in every run
        done = ingest(place, package, "--json")
        report = json.loads(done.stdout)
        assert (report["failed"], report["unchanged"]) == (1, 1)
        assert [chunk.text for source, chunk in contents(place) if source == "a.deed"] == [
            "Parcels are weighed at the gate."
        ]


def test_ids_and_order_of_chunks_do_not_depend_on_the_number_of_workers_or_their_timing(
    tmp_path: Path, package: Path
) -> None:
    documents = tmp_path / "documents"
    found = {}
    for name, variables in {
        "here": {"KB_LOADING__ISOLATED": "false"},
        **{str(count): {"KB_LOADING__WORKERS": str(count)} for count in (1, 3)},
    }.items():
        place = Place(documents, tmp_path / f"data {name}")
        for number, delay in enumerate((0.9, 0.0, 0.7, 0.0, 0.8, 0.1, 0.6, 0.0, 0.9, 0.2)):
            # The slow ones are others each time; what is read of them is the same.
            seconds = delay * random.random() / 2
            place.write(f"{number}.deed", f"sleep {seconds}")
            place.write(f"{number} 文.md", a_text(["one", "二", f"の {number}"]))
        assert ingest(place, package, "--quiet", **variables).returncode == 0
        found[name] = contents(place)
    assert len(found["here"]) == 10 * (1 + 3)
    assert found["1"] == found["3"] == found["here"]


def test_ctrl_c_ends_the_run_and_the_file_that_hangs(place: Place, package: Path) -> None:
    hanging = place.write("a.deed", "hang").with_suffix(".pid")
    process = subprocess.Popen(
        command(INGEST),
        cwd=package,
        env=settings(place, package, KB_LOADING__MAX_SECONDS="600"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with process:
        wait_for(hanging)
        began = time.monotonic()
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers as well
        output, said = process.communicate(timeout=20)
    assert time.monotonic() - began < 2.0
    assert process.returncode == 130
    assert (output, len(said.splitlines())) == ("", 1)
    assert not is_running(hanging)


def wait_for(pid_file: Path) -> None:
    deadline = time.monotonic() + 60
    while not (pid_file.exists() and pid_file.read_text()):
        assert time.monotonic() < deadline, "the file was never begun"
        time.sleep(0.05)


WATCHED = """
import sys
started = []
sys.addaudithook(lambda event, arguments: started.append(event) if event == "subprocess.Popen" else None)
from kb.knowledge_base import KnowledgeBase
with KnowledgeBase.open(None) as base:
    report = base.ingest()
print(report.indexed, len(started))
"""


def test_no_process_is_started_when_there_is_nothing_to_read(place: Place, package: Path) -> None:
    file = place.write("a.md", a_text(["one"]))

    def run(**variables: str) -> str:
        ours = settings(place, package, **variables)
        return subprocess.check_output([sys.executable, "-c", WATCHED], env=ours, cwd=package, text=True).strip()

    assert run() == "1 1"
    assert run() == "0 0"
    os.utime(file, ns=(1, 1))  # the content is the known one
    assert run() == "0 0"
    place.write("b.md", a_text(["two"]))
    assert run(KB_LOADING__ISOLATED="false") == "1 0"


SCRIPT = """
print("started")
from kb import KnowledgeBase
print(KnowledgeBase.open(None).ingest().indexed)
"""


@pytest.mark.parametrize("started_by", ["file", "file elsewhere", "stdin", "-c"])
def test_a_script_without_a_guard_is_not_run_again_by_the_workers(
    place: Place, package: Path, tmp_path: Path, started_by: str
) -> None:
    for name, text in TEXTS.items():
        place.write(name, text)
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    arguments = {"file": ["script.py"], "file elsewhere": [str(script)], "stdin": ["-"], "-c": ["-c", SCRIPT]}
    done = subprocess.run(
        [sys.executable, "-W", "error", *arguments[started_by]],
        input=SCRIPT if started_by == "stdin" else "",
        cwd=package if started_by == "file elsewhere" else tmp_path,
        env=settings(place, package),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout == "started\n3\n"
