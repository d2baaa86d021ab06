"""The store is a cache: it can be lost, or built anew beside the old one, without paying for a vector twice."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from kb.errors import ConfigError, IndexMismatchError, ServiceError, StoreError
from kb.ledger.ledger import Ledger
from tests.end_to_end._bases import NUMBERS, UNREADABLE, CountingEmbedder, Place, a_text

both_stores = pytest.mark.parametrize("store", ["memory", "chroma", "faiss"])


def a_collection(tmp_path: Path, store: str = "memory", embedder: CountingEmbedder | None = None) -> Place:
    place = Place(tmp_path / "documents", tmp_path / "data", store, embedder or CountingEmbedder())
    place.write("a.md", a_text(NUMBERS[:4]))
    place.write("b.md", a_text(["zebra"]))
    place.ingest()
    return place


# A store that lost something


@both_stores
def test_a_store_whose_folder_was_deleted_is_restored_without_embedding(tmp_path: Path, store: str) -> None:
    place = a_collection(tmp_path, store)
    before = place.contents()
    shutil.rmtree(place.folder / "generations")
    report = place.ingest()
    assert (report.unchanged, report.embedded, report.embedding_calls) == (2, 0, 0)
    assert (report.chunks_added, report.chunks_removed, report.chunks_total) == (0, 0, 5)
    assert place.contents() == before


@both_stores
def test_a_question_to_a_lost_store_does_not_hide_the_loss_from_the_next_ingest(tmp_path: Path, store: str) -> None:
    place = a_collection(tmp_path, store)
    before = place.contents()
    shutil.rmtree(place.folder / "generations")
    with pytest.raises(StoreError, match=r"not filled to the end.*: python -m pipelines\.status --repair$"):
        place.found("zebra")
    assert not (place.folder / "generations").exists(), "a question makes no empty store"
    place.ingest()
    assert place.contents() == before
    assert len(place.found("zebra")) == 1


@both_stores
def test_rows_that_were_lost_are_put_back_when_the_store_is_next_written(tmp_path: Path, store: str) -> None:
    place = a_collection(tmp_path, store)
    before = place.contents()
    opened = place.open_store()
    opened.delete(list(before)[:3])
    opened.close()
    place.write("c.md", a_text(["lion"]))
    report = place.ingest()
    assert (report.embedded, report.chunks_added) == (1, 1)
    after = place.contents()
    assert {i: after[i] for i in before} == before


@both_stores
def test_a_question_to_a_store_that_lost_rows_says_so_and_what_mends_it(tmp_path: Path, store: str) -> None:
    place = a_collection(tmp_path, store)
    before = place.contents()
    opened = place.open_store()
    opened.delete(list(before)[:1])
    opened.close()
    with pytest.raises(StoreError, match=r"lost rows: it holds 4 where 5 .*: python -m pipelines\.status --repair$"):
        place.found("zebra")
    assert place.ingest(rebuild=True).embedded == 0
    assert place.contents() == before
    assert len(place.found("zebra")) == 1


def test_rows_that_a_killed_run_had_not_yet_put_back_are_put_back_by_a_run_without_changes(tmp_path: Path) -> None:
    place = a_collection(tmp_path)
    before = place.contents()
    opened = place.open_store()
    opened.delete(list(before)[:3])
    opened.close()
    with Ledger(place.folder) as ledger:
        ledger.forget_rows(1, list(before)[:3])
    report = place.ingest()
    assert (report.unchanged, report.embedded) == (2, 0)
    assert place.contents() == before


def test_an_open_reader_sees_what_was_put_back(tmp_path: Path) -> None:
    place = a_collection(tmp_path)
    shutil.rmtree(place.folder / "generations")
    with place.open() as reader:
        with pytest.raises(StoreError, match="not filled to the end"):
            reader.search("zebra")
        place.ingest()
        (hit,) = reader.search("zebra", cutoff=0.3).hits
        assert (hit.source, hit.scored_by) == ("b.md", "fused")


@pytest.mark.parametrize(
    ("store", "file"), [("memory", "rows.npz"), ("chroma", "chroma.sqlite3"), ("faiss", "rows.sqlite")]
)
def test_a_damaged_store_is_told_with_what_mends_it_and_mended_without_embedding(
    tmp_path: Path, store: str, file: str
) -> None:
    place = a_collection(tmp_path, store)
    before = place.contents()
    (place.folder / "generations" / "1" / file).write_bytes(b"damaged" * 1000)
    place.write("c.md", a_text(["lion"]))
    with pytest.raises(StoreError, match=r"nothing is embedded\): python -m pipelines\.status --repair$"):
        place.ingest()
    report = place.ingest(rebuild=True)
    assert report.chunks_total == 6
    assert isinstance(place.embedder, CountingEmbedder)
    assert len(place.embedder.sent) == len(set(place.embedder.sent)) == 6
    after = place.contents()
    assert {i: after[i] for i in before} == before


# Another embedder


def test_another_embedder_is_refused_at_ingest_and_at_query_with_the_command_that_mends_it(tmp_path: Path) -> None:
    place = a_collection(tmp_path)
    before = place.contents()
    other = place.with_embedder(CountingEmbedder(dimension=32))
    for action in (other.ingest, lambda: other.found("zebra")):
        with pytest.raises(IndexMismatchError, match=r"python -m pipelines\.ingest --rebuild") as refused:
            action()
        assert (refused.value.stored, refused.value.configured) == ("counting:64", "counting:32")
    assert place.contents() == before
    report = other.ingest(rebuild=True)
    assert (report.indexed, report.embedded, report.chunks_total) == (2, 5, 5)
    assert len(other.found("zebra")) == 1
    assert other.contents().keys() == before.keys()
    assert other.ingest().unchanged == 2
    with pytest.raises(IndexMismatchError):
        place.found("zebra")


def test_another_model_of_the_same_dimension_is_refused_at_ingest_and_at_query_and_changes_nothing(
    tmp_path: Path,
) -> None:
    place = a_collection(tmp_path)
    before = place.contents()
    another = CountingEmbedder()
    another.fingerprint = "another model:64"
    for action in (place.with_embedder(another).ingest, lambda: place.with_embedder(another).found("zebra")):
        with pytest.raises(IndexMismatchError, match=r"counting:64, but another model:64 is configured.* --rebuild"):
            action()
    assert another.sent == []
    assert place.contents() == before


@both_stores
def test_the_old_generation_answers_until_the_new_one_is_complete_and_is_deleted_then(
    tmp_path: Path, store: str
) -> None:
    place = a_collection(tmp_path, store)
    answers = []

    class Asking(CountingEmbedder):
        """Asks the old generation whenever it embeds."""

        def embed_documents(self, texts: Any) -> Any:
            answers.append([hit.source for hit in reader.search("zebra", cutoff=0.3).hits])
            return super().embed_documents(texts)

    with place.open() as reader:
        place.with_embedder(Asking(dimension=32, batch_texts=2)).ingest(rebuild=True)
        assert answers == [["b.md"]] * 3
        with pytest.raises(IndexMismatchError):
            reader.search("zebra")
    assert place.generation_folders == ["2"]


# Rebuild


@both_stores
def test_a_rebuild_with_the_same_embedder_embeds_nothing(tmp_path: Path, store: str) -> None:
    place = a_collection(tmp_path, store)
    before = place.contents()
    report = place.ingest(rebuild=True)
    assert (report.indexed, report.unchanged, report.removed, report.embedded) == (2, 0, 0, 0)
    assert (report.chunks_added, report.chunks_removed, report.chunks_total) == (5, 0, 5)
    assert place.contents() == before
    assert place.generation_folders == ["2"]


def test_an_open_reader_goes_on_after_a_rebuild(tmp_path: Path) -> None:
    place = a_collection(tmp_path, "chroma")
    with place.open() as reader:
        assert len(reader.search("zebra", cutoff=0.3).hits) == 1
        place.ingest(rebuild=True)
        assert len(reader.search("zebra", cutoff=0.3).hits) == 1


def test_an_interrupted_rebuild_leaves_the_old_one_and_is_resumed(tmp_path: Path) -> None:
    place = a_collection(tmp_path)
    before = place.contents()
    options = {"ingest": {"batch_chunks": 5}}
    dying = CountingEmbedder(dimension=32, fails_after=4)
    with pytest.raises(ServiceError):
        place.with_embedder(dying).ingest(options=options, rebuild=True)
    assert place.contents() == before
    assert len(place.found("zebra")) == 1
    healthy = CountingEmbedder(dimension=32)
    report = place.with_embedder(healthy).ingest(options=options, rebuild=True)
    assert (report.indexed, report.unchanged, report.embedded, report.chunks_total) == (1, 1, 1, 5)
    assert set(healthy.sent).isdisjoint(dying.sent)
    assert place.contents().keys() == before.keys()
    assert place.generation_folders == ["2"]


def test_an_ordinary_ingest_goes_on_with_the_old_generation_after_an_interrupted_rebuild(tmp_path: Path) -> None:
    place = a_collection(tmp_path)
    dying = place.with_embedder(CountingEmbedder(dimension=32, fails_after=0))
    with pytest.raises(ServiceError):
        dying.ingest(rebuild=True)
    place.write("c.md", a_text(["lion"]))
    assert place.ingest().chunks_total == 6
    mended = place.with_embedder(CountingEmbedder(dimension=16))
    assert mended.ingest(rebuild=True).embedded == 6
    assert place.generation_folders == ["3"]


def test_a_rebuild_keeps_what_can_no_longer_be_read_and_loses_what_is_gone(tmp_path: Path) -> None:
    place = a_collection(tmp_path)
    place.write("c.md", a_text(["lion"]))
    hidden = place.write("sub/d.md", a_text(["tiger"]))
    place.ingest()
    expected = {i: row for i, row in place.contents().items() if row[0] != "c.md"}
    (place.documents / "c.md").unlink()
    place.write("b.md", UNREADABLE)
    outside = tmp_path / "outside"
    shutil.move(hidden.parent, outside)
    os.symlink(outside, hidden.parent, target_is_directory=True)
    report = place.ingest(rebuild=True)
    assert (report.indexed, report.failed, report.removed, report.embedded) == (1, 2, 1, 0)
    assert sorted(problem.path for problem in report.problems) == ["b.md", "sub", "sub/d.md"]
    assert place.contents() == expected
    assert len(place.found("zebra")) == len(place.found("tiger")) == 1
    assert place.ingest().failed == 2


def test_a_rebuild_takes_other_settings_of_the_store(tmp_path: Path) -> None:
    place = a_collection(tmp_path, "chroma")
    before = place.contents()
    other: dict[str, Any] = {"store": {"use": "chroma", "chroma": {"max_neighbors": 24}}}
    place.ingest(options=other, rebuild=True)
    with place.open(**other) as base:
        assert len(base.search("zebra", cutoff=0.3).hits) == 1
    with Ledger(place.folder, read_only=True) as ledger:
        generation = ledger.current_generation()
        assert generation is not None
        assert {found.chunk.id for found in ledger.all_chunks(generation.number)} == before.keys()


def test_a_rebuild_of_nothing_is_a_first_ingest(tmp_path: Path) -> None:
    place = Place(tmp_path / "documents", tmp_path / "data", embedder=CountingEmbedder())
    with pytest.raises(ConfigError, match="does not exist"):
        place.ingest(rebuild=True)
    place.write("a.md", a_text(NUMBERS[:4]))
    assert place.ingest(rebuild=True).chunks_total == len(place.contents()) == 4


def test_only_generations_are_deleted_from_the_folder_of_generations(tmp_path: Path) -> None:
    place = a_collection(tmp_path)
    (place.folder / "generations" / "77").mkdir()
    (place.folder / "generations" / "mine").mkdir()
    place.ingest()
    assert place.generation_folders == ["1", "mine"]
