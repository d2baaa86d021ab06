"""Token vectors in the ledger: from the pass that gives the vector, read by the reranker, pruned with the vector."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from kb.components import Parts
from kb.embedding.e5 import E5Embedder, Options, build
from kb.errors import LedgerError
from kb.ingest.paid_embedding import PaidEmbedding
from kb.ledger.hashes import text_hash
from kb.ledger.ledger import Ledger
from kb.ledger.schema import LEDGER_FILE, MIGRATIONS
from kb.records import SearchResult
from tests.end_to_end._bases import Place, a_text
from tests.model_passes import count_passes

WORDS = ["apples", "梅の花", "退款"]
MAXSIM = {"rerank": {"use": "maxsim"}}


@pytest.fixture(scope="module")
def keeping() -> E5Embedder:
    return build(Options(keep_token_vectors=True), Parts())


@pytest.fixture
def plain(keeping: E5Embedder, monkeypatch: pytest.MonkeyPatch) -> E5Embedder:
    """The same embedder as it is by default."""
    monkeypatch.setattr(keeping, "keep_token_vectors", False)
    return keeping


@pytest.fixture
def place(tmp_path: Path, keeping: E5Embedder) -> Place:
    place = Place(tmp_path / "documents", tmp_path / "data", embedder=keeping)
    place.write("a.md", a_text(WORDS))
    return place


def kept(place: Place) -> dict[str, bytes]:
    """What the ledger keeps, by the hashes of the texts."""
    with closing(sqlite3.connect(place.folder / LEDGER_FILE)) as connection:
        return dict(connection.execute("SELECT text_hash, states FROM token_vectors").fetchall())


def search(place: Place, question: str = "apples") -> SearchResult:
    with place.open(**MAXSIM) as base:
        return base.search(question, cutoff=-1.0)


def test_an_ingest_keeps_them_by_one_pass_a_chunk_and_a_question_reads_them(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes = count_passes(monkeypatch)
    chunks = place.ingest().chunks_total
    assert (len(passes), len(kept(place))) == (chunks, chunks)
    passes.clear()
    read = search(place)
    assert len(passes) == 2, "those of the question, by its vector and by its tokens"
    assert {hit.scored_by for hit in read.hits} == {"maxsim"}
    assert "apples" in read.hits[0].chunk.text


def test_turned_on_later_they_are_computed_for_each_question_until_a_rebuild(
    place: Place, keeping: E5Embedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as off:
        off.setattr(keeping, "keep_token_vectors", False)
        place.ingest()
    assert (place.ingest().embedded, kept(place)) == (0, {})
    first = search(place).hits[0].chunk.text
    before = place.contents()
    assert place.ingest(rebuild=True, dry_run=True).embedded == len(before), "a dry run tells what a run does"
    assert place.ingest(rebuild=True).embedded == len(before)
    assert len(kept(place)) == len(before)
    assert place.contents() == before, "the vectors are the same, bit for bit"
    assert search(place).hits[0].chunk.text == first
    assert place.ingest(rebuild=True).embedded == 0


def test_by_default_none_are_kept(place: Place, plain: E5Embedder) -> None:
    assert not build(Options(), Parts()).keep_token_vectors
    place.ingest()
    assert kept(place) == {}


def test_of_what_a_chunker_compares_none_are_kept(tmp_path: Path, keeping: E5Embedder) -> None:
    with Ledger(tmp_path) as ledger:
        PaidEmbedding(ledger, keeping, 1, lambda texts: None).of_texts(["A sentence."])
        key = text_hash("A sentence.")
        assert ledger.unknown_texts(keeping.fingerprint, [key]) == []
        assert ledger.unknown_texts(keeping.fingerprint, [key], tokens=True) == [key]


def test_a_vector_and_its_token_vectors_are_written_together_or_not_at_all(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object) -> None:
        raise LedgerError("the disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(Ledger, "put_token_vectors", full)
        with pytest.raises(LedgerError):
            place.ingest()
    with Ledger(place.folder) as ledger:
        assert ledger.vector_use().vectors == 0
    chunks = place.ingest().chunks_total
    assert len(kept(place)) == chunks


def test_a_prune_takes_them_with_the_vectors_and_a_repair_leaves_them(place: Place) -> None:
    place.write("b.md", a_text(["zebra"]))
    place.ingest()
    (place.documents / "b.md").unlink()
    place.ingest(allow_removals=True)
    everything, contents = kept(place), place.contents()
    with place.open() as base:
        base.upkeep.repair()
        assert kept(place) == everything
        use = base.status().vectors
        pruned = base.upkeep.prune()
    assert use.unused == 1
    assert use.unused_bytes > 384 * 4 + 96 * 5, "the size of both is told"
    assert pruned is not None
    assert pruned.vectors == 1
    assert len(kept(place)) == len(everything) - 1 == len(contents)
    assert place.contents() == contents


def test_an_export_leaves_them_out_and_where_it_is_imported_they_are_computed(place: Place, tmp_path: Path) -> None:
    place.ingest()
    with place.open() as base:
        base.upkeep.export(tmp_path / "all.zip")
    there = Place(tmp_path / "nowhere", tmp_path / "elsewhere", embedder=place.embedder)
    with there.open() as base:
        base.upkeep.import_(tmp_path / "all.zip")
    assert kept(there) == {}
    assert [hit.chunk.id for hit in search(there).hits] == [hit.chunk.id for hit in search(place).hits]


def test_a_ledger_from_before_they_were_kept_is_brought_up_to_date(tmp_path: Path) -> None:
    before = next(number for number, statements in enumerate(MIGRATIONS) if "token_vectors" in statements[0])
    with closing(sqlite3.connect(tmp_path / LEDGER_FILE)) as connection:
        connection.create_function("cut", 3, lambda *arguments: b"")
        for statement in (statement for statements in MIGRATIONS[:before] for statement in statements):
            connection.execute(statement)
        connection.execute("INSERT INTO vectors VALUES ('e5', 'hash', ?)", (np.ones(3, "<f4").tobytes(),))
        connection.execute(f"PRAGMA user_version = {before}")
        connection.commit()
    with Ledger(tmp_path) as ledger:
        assert ledger.known_vectors("e5", ["hash"])["hash"].tolist() == [1, 1, 1]
        assert ledger.known_token_vectors("e5", ["a text"]) == {}
        ledger.put_token_vectors("e5", [(text_hash("a text"), b"packed")])
        assert ledger.known_token_vectors("e5", ["a text", "other"]) == {"a text": b"packed"}
