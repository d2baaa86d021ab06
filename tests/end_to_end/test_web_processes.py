"""The processes behind a server: what is asked of them at once, when one dies, when a client or the server goes."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from kb.web.answering import broken
from tests.commands import INGEST, one_line, run
from tests.llm_server import Reply, Request, ScriptedServer, chunk, stream_bytes
from tests.web_server import WebServer, serving

QUESTION = "What does a 429 mean?"
SAID = "A 429 means too many requests [1]."
KEY = "sk-not-a-real-key-0123456789"
SERVE = "kb.serve"


class Model:
    """Says one piece, and the rest when it is let go."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.asked = threading.Semaphore(0)

    def script(self, request: Request) -> Reply:
        return Reply(200, self._pieces(), content_type="text/event-stream")

    def _pieces(self) -> Iterator[bytes]:
        self.asked.release()
        yield stream_bytes([chunk("", role="assistant"), chunk("A 429 means ")], done=False)
        while not self.go.wait(0.05):
            yield b": still thinking\n\n"  # so that it learns that its client has gone
        yield stream_bytes([chunk("too many requests [1]."), chunk(None, "stop")])


@pytest.fixture
def model() -> Iterator[Model]:
    made = Model()
    yield made
    made.go.set()


@contextmanager
def asking_a_model(folder: Path, base_url: str, web: str) -> Iterator[WebServer]:
    ingested(folder)
    config = f'[web]\ningest_at_start = false\n{web}\n[generation]\nuse = "openai"\n[conversation]\nrewrite = "words"\n'
    with serving(folder, config, env={"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": base_url}) as server:
        yield server


