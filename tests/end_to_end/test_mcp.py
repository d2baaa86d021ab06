"""The official client, over stdio and over HTTP: the same tools, the same results."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import jsonschema
import pytest
from mcp import StdioServerParameters, stdio_client
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from kb import KnowledgeBase
from tests.commands import INGEST, command, environment, one_line, run
from tests.llm_server import Reply, Request, Serve, chunk, stream_bytes
from tests.pdf_writer import pdf
from tests.web_server import WebServer, serving

DOCUMENTS = {
    "limits.md": "# Limits\n\nA 429 means too many requests. Wait as long as Retry-After says.\n",
    "退款.md": "# 退款政策\n\n退款在七天内退回原支付方式。运费不予退还。\n",
    "休暇.md": "# 休暇規程\n\n有給休暇は年に二十日あります。申請は三日前までに行います。\n",
}
QUESTIONS = [
    ("What does a 429 mean?", "limits.md"),
    ("退款在几天内退回原支付方式？", "退款.md"),
    ("有給休暇は何日ありますか？", "休暇.md"),
]
TOKEN = "a-token-that-nobody-guesses-0123"

Check = Callable[[Client, Path], Awaitable[None]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("agents")
    (folder / "documents").mkdir()
    for name, text in DOCUMENTS.items():
        (folder / "documents" / name).write_text(text, encoding="utf-8")
    (folder / "documents" / "guide.pdf").write_bytes(pdf([["The first page."], ["The second page is about herons."]]))
    (folder / "config.toml").write_text('documents_dir = "documents"\ndata_dir = "data"\n')
    assert run(INGEST, cwd=folder).returncode == 0
    assert run(INGEST, "--collection", "other", cwd=folder).returncode == 0
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[WebServer]:
    web = "[web]\ningest_at_start = false\nworkers = 1\n"
    with serving(folder, web, env={"KNOWLEDGE_BASE_TOKEN": TOKEN}) as served:
        yield served


@asynccontextmanager
async def over_stdio(folder: Path) -> AsyncIterator[Client]:
    line = command("kb.mcp")
    parameters = StdioServerParameters(command=line[0], args=line[1:], env=environment(), cwd=folder)
    async with Client(stdio_client(parameters)) as client:
        yield client


@asynccontextmanager
async def over_http(server: WebServer) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60, trust_env=False) as http,
        Client(streamable_http_client(f"{server.url}/mcp", http_client=http)) as client,
    ):
        yield client


async def called(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    schema = next(one for one in (await client.list_tools()).tools if one.name == tool).output_schema
    jsonschema.validate(result.structured_content, schema)
    return {**result.structured_content, "read": text(result)}


def text(result: Any) -> str:
    return "".join(block.text for block in result.content)


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return text(result)


async def tools_say_what_they_do_and_change_nothing(client: Client, folder: Path) -> None:
    tools = (await client.list_tools()).tools
    assert [tool.name for tool in tools] == ["search", "ask", "read_document", "list_documents", "status"]
    for tool in tools:
        assert tool.description
        assert tool.output_schema
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint


async def an_answer_is_cited_and_each_quote_can_be_read_where_it_stands(client: Client, folder: Path) -> None:
    for question, source in QUESTIONS:
        answer = await called(client, "ask", question=question)
        assert answer["answered"]
        assert answer["citations"][0]["source"] == source
        assert answer["claims"][0]["verdict"] == "supported"
        for one in answer["citations"]:
            place = {"document_id": one["document_id"], "start": one["start"], "end": one["end"]}
            assert (await called(client, "read_document", **place))["text"] == one["quote"]
            assert f"[{one['number']}] {source}" in answer["read"]
            assert one["quote"] in answer["read"]
    nothing = await called(client, "ask", question="Xyzzy plugh?")
    assert (nothing["answered"], nothing["citations"]) == (False, [])


async def passages_are_found_with_their_places(client: Client, folder: Path) -> None:
    for question, source in QUESTIONS:
        found = await called(client, "search", query=question, top_k=2)
        best = found["passages"][0]
        assert best["source"] == source
        assert len(found["passages"]) <= 2
        assert best["text"] in found["read"]
    narrowed = await called(client, "search", query="what is the second page about?", where=["kind=pdf"])
    assert {one["source"] for one in narrowed["passages"]} == {"guide.pdf"}
    other = await called(client, "search", query=QUESTIONS[0][0], collection="other")
    assert other["passages"][0]["source"] == "limits.md"


async def documents_are_listed_and_read_by_page(client: Client, folder: Path) -> None:
    first = await called(client, "list_documents", limit=3)
    rest = await called(client, "list_documents", limit=3, after=first["next"])
    paths = [one["path"] for one in (*first["documents"], *rest["documents"])]
    assert paths == sorted([*DOCUMENTS, "guide.pdf"])
    assert (first["total"], rest["next"]) == (4, None)
    (guide,) = (await called(client, "list_documents", find="guide"))["documents"]
    page = await called(client, "read_document", document_id=guide["document_id"], page=2)
    assert "herons" in page["text"]
    assert "first" not in page["text"]
    assert page["pages"] == 2


async def documents_are_resources(client: Client, folder: Path) -> None:
    resources = (await client.list_resources()).resources
    assert {one.name for one in resources} == {*DOCUMENTS, "guide.pdf"}
    chinese = next(one for one in resources if one.name == "退款.md")
    (content,) = (await client.read_resource(chinese.uri)).contents
    with KnowledgeBase.open(folder / "config.toml") as base:
        document = base.catalogue.document(str(chinese.uri).rpartition("/")[2])
    assert document is not None
    assert getattr(content, "text", None) == document.text
    (template,) = (await client.list_resource_templates()).resource_templates
    assert template.uri_template == "kb://documents/{document_id}"
    with pytest.raises(MCPError, match="no document"):
        await client.read_resource("kb://documents/nothing")


async def the_state_of_the_collection_is_told(client: Client, folder: Path) -> None:
    status = await called(client, "status")
    assert (status["documents"], status["failed"]) == (4, 0)
    assert status["collections"] == ["knowledge_base", "other"]
    assert status["last_ingest"]["ended"] == "done"


async def what_cannot_be_done_is_told_in_a_sentence(client: Client, folder: Path) -> None:
    assert "no collection 'nowhere'" in await refused(client, "ask", question="a?", collection="nowhere")
    assert "empty" in await refused(client, "ask", question="  ")
    assert "4,000" in await refused(client, "search", query="x" * 4001)
    assert "colour" in await refused(client, "search", query="a", where=["colour=red"])
    assert "no document" in await refused(client, "read_document", document_id="../../etc/passwd")
    listed = await called(client, "list_documents", find="limits")
    identity = listed["documents"][0]["document_id"]
    assert "no page 2" in await refused(client, "read_document", document_id=identity, page=2)
    assert "top_k" in await refused(client, "search", query="a", top_k=0)


async def several_calls_at_once_are_not_mixed_up(client: Client, folder: Path) -> None:
    async def asked(number: int) -> None:
        question, source = QUESTIONS[number % 3]
        result = await client.call_tool("ask", {"question": question})
        assert result.structured_content is not None
        assert {one["source"] for one in result.structured_content["citations"]} == {source}

    async with anyio.create_task_group() as tasks:
        for number in range(9):
            tasks.start_soon(asked, number)


CHECKS: list[Check] = [
    tools_say_what_they_do_and_change_nothing,
    an_answer_is_cited_and_each_quote_can_be_read_where_it_stands,
    passages_are_found_with_their_places,
    documents_are_listed_and_read_by_page,
    documents_are_resources,
    the_state_of_the_collection_is_told,
    what_cannot_be_done_is_told_in_a_sentence,
    several_calls_at_once_are_not_mixed_up,
]


@pytest.mark.parametrize("check", CHECKS)
def test_over_http(server: WebServer, folder: Path, check: Check) -> None:
    async def connected() -> None:
        async with over_http(server) as client:
            await check(client, folder)

    anyio.run(connected)


def test_over_stdio(folder: Path) -> None:
    async def connected() -> None:
        async with over_stdio(folder) as client:
            for check in CHECKS:
                await check(client, folder)

    anyio.run(connected)


class Thinking:
    """A chat model that begins an answer and never ends it."""

    def __init__(self) -> None:
        self.asked = threading.Event()

    def script(self, request: Request) -> Reply:
        return Reply(200, self._pieces(), content_type="text/event-stream")

    def _pieces(self) -> Iterator[bytes]:
        self.asked.set()
        yield stream_bytes([chunk("", role="assistant"), chunk("A 429 means")], done=False)
        while True:
            time.sleep(0.05)
            yield b": still thinking\n\n"  # so that it learns that its client has gone


@pytest.mark.parametrize("way", ["stdio", "http"])
def test_a_call_that_is_cancelled_stops_the_model(
    tmp_path: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    model = Thinking()
    service = serve(model.script)
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents" / "limits.md").write_text(DOCUMENTS["limits.md"])
    config = '[web]\ningest_at_start = false\nworkers = 1\n[generation]\nuse = "openai"\n'
    (tmp_path / "config.toml").write_text(f'documents_dir = "documents"\ndata_dir = "data"\n{config}')
    assert run(INGEST, cwd=tmp_path).returncode == 0
    for name, value in {"OPENAI_API_KEY": "sk-none", "OPENAI_BASE_URL": service.base_url}.items():
        monkeypatch.setenv(name, value)

    async def work(client: Client) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "ask", {"question": QUESTIONS[0][0]})
            await anyio.to_thread.run_sync(model.asked.wait, 30)
            tasks.cancel_scope.cancel()
        with anyio.fail_after(30):
            while not service.left:
                await anyio.sleep(0.05)
        assert (await called(client, "status"))["documents"] == 1

    async def connected() -> None:
        if way == "stdio":
            async with over_stdio(tmp_path) as client:
                await work(client)
        else:
            with serving(tmp_path, config, env={"KNOWLEDGE_BASE_TOKEN": TOKEN}) as server:
                async with over_http(server) as client:
                    await work(client)

    anyio.run(connected)


# ── over stdio ──


def started(folder: Path, **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command("kb.mcp"),
        cwd=folder,
        env=environment(**variables),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def frame(number: int, method: str, **parameters: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": parameters}) + "\n"


HELLO = frame(
    1, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "test", "version": "1"}
)
READY = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}) + "\n"


def test_stdout_holds_messages_only_whatever_libraries_print(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\n"
        "class Noisy:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name in ('kb.recall', 'kb.generation._rows', 'kb.claims'):\n"
        "            print('noise by print', flush=True)\n"
        "            os.write(1, b'noise by a descriptor\\n')\n"
        "            os.system('echo noise by a child')\n"
        "sys.meta_path.insert(0, Noisy())\n"
    )
    path = os.pathsep.join((str(tmp_path), str(Path(__file__).parents[2])))
    process = started(folder, PYTHONPATH=path)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(HELLO + READY + frame(2, "tools/call", name="ask", arguments={"question": QUESTIONS[0][0]}))
    process.stdin.flush()
    told = [json.loads(process.stdout.readline()) for _ in range(2)]
    rest, said = process.communicate(timeout=60)
    assert [one["id"] for one in told] == [1, 2]
    assert told[1]["result"]["structuredContent"]["answered"] is True
    assert rest == ""
    assert process.returncode == 0
    assert "noise" in said


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_as_asked(folder: Path, how: signal.Signals) -> None:
    process = started(folder)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(HELLO)
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["result"]["serverInfo"]["name"] == "kb"
    process.send_signal(how)
    assert process.wait(30) == 0
    process.communicate()


def test_a_wrong_setting_is_one_line_on_stderr(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[generation]\nuse = "openai"\n')
    done = run("kb.mcp", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "OPENAI_API_KEY" in one_line(done)


def test_without_its_package_the_pip_line_is_printed(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['mcp'] = None\n")
    path = f"{tmp_path}:{Path(__file__).parents[2]}"
    done = run("kb.mcp", cwd=tmp_path, env={"PYTHONPATH": path})
    assert (done.returncode, done.stdout) == (2, "")
    assert "pip install" in one_line(done)
    assert "'mcp" in done.stderr


def test_its_help_is_printed_without_any_of_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "kb.mcp", "--help"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert imported.isdisjoint({"mcp", "numpy", "pydantic", "anyio"})


# ── over HTTP ──


def test_over_http_nobody_comes_in_without_the_token(server: WebServer) -> None:
    for path in ("/mcp", "/mcp/"):
        assert server.client.post(path, content=HELLO).status_code == 401
    evil = {"Authorization": f"Bearer {TOKEN}", "Origin": "https://evil.example"}
    assert server.client.post("/mcp", content=HELLO, headers=evil).status_code == 403
