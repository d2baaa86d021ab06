"""A collection follows its folder: what changes is done again, and nothing else."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kb.ledger.ledger import Ledger
from pipelines import ingest as command
from tests.end_to_end._bases import NUMBERS, UNREADABLE, CountingEmbedder, Place, a_text

ROOT = Path(__file__).parents[2]
both_stores = pytest.mark.parametrize("store", ["memory", "chroma", "faiss"])


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "documents", tmp_path / "data")


def in_store(place: Place, store: str) -> Place:
    return Place(place.documents, place.data, store)


def writes(place: Place, work: Callable[[], object]) -> bool:
    """Whether `work` changes a row of the ledger, but for its note of the last run, or a file of the store."""

    def stored() -> list[object]:
        files = sorted(file for file in (place.folder / "generations").rglob("*") if file.is_file())
        with closing(sqlite3.connect(place.folder / "ledger.sqlite")) as ledger:
            tables = [name for (name,) in ledger.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            rows = [row for name in tables for row in ledger.execute(f"SELECT * FROM {name}") if row[0] != "last_run"]
        return [*((file, file.read_bytes()) for file in files), *rows]

    before = stored()
    work()
    return stored() != before


# What has not changed


def test_a_second_ingest_embeds_nothing_writes_nothing_and_reports_all_as_unchanged(place: Place) -> None:
    place.write("a.md", a_text(NUMBERS[:3]))
    place.write("b/c.txt", "Plain text.")
    first = place.ingest()
    assert (first.files, first.indexed, first.chunks_total) == (2, 2, 4)
    assert not writes(place, place.ingest)
    second = place.ingest()
    assert (second.files, second.unchanged, second.embedded, second.embedding_calls) == (2, 2, 0, 0)
    assert (second.chunks_added, second.chunks_removed, second.chunks_total) == (0, 0, 4)
    place.write("c.md", "More.")
    assert writes(place, place.ingest)


@both_stores
def test_an_ingest_without_changes_does_not_even_load_the_store(place: Place, store: str) -> None:
    place = in_store(place, store)
    place.write("a.md", a_text(NUMBERS[:3]))
    script = f"""
import sys
import unicodedata
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tests.end_to_end._bases import Place
report = Place(Path({str(place.documents)!r}), Path({str(place.data)!r}), {store!r}).ingest()
print(report.indexed, report.unchanged, "kb.store.{store}" in sys.modules, "chromadb" in sys.modules)
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}

    def ingest() -> list[str]:
        done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
        assert done.stderr == ""
        return done.stdout.split()

    assert ingest() == ["1", "0", "True", str(store == "chroma")]
    assert ingest() == ["0", "1", "False", "False"]


def test_a_touched_file_costs_no_embedding_and_is_known_from_then_on(place: Place) -> None:
    file = place.write("a.md", a_text(NUMBERS[:3]))
    place.ingest()
    before = place.contents()
    os.utime(file, ns=(1, 1))
    report = place.ingest()
    assert (report.unchanged, report.indexed, report.embedded) == (1, 0, 0)
    assert place.contents() == before
    with Ledger(place.folder, read_only=True) as ledger:
        assert [source.mtime_ns for source in ledger.sources(1).values()] == [1]


# What has changed


@both_stores
def test_a_document_that_shrinks_from_ten_chunks_to_four_has_exactly_four(place: Place, store: str) -> None:
    place = in_store(place, store)
    place.write("a.md", a_text(NUMBERS[:10]))
    place.write("b.md", a_text(["other"]))
    assert place.ingest().chunks_total == 11
    before = place.ids("a.md")
    place.write("a.md", a_text(NUMBERS[:4]))
    report = place.ingest()
    assert (report.indexed, report.unchanged, report.embedded) == (1, 1, 0)
    assert (report.chunks_added, report.chunks_removed, report.chunks_total) == (0, 6, 5)
    assert len(place.ids("a.md")) == 4
    assert place.ids("a.md") < before
    assert [section.split()[-2] for section in place.sections("a.md")] == NUMBERS[:4]


def test_an_edit_keeps_the_other_chunks_ids_and_embeds_only_what_changed(place: Place) -> None:
    embedder = CountingEmbedder()
    place = place.with_embedder(embedder)
    place.write("a.md", a_text(NUMBERS[:6]))
    place.ingest()
    before, embedder.sent = place.ids("a.md"), []
    place.write("a.md", a_text([*NUMBERS[:2], "inserted", *NUMBERS[2:6]]))
    report = place.ingest()
    assert [text.split()[-2] for text in embedder.sent] == ["inserted"]
    assert (report.embedded, report.embedding_calls, report.chunks_added, report.chunks_removed) == (1, 1, 1, 0)
    assert before < place.ids("a.md")
    assert [section.split()[-2] for section in place.sections("a.md")] == [*NUMBERS[:2], "inserted", *NUMBERS[2:6]]


