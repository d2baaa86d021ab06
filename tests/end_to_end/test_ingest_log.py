"""What a program sees of an ingest that goes on: the log, line by line, and nothing where nobody asked."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest

from tests.commands import INGEST, one_line, run
from tests.end_to_end._bases import NUMBERS, UNREADABLE, CountingEmbedder, Place, a_text
from tests.llm_server import embedding_rows, embeddings_reply, scripted_server

SECRET = "sk-secret-7391"


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    for number in NUMBERS:
        (folder / f"文书 {number}.md").write_text(a_text([f"zebra {number}"]), encoding="utf-8")
    (folder / "broken.md").write_bytes(UNREADABLE)
    (folder / "picture.png").write_bytes(b"\x89PNG")
    return folder


def events(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text("utf-8").splitlines()]


def test_the_log_has_each_step_and_file_as_json_and_neither_texts_nor_keys(tmp_path: Path, documents: Path) -> None:
    with scripted_server(lambda request: embeddings_reply(request, embedding_rows(request, 8))) as server:
        service = {
            "USE": "openai",
            "OPENAI__BASE_URL": server.base_url,
            "OPENAI__MODEL": "m",
            "OPENAI__VOCABULARY": "bytes",
        }
        variables = {f"KB_EMBEDDING__{name}": value for name, value in service.items()}
        done = run(INGEST, "docs", "--log-json", "log.jsonl", cwd=tmp_path, env=variables, OPENAI_API_KEY=SECRET)
    assert done.returncode == 1
    log = events(tmp_path / "log.jsonl")
    assert [line["event"] for line in log if line["event"] in ("started", "planned", "finished")] == [
        "started", "planned", "finished",
    ]  # fmt: skip
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", line["time"]) for line in log)
    files = {line["path"]: line for line in log if line["event"] == "file"}
    assert {path: line["outcome"] for path, line in files.items()} == {
        **{f"文书 {number}.md": "indexed" for number in NUMBERS}, "broken.md": "failed", "picture.png": "skipped",
    }  # fmt: skip
    assert files["文书 two.md"]["chunks"] == 1
    assert files["文书 two.md"]["seconds"] >= 0
    assert "broken.md" not in files["broken.md"]["reason"]
    assert sum(line["texts"] for line in log if line["event"] == "texts embedded") == 12
    assert sum(line["rows"] for line in log if line["event"] == "store written") == 12
    summary = log[-1]
    assert (summary["event"], summary["indexed"], summary["failed"]) == ("finished", 12, 1)
    whole = (tmp_path / "log.jsonl").read_text("utf-8")
    assert "zebra" not in whole
    assert SECRET not in whole


def test_a_second_run_appends_and_the_error_that_ends_a_run_is_in_the_log(tmp_path: Path, documents: Path) -> None:
    assert run(INGEST, "docs", "--log-json", "log.jsonl", cwd=tmp_path).returncode == 1
    before = len(events(tmp_path / "log.jsonl"))
    refused = run(INGEST, "elsewhere", "--log-json", "log.jsonl", cwd=tmp_path)
    log = events(tmp_path / "log.jsonl")
    assert [line["event"] for line in log[before:]] == ["started", "error"]
    assert log[-1]["error"] == "RemovalRefusedError"
    assert one_line(refused) == f"error: {log[-1]['said']}"


@pytest.mark.parametrize("place", ["missing/log.jsonl", "docs"])
def test_a_log_that_cannot_be_opened_is_one_line_and_status_2(tmp_path: Path, documents: Path, place: str) -> None:
    done = run(INGEST, "docs", "--log-json", place, cwd=tmp_path)
    assert one_line(done).startswith(f"error: the log {place} cannot be opened: ")
    assert done.returncode == 2
    assert not (tmp_path / "kb_data").exists()


def test_a_log_that_finds_no_room_is_said_once_and_the_ingest_goes_on(tmp_path: Path, documents: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    (documents / "broken.md").unlink()
    done = run(INGEST, "docs", "--log-json", "/dev/full", cwd=tmp_path)
    notes = [line for line in done.stderr.splitlines() if line.startswith("note: ")]
    assert len(notes) == 1, done.stderr
    assert "the log /dev/full cannot be written any more" in notes[0]
    assert done.returncode == 0


def test_a_program_sees_events_by_the_logger_kb_and_nothing_is_printed_unasked(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    place = Place(tmp_path / "documents", tmp_path / "data", embedder=CountingEmbedder())
    place.write("a.md", a_text(["one", "two"]))
    place.ingest()
    assert capfd.readouterr() == ("", "")
    place.write("b.md", a_text(["three"]))
    (place.documents / "a.md").unlink()
    with caplog.at_level(logging.INFO, logger="kb"):
        place.ingest()
    fields = [getattr(record, "fields", {}) for record in caplog.records if record.getMessage() == "file"]
    assert [(line["path"], line["outcome"]) for line in fields] == [("a.md", "removed"), ("b.md", "indexed")]
    handlers = logging.getLogger("kb").handlers
    assert [type(handler) for handler in handlers if type(handler) is logging.NullHandler] == [logging.NullHandler]
