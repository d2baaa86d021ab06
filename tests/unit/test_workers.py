"""A file that hangs, crashes, explodes or lies costs that file: the others are read in order, and nothing is left."""

from __future__ import annotations

import gc
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kb.errors import KbError, LoadError
from kb.ingest.reading import open_reading
from kb.ingest.walk import FoundFile, walk
from kb.ingest.workers import Workers
from kb.loading import document_id, load_document, loader_suffixes
from kb.records import Block, Document, Heading, Page
from kb.settings import LoadingSection
from tests.end_to_end.test_ingest_interrupted import interrupted_at
from tests.hostile import PROJECT, children, copy_with_loader, is_running

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits and processes as Linux has them")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_with_loader(tmp_path_factory.mktemp("package"))


@pytest.fixture
def files(tmp_path: Path, package: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], FoundFile]:
    """Write a file that says what its loader is to do; workers have that loader, as they have our path."""
    monkeypatch.syspath_prepend(package)

    def write(deed: str) -> FoundFile:
        number = len(list(tmp_path.glob("*.deed")))
        path = tmp_path / f"{number:02}.deed"
        path.write_text(deed, encoding="utf-8")
        return FoundFile(path, path.name, len(deed), 0)

    return write


def workers(**settings: Any) -> Workers:
    return Workers(LoadingSection(**settings), {})


def reason(pool: Workers, file: FoundFile) -> str:
    with pytest.raises(LoadError) as caught:
        pool.begin(file)()
    assert caught.value.path == file.relative
    return caught.value.reason


# What comes


def test_documents_are_those_that_the_loaders_give_in_this_process() -> None:
    found = walk(PROJECT / "knowledge_base", frozenset(loader_suffixes())).files
    assert {file.path.suffix for file in found} >= {".md", ".pdf", ".docx", ".txt"}
    assert any("zh/" in file.relative for file in found)
    with workers() as pool:
        begun = [pool.begin(file) for file in found]
        documents = [document() for document in begun]
    assert documents == [load_document(file.path, file.relative) for file in found]


def test_no_field_of_a_document_is_lost_or_changed_on_its_way(files: Callable[[str], FoundFile]) -> None:
    expected = Document(
        document_id("00.deed"),
        "00.deed",
        "第一页 \u2028😀\n\nNUL-free ページ",
        '题 "名"',
        "deed",
        {"a": 1, "b": 1.0, "c": True, "d": "はい", "e": float("nan"), "f": float("-inf"), "g": 10**30},
        (Page(1, 0, 6), Page(2, 8, 8)),
        (Heading(2, "第一页", 0, 3),),
        (Block("table", 8, 12),),
        ("gone: \\ ü",),
    )
    empty = Document("", "", "", "", "")
    assert [name for name in Document.__slots__ if getattr(expected, name) == getattr(empty, name)] == []
    with workers() as pool:
        document = pool.begin(files("everything"))()
    assert repr(document) == repr(expected)  # NaN equals nothing


