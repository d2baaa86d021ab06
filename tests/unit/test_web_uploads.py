"""Files of a server's folder: found whatever their spelling, received whole or not at all, looked for as waiting."""

from __future__ import annotations

import errno
import os
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kb.knowledge_base import KnowledgeBase
from kb.loading import document_id
from kb.web.collections import Collections
from kb.web.documents import _is_deletable, _utc
from kb.web.folder import found_file
from kb.web.incoming import INCOMING, Incoming, is_left_over
from kb.web.refusals import Refusal
from kb.web.uploads import Shelf


@pytest.fixture
def collections(tmp_path: Path) -> Iterator[Collections]:
    base = KnowledgeBase.open(
        documents_dir=tmp_path / "documents",
        data_dir=tmp_path / "data",
        embedding={"use": "hashing"},
        store={"use": "memory"},
        loading={"isolated": False},
    )
    opened = Collections(base)
    yield opened
    opened.close()


@pytest.fixture
def shelf(collections: Collections) -> Shelf:
    shelf = Shelf.of(collections, collections.default)
    shelf.ready()
    return shelf


@pytest.mark.parametrize("name", ["a.md", "退款.md", "が.md", "café.md"])
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_file_is_found_in_whatever_form_its_name_is_written(tmp_path: Path, name: str, form: Any) -> None:
    folder = tmp_path / unicodedata.normalize(form, "géré")
    folder.mkdir()
    file = folder / unicodedata.normalize(form, name)
    file.write_bytes(b"x")
    assert found_file(tmp_path, unicodedata.normalize("NFC", f"géré/{name}")) == file


def test_a_file_whose_name_is_no_text_is_found_as_it_is_shown(tmp_path: Path) -> None:
    file = tmp_path / os.fsdecode(b"caf\xe9.md")
    file.write_bytes(b"x")
    assert found_file(tmp_path, "caf\\xe9.md") == file


def test_nothing_is_found_outside_behind_links_or_that_is_no_file(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "a.md").write_bytes(b"x")
    (inside / "folder.md").mkdir()
    (inside / "link.md").symlink_to(outside / "a.md")
    (inside / "way").symlink_to(outside)
    os.mkfifo(inside / "pipe.md")
    for path in ("../outside/a.md", "/a.md", "", ".", "link.md", "way/a.md", "folder.md", "pipe.md", "x.md", "a\0.md"):
        assert found_file(inside, path) is None


def received(folder: Path, content: bytes, most: int = 1000) -> Incoming:
    incoming = Incoming(folder, most)
    incoming.write(content)
    return incoming


def test_a_file_is_hidden_until_it_is_whole(shelf: Shelf) -> None:
    incoming = received(shelf.folder, b"# Words")
    [file] = shelf.folder.iterdir()
    assert file.name.startswith(INCOMING)
    assert shelf.waiting() == []
    assert shelf.keep(incoming, "a.md") == ("uploads/a.md", False)
    incoming.close()
    assert [file.name for file in shelf.folder.iterdir()] == ["a.md"]
    assert [one.path for one in shelf.waiting()] == ["uploads/a.md"]


