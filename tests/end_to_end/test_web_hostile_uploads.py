"""Hostile uploads: whatever name or file is sent, nothing else is touched, every answer is a documented one."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.hostile_uploads import BODIES, CONTENTS, FORM, NAMES, part
from tests.web_server import WebServer, serving

UPLOADS = "documents/uploads"


@dataclass
class Aftermath:
    """What has been sent, what was answered, and how everything was before and is now."""

    server: WebServer
    before: dict[str, bytes]
    answers: list[tuple[str, httpx.Response]]

    @property
    def stored(self) -> list[Path]:
        return sorted((self.server.folder / UPLOADS).iterdir())


def send(server: WebServer, kind: str, body: bytes) -> httpx.Response:
    return server.client.post("/documents", content=body, headers={"Content-Type": kind} if kind else {})


def tree(folder: Path) -> dict[str, bytes]:
    """Everything but uploads and the data of the collection."""
    found = {}
    for at, _, names in os.walk(folder):
        for name in names:
            file = Path(at) / name
            relative = str(file.relative_to(folder))
            if not relative.startswith((f"{UPLOADS}/", "data/knowledge_base/")):
                found[relative] = file.read_bytes()
    return found


@pytest.fixture(scope="module")
def aftermath(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aftermath]:
    folder = tmp_path_factory.mktemp("served")
    for place in ("victim", "documents/own", UPLOADS):
        (folder / place).mkdir(parents=True)
        (folder / place / "own.md").write_text(f"# What was in {place} before\n", encoding="utf-8")
    (folder / UPLOADS / "link.md").symlink_to("../../victim/own.md")
    (folder / UPLOADS / "dangling.md").symlink_to("../../victim/new.md")
    (folder / UPLOADS / "folder.md").mkdir()
    with serving(folder, "[loading]\nmax_text_megabytes = 5.0\n[web]\nworkers = 1\n") as server:
        server.settled()
        before = tree(folder)
        answers = []
        for number, name in enumerate(NAMES):
            body = part(name.replace(b"\n", b"%0A").replace(b'"', b"%22"), b"# Words %d" % number) + b"--b--\r\n"
            answers.append((repr(name)[:80], send(server, FORM, body)))
        for title, content in CONTENTS.items():
            answers.append((title, send(server, FORM, part(title.encode(), content) + b"--b--\r\n")))
        for kind, body in BODIES:
            answers.append((f"{kind[:60]} {body[:60]!r}", send(server, kind, body)))
        server.settled(120)
        yield Aftermath(server, before, answers)


def test_there_are_enough_of_them(aftermath: Aftermath) -> None:
    assert len(aftermath.answers) >= 200
    codes = {answer.status_code for _, answer in aftermath.answers}
    assert codes >= {200, 201, 400, 415, 422}


def test_every_answer_is_one_that_is_documented(aftermath: Aftermath) -> None:
    described = aftermath.server.client.get("/openapi.json").json()["paths"]["/documents"]["post"]["responses"]
    documented = {int(code) for code in described if int(code) < 500}
    for sent, answer in aftermath.answers:
        assert answer.status_code in documented, (sent, answer.status_code, answer.text)
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["x-content-type-options"] == "nosniff"
        if answer.status_code >= 400:
            assert set(answer.json()) == {"error", "message"}, sent


def test_nothing_outside_of_the_uploads_has_changed(aftermath: Aftermath) -> None:
    assert tree(aftermath.server.folder) == aftermath.before
    assert [entry.name for entry in (aftermath.server.folder / "data").iterdir()] == ["knowledge_base"]


def test_what_was_among_the_uploads_is_as_it_was(aftermath: Aftermath) -> None:
    uploads = aftermath.server.folder / UPLOADS
    assert (uploads / "own.md").read_text() == f"# What was in {UPLOADS} before\n"
    assert os.readlink(uploads / "link.md") == "../../victim/own.md"
    assert os.readlink(uploads / "dangling.md") == "../../victim/new.md"
    assert not any((uploads / "folder.md").iterdir())


def test_every_name_that_is_stored_is_safe_everywhere(aftermath: Aftermath) -> None:
    for file in aftermath.stored:
        name = file.name
        assert len(name.encode()) <= 210
        assert name == unicodedata.normalize("NFC", name)
        assert not set(name) & set('/\\:*?"<>|')
        assert all(unicodedata.category(character)[0] != "C" for character in name), ascii(name)
        assert not name.startswith((".", "~"))
        assert name == name.strip(" .")
        assert name.partition(".")[0].upper() not in ("CON", "PRN", "AUX", "NUL", "COM1", "LPT9", "CONIN$", "CLOCK$")
    assert len({file.name.casefold() for file in aftermath.stored}) == len(aftermath.stored)


def test_each_file_that_was_acknowledged_is_there_and_no_other(aftermath: Aftermath) -> None:
    acknowledged = {answer.json()["document"]["path"] for _, answer in aftermath.answers if answer.status_code == 201}
    put_by_hand = {"own.md", "link.md", "dangling.md", "folder.md"}
    assert {f"uploads/{file.name}" for file in aftermath.stored if file.name not in put_by_hand} == acknowledged


def test_the_server_lives_and_lists_all_of_them_as_they_are(aftermath: Aftermath) -> None:
    client = aftermath.server.client
    assert client.get("/healthz").status_code == 200
    documents: dict[str, dict[str, Any]] = {}
    after = ""
    while True:
        body = client.get("/documents", params={"limit": 100, "after": after}).json()
        documents |= {document["path"]: document for document in body["documents"]}
        if body["next"] is None:
            break
        after = body["next"]
    assert len(documents) == body["total"]
    assert {document["status"] for document in documents.values()} == {"indexed", "failed"}
    assert {f"uploads/{file.name}" for file in aftermath.stored if file.is_file() and not file.is_symlink()} <= {
        *documents
    }
    assert "uploads/link.md" not in documents
    for title in ("bomb.docx", "bomb.pptx", "bomb.epub", "zip.pdf"):
        assert documents[f"uploads/{title}"]["status"] == "failed", documents[f"uploads/{title}"]
    for title in ("script.html", "script.md", "退款.html", "返品.txt"):
        assert documents[f"uploads/{title}"]["status"] == "indexed", documents[f"uploads/{title}"]


def test_no_ingest_has_failed_as_a_whole_and_nothing_is_said_that_nobody_foresaw(aftermath: Aftermath) -> None:
    jobs = aftermath.server.client.get("/ingest").json()["jobs"]
    assert {job["state"] for job in jobs} == {"done"}
    assert not [line for line in aftermath.server.log if "Traceback" in line or "unforeseen" in line]
    assert len(aftermath.server.log) == 1, "nobody can fill the log with bad uploads"