def ingested(folder: Path) -> None:
    (folder / "documents").mkdir(exist_ok=True)
    (folder / "documents" / "limits.md").write_text("# Limits\n\nA 429 means too many requests. Wait a moment.\n")
    (folder / "config.toml").write_text('documents_dir = "documents"\ndata_dir = "data"\n')
    assert run(INGEST, cwd=folder).returncode == 0


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def eventually(holds: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def model_server(model: Model, serve: Callable[..., ScriptedServer]) -> ScriptedServer:
    return serve(model.script)


def test_a_client_that_goes_away_stops_the_model(tmp_path: Path, model: Model, model_server: ScriptedServer) -> None:
    with asking_a_model(tmp_path, model_server.base_url, "workers = 1\nat_once = 1") as server:
        with server.client.stream("POST", "/ask/stream", json={"question": QUESTION}) as response:
            events = server.events(response)
            assert next(events)[0] == "hits"
            assert next(events) == ("text", {"text": "A 429 means"})
        eventually(lambda: len(model_server.left) == 1)
        # Its place is free again, and one who waits for a whole answer can go as well.
        with pytest.raises(httpx.ReadTimeout):
            server.client.post("/ask", json={"question": QUESTION}, timeout=1.0)
        eventually(lambda: len(model_server.left) == 2)
        model.go.set()
        assert server.client.post("/ask", json={"question": QUESTION}).json()["text"] == SAID


def test_a_silent_stream_shows_that_it_is_alive(tmp_path: Path, model: Model, model_server: ScriptedServer) -> None:
    with (
        asking_a_model(tmp_path, model_server.base_url, "workers = 1\nheartbeat_seconds = 0.1") as server,
        server.client.stream("POST", "/ask/stream", json={"question": QUESTION}) as response,
    ):
        lines = response.iter_lines()
        pings = 0
        while pings < 3:
            pings += next(lines) == ": ping"
        model.go.set()
        rest = list(lines)
    assert "event: done" in rest


def test_more_than_can_be_answered_and_may_wait_is_refused_with_a_time(
    tmp_path: Path, model: Model, model_server: ScriptedServer
) -> None:
    with (
        asking_a_model(tmp_path, model_server.base_url, "workers = 1\nat_once = 2\nwaiting = 3") as server,
        ThreadPoolExecutor(8) as clients,
    ):
        asked = [
            clients.submit(httpx.post, f"{server.url}/ask", json={"question": QUESTION}, timeout=60, trust_env=False)
            for _ in range(8)
        ]
        eventually(lambda: sum(one.done() for one in asked) == 3)
        refused = [one.result() for one in asked if one.done()]
        assert [(one.status_code, one.json()["error"]) for one in refused] == [(503, "busy")] * 3
        assert all(int(one.headers["retry-after"]) >= 1 for one in refused)
        assert server.client.get("/readyz").status_code == 200
        model.go.set()
        answers = [one.result() for one in asked]
    assert sorted(one.status_code for one in answers) == [200] * 5 + [503] * 3
    assert {one.json()["text"] for one in answers if one.status_code == 200} == {SAID}


def test_a_process_that_is_killed_fails_its_question_alone_and_is_replaced(
    tmp_path: Path, model: Model, model_server: ScriptedServer
) -> None:
    with asking_a_model(tmp_path, model_server.base_url, "workers = 2\nat_once = 1") as server:
        eventually(lambda: len(children(server.process.pid)) == 2)
        with server.client.stream("POST", "/ask/stream", json={"question": QUESTION}) as response:
            events = server.events(response)
            assert next(events)[0] == "hits"
            before = children(server.process.pid)
            for child in before:
                os.kill(child, signal.SIGKILL)
            rest = list(events)
        name, told = rest[-1]
        assert (name, told["error"], told["status"]) == ("error", "worker_died", 503)
        assert "SIGKILL" in told["message"]
        model.go.set()
        assert server.client.post("/ask", json={"question": QUESTION}).json()["text"] == SAID
        eventually(lambda: len(set(children(server.process.pid)) - set(before)) == 2)
        assert "another one is started" in "".join(server.log)


def test_who_reads_slowly_holds_no_process(tmp_path: Path, serve: Callable[..., ScriptedServer]) -> None:
    long = "A 429 means too many requests [1]. " * 100_000  # more than the sockets between hold

    def script(request: Request) -> Reply:
        said = long if "slowly" in str(request.body["messages"][-1]) else SAID
        return Reply(200, [stream_bytes([chunk(said), chunk(None, "stop")])], content_type="text/event-stream")

    web = "workers = 1\nat_once = 1\nidle_seconds = 2"
    with (
        asking_a_model(tmp_path, serve(script).base_url, web) as server,
        server.client.stream("POST", "/ask/stream", json={"question": "slowly: what does a 429 mean?"}) as slow,
    ):
        assert next(server.events(slow))[0] == "hits"
        answer = httpx.post(f"{server.url}/ask", json={"question": QUESTION}, timeout=60, trust_env=False)
        assert answer.json()["text"] == SAID


def test_what_is_ingested_meanwhile_is_found_by_all_processes(tmp_path: Path) -> None:
    ingested(tmp_path)
    with serving(tmp_path, "[web]\ningest_at_start = false\nworkers = 2\n") as server:
        eventually(lambda: len(children(server.process.pid)) == 2)
        asked = [server.client.get("/search", params={"q": "garden gnomes"}).json()["hits"] for _ in range(4)]
        assert "gnomes.md" not in str(asked)
        (tmp_path / "documents" / "gnomes.md").write_text("# Gnomes\n\nGarden gnomes guard the server room.\n")
        assert run(INGEST, cwd=tmp_path).returncode == 0
        with ThreadPoolExecutor(4) as clients:
            found = list(clients.map(lambda _: server.client.get("/search", params={"q": "garden gnomes"}), range(8)))
        assert all("gnomes.md" in one.text for one in found)


def test_questions_are_answered_while_the_server_ingests(tmp_path: Path) -> None:
    ingested(tmp_path)
    for number in range(60):
        (tmp_path / "documents" / f"more-{number}.md").write_text(f"# More {number}\n\nNothing about requests.\n")
    with serving(tmp_path, "[web]\nworkers = 1\n") as server:
        for _ in range(10):
            assert server.client.post("/ask", json={"question": QUESTION}).json()["answered"] is True
        eventually(
            lambda: "more-59" in server.client.get("/search", params={"q": "More 59 nothing about requests"}).text
        )


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_as_asked_and_leaves_no_process_behind(tmp_path: Path, how: signal.Signals) -> None:
    ingested(tmp_path)
    with serving(tmp_path, "[web]\nworkers = 2\n") as server:
        eventually(lambda: len(children(server.process.pid)) >= 2)
        behind = children(server.process.pid)
        assert server.end(how) == 0
        eventually(lambda: not any(map(is_alive, behind)))
        assert [line for line in server.log if "kb answers at" not in line] == []


def test_an_answer_under_way_comes_to_its_end_when_the_server_is_asked_to_end(
    tmp_path: Path, model: Model, model_server: ScriptedServer
) -> None:
    with (
        asking_a_model(tmp_path, model_server.base_url, "workers = 1") as server,
        ThreadPoolExecutor(1) as client,
    ):
        asked = client.submit(server.client.post, "/ask", json={"question": QUESTION})
        assert model.asked.acquire(timeout=30)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        model.go.set()
        assert asked.result().json()["text"] == SAID
        assert server.process.wait(30) == 0


def test_a_killed_server_takes_its_processes_with_it(tmp_path: Path) -> None:
    ingested(tmp_path)
    with serving(tmp_path, "[web]\nworkers = 2\ningest_at_start = false\n") as server:
        eventually(lambda: len(children(server.process.pid)) == 2)
        behind = children(server.process.pid)
        server.end(signal.SIGKILL)
        eventually(lambda: not any(map(is_alive, behind)))


def test_a_key_that_is_missing_is_told_before_anything_is_served(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[generation]\nuse = "openai"\n')
    done = run(SERVE, "--port", "0", cwd=tmp_path)
    assert done.returncode == 2
    assert one_line(done).startswith("error: ")
    assert "OPENAI_API_KEY" in done.stderr


@pytest.mark.parametrize("store", ['use = "qdrant"', 'use = "qdrant"\n[store.qdrant]\nin_memory = true'])
def test_a_store_that_processes_cannot_share_is_refused(tmp_path: Path, store: str) -> None:
    (tmp_path / "config.toml").write_text(f"[store]\n{store}\n")
    done = run(SERVE, "--port", "0", cwd=tmp_path, env={"KB_STORE__USE": None})
    assert done.returncode == 2
    assert "one process only" in one_line(done)


def test_what_fails_without_being_foreseen_is_told_without_what_was_asked(caplog: pytest.LogCaptureFixture) -> None:
    told = broken(ZeroDivisionError("a secret question"))
    assert told.name == "error"
    assert '"status": 500' in told.data
    assert "ZeroDivisionError" in caplog.text
    assert "secret" not in told.data + caplog.text