def test_a_file_system_without_links_gets_each_file_once_too(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(source: Path, target: Path) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    contents = [b"# One", b"# Two"]
    for content in contents:
        incoming = received(shelf.folder, content)
        shelf.keep(incoming, "a.md")
        incoming.close()
    assert {file.name: file.read_bytes() for file in shelf.folder.iterdir()} == {"a.md": b"# One", "a-2.md": b"# Two"}


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [(errno.ENOSPC, 507, "no_room"), (errno.EDQUOT, 507, "no_room"), (errno.EIO, 500, "storage")],
)
def test_what_the_disk_cannot_keep_is_refused_and_leaves_nothing(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch, code: int, status: int, kind: str
) -> None:
    def fsync(file: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", fsync)
    incoming = received(shelf.folder, b"# Words")
    with pytest.raises(Refusal) as refused:
        shelf.keep(incoming, "a.md")
    incoming.close()
    assert (refused.value.status, refused.value.error) == (status, kind)
    assert list(shelf.folder.iterdir()) == []


def test_too_much_is_refused_before_it_is_written(shelf: Shelf) -> None:
    incoming = received(shelf.folder, b"x" * 1000)
    with pytest.raises(Refusal, match="1,000 bytes"):
        incoming.write(b"x")
    assert incoming.file.stat().st_size == 1000
    incoming.close()
    assert list(shelf.folder.iterdir()) == []


def test_only_what_nobody_writes_any_more_is_cleared(shelf: Shelf) -> None:
    left_over = shelf.folder / f"{INCOMING}0123"
    left_over.write_bytes(b"half")
    incoming = received(shelf.folder, b"half")
    assert is_left_over(left_over)
    assert not is_left_over(incoming.file)
    shelf.clear()
    assert list(shelf.folder.iterdir()) == [incoming.file]
    incoming.close()


def test_what_an_ingest_has_met_waits_no_more_however_many_there_are(collections: Collections, shelf: Shelf) -> None:
    for number in range(1000):
        (shelf.folder / f"{number:04}.txt").write_text(f"Number {number}")
    (shelf.folder / "broken.pdf").write_bytes(b"broken")
    (shelf.folder / "none.exe").write_bytes(b"no document")
    (shelf.folder / ".hidden.md").write_bytes(b"hidden")
    assert len(shelf.waiting()) == 1001
    collections.default.ingest(only="/uploads/0*")
    assert [one.path for one in shelf.waiting()] == ["uploads/broken.pdf"]
    collections.default.ingest()
    assert shelf.waiting() == []
    assert collections.default.catalogue.known([document_id("uploads/broken.pdf"), "0"]) == {
        document_id("uploads/broken.pdf")
    }


def test_a_disk_that_is_not_mounted_is_not_taken_for_a_new_folder(collections: Collections, shelf: Shelf) -> None:
    (shelf.folder / "a.md").write_bytes(b"# Words")
    collections.default.ingest()
    shelf.root.rename(shelf.root.with_name("elsewhere"))
    with pytest.raises(Refusal, match="not mounted"):
        shelf.ready()
    assert not shelf.root.exists()


def test_a_folder_of_uploads_that_leads_elsewhere_is_not_used(collections: Collections, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / f"{INCOMING}0123").write_bytes(b"Not ours.")
    (elsewhere / "secret.md").write_bytes(b"Not ours.")
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents/uploads").symlink_to(elsewhere)
    shelf = Shelf.of(collections, collections.default)
    with pytest.raises(Refusal, match="no folder of its own"):
        shelf.ready()
    assert shelf.waiting() == []
    shelf.clear()
    assert len(list(elsewhere.iterdir())) == 2


@pytest.mark.parametrize(
    ("deletable", "uploaded", "other"), [("uploads", True, False), ("all", True, True), ("none", False, False)]
)
def test_what_may_be_deleted_is_as_it_is_set(shelf: Shelf, deletable: Any, uploaded: bool, other: bool) -> None:
    shelf.base.settings.web.deletable = deletable
    assert _is_deletable("uploads/退款.md", shelf) is uploaded
    assert _is_deletable("own/uploads/a.md", shelf) is other
    assert _is_deletable("uploads.md", shelf) is other


@pytest.mark.parametrize(
    ("nanoseconds", "shown"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1_772_357_400_999_999_999, "2026-03-01T09:30:00Z"),
        (-1, "1969-12-31T23:59:59Z"),
        (10**30, "1970-01-01T00:00:00Z"),
        (-(2**63), "1677-09-21T00:12:43Z"),
    ],
)
def test_any_time_of_a_file_can_be_told(nanoseconds: int, shown: str) -> None:
    assert _utc(nanoseconds) == shown
