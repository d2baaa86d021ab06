"""Documents over HTTP: uploaded, listed, looked up, deleted; and what a kill leaves of them."""

from __future__ import annotations

import os
import resource
import signal
import socket
import unicodedata
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from kb.loading import document_id
from tests.commands import INGEST, run
from tests.web_server import WebServer, serving

TEXTS = {
    "refunds.md": "# Refunds\n\nThe shop takes goods back within 30 days.\n",
    "退款政策.md": "# 退款政策\n\n商店在三十天内接受退货。\n",
    "返品について.txt": "返品は三十日以内に受け付けます。\n",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    folder = tmp_path_factory.mktemp("served")
    own = folder / "documents/own"
    own.mkdir(parents=True)
    (own / "guide.md").write_text("# Guide\n\nWhat was here before the server was.\n", encoding="utf-8")
    with serving(folder, "[web]\nworkers = 1\nmax_upload_megabytes = 1.0\n") as served:
        served.settled()
        yield served


@pytest.fixture(scope="module")
def generous(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    """Where all may be deleted; with links, odd names and another collection."""
    folder = tmp_path_factory.mktemp("generous")
    documents, minutes = folder / "documents", folder / "minutes"
    for made in (documents / "deep/er", documents / ".kept", minutes):
        made.mkdir(parents=True)
    (documents / "deep/er/odd [1] *.md").write_bytes(b"# An odd name")
    (documents / "deep/er/odd [1] x.md").write_bytes(b"# Nearly the same")
    (documents / ".kept/text.md").write_bytes(b"# Linked")
    (documents / "link.md").symlink_to(".kept/text.md")
    (minutes / "monday.md").write_bytes(b"# Monday")
    config = '[loading]\nexclude = ["*.csv"]\n[web]\nworkers = 1\ndeletable = "all"\n'
    with serving(folder, config) as served:
        served.settled()
        done = run(INGEST, str(minutes), "--collection", "minutes", cwd=folder)
        assert done.returncode == 0, done.stderr
        yield served


def upload(server: WebServer, name: str, content: bytes, **parameters: str) -> httpx.Response:
    return server.client.post("/documents", params=parameters, files={"file": (name, content)})


def listed(server: WebServer, **parameters: Any) -> list[dict[str, Any]]:
    body: dict[str, Any] = server.client.get("/documents", params={"limit": 500, **parameters}).json()
    documents: list[dict[str, Any]] = body["documents"]
    return documents


def files_of(server: WebServer) -> dict[str, bytes]:
    documents = server.folder / "documents"
    return {str(file.relative_to(documents)): file.read_bytes() for file in documents.rglob("*") if file.is_file()}


def marked(text: str) -> bytes:
    """A document that no other test has uploaded."""
    return f"{text}\n\n{os.urandom(8).hex()}\n".encode()


@pytest.mark.parametrize("name", TEXTS)
def test_an_uploaded_document_is_stored_ingested_and_listed(server: WebServer, name: str) -> None:
    content = TEXTS[name].encode()
    response = upload(server, name, content)
    assert response.status_code == 201
    body = response.json()
    path = f"uploads/{name}"
    assert body["known"] is False
    assert body["document"]["path"] == path
    assert body["document"]["id"] == document_id(path)
    assert body["document"]["status"] in ("waiting", "indexed")
    assert (server.folder / "documents" / path).read_bytes() == content
    server.settled()
    assert server.client.get(f"/ingest/{body['job']}").json()["state"] == "done"
    document = server.client.get(f"/documents/{document_id(path)}").json()
    assert document["status"] == "indexed"
    assert document["chunks"] >= 1
    assert document["size"] == len(content)
    assert document["uploaded"] is True
    assert document["deletable"] is True
    assert document in listed(server)
    assert document in listed(server, find=name[:3])


def test_the_same_bytes_under_another_name_are_the_document_that_is_there(server: WebServer) -> None:
    content = marked("Twice the same.")
    first = upload(server, "first.md", content).json()["document"]
    before = files_of(server)
    again = upload(server, "second.md", content)
    assert again.status_code == 200
    assert again.json()["known"] is True
    assert again.json()["job"] is None
    assert again.json()["document"]["id"] == first["id"]
    server.settled()
    once_more = upload(server, "third.txt", content)
    assert once_more.status_code == 200
    assert once_more.json()["document"]["path"] == first["path"]
    assert files_of(server) == before


def test_bytes_of_a_document_that_was_not_uploaded_are_known_too(server: WebServer) -> None:
    guide = server.folder / "documents/own/guide.md"
    response = upload(server, "copy.md", guide.read_bytes())
    assert response.status_code == 200
    assert response.json()["document"]["path"] == "own/guide.md"


def test_bytes_whose_file_has_been_deleted_by_hand_are_stored_again(server: WebServer) -> None:
    content = marked("Deleted by hand.")
    first = upload(server, "by hand.md", content).json()["document"]
    server.settled()
    (server.folder / "documents" / first["path"]).unlink()
    again = upload(server, "by hand again.md", content)
    assert again.status_code == 201
    assert (server.folder / "documents/uploads/by hand again.md").read_bytes() == content


def test_another_file_of_the_same_name_gets_a_number(server: WebServer) -> None:
    contents = {marked("One."), marked("Two."), marked("Three.")}
    paths = [upload(server, "same.md", content).json()["document"]["path"] for content in contents]
    assert paths == ["uploads/same.md", "uploads/same-2.md", "uploads/same-3.md"]
    assert {files_of(server)[path] for path in paths} == contents


def test_of_equal_files_at_once_one_is_stored(server: WebServer) -> None:
    content = marked("At once.")
    answers = at_once(server, [(f"at once {number}.md", content) for number in range(8)])
    assert sorted(answer.status_code for answer in answers) == [200] * 7 + [201]
    assert len({answer.json()["document"]["id"] for answer in answers}) == 1
    assert [file for file in files_of(server) if "at once" in file] == [answers[0].json()["document"]["path"]]


def test_different_files_of_one_name_at_once_are_all_stored(server: WebServer) -> None:
    contents = [marked(f"Number {number}.") for number in range(8)]
    answers = at_once(server, [("one name.md", content) for content in contents])
    assert {answer.status_code for answer in answers} == {201}
    stored = [files_of(server)[answer.json()["document"]["path"]] for answer in answers]
    assert stored == contents


def at_once(server: WebServer, files: list[tuple[str, bytes]]) -> list[httpx.Response]:
    with ThreadPoolExecutor(len(files)) as threads:
        return list(threads.map(lambda file: upload(server, *file), files))


@pytest.mark.parametrize(
    ("one", "other", "stored"),
    [
        ("Case.md", "cASE.md", "cASE-2.md"),
        ("café.txt", unicodedata.normalize("NFD", "café.txt"), "café-2.txt"),
        ("が.md", unicodedata.normalize("NFD", "が.md"), "が-2.md"),
        ("straße.md", "STRASSE.md", "STRASSE-2.md"),
    ],
)
def test_names_that_some_systems_take_for_one_are_kept_apart(
    server: WebServer, one: str, other: str, stored: str
) -> None:
    assert upload(server, one, marked("One.")).json()["document"]["path"] == f"uploads/{one}"
    assert upload(server, other, marked("Other.")).json()["document"]["path"] == f"uploads/{stored}"


def test_a_file_named_in_another_form_by_hand_is_not_hidden_by_an_upload(server: WebServer) -> None:
    uploads = server.folder / "documents/uploads"
    by_hand = uploads / unicodedata.normalize("NFD", "résumé.md")
    by_hand.write_bytes(marked("By hand."))
    assert upload(server, "résumé.md", marked("Uploaded.")).json()["document"]["path"] == "uploads/résumé-2.md"


@pytest.mark.parametrize(
    ("name", "content", "status", "kind"),
    [
        ("empty.md", b"", 422, "empty"),
        ("programm.exe", b"MZ", 415, "unsupported"),
        ("no suffix", b"text", 415, "unsupported"),
        ("picture.svg", b"<svg/>", 415, "unsupported"),
        ("....", b"text", 422, "bad_name"),
        ("\u202e\u200b", b"text", 422, "bad_name"),
        ("large.txt", b"x" * 1_048_577, 413, "too_large"),
        ("larger.txt", b"x" * 3_000_000, 413, "too_large"),
    ],
)
def test_what_cannot_be_a_document_is_refused_and_not_stored(
    server: WebServer, name: str, content: bytes, status: int, kind: str
) -> None:
    before = files_of(server)
    response = upload(server, name, content)
    assert response.status_code == status
    assert response.json()["error"] == kind
    assert files_of(server) == before


def test_a_file_of_just_the_largest_size_is_taken(server: WebServer) -> None:
    content = (os.urandom(8).hex() + " word" * 300_000).encode()[:1_048_576]
    response = upload(server, "just.txt", content)
    assert response.status_code == 201
    assert response.json()["document"]["size"] == 1_048_576


def test_an_unreadable_document_is_listed_with_the_reason_and_can_be_deleted(server: WebServer) -> None:
    job = upload(server, "broken.pdf", marked("%PDF-1.7 and no more")).json()["job"]
    server.settled()
    told = server.client.get(f"/ingest/{job}").json()
    assert told["state"] == "done"
    assert "uploads/broken.pdf" in told["message"]
    document = server.client.get(f"/documents/{document_id('uploads/broken.pdf')}").json()
    assert document["status"] == "failed"
    assert document["reason"]
    assert server.client.delete(f"/documents/{document['id']}").status_code == 200
    assert not (server.folder / "documents/uploads/broken.pdf").exists()


@pytest.mark.parametrize("name", ["gone.md", "再见.md", "さようなら.txt"])
def test_a_deleted_document_is_gone_with_its_chunks_when_that_is_answered(server: WebServer, name: str) -> None:
    document = upload(server, name, marked("The heliotrope is deleted.")).json()["document"]
    server.settled()
    before = server.client.get("/status").json()
    response = server.client.delete(f"/documents/{document['id']}")
    assert response.status_code == 200
    assert response.json()["path"] == f"uploads/{name}"
    assert server.client.get(f"/ingest/{response.json()['job']}").json()["state"] == "done"
    assert not (server.folder / "documents/uploads" / name).exists()
    after = server.client.get("/status").json()
    assert after["documents"] == before["documents"] - 1
    assert after["chunks"] < before["chunks"]
    assert server.client.get(f"/documents/{document['id']}").status_code == 404
    assert server.client.delete(f"/documents/{document['id']}").status_code == 404


def test_only_uploads_are_deleted_unless_more_is_allowed(server: WebServer) -> None:
    guide = document_id("own/guide.md")
    assert server.client.get(f"/documents/{guide}").json()["deletable"] is False
    response = server.client.delete(f"/documents/{guide}")
    assert response.status_code == 403
    assert response.json()["error"] == "forbidden"
    assert (server.folder / "documents/own/guide.md").exists()


def test_an_unknown_document_or_collection_is_not_found(server: WebServer) -> None:
    for path in ("/documents/0123", "/documents?collection=nowhere", "/status?collection=nowhere"):
        response = server.client.get(path)
        assert response.status_code == 404
        assert response.json()["error"] == "not_found"
    assert upload(server, "a.md", b"a", collection="nowhere").status_code == 404
    assert server.client.delete("/documents/0123").status_code == 404


def test_the_list_comes_page_by_page_each_document_once(server: WebServer) -> None:
    for number in range(5):
        upload(server, f"page {number}.md", marked("A page."))
        # Put there by hand: nobody has it ingested, so it waits.
        (server.folder / f"documents/uploads/by hand {number}.md").write_bytes(marked("By hand."))
    server.settled()
    whole = listed(server)
    paged: list[dict[str, Any]] = []
    after = ""
    while True:
        body = server.client.get("/documents", params={"limit": 2, "after": after}).json()
        assert len(body["documents"]) <= 2
        assert body["total"] == len(whole)
        paged += body["documents"]
        if body["next"] is None:
            break
        after = body["next"]
    assert paged == whole
    assert sum(document["status"] == "waiting" for document in whole) >= 5
    order = [(document["status"] != "waiting", document["path"]) for document in whole]
    assert order == sorted(order)


def test_an_upload_that_breaks_off_leaves_nothing(server: WebServer) -> None:
    before = files_of(server)
    host, port = server.url.removeprefix("http://").split(":")
    head = (
        f"POST /documents HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: multipart/form-data; boundary=b\r\n"
        "Content-Length: 900000\r\n\r\n"
        '--b\r\nContent-Disposition: form-data; name="file"; filename="half.md"\r\n\r\n'
    )
    with socket.create_connection((host, int(port))) as client:
        client.sendall(head.encode() + b"half of it " * 50_000)
        uploads = server.folder / "documents/uploads"
        server.wait_until(lambda: any(uploads.glob(".*")), "it is received")
        assert all("half" not in document["path"] for document in listed(server))
    server.wait_until(lambda: files_of(server) == before, "what was received is deleted")


def test_a_disk_that_is_full_is_told_and_leaves_nothing(server: WebServer) -> None:
    server.settled()
    before = files_of(server)
    _, hard = limit = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (300_000, hard))
    try:
        response = upload(server, "large.md", b"word " * 100_000)
    finally:
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, limit)
    assert response.status_code == 507
    assert response.json()["error"] == "no_room"
    assert files_of(server) == before
    assert upload(server, "large.md", b"word " * 100_000).status_code == 201


