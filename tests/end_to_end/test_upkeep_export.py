"""A whole collection in one file: what comes out elsewhere is what went in, and a hostile file does nothing."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kb.errors import ExportError, IndexMismatchError, KbError, NothingIngestedError
from kb.ledger.ledger import Ledger
from kb.maintenance.importing import Imported
from tests.commands import run
from tests.end_to_end._bases import NUMBERS, UNREADABLE, CountingEmbedder, Place, a_text
from tests.end_to_end.test_ingest_interrupted import interrupted_at
from tests.end_to_end.test_upkeep_repair import assert_same, check

EXPORT = "pipelines.export"
PARTS = ["manifest.json", "vectors.txt", "vectors.npy", "documents.jsonl"]


def a_collection(tmp_path: Path, store: str = "memory") -> Place:
    embedder = CountingEmbedder(refuses="giraffe")
    place = Place(tmp_path / "documents", tmp_path / "data", store, embedder)
    place.write("a.md", a_text([*NUMBERS[:4], "giraffe"]))
    place.write("zh/说明.md", "# 退款\n\n## 期限\n\n七天之内可以退款。🦜\n\n## zebra\n\nzebra\n")
    place.write("copy.md", a_text(["zebra"]))
    place.write("twin.md", a_text(["zebra"]))
    place.write("broken.md", UNREADABLE)
    place.ingest()
    return place


def export(place: Place, file: Path) -> Path:
    with place.open() as base:
        base.upkeep.export(file)
    return file


def import_(place: Place, file: Path, **how: bool) -> Imported:
    with place.open() as base:
        return base.upkeep.import_(file, **how)


def elsewhere(place: Place, tmp_path: Path, store: str = "memory") -> Place:
    """Another machine: no documents, nothing ingested, and an embedder that is never asked to embed a document."""
    silent = CountingEmbedder(fails_after=0)
    return Place(tmp_path / "nowhere", tmp_path / "elsewhere", store, silent)


@pytest.mark.parametrize(("store", "other"), [("chroma", "memory"), ("memory", "chroma")])
def test_a_collection_opens_elsewhere_in_another_store_without_documents_or_an_embedding(
    tmp_path: Path, store: str, other: str
) -> None:
    place = a_collection(tmp_path, store)
    before = place.contents()
    with place.open() as base:
        status = base.status()
    file = export(place, tmp_path / "all.zip")
    shutil.move(place.documents, tmp_path / "moved")
    there = elsewhere(place, tmp_path, other)
    imported = import_(there, file)
    assert (imported.manifest.sources, imported.manifest.chunks, imported.without_vector) == (5, len(before), 0)
    assert_same(there.contents(), before)
    assert len(there.found("zebra")) == 3
    assert check(there).faults == ()
    with there.open() as base:
        now = base.status()
    assert (now.root, now.embedder, now.failures, now.set_aside, now.coverage) == (
        status.root, status.embedder, status.failures, status.set_aside, status.coverage,
    )  # fmt: skip
    with Ledger(place.folder, read_only=True) as one, Ledger(there.folder, read_only=True) as two:
        assert one.sources(1) == two.sources(1)
        assert all(one.document(1, i) == two.document(1, i) for i in one.sources(1))

    shutil.move(tmp_path / "moved", place.documents)
    (place.documents / "a.md").unlink()
    report = there.ingest(place.documents)
    assert (report.unchanged, report.removed, report.embedded) == (3, 1, 0)


def test_the_same_collection_gives_the_same_bytes_in_parts_that_other_programs_can_read(tmp_path: Path) -> None:
    place = a_collection(tmp_path)
    file = export(place, tmp_path / "one.zip")
    assert file.read_bytes() == export(place, tmp_path / "two.zip").read_bytes()
    with zipfile.ZipFile(file) as archive:
        assert archive.namelist() == PARTS
        assert archive.testzip() is None
        manifest = json.loads(archive.read("manifest.json"))
        with archive.open("vectors.npy") as part:
            vectors = np.load(part)
        assert vectors.shape == (manifest["vectors"], 64) == (len(archive.read("vectors.txt").split()), 64)
        documents = [json.loads(line) for line in archive.read("documents.jsonl").decode().splitlines()]
    assert "七天之内可以退款。🦜" in next(one["document"]["text"] for one in documents if one["path"] == "zh/说明.md")


def test_nothing_is_written_over_unless_told_so(tmp_path: Path) -> None:
    place = a_collection(tmp_path)
    before = place.contents()
    file = export(place, tmp_path / "all.zip")
    with pytest.raises(ExportError, match="is there already"):
        export(place, file)
    other = replace(place, documents=tmp_path / "other", data=tmp_path / "other data")
    other.write("c.md", a_text(["lion"]))
    other.ingest()
    kept = other.contents()
    with pytest.raises(KbError, match=r"holds 1 documents already.*--replace"):
        import_(other, file)
    assert other.contents() == kept
    import_(other, file, replace=True)
    assert other.contents() == before
    assert len(other.generation_folders) == 1


def test_an_export_is_of_one_moment_while_an_ingest_goes_on(tmp_path: Path) -> None:
    place = a_collection(tmp_path)
    before = place.contents()

    class Exporting(CountingEmbedder):
        exports = 0

        def embed_documents(self, texts: Any) -> Any:
            export(place, tmp_path / f"{self.exports}.zip")
            self.exports += 1
            return super().embed_documents(texts)

    place.write("new.md", a_text(NUMBERS[5:7]))
    place.with_embedder(Exporting(refuses="giraffe")).ingest(options={"ingest": {"batch_chunks": 1}})
    there = elsewhere(place, tmp_path)
    import_(there, tmp_path / "0.zip")
    assert there.contents() == before


def test_an_import_that_is_interrupted_anywhere_leaves_what_was_there(tmp_path: Path) -> None:
    place = a_collection(tmp_path)
    file = export(place, tmp_path / "all.zip")
    other = replace(place, documents=tmp_path / "other", data=tmp_path / "other data")
    other.write("c.md", a_text(["lion"]))
    other.ingest()
    before, after = other.contents(), place.contents()
    line, lines = 0, 0
    while lines >= line:
        line += 30
        lines = interrupted_at(line, lambda: import_(other, file, replace=True), r"importing\.py|repair\.py")
        assert other.contents() in (before, after), f"line {line}"
        assert len(other.generation_folders) == 1
    assert line > 200
    assert other.contents() == after


# Files that are not trusted


def rewritten(file: Path, target: Path, change: Callable[[dict[str, bytes]], None]) -> Path:
    with zipfile.ZipFile(file) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    change(parts)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return target


def in_document(change: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, bytes]], None]:
    """Change the line of the document with chunks that comes first."""

    def apply(parts: dict[str, bytes]) -> None:
        lines = [json.loads(line) for line in parts["documents.jsonl"].decode().splitlines()]
        change(next(line for line in lines if len(line["chunks"]) > 1))
        parts["documents.jsonl"] = "".join(json.dumps(line) + "\n" for line in lines).encode("ascii")

    return apply


def in_manifest(**changes: Any) -> Callable[[dict[str, bytes]], None]:
    def apply(parts: dict[str, bytes]) -> None:
        parts["manifest.json"] = json.dumps(json.loads(parts["manifest.json"]) | changes).encode()

    return apply


def in_vectors(change: Callable[[bytes], bytes]) -> Callable[[dict[str, bytes]], None]:
    def apply(parts: dict[str, bytes]) -> None:
        parts["vectors.npy"] = change(parts["vectors.npy"])

    return apply


def repeat_a_line(parts: dict[str, bytes]) -> None:
    parts["documents.jsonl"] += parts["documents.jsonl"].splitlines(keepends=True)[0]


def unordered_hashes(parts: dict[str, bytes]) -> None:
    parts["vectors.txt"] = b"".join(reversed(parts["vectors.txt"].splitlines(keepends=True)))


NAN = np.float32("nan").tobytes()
HOSTILE: dict[str, Callable[[dict[str, bytes]], None]] = {
    "a span beyond its text": in_document(lambda d: d["chunks"][0].__setitem__(2, 10**6)),
    "a span that runs backwards": in_document(lambda d: d["chunks"][0].__setitem__(1, d["chunks"][0][2] + 1)),
    "a span of no number": in_document(lambda d: d["chunks"][0].__setitem__(1, "0")),
    "a heading beyond its text": in_document(lambda d: d["document"]["headings"].append([1, "h", 0, 10**6])),
    "two chunks of one id": in_document(lambda d: d["chunks"][0].__setitem__(0, d["chunks"][1][0])),
    "a path out of the folder": in_document(lambda d: d.__setitem__("path", "../../etc/passwd")),
    "an absolute path": in_document(lambda d: d.__setitem__("path", "/etc/passwd")),
    "a lone surrogate": in_document(lambda d: d["document"].__setitem__("title", "\ud800")),
    "an unknown status": in_document(lambda d: d.__setitem__("status", "fine")),
    "an indexed source without a document": in_document(lambda d: d.__setitem__("document", None)),
    "metadata of objects": in_document(lambda d: d["document"].__setitem__("metadata", {"a": {}})),
    "no JSON": lambda parts: parts.__setitem__("documents.jsonl", b"{\n"),
    "JSON of no end of lists": lambda parts: parts.__setitem__("documents.jsonl", b"[" * 100_000),
    "a document twice": repeat_a_line,
    "fewer documents than it says": in_manifest(sources=99),
    "another dimension": in_manifest(dimension=32),
    "an absurd dimension": in_manifest(dimension=1 << 40),
    "more vectors than it says": in_manifest(vectors=1),
    "a newer version": in_manifest(version=2),
    "another format": in_manifest(format="something"),
    "vectors that are not finite": in_vectors(lambda array: array[:-4] + NAN),
    "vectors that are cut off": in_vectors(lambda array: array[:-4]),
    "an array of objects": in_vectors(lambda array: array.replace(b"<f4", b"|O ")),
    "hashes in no order": unordered_hashes,
    "a part missing": lambda parts: parts.__delitem__("vectors.txt"),
    "a part too many": lambda parts: parts.__setitem__("../evil", b""),
}


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported")
    return export(a_collection(folder), folder / "all.zip")


@pytest.mark.parametrize("fault", HOSTILE)
def test_what_no_ingest_could_have_made_is_refused_and_changes_nothing(
    exported: Path, tmp_path: Path, fault: str
) -> None:
    file = rewritten(exported, tmp_path / "hostile.zip", HOSTILE[fault])
    place = Place(tmp_path / "documents", tmp_path / "data", embedder=CountingEmbedder())
    place.write("c.md", a_text(["lion"]))
    place.ingest()
    before = place.contents()
    with pytest.raises(ExportError, match=r"hostile\.zip"):
        import_(place, file, replace=True)
    assert place.contents() == before
    assert place.generation_folders == ["1"]
    assert place.ingest().unchanged == 1


def test_a_file_that_is_damaged_or_no_export_is_refused(exported: Path, tmp_path: Path) -> None:
    place = Place(tmp_path / "documents", tmp_path / "data")
    content = exported.read_bytes()
    middle = len(content) // 2
    flipped = bytes([*content[:middle], content[middle] ^ 1, *content[middle + 1 :]])
    for number, bad in enumerate((b"", b"text", content[:middle], flipped)):
        file = tmp_path / f"{number}.zip"
        file.write_bytes(bad)
        with pytest.raises(ExportError, match=file.name):
            import_(place, file)
    with pytest.raises(ExportError, match="cannot be read: No such file"):
        import_(place, tmp_path / "missing.zip")
    with pytest.raises(NothingIngestedError):
        export(place, tmp_path / "nothing.zip")
    with pytest.raises(NothingIngestedError):
        place.found("zebra")


def test_a_line_that_is_larger_than_a_document_may_be_is_not_read_into_memory(exported: Path, tmp_path: Path) -> None:
    bomb = rewritten(exported, tmp_path / "bomb.zip", lambda parts: parts.update({"documents.jsonl": b" " * 6_000_000}))
    place = Place(tmp_path / "documents", tmp_path / "data")
    with place.open(loading={"max_text_megabytes": 1}) as base, pytest.raises(ExportError, match="max_text_megabytes"):
        base.upkeep.import_(bomb)


# The command


def test_the_command_moves_a_collection_under_another_name(tmp_path: Path) -> None:
    place = Place(tmp_path / "documents", tmp_path / "data")
    place.write("a.md", a_text(["zebra"]))
    place.ingest()
    data = {"KB_DATA_DIR": str(tmp_path / "data")}
    done = run(EXPORT, "all.zip", cwd=tmp_path, env=data)
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 document, 1 chunk and 1 vector of the collection 'knowledge_base': in all.zip" in done.stdout
    done = run("pipelines.import", "all.zip", "--collection", "笔记", "--json", cwd=tmp_path, env=data)
    assert json.loads(done.stdout)["collection"] == "笔记"
    with place.open(collection="笔记") as base:
        assert base.status().collection == "笔记"
        assert len(base.search("zebra", cutoff=0.3).hits) == 1
    with place.with_embedder(CountingEmbedder()).open(collection="笔记") as base, pytest.raises(IndexMismatchError):
        base.search("zebra")