@both_stores
def test_the_chunks_of_a_deleted_file_go(place: Place, store: str) -> None:
    place = in_store(place, store)
    place.write("a.md", a_text(NUMBERS[:3]))
    gone = place.write("sub/b.md", a_text(["zebra"]))
    place.ingest()
    gone.unlink()
    report = place.ingest()
    assert (report.files, report.unchanged, report.removed) == (1, 1, 1)
    assert (report.chunks_added, report.chunks_removed, report.chunks_total) == (0, 1, 3)
    assert {source for source, _, _ in place.contents().values()} == {"a.md"}
    assert place.found("zebra") == []


def test_a_renamed_file_costs_no_embedding_and_is_found_under_its_new_path(place: Place) -> None:
    file = place.write("a.md", a_text(NUMBERS[:3]))
    place.write("b.md", a_text(["other"]))
    place.ingest()
    file.rename(file.with_name("c.md"))
    report = place.ingest()
    assert (report.indexed, report.unchanged, report.removed, report.embedded) == (1, 1, 1, 0)
    assert (report.chunks_added, report.chunks_removed) == (3, 3)
    assert {source for source, _, _ in place.contents().values()} == {"b.md", "c.md"}


def test_after_a_move_answers_cite_the_new_path_and_nothing_was_embedded(place: Place) -> None:
    embedder = CountingEmbedder()
    place = place.with_embedder(embedder)
    file = place.write("a.md", a_text(["zebra"]))
    place.ingest()
    (place.documents / "動物").mkdir()
    file.rename(place.documents / "動物" / "シマウマ.md")
    assert (place.ingest().embedded, len(embedder.sent)) == (0, 1)
    with place.open() as base:
        answer = base.ask("which part is about zebra only?", cutoff=0.0)
    assert {citation.source for citation in answer.citations} == {"動物/シマウマ.md"}


def test_both_unicode_spellings_of_a_name_are_one_document_whichever_the_folder_has(place: Place) -> None:
    composed, decomposed = (unicodedata.normalize(form, "ポリシー é.md") for form in ("NFC", "NFD"))
    file = place.write(decomposed, a_text(["zebra"]))
    place.ingest()
    before = place.contents()
    assert {source for source, _, _ in before.values()} == {composed}
    file.rename(place.documents / composed)
    report = place.ingest()
    assert (report.unchanged, report.indexed, report.removed, report.embedded) == (1, 0, 0, 0)
    assert place.contents() == before


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere both names are one file")
def test_a_name_that_changes_in_case_alone_is_shown_as_it_is_now(place: Place) -> None:
    file = place.write("readme.md", a_text(["zebra"]))
    place.ingest()
    file.rename(place.documents / "README.md")
    report = place.ingest()
    assert (report.indexed, report.removed, report.embedded) == (1, 1, 0)
    assert {source for source, _, _ in place.contents().values()} == {"README.md"}


def test_two_identical_files_are_two_documents_that_share_their_vectors(place: Place) -> None:
    place = place.with_embedder(CountingEmbedder(batch_texts=2))
    place.write("a.md", a_text(NUMBERS[:3]))
    place.write("b.md", a_text(NUMBERS[:3]))
    report = place.ingest()
    assert (report.indexed, report.chunks_total, report.embedded, report.embedding_calls) == (2, 6, 3, 2)
    assert len(place.ids("a.md") | place.ids("b.md")) == 6
    by_text = {(chunk.text, vector) for _, chunk, vector in place.contents().values()}
    assert len(by_text) == 3


def test_other_chunk_settings_cut_all_again_and_embed_only_texts_that_changed(place: Place) -> None:
    embedder = CountingEmbedder()
    place = place.with_embedder(embedder)
    place.write("a.md", a_text(NUMBERS[:2]))
    place.write("b.md", "# Another\n\nA short text of its own.")
    place.ingest()
    embedder.sent = []
    coarse = {"chunking": {"recursive": {"size_tokens": 60, "min_tokens": 40}}}
    report = place.ingest(options=coarse)
    assert (report.indexed, report.unchanged, report.embedded) == (2, 0, 1)
    assert len(embedder.sent) == 1
    assert len(place.sections("a.md")) == len(place.sections("b.md")) == 1
    assert place.ingest(options=coarse).unchanged == 2


# What cannot be read