# ── other servers ──


def test_any_document_is_deleted_where_that_is_allowed_and_no_other_with_it(generous: WebServer) -> None:
    odd, nearly = (document_id(f"deep/er/odd [1] {end}.md") for end in "*x")
    assert generous.client.get(f"/documents/{odd}").json()["deletable"] is True
    assert generous.client.delete(f"/documents/{odd}").status_code == 200
    assert [file.name for file in (generous.folder / "documents/deep/er").iterdir()] == ["odd [1] x.md"]
    assert generous.client.get(f"/documents/{odd}").status_code == 404
    assert generous.client.get(f"/documents/{nearly}").json()["status"] == "indexed"


def test_what_a_link_leads_to_is_not_deleted(generous: WebServer) -> None:
    response = generous.client.delete(f"/documents/{document_id('link.md')}")
    assert response.status_code == 409
    assert response.json()["error"] == "no_file"
    assert generous.client.get(f"/documents/{document_id('link.md')}").json()["status"] == "indexed"
    assert (generous.folder / "documents/link.md").read_bytes() == b"# Linked"


def test_what_no_ingest_would_read_is_not_taken(generous: WebServer) -> None:
    response = upload(generous, "table.csv", b"a,b\n1,2\n")
    assert response.status_code == 422
    assert response.json()["error"] == "excluded"
    assert upload(generous, "text.md", b"Taken.").status_code == 201