def test_a_file_whose_name_is_no_unicode_is_read(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9 \xff.txt")
    path.write_text("Words.", encoding="utf-8")
    with workers() as pool:
        (file,) = walk(tmp_path, {".txt"}).files
        assert pool.begin(file)().text == "Words."


def test_options_reach_the_loader(files: Callable[[str], FoundFile]) -> None:
    with Workers(LoadingSection(), {"deed": {"say": "密码 ü"}}) as pool:
        assert pool.begin(files("option"))().text == "密码 ü"


def test_what_the_loader_says_is_the_reason(tmp_path: Path) -> None:
    for name, content in (("a.pdf", b"no PDF"), ("b.txt", bytes(range(128, 256)) * 3)):
        (tmp_path / name).write_bytes(content)
        file = FoundFile(tmp_path / name, name, 0, 0)
        with pytest.raises(LoadError) as here:
            load_document(file.path, name)
        with workers() as pool:
            assert reason(pool, file) == here.value.reason


@pytest.mark.parametrize("count", [1, 2, 4])
def test_documents_come_in_the_order_of_their_files_whatever_the_timing(
    files: Callable[[str], FoundFile], count: int
) -> None:
    delays = [0.0, 0.6, *(random.Random(count).uniform(0, 0.6) for _ in range(10))]
    with workers(workers=count) as pool:
        found = [files(f"sleep {delay}") for delay in delays]
        begun = [pool.begin(file) for file in found]
        assert [document().path for document in begun] == [file.relative for file in found]


def test_files_are_read_at_the_same_time(files: Callable[[str], FoundFile]) -> None:
    with workers(workers=3, max_seconds=60) as pool:
        begun = [pool.begin(files("meet 3")) for _ in range(3)]  # none is done before all are begun
        assert [document().text for document in begun] == 3 * ["They met."]


def test_one_worker_is_enough_for_few_small_files_and_none_is_started_for_no_file(
    files: Callable[[str], FoundFile],
) -> None:
    with workers(workers=4) as pool:
        assert children() == []
        pids = {pool.begin(file)().text for file in [files("pid") for _ in range(8)]}
        assert len(pids) == 1
        assert children() == [int(pid) for pid in pids]
    assert children() == []


# What a file can do to its reader


@pytest.mark.parametrize(
    ("deed", "said"),
    [
        ("hang", "not read within 4 seconds; split it, or raise [loading] max_seconds"),
        ("spin", "not read within 4 seconds"),
        ("segfault", "the process that read it crashed (SIGSEGV); open and save it anew"),
        ("exit", "ended with exit status 3"),
        ("leave", "ended with exit status"),
        ("kill", "was killed (SIGKILL), perhaps because the machine had no memory left"),
        ("memory", "takes more than 200 MB of memory; split it, or raise [loading] max_memory_megabytes"),
        ("wrapped_memory", "takes more than 200 MB of memory"),
        ("native_memory", "the loader deed failed on it (OSError"),
        ("explode 3", "its text has more than 2 MB, headings included; split it, or raise [loading] max_text_meg"),
        ("head 100000", "its text has more than 2 MB, headings included"),
        ("wrong_span", "gave what is no document of it"),
        ("surrogate", "please report this file"),
        ("garbage", "gave no answer that makes sense"),
        ("forge other.deed", "gave what is no document of it"),
    ],
)
def test_a_bad_file_is_one_error_with_its_reason_and_the_next_one_is_read(
    files: Callable[[str], FoundFile], capfd: pytest.CaptureFixture[str], deed: str, said: str
) -> None:
    bad, good = files(deed), files("give 还在 まだ here")
    with workers(workers=1, max_seconds=4, max_memory_megabytes=200, max_text_megabytes=2) as pool:
        first, second = pool.begin(bad), pool.begin(good)
        with pytest.raises(LoadError) as caught:
            first()
        assert caught.value.path == bad.relative
        assert said in caught.value.reason
        assert "\n" not in caught.value.reason
        assert second().text == "还在 まだ here"
    assert children() == []
    assert capfd.readouterr() == ("", "")


def test_what_a_library_prints_reaches_neither_the_terminal_nor_the_answer(
    files: Callable[[str], FoundFile], capfd: pytest.CaptureFixture[str]
) -> None:
    with workers() as pool:
        assert pool.begin(files("noise quiet words"))().text == "quiet words"
    assert capfd.readouterr() == ("", "")


def test_a_worker_that_is_killed_between_two_files_costs_none(files: Callable[[str], FoundFile]) -> None:
    with workers(workers=1) as pool:
        pid = int(pool.begin(files("pid"))().text)
        os.kill(pid, signal.SIGKILL)
        time.sleep(0.2)
        assert int(pool.begin(files("pid"))().text) != pid


def test_memory_that_one_file_has_left_behind_is_not_taken_from_the_next(files: Callable[[str], FoundFile]) -> None:
    with workers(workers=1, max_memory_megabytes=400) as pool:
        pids = [pool.begin(files(deed))().text for deed in ("pid", "keep 20", "keep 250", "keep 250")]
    assert pids[0] == pids[1] == pids[2] != pids[3]


# The end


def test_an_error_of_the_caller_ends_all_workers_at_once_and_leaves_no_zombie(
    files: Callable[[str], FoundFile],
) -> None:
    hanging = [files("hang") for _ in range(4)]

    def interrupted() -> None:
        with workers(workers=2) as pool:
            for file in hanging:
                pool.begin(file)
            wait_until(lambda: hanging[1].path.with_suffix(".pid").exists())
            raise KeyboardInterrupt(time.monotonic())

    with pytest.raises(KeyboardInterrupt) as caught:
        interrupted()
    assert time.monotonic() - caught.value.args[0] < 2
    assert children() == []
    assert not any(thread.name.startswith("kb-read") for thread in threading.enumerate())


def test_an_interrupt_at_any_line_leaves_no_process(files: Callable[[str], FoundFile]) -> None:
    file = files("give x")

    def work() -> None:
        with workers() as pool:
            pool.begin(file)()

    line, lines = random.randint(-7, 0), 0  # an eighth of the lines, others each time
    while lines >= line:
        line += 8
        lines = interrupted_at(line, work, r"ingest[/\\]workers?\.py")
        gc.collect()
        assert children() == [], f"line {line}"
    assert line > 20, "workers were hardly used"


def test_closing_while_a_worker_starts_leaves_none_behind(files: Callable[[str], FoundFile]) -> None:
    for delay in (0.0, 0.01, 0.1):
        with workers(workers=2) as pool:
            begun = [pool.begin(files("hang")) for _ in range(3)]
            time.sleep(delay)
        assert children() == []
        for document in begun[:1]:
            with pytest.raises(KbError):
                document()


PARENT = """
import sys, time
from pathlib import Path
from kb.ingest.walk import FoundFile
from kb.ingest.workers import Workers
from kb.settings import LoadingSection

pool = Workers(LoadingSection(max_seconds=float(sys.argv[1])), {})
pool.begin(FoundFile(Path(sys.argv[2]), "a.deed", 1, 1))
time.sleep(600)
"""


@pytest.mark.parametrize(("deed", "limit", "within"), [("hang", 600, 5), ("give x", 600, 5), ("spin", 3, 15)])
def test_a_worker_ends_when_its_parent_is_killed(
    files: Callable[[str], FoundFile], package: Path, deed: str, limit: float, within: float
) -> None:
    file = files(deed)
    pid_file = file.path.with_suffix(".pid")
    with subprocess.Popen([sys.executable, "-c", PARENT, str(limit), str(file.path)], cwd=package) as parent:
        try:
            wait_until(lambda: pid_file.exists() and bool(pid_file.read_text()))
            assert is_running(pid_file)
        finally:
            parent.kill()
    wait_until(lambda: not is_running(pid_file), within)


def wait_until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


# What is not the file's fault


def test_a_process_that_cannot_be_started_ends_the_run_and_says_what_would_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("Words.")
    file = FoundFile(tmp_path / "a.txt", "a.txt", 6, 0)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no_python"))
    with workers() as pool, pytest.raises(KbError, match=r"No such file.*\[loading\] isolated = false") as caught:
        pool.begin(file)()
    assert not isinstance(caught.value, LoadError)
    with open_reading(LoadingSection(isolated=False)) as reading:
        assert reading.begin(file)().text == "Words."


def test_a_process_that_cannot_import_its_loaders_says_what_is_missing(
    tmp_path: Path, package: Path, files: Callable[[str], FoundFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = copy_with_loader(tmp_path / "broken")
    (broken / "kb" / "loading" / "needy.py").write_text("import no_such_package_of_anybody", encoding="utf-8")
    monkeypatch.syspath_prepend(broken)
    file = files("give x")
    with workers() as pool, pytest.raises(KbError, match=r"cannot be started: .*no_such_package_of_anybody"):
        pool.begin(file)()
