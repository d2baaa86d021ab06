"""`python -m pipelines.ingest`: what it prints, where, and its exit status; as a process."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from kb.ingest.lock import write_lock
from tests.commands import INGEST, ROOT, command, environment, one_line, run, screen
from tests.llm_server import Reply, Request, embedding_rows, embeddings_reply, scripted_server

KEYS = [
    "files", "indexed", "unchanged", "removed", "skipped", "failed", "chunks_added", "chunks_removed", "chunks_total",
    "embedded", "embedding_calls", "tokens", "seconds", "problems", "dry_run", "dollars", "expected_seconds",
]  # fmt: skip


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    return folder


def ingest(cwd: Path, *arguments: str) -> dict[str, Any]:
    done = run(INGEST, "--json", *arguments, cwd=cwd)
    assert done.stdout.count("\n") == 1, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_folder_is_knowledge_base_and_a_second_run_does_nothing(tmp_path: Path) -> None:
    write(tmp_path / "knowledge_base", a="# One\n\nFirst text.\n", b="# Two\n\nSecond text.\n")
    first = run(INGEST, cwd=tmp_path)
    assert re.fullmatch(
        r"2 files: 2 indexed, 0 unchanged, 0 skipped, 0 failed\n"
        r"2 chunks \(2 added, 0 removed\); 2 texts embedded, \d+ tokens, \d+\.\d s\n",
        first.stdout,
    )
    assert (first.stderr, first.returncode) == ("", 0)
    second = ingest(tmp_path)
    assert list(second) == KEYS
    assert (second["files"], second["unchanged"], second["indexed"]) == (2, 2, 0)
    assert (second["chunks_total"], second["embedded"], second["embedding_calls"]) == (2, 0, 0)


def test_the_report_counts_what_was_done_and_names_what_was_not(tmp_path: Path) -> None:
    folder = write(tmp_path / "docs", a="# One\n\nFirst text.\n", b="# Two\n\nSecond text.\n")
    (folder / "picture.png").write_bytes(b"\x89PNG")
    assert ingest(tmp_path, "docs")["indexed"] == 2
    (folder / "a.md").unlink()
    write(folder, b="# Two\n\nSecond text, edited.\n", c="# Three\n\nThird.\n")
    found = ingest(tmp_path, "docs")
    counts = {name: found[name] for name in KEYS[:11]}
    assert counts == {
        "files": 3, "indexed": 2, "unchanged": 0, "removed": 1, "skipped": 1, "failed": 0,
        "chunks_added": 2, "chunks_removed": 2, "chunks_total": 2, "embedded": 2, "embedding_calls": 1,
    }  # fmt: skip
    assert [(p["path"], p["status"]) for p in found["problems"]] == [("picture.png", "skipped")]
    assert "no loader reads .png" in found["problems"][0]["reason"]


def test_a_file_that_cannot_be_read_is_named_and_the_status_is_1(tmp_path: Path) -> None:
    folder = write(tmp_path / "docs", a="# One\n\nFirst text.\n")
    (folder / "broken.pdf").write_bytes(b"%PDF-1.4\nnothing else\n")
    done = run(INGEST, "docs", cwd=tmp_path)
    assert one_line(done).startswith("failed: broken.pdf: ")
    assert done.stdout.startswith("2 files: 1 indexed, 0 unchanged, 0 skipped, 1 failed\n")
    assert done.returncode == 1
    again = run(INGEST, "docs", "--json", cwd=tmp_path)
    problems = json.loads(again.stdout)["problems"]
    assert [(list(p), p["path"], p["status"]) for p in problems] == [
        (["path", "status", "reason"], "broken.pdf", "failed")
    ]
    assert (again.returncode, again.stderr) == (1, "")
    quiet = run(INGEST, "docs", "--quiet", cwd=tmp_path)
    assert (quiet.stdout, quiet.returncode) == ("", 1)
    assert one_line(quiet).startswith("failed: broken.pdf: ")


def test_quiet_says_nothing_when_nothing_is_wrong(tmp_path: Path) -> None:
    folder = write(tmp_path / "docs", a="# One\n\nFirst text.\n")
    (folder / "picture.png").write_bytes(b"\x89PNG")
    done = run(INGEST, "docs", "--quiet", cwd=tmp_path)
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


def test_many_skipped_files_are_counted_after_the_first_twenty(tmp_path: Path) -> None:
    folder = write(tmp_path / "docs", a="# One\n\nFirst text.\n")
    for number in range(25):
        (folder / f"{number:02}.png").write_bytes(b"\x89PNG")
    done = run(INGEST, "docs", cwd=tmp_path)
    lines = done.stderr.splitlines()
    assert len(lines) == 20 + 1
    assert lines[-1] == "skipped: 5 more, all listed by --json"


def test_a_warning_that_many_files_share_is_one_line_and_all_of_them_are_in_the_json(tmp_path: Path) -> None:
    """Here that a chunker could not make chunks of the size that is set, as the embedder takes less."""
    write(tmp_path / "docs", **dict.fromkeys("abcd", "# Notes\n\n" + "word " * 600), short="# Notes\n\nOne.\n")
    done = run(INGEST, "docs", cwd=tmp_path, KB_CHUNKING__USE="fixed")
    said = "some chunks end before size_words = 500: hashing takes no more than 448 tokens beside the header (64)"
    assert done.stderr.splitlines() == [f"warning: 4 files, a.md the first: {said}"]
    assert done.returncode == 0
    again = run(INGEST, "docs", "--rebuild", "--json", cwd=tmp_path, KB_CHUNKING__USE="fixed")
    warned = [{"path": f"{name}.md", "status": "warning", "reason": said} for name in "abcd"]
    assert json.loads(again.stdout)["problems"] == warned
    small = run(INGEST, "docs", cwd=tmp_path, KB_CHUNKING__USE="fixed", KB_CHUNKING__FIXED__SIZE_WORDS="400")
    assert small.stderr == ""


def test_collections_and_configurations_are_kept_apart_and_a_rebuild_costs_no_embedding(tmp_path: Path) -> None:
    write(tmp_path / "docs", a="# One\n\nFirst text.\n")
    (tmp_path / "other.toml").write_text('data_dir = "elsewhere"\ndocuments_dir = "docs"\n')
    assert ingest(tmp_path, "docs", "--collection", "我的笔记")["indexed"] == 1
    assert ingest(tmp_path, "docs", "--collection", "notes")["indexed"] == 1
    assert ingest(tmp_path, "--config", "other.toml")["indexed"] == 1
    assert len(list((tmp_path / "kb_data").iterdir())) == 2
    assert (tmp_path / "elsewhere" / "knowledge_base").is_dir()
    rebuilt = ingest(tmp_path, "docs", "--collection", "notes", "--rebuild")
    assert (rebuilt["indexed"], rebuilt["embedded"], rebuilt["chunks_total"]) == (1, 0, 1)


# --------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("arguments", "variables", "says"),
    [
        ([""], {}, "argument FOLDER: should not be blank"),
        (["docs", "more"], {}, "unrecognized arguments: more"),
        (["docs", "--collection", ""], {}, "argument --collection: should not be blank"),
        (["nowhere"], {}, "nowhere does not exist"),
        (["docs/a.md"], {}, "a.md is not a folder"),
        (["empty"], {}, "holds no document that can be read"),
        (["pictures"], {}, "holds no document that can be read (and 1 other file"),
        (["docs", "--config", "nowhere.toml"], {}, "there is no such configuration file"),
        (["docs", "--config", "broken.toml"], {}, "this is no valid TOML"),
        (["docs"], {"KB_DATA_DIR": "docs/a.md"}, "cannot be written"),
        (["docs"], {"KB_EMBEDDING__USE": "openai"}, "needs an API key, but OPENAI_API_KEY is not set"),
        (["docs"], {"KB_CHUNKING__USE": "clever"}, "KB_CHUNKING__USE: [chunking] use: allowed: "),
    ],
)
def test_what_cannot_run_is_one_line_and_status_2(
    tmp_path: Path, arguments: list[str], variables: dict[str, str | None], says: str
) -> None:
    write(tmp_path / "docs", a="# One\n\nFirst text.\n")
    write(tmp_path / "empty")
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "a.png").write_bytes(b"\x89PNG")
    (tmp_path / "broken.toml").write_text("= 3")
    done = run(INGEST, *arguments, cwd=tmp_path, env=variables)
    line = one_line(done)
    assert line.startswith("error: ")
    assert says in line
    assert (done.stdout, done.returncode) == ("", 2)


def test_another_or_a_missing_folder_and_another_embedder_are_refused_for_a_known_collection(tmp_path: Path) -> None:
    write(tmp_path / "docs", a="# One\n\nFirst text.\n")
    write(tmp_path / "other", a="# One\n\nFirst text.\n")
    assert ingest(tmp_path, "docs")["indexed"] == 1
    other = run(INGEST, "other", cwd=tmp_path)
    assert re.fullmatch(
        r"error: this collection holds 1 documents? of .*docs, and .*other is another folder.*", one_line(other)
    )
    embedder = run(INGEST, "docs", cwd=tmp_path, KB_EMBEDDING__HASHING__DIMENSION="64")
    assert "was built with the embedder hashing:256" in one_line(embedder)
    shutil.rmtree(tmp_path / "docs")
    gone = run(INGEST, "docs", cwd=tmp_path)
    assert re.fullmatch(r"error: .*docs does not exist.*; nothing was changed.*", one_line(gone))
    assert [done.returncode for done in (other, embedder, gone)] == [2, 2, 2]


def test_a_second_ingest_is_told_who_is_at_it(tmp_path: Path) -> None:
    write(tmp_path / "docs", a="# One\n\nFirst text.\n")
    with write_lock(tmp_path / "kb_data" / "knowledge_base"):
        done = run(INGEST, "docs", cwd=tmp_path)
    assert one_line(done).startswith(f"error: another ingest is writing to this collection (process {os.getpid()} on ")
    assert done.returncode == 2


def test_an_ingest_that_was_killed_is_noted_once_by_the_next_one_which_goes_on(tmp_path: Path) -> None:
    write(tmp_path / "docs", a="# One\n\nFirst text.\n")
    folder = tmp_path / "kb_data" / "knowledge_base"
    held = (
        f"import os, pathlib\nfrom kb.ingest.lock import write_lock\nwith write_lock(pathlib.Path({str(folder)!r})):\n"
    )
    killed = subprocess.run([sys.executable, "-c", f"{held}    os.kill(os.getpid(), 9)"], cwd=ROOT, check=False)
    assert killed.returncode == -signal.SIGKILL
    done = run(INGEST, "docs", cwd=tmp_path)
    who = r"process \d+ on .+, since .+ UTC"
    note = rf"note: the last ingest \({who}\) was killed before its end; this one goes on from there"
    assert re.fullmatch(note, one_line(done))
    assert done.returncode == 0
    assert run(INGEST, "docs", cwd=tmp_path).stderr == ""


def test_what_nobody_foresaw_has_a_traceback_and_status_70(tmp_path: Path) -> None:
    write(tmp_path / "docs", a="# One\n\nFirst text.\n")
    package = tmp_path / "package"
    for name in ("kb", "pipelines"):
        shutil.copytree(ROOT / name, package / name, ignore=shutil.ignore_patterns("__pycache__"))
    fault = "from kb.settings import ComponentOptions as Options\n"
    fault += "def build(options, parts):\n    raise RuntimeError('x')\n"
    (package / "kb" / "chunking" / "faulty.py").write_text(fault)
    done = run(INGEST, "docs", "--json", cwd=tmp_path, PYTHONPATH=str(package), KB_CHUNKING__USE="faulty")
    assert (done.stdout, done.returncode) == ("", 70)
    assert done.stderr.startswith("Traceback (most recent call last):")
    assert done.stderr.endswith("RuntimeError: x\n")


# -------------------------------------------------------------------------------- signals, pipes, terminals


def test_ctrl_c_is_one_line_and_status_130_and_what_was_done_is_kept(tmp_path: Path) -> None:
    write(tmp_path / "docs", **{f"f{number}": f"# Number {number}\n\nText {number}.\n" for number in range(6)})
    second_batch, may_answer = threading.Event(), threading.Event()

    def script(request: Request) -> Reply:
        if len(server.requests) > 2:  # one that measures the dimension, one for the first batch
            second_batch.set()
            may_answer.wait(60)
        return embeddings_reply(request, embedding_rows(request, 8))

    with scripted_server(script) as server:
        variables: dict[str, str | None] = {
            "KB_EMBEDDING__USE": "openai",
            "KB_EMBEDDING__OPENAI__BASE_URL": server.base_url,
            "KB_EMBEDDING__OPENAI__MODEL": "m",
            "KB_EMBEDDING__OPENAI__VOCABULARY": "bytes",
            "KB_INGEST__BATCH_CHUNKS": "4",
            "OPENAI_API_KEY": "k",
        }
        process = subprocess.Popen(
            command(INGEST, "docs"), cwd=tmp_path, env=environment(**variables),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert second_batch.wait(60)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
        may_answer.set()
        assert errors == "interrupted; what was done is kept, the same command goes on from here\n"
        assert (output, process.returncode) == ("", 130)
        done = json.loads(run(INGEST, "docs", "--json", cwd=tmp_path, env=variables).stdout)
    assert done["unchanged"] > 0
    assert done["indexed"] == done["embedded"] == 6 - done["unchanged"]


def test_a_reader_that_has_seen_enough_and_a_closed_output_are_no_error(tmp_path: Path) -> None:
    write(tmp_path / "docs", a="# One\n\nFirst text.\n")
    start = " ".join(command(INGEST, "docs"))
    for ending in ("| true", ">&- 2>&-"):
        done = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {start} {ending}"],
            cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert (done.stderr, done.returncode) == ("", 0)


def test_names_of_files_do_not_paint_the_terminal_and_no_bar_is_left_behind(tmp_path: Path) -> None:
    folder = write(tmp_path / "docs", a="# One\n\nFirst text.\n")
    (folder / "b\x1b[31m\n\x1b]0;owned\x07.pdf").write_bytes(b"no pdf")
    status, seen = screen(INGEST, "docs", cwd=tmp_path)
    assert status == 1
    # On a busy machine a bar may have been there.
    left = [line.rpartition("\r")[2] for line in seen.strip().split("\n")]
    assert [line.split()[0] for line in left] == ["failed:", "2", "1"]
    assert not re.search("[\x00-\x1f\x7f-\x9f]", "".join(left))


def test_a_folder_whose_name_is_no_text_is_one_line_and_status_2(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"d\xffcs")
    try:
        write(folder, a="# One\n\nFirst text.\n")
    except OSError:
        pytest.skip("this file system knows only names that are text")
    done = run(INGEST, str(folder), cwd=tmp_path)
    assert re.fullmatch(
        r"error: the path of the folder .*d\\udcffcs' is no text in UTF-8; rename the folder", one_line(done)
    )
    assert done.returncode == 2