def test_an_upload_to_another_collection_lies_in_its_own_folder(generous: WebServer) -> None:
    generous.settled()
    before = listed(generous)
    response = upload(generous, "tuesday.md", b"# Tuesday", collection="minutes")
    assert response.status_code == 201
    status = {"collection": "minutes"}
    generous.wait_until(lambda: not generous.client.get("/status", params=status).json()["ingesting"], "ingested")
    paths = [document["path"] for document in listed(generous, collection="minutes")]
    assert paths == ["monday.md", "uploads/tuesday.md"]
    assert listed(generous) == before
    assert (generous.folder / "minutes/uploads/tuesday.md").read_bytes() == b"# Tuesday"


def test_what_was_acknowledged_survives_a_kill_and_is_ingested_at_the_next_start(tmp_path: Path) -> None:
    contents = {f"kept {number}.md": marked("Kept.") for number in range(3)}
    config = "[web]\nworkers = 1\ningest_at_start = false\n"
    with serving(tmp_path, config) as server:
        for name, content in contents.items():
            assert upload(server, name, content).status_code == 201
        assert server.end(signal.SIGKILL) == -signal.SIGKILL
    uploads = tmp_path / "documents/uploads"
    left_over = uploads / ".incoming-0123456789abcdef"
    left_over.write_bytes(b"half of it")
    with serving(tmp_path, config) as server:
        server.settled()
        documents = listed(server)
        assert {one["path"]: one["status"] for one in documents} == {f"uploads/{name}": "indexed" for name in contents}
        assert {file.name: file.read_bytes() for file in uploads.iterdir()} == contents
        for one in documents:  # the last one too, which a whole ingest would take for a mistake
            assert server.client.delete(f"/documents/{one['id']}").status_code == 200
        assert server.client.get("/status").json()["documents"] == 0
