"""Ingests over HTTP: begun, one after the other, watched, and told how they ended."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kb.ingest.lock import write_lock
from kb.loading import document_id
from tests.web_server import WebServer, serving

COLLECTION = "data/knowledge_base"
"""The folder whose lock an ingest takes."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    folder = tmp_path_factory.mktemp("served")
    with serving(folder, "[web]\nworkers = 1\n") as served:
        served.settled()
        yield served


@pytest.fixture
def documents(server: WebServer) -> Path:
    folder = server.folder / "documents"
    for entry in folder.iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    for number in range(3):
        (folder / f"document {number}.md").write_text(
            f"# Document {number}\n\n{os.urandom(8).hex()}\n", encoding="utf-8"
        )
    return folder


def begin(server: WebServer, **wanted: Any) -> dict[str, Any]:
    response = server.client.post("/ingest", json=wanted)
    assert response.status_code == 202, response.text
    job: dict[str, Any] = response.json()
    return job


def ended(server: WebServer, job: dict[str, Any]) -> dict[str, Any]:
    server.wait_until(lambda: told(server, job)["state"] in ("done", "failed"), "the ingest has ended")
    return told(server, job)


def told(server: WebServer, job: dict[str, Any]) -> dict[str, Any]:
    body: dict[str, Any] = server.client.get(f"/ingest/{job['id']}").json()
    return body


def in_step(server: WebServer) -> None:
    assert ended(server, begin(server, allow_removals=True))["state"] == "done"


def test_an_ingest_is_begun_and_tells_what_it_did(server: WebServer, documents: Path) -> None:
    job = begin(server, allow_removals=True)
    assert job["collection"] == "knowledge_base"
    assert job["state"] in ("waiting", "running")
    assert job["report"] is None
    job = ended(server, job)
    assert job["state"] == "done"
    assert job["message"].startswith("3 indexed")
    assert (job["done"], job["total"], job["stage"]) == (3, 3, "")
    assert job["started"] <= job["ended"]
    assert job["report"]["indexed"] == 3
    assert job["report"]["chunks_total"] == 3
    assert server.client.get("/ingest").json()["jobs"][0] == job


def test_a_second_ingest_finds_nothing_to_do_and_a_rebuild_does_all(server: WebServer, documents: Path) -> None:
    in_step(server)
    assert ended(server, begin(server))["report"]["unchanged"] == 3
    rebuilt = ended(server, begin(server, rebuild=True))
    assert rebuilt["report"]["indexed"] == 3
    assert rebuilt["report"]["embedded"] == 0


@pytest.mark.parametrize("name", ["broken.docx", "壊れた.pdf", "损坏.docx"])
def test_a_file_that_cannot_be_read_is_named_and_the_rest_is_done(
    server: WebServer, documents: Path, name: str
) -> None:
    (documents / name).write_bytes(b"no such thing")
    job = ended(server, begin(server, allow_removals=True))
    assert job["state"] == "done"
    assert "1 failed" in job["message"]
    assert name in job["message"]
    assert [problem["path"] for problem in job["report"]["problems"]] == [name]


def test_a_refused_ingest_has_failed_and_says_why_in_one_line(server: WebServer, documents: Path) -> None:
    in_step(server)
    for file in documents.iterdir():
        file.unlink()
    job = ended(server, begin(server))
    assert job["state"] == "failed"
    assert job["report"] is None
    assert "holds no document now" in job["message"]
    assert "\n" not in job["message"]
    assert server.client.get("/status").json()["documents"] == 3
    assert ended(server, begin(server, allow_removals=True))["report"]["removed"] == 3


def test_what_waits_for_the_same_is_one_ingest(server: WebServer, documents: Path) -> None:
    in_step(server)
    with write_lock(server.folder / COLLECTION):
        running = begin(server)
        server.wait_until(lambda: told(server, running)["state"] == "running", "it has begun")
        waiting = begin(server)
        rebuild = begin(server, rebuild=True)
        assert begin(server)["id"] == waiting["id"]
        assert begin(server, rebuild=True)["id"] == rebuild["id"]
        assert len({running["id"], waiting["id"], rebuild["id"]}) == 3
        assert told(server, waiting)["state"] == "waiting"
        assert server.client.get("/status").json()["ingesting"] is True
        server.wait_until(lambda: "another ingest" in told(server, running)["message"], "it says for whom it waits")
    assert [ended(server, job)["state"] for job in (running, waiting, rebuild)] == ["done"] * 3
    starts = [told(server, job)["started"] for job in (running, waiting, rebuild)]
    assert starts == sorted(starts)
    server.settled()