def test_a_file_that_becomes_unreadable_keeps_its_chunks_is_reported_in_every_run_and_comes_back(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    good = a_text(["zebra"])
    place.write("a.md", good)
    place.write("b.md", a_text(["other"]))
    place.ingest()
    before = place.contents()
    place.write("a.md", UNREADABLE)
    for _ in range(2):
        report = place.ingest()
        assert (report.files, report.unchanged, report.failed, report.chunks_total) == (2, 1, 1, 2)
        assert [(p.path, p.status) for p in report.problems] == [("a.md", "failed")]
        assert place.contents() == before
        assert len(place.found("zebra")) == 1
    for name, value in {
        "KB_DOCUMENTS_DIR": str(place.documents),
        "KB_DATA_DIR": str(place.data),
        "KB_EMBEDDING__USE": "hashing",
        "KB_STORE__USE": "memory",
        "KB_CHUNKING__RECURSIVE__SIZE_TOKENS": "24",
        "KB_CHUNKING__RECURSIVE__MIN_TOKENS": "0",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(place.documents)
    assert command.main([]) == 1
    assert "failed: a.md: " in capsys.readouterr().err
    place.write("a.md", good)
    report = place.ingest()
    assert (report.indexed, report.failed, report.embedded, report.problems) == (1, 0, 0, ())
    assert place.contents() == before
    assert command.main([]) == 0


def test_a_new_file_that_fails_is_tried_and_reported_in_every_run(place: Place) -> None:
    place.write("a.md", a_text(["other"]))
    place.write("b.md", UNREADABLE)
    for indexed in (1, 0):
        report = place.ingest()
        assert (report.indexed, report.unchanged, report.failed) == (indexed, 1 - indexed, 1)
        assert [problem.path for problem in report.problems] == ["b.md"]
        with Ledger(place.folder, read_only=True) as ledger:
            assert {source.path: source.status for source in ledger.sources(1).values()} == {
                "a.md": "indexed",
                "b.md": "failed",
            }
    assert not writes(place, place.ingest), "to fail again is nothing to write down"


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_a_known_file_that_can_no_longer_be_looked_at_keeps_its_chunks(place: Place, tmp_path: Path) -> None:
    place.write("a.md", a_text(["other"]))
    hidden = place.write("sub/b.md", a_text(["zebra"]))
    place.ingest()
    outside = tmp_path / "moved"
    shutil.move(hidden.parent, outside)
    hidden.parent.symlink_to(outside, target_is_directory=True)
    for _ in range(2):
        report = place.ingest()
        assert (report.unchanged, report.failed, report.removed, report.chunks_total) == (1, 1, 0, 2)
        assert "a link to a folder is not followed" in report.problems[0].reason
        assert len(place.found("zebra")) == 1
    hidden.parent.unlink()
    shutil.move(outside, hidden.parent)
    assert place.ingest().failed == 0


def test_a_folder_that_may_no_longer_be_listed_keeps_its_documents(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.write("a.md", a_text(["other"]))
    closed = place.write("sub/b.md", a_text(["zebra"])).parent
    place.ingest()
    before = place.contents()
    listed = os.scandir

    def scandir(path: Any = ".") -> Any:
        if Path(path) == closed:  # its permissions would not keep root out
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    report = place.ingest()
    assert (report.unchanged, report.failed, report.removed) == (1, 1, 0)
    assert "cannot be listed (Permission denied)" in report.problems[0].reason
    monkeypatch.undo()
    assert place.contents() == before
    assert (place.ingest().failed, place.contents()) == (0, before)


def test_a_text_that_the_service_refuses_is_named_and_the_rest_is_indexed(place: Place) -> None:
    embedder = CountingEmbedder(refuses="three")
    place = place.with_embedder(embedder)
    place.write("a.md", a_text(NUMBERS[:9]))
    place.write("b.md", a_text(["other"]))
    report = place.ingest()
    assert (report.indexed, report.failed, report.chunks_total, report.embedded) == (1, 1, 9, 9)
    assert len(embedder.sent) == 9
    (problem,) = report.problems
    assert (problem.path, problem.status) == ("a.md", "failed")
    start = a_text(NUMBERS[:9]).index("## Part three")
    assert f"characters {start}-" in problem.reason
    assert "the service does not like it" in problem.reason
    again = place.ingest()
    assert (again.unchanged, again.failed, again.embedded) == (1, 1, 0)
    accepting = place.with_embedder(CountingEmbedder())
    mended = accepting.ingest()
    assert (mended.indexed, mended.failed, mended.embedded, mended.chunks_total) == (1, 0, 1, 10)


def test_counts_add_up_over_a_folder_in_which_everything_happens(place: Place) -> None:
    embedder = CountingEmbedder(batch_texts=2)
    place = place.with_embedder(embedder)
    for name, words in (("same", 2), ("changed", 3), ("gone", 4), ("bad", 1)):
        place.write(f"{name}.md", a_text(NUMBERS[:words], title=name))
    place.ingest()
    embedder.sent, embedder.requests = [], 0
    place.write("changed.md", a_text([*NUMBERS[:2], "eleven", "twelve"], title="changed"))
    place.write("new.md", a_text(NUMBERS[:2], title="new"))
    place.write("bad.md", UNREADABLE)
    place.write("empty.md", "")
    place.write("picture.png", b"no document")
    (place.documents / "gone.md").unlink()
    report = place.ingest()
    assert (report.files, report.indexed, report.unchanged, report.skipped, report.failed) == (6, 3, 1, 1, 1)
    assert (report.removed, report.chunks_added, report.chunks_removed) == (1, 2 + 2, 1 + 4)
    assert report.chunks_total == 2 + 4 + 2 + 1 == len(place.contents())
    assert (report.embedded, report.embedding_calls) == (4, 2) == (len(embedder.sent), embedder.requests)
    assert report.tokens == sum(map(embedder.count_tokens, embedder.sent))
    assert [(problem.path, problem.status) for problem in report.problems] == [
        ("bad.md", "failed"),
        ("empty.md", "warning"),
        ("picture.png", "skipped"),
    ]