def test_a_stream_tells_of_each_change_and_ends_with_the_ingest(server: WebServer, documents: Path) -> None:
    with ExitStack() as until_released:
        until_released.enter_context(write_lock(server.folder / COLLECTION))
        job = begin(server, allow_removals=True)
        with server.client.stream("GET", f"/ingest/{job['id']}/events") as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            told_of = []
            for name, body in server.events(response):
                told_of.append((name, body))
                assert body["id"] == job["id"]
                if "another ingest" in body["message"]:
                    until_released.close()
    names = [name for name, _ in told_of]
    assert names == ["progress"] * (len(names) - 1) + ["done"]
    assert told_of[0][1]["state"] in ("waiting", "running")
    assert told_of[-1][1] == told(server, job)
    assert told_of[-1][1]["state"] == "done"


def test_a_stream_of_an_ingest_that_has_ended_says_so_at_once(server: WebServer, documents: Path) -> None:
    job = ended(server, begin(server, allow_removals=True))
    with server.client.stream("GET", f"/ingest/{job['id']}/events") as response:
        assert list(server.events(response)) == [("progress", job), ("done", job)]


def test_deleting_during_a_long_ingest_is_answered_before_its_text_is_gone(server: WebServer, documents: Path) -> None:
    in_step(server)
    files = {"file": ("short.md", b"Soon deleted.")}
    document = server.client.post("/documents", files=files).json()["document"]
    server.settled()
    with write_lock(server.folder / COLLECTION):
        response = server.client.delete(f"/documents/{document['id']}")
        assert response.status_code == 202
        assert not (documents / document["path"]).exists()
        assert server.client.get(f"/documents/{document['id']}").status_code == 200
    assert ended(server, {"id": response.json()["job"]})["report"]["removed"] == 1
    assert server.client.get(f"/documents/{document['id']}").status_code == 404


def test_uploads_and_deletions_that_wait_become_one_ingest(server: WebServer, documents: Path) -> None:
    in_step(server)
    with write_lock(server.folder / COLLECTION):
        running = begin(server)
        server.wait_until(lambda: told(server, running)["state"] == "running", "it has begun")
        answers = [
            server.client.post("/documents", files={"file": (f"together {number}.md", os.urandom(8).hex().encode())})
            for number in range(4)
        ]
        assert {answer.status_code for answer in answers} == {201}
        [job] = {answer.json()["job"] for answer in answers}
        [*_, last] = answers
        assert server.client.get("/documents").json()["documents"][0]["status"] == "waiting"
        assert server.client.delete(f"/documents/{last.json()['document']['id']}").json()["job"] == job
    assert ended(server, running)["report"]["indexed"] == 3  # it looks at the folder only now
    assert ended(server, {"id": job})["report"]["unchanged"] == 3
    assert server.client.get(f"/documents/{document_id('uploads/together 3.md')}").status_code == 404


def test_unknown_ingests_collections_and_fields_are_refused(server: WebServer) -> None:
    assert server.client.get("/ingest/0123").status_code == 404
    assert server.client.get("/ingest/0123/events").status_code == 404
    assert server.client.post("/ingest", json={"collection": "nowhere"}).status_code == 404
    assert server.client.post("/ingest", json={"folder": "/"}).status_code == 422
    assert server.client.post("/ingest", json={"rebuild": "perhaps"}).status_code == 422


def test_the_server_ends_though_an_ingest_goes_on(tmp_path: Path) -> None:
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents/one.md").write_text("One.")
    with write_lock(tmp_path / COLLECTION), serving(tmp_path, "[web]\nworkers = 1\n") as server:
        assert server.client.get("/status").json()["ingesting"] is True
        assert server.end(signal.SIGTERM) == 0  # long before it would have given up waiting for the lock
        assert not any("Traceback" in line for line in server.log)
