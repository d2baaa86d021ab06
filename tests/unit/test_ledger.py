from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from kb.errors import LedgerError, NothingIngestedError
from kb.ledger.documents import SourceRow
from kb.ledger.hashes import hashed, text_hash
from kb.ledger.ledger import Ledger
from kb.ledger.schema import LEDGER_FILE, SCHEMA_VERSION
from kb.records import Chunk, Document, Heading, Page
from tests.hashed_chunks import needing_upsert, replace_document

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / "kb") as opened:
        opened.begin_generation("embedder-a", 3)
        yield opened


def a_document(document_id: str, words: Sequence[str]) -> tuple[SourceRow, Document, list[Chunk]]:
    """A document that has one chunk for each word; the same word gives the same id."""
    text = " ".join(words)
    chunks, start = [], 0
    for word in words:
        chunks.append(Chunk(f"{document_id}/{word}", document_id, word, start, start + len(word), header="Title"))
        start += len(word) + 1
    source = SourceRow(document_id, f"{document_id}.md", len(text), 17, text_hash(text), "indexed", pipeline="p1")
    return source, Document(document_id, source.path, text, "Title", "markdown"), chunks


def put(ledger: Ledger, document_id: str, words: Sequence[str], generation: int = 1) -> list[str]:
    source, document, chunks = a_document(document_id, words)
    ledger.mark_dirty(generation, [chunk.id for chunk in chunks])
    return replace_document(ledger, generation, source, document, chunks)


def live_ids(ledger: Ledger, generation: int = 1) -> set[str]:
    return {live.chunk.id for live in ledger.all_chunks(generation)}


# Opening


def test_an_empty_file_is_brought_to_the_newest_version(tmp_path: Path) -> None:
    (tmp_path / LEDGER_FILE).touch()
    with Ledger(tmp_path) as ledger:
        assert ledger.generations() == []
    with sqlite3.connect(tmp_path / LEDGER_FILE) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


_FORMER_WORDS = (
    "DROP TABLE word_rows",
    "DROP TABLE word_segments",
    "DROP TABLE word_gone",
    "DROP TABLE postings",
    "DROP TABLE token_vectors",
    "CREATE TABLE word_rows (id INTEGER PRIMARY KEY, generation INTEGER NOT NULL, chunk_id TEXT NOT NULL)",
    "CREATE VIRTUAL TABLE words USING fts5(terms)",
    "CREATE VIRTUAL TABLE word_counts USING fts5vocab(words, 'row')",
    "INSERT INTO word_rows VALUES (1, 1, 'a/one')",
)
"""What makes the index of words what it was up to version 3."""


def set_back(folder: Path, version: int, *statements: str) -> None:
    with sqlite3.connect(folder / LEDGER_FILE) as connection:
        for statement in (*_FORMER_WORDS, *statements):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {version}")
    connection.close()


def test_a_ledger_of_the_first_version_gets_the_texts_of_its_chunks(tmp_path: Path) -> None:
    with Ledger(tmp_path) as ledger:
        ledger.begin_generation("embedder-a", 3)
        put(ledger, "a", ["one", "二", "🦜"])
        put(ledger, "b", ["one"])
        before = list(ledger.all_chunks(1))
    set_back(tmp_path, 1, "DROP TABLE chunk_texts", "DROP TABLE set_aside")
    with pytest.raises(LedgerError, match="Run an ingest once"):
        Ledger(tmp_path, read_only=True)
    with Ledger(tmp_path) as ledger:
        assert list(ledger.all_chunks(1)) == before
        assert [live.chunk.text for live in before] == ["one", "二", "🦜", "one"]


def test_the_words_of_an_older_ledger_are_indexed_when_it_is_opened_for_writing(tmp_path: Path) -> None:
    texts = {"a": ["All payments were refunded.", "退款政策", "Nothing else."], "b": ["A refund of two payments"]}
    with Ledger(tmp_path) as ledger:
        ledger.begin_generation("embedder-a", 3)
        for document_id, some in texts.items():
            put(ledger, document_id, some)
        questions = ("the refund of a payment", "refunded", "退款政策", "otherwise")
        before = [ledger.find_words(1, question, 5).ranking for question in questions]
        weights = ledger.find_words(1, "refunds", 0).weights
    set_back(tmp_path, 3)
    with Ledger(tmp_path) as ledger:
        assert [ledger.find_words(1, question, 5).ranking for question in questions] == before
        assert [len(found) for found in before] == [2, 2, 1, 0]
        assert ledger.find_words(1, "refunds", 0).weights == weights
        assert weights.keys() == {"refund"}


def test_opening_again_keeps_what_was_written(tmp_path: Path) -> None:
    with Ledger(tmp_path) as ledger:
        ledger.set_root(tmp_path / "documents")
        ledger.set_collection_name("知识库")
    with Ledger(tmp_path) as ledger:
        assert ledger.root() == tmp_path / "documents"
        assert ledger.collection_name() == "知识库"


def test_a_ledger_of_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    Ledger(tmp_path).close()
    with sqlite3.connect(tmp_path / LEDGER_FILE) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    connection.close()
    for read_only in (False, True):
        with pytest.raises(LedgerError, match=r"newer version of kb.*Upgrade kb"):
            Ledger(tmp_path, read_only=read_only)


def test_a_file_that_is_no_database_is_a_ledger_error(tmp_path: Path) -> None:
    (tmp_path / LEDGER_FILE).write_bytes(b"no database" * 1000)
    for read_only in (False, True):
        with pytest.raises(LedgerError, match="cannot be opened"):
            Ledger(tmp_path, read_only=read_only)


def test_reading_before_the_first_ingest_says_so_and_creates_nothing(tmp_path: Path) -> None:
    with pytest.raises(NothingIngestedError, match=r"pipelines\.ingest"):
        Ledger(tmp_path / "kb", read_only=True)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / LEDGER_FILE).touch()  # as it is for a moment while the first ingest begins
    with pytest.raises(NothingIngestedError):
        Ledger(tmp_path, read_only=True)


def test_a_reader_cannot_write(ledger: Ledger) -> None:
    with Ledger(ledger.folder, read_only=True) as reader:
        with pytest.raises(LedgerError, match="for reading only"):
            reader.set_root(Path("x"))
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            reader._connection.execute("DELETE FROM meta")


def test_a_folder_with_characters_that_mean_something_in_a_url_works(tmp_path: Path) -> None:
    folder = tmp_path / "50% #1? 知识"
    Ledger(folder).close()
    assert (folder / LEDGER_FILE).exists()
    Ledger(folder, read_only=True).close()


def test_a_closed_ledger_says_so(ledger: Ledger) -> None:
    ledger.close()
    with pytest.raises(LedgerError, match="closed"):
        ledger.generations()


# Transactions


def put_two_and_fail(ledger: Ledger) -> None:
    with ledger.transaction():
        put(ledger, "a", ["x"])
        put(ledger, "b", ["y"])
        raise ZeroDivisionError


def test_a_transaction_that_fails_leaves_nothing_behind(ledger: Ledger) -> None:
    with pytest.raises(ZeroDivisionError):
        put_two_and_fail(ledger)
    assert live_ids(ledger) == set()
    assert ledger.stale_rows(1) == []


def test_an_inner_transaction_that_fails_is_undone_alone(ledger: Ledger) -> None:
    with ledger.transaction():
        put(ledger, "first", ["w"])
        with pytest.raises(ZeroDivisionError):
            put_two_and_fail(ledger)
        put(ledger, "c", ["z"])
    assert live_ids(ledger) == {"first/w", "c/z"}


def test_writing_inside_a_snapshot_is_refused_instead_of_mixing_two_states(ledger: Ledger) -> None:
    with ledger.snapshot(), pytest.raises(LedgerError, match="for reading only"):
        ledger.mark_dirty(1, ["x"])


def test_inside_a_snapshot_nothing_changes_while_another_connection_writes(ledger: Ledger) -> None:
    put(ledger, "a", ["old"])
    with Ledger(ledger.folder, read_only=True) as reader:
        with reader.snapshot():
            before = (live_ids(reader), reader.revision())
            put(ledger, "a", ["new"])
            assert (live_ids(reader), reader.revision()) == before == ({"a/old"}, before[1])
        assert live_ids(reader) == {"a/new"}
        assert reader.revision() > before[1]


def test_threads_may_share_one_ledger(ledger: Ledger) -> None:
    def work(name: str) -> list[int]:
        seen = []
        for count in range(1, 12):
            put(ledger, name, [f"w{i}" for i in range(count)])
            seen.append(len(ledger.chunks(1, [f"{name}/w{i}" for i in range(20)])))
        return seen

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, "abcd")) == [list(range(1, 12))] * 4
    assert ledger.counts(1).chunks == 4 * 11


# Generations


def test_a_generation_that_was_being_built_is_resumed_with_the_same_embedder_only(ledger: Ledger) -> None:
    put(ledger, "a", ["x"])
    assert ledger.begin_generation("embedder-a", 3).number == 1
    assert live_ids(ledger) == {"a/x"}
    other = ledger.begin_generation("embedder-b", 3)
    assert (other.number, other.state) == (2, "building")
    assert ledger.generations() == [other]
    assert (ledger.counts(1).chunks, ledger.counts(1).documents, ledger.stale_rows(1)) == (0, 0, [])


def test_a_complete_generation_takes_the_place_of_the_one_before(ledger: Ledger) -> None:
    put(ledger, "a", ["x"])
    assert ledger.current_generation() is None
    assert ledger.complete_generation(1) is None
    assert ledger.complete_generation(1) is None
    second = ledger.begin_generation("embedder-b", 4)
    put(ledger, "a", ["y"], second.number)
    current = ledger.current_generation()
    assert current is not None
    assert current.number == 1
    assert ledger.complete_generation(second.number) == current.folder_name == "1"
    assert [(g.number, g.state, g.fingerprint, g.dimension) for g in ledger.generations()] == [
        (2, "current", "embedder-b", 4)
    ]
    assert (live_ids(ledger, 1), live_ids(ledger, 2)) == (set(), {"a/y"})
    with pytest.raises(LedgerError, match="generation 7 is not in the ledger"):
        ledger.complete_generation(7)


def test_the_number_of_a_dropped_generation_is_never_used_again(ledger: Ledger) -> None:
    assert ledger.begin_generation("embedder-b", 3).number == 2
    assert ledger.begin_generation("embedder-c", 3).number == 3
    ledger.close()
    with Ledger(ledger.folder) as again:
        assert again.begin_generation("embedder-a", 3).number == 4
        assert again.generation_folder(again.generations()[0]) == ledger.folder / "generations" / "4"


# Documents and chunks


def test_a_document_comes_back_as_it_was_loaded(ledger: Ledger) -> None:
    text = "# 退款\n\n30 days 🦜\x0bend"
    document = Document(
        id="d",
        path="zh/退款.md",
        text=text,
        title="退款",
        kind="markdown",
        metadata={"author": "李", "year": 2024, "draft": False, "weight": 0.5},
        pages=(Page(1, 0, 0), Page(2, 0, len(text))),
        headings=(Heading(1, "退款", 0, 4),),
        warnings=("a guess",),
    )
    chunk = Chunk("c", "d", text[6:], 6, len(text), page=2, heading_path=("退款",), header="退款")
    source = SourceRow("d", document.path, 9, 2**62, "hash", "indexed", pipeline="p", warnings=document.warnings)
    ledger.mark_dirty(1, ["c"])
    replace_document(ledger, 1, source, document, [chunk])
    assert ledger.document(1, "d") == document
    assert ledger.document(1, "never") is None
    assert ledger.sources(1) == {"d": source}
    assert ledger.chunks(1, ["c", "never", "c"]) == {"c": (chunk, "zh/退款.md")}
    expected = hashed(chunk, "zh/退款.md")
    assert expected.text_hash == text_hash(chunk.embedded_text)
    assert list(ledger.all_chunks(1)) == [expected]
    assert ledger.document_ids(1) == {"d"}


def test_a_document_that_shrinks_from_10_chunks_to_4_keeps_exactly_4(ledger: Ledger) -> None:
    put(ledger, "a", [f"w{i}" for i in range(10)])
    assert sorted(put(ledger, "a", ["w0", "w2", "new", "w4"])) == ["a/w1", "a/w3", *(f"a/w{i}" for i in range(5, 10))]
    assert live_ids(ledger) == {"a/w0", "a/w2", "a/new", "a/w4"}
    assert [live.chunk.text for live in ledger.all_chunks(1)] == ["w0", "w2", "new", "w4"]


def test_chunks_are_read_without_the_texts_of_their_documents(ledger: Ledger) -> None:
    put(ledger, "a", ["one", "two"])
    before = list(ledger.all_chunks(1))
    with ledger.transaction():
        ledger._connection.execute("UPDATE documents SET text = x'00'")  # which cannot be unpacked
    assert list(ledger.all_chunks(1)) == before


def test_a_text_goes_with_its_chunk(ledger: Ledger) -> None:
    def texts() -> set[tuple[int, str]]:
        return set(ledger._connection.execute("SELECT generation, chunk_id FROM chunk_texts"))

    put(ledger, "a", ["one", "two", "three"])
    put(ledger, "b", ["four"])
    put(ledger, "a", ["three", "five"])
    assert texts() == {(1, "a/three"), (1, "a/five"), (1, "b/four")}
    ledger.remove_documents(1, ["a"])
    assert texts() == {(1, "b/four")}
    ledger.complete_generation(1)
    second = ledger.begin_generation("embedder-b", 3).number
    put(ledger, "b", ["six"], second)
    ledger.complete_generation(second)
    assert texts() == {(second, "b/six")}


def test_a_source_that_fails_keeps_its_document_searchable(ledger: Ledger) -> None:
    put(ledger, "a", ["x"])
    failed = SourceRow("a", "a.md", 5, 18, "other", "failed", reason="password", pipeline="p1")
    ledger.record_failure(1, failed)
    assert ledger.sources(1)["a"] == failed
    assert live_ids(ledger) == {"a/x"}
    document = ledger.document(1, "a")
    assert document is not None
    assert document.text == "x"
    with pytest.raises(LedgerError, match="replace_document"):
        ledger.record_failure(1, a_document("a", ["x"])[0])


def test_removing_documents_gives_their_chunks_and_ignores_the_unknown(ledger: Ledger) -> None:
    put(ledger, "a", ["x", "y"])
    put(ledger, "b", ["z"])
    assert sorted(ledger.remove_documents(1, ["a", "never"])) == ["a/x", "a/y"]
    assert list(ledger.sources(1)) == ["b"]
    assert ledger.document(1, "a") is None
    assert sorted(ledger.stale_rows(1)) == ["a/x", "a/y"]


def test_touching_changes_the_times_of_a_source_and_nothing_else(ledger: Ledger) -> None:
    put(ledger, "a", ["x"])
    before, revision = ledger.sources(1)["a"], ledger.revision()
    ledger.touch_source(1, "a", size=99, mtime_ns=100)
    after = ledger.sources(1)["a"]
    assert (after.size, after.mtime_ns) == (99, 100)
    assert (after.content_hash, after.pipeline, after.status) == (before.content_hash, before.pipeline, "indexed")
    assert ledger.revision() == revision
    with pytest.raises(LedgerError, match="never is not a source"):
        ledger.touch_source(1, "never", size=1, mtime_ns=1)


def test_a_chunk_that_is_no_span_of_its_document_is_refused(ledger: Ledger) -> None:
    source, document, _ = a_document("a", ["x", "y"])
    for wrong in (Chunk("c", "a", "y", 0, 1), Chunk("c", "b", "x", 0, 1)):
        ledger.mark_dirty(1, ["c"])
        with pytest.raises(LedgerError, match="chunk c is not the text from 0 to 1"):
            replace_document(ledger, 1, source, document, [wrong])


def test_chunks_that_were_not_marked_before_the_store_was_written_are_refused(ledger: Ledger) -> None:
    source, document, chunks = a_document("a", ["x", "y"])
    ledger.mark_dirty(1, [chunks[0].id])
    with pytest.raises(LedgerError, match="1 of its chunks were not marked"):
        replace_document(ledger, 1, source, document, chunks)
    assert live_ids(ledger) == set()
    assert ledger.sources(1) == {}


def test_a_file_name_that_is_no_text_can_be_recorded(ledger: Ledger) -> None:
    odd = os.fsdecode(b"caf\xe9.md")
    ledger.record_failure(1, SourceRow("id", odd, 1, 1, "", "failed", reason=f"{odd}: cannot be read"))
    assert ledger.sources(1)["id"].path == "caf?.md"
    with pytest.raises(LedgerError, match="valid Unicode"):
        ledger.record_failure(1, SourceRow(odd, odd, 1, 1, "", "failed"))


# Store rows


def test_what_the_store_lacks_or_holds_otherwise_needs_an_upsert(ledger: Ledger) -> None:
    source, document, chunks = a_document("a", ["x", "y", "z"])
    assert needing_upsert(ledger, 1, source.path, chunks) == chunks
    put(ledger, "a", ["x", "y", "z"])
    assert needing_upsert(ledger, 1, source.path, chunks) == []
    assert needing_upsert(ledger, 1, "moved.md", chunks) == chunks
    ledger.mark_dirty(1, ["a/y"])
    assert needing_upsert(ledger, 1, source.path, chunks) == [chunks[1]]
    assert [live.chunk.id for live in ledger.unsynced_chunks(1)] == ["a/y"]
    ledger.mark_stored(1, {live.chunk.id: live.payload_hash for live in ledger.unsynced_chunks(1)})
    assert list(ledger.unsynced_chunks(1)) == []
    assert document.id in ledger.document_ids(1)


def test_a_chunk_that_comes_back_after_a_crash_in_its_removal_is_written_again(ledger: Ledger) -> None:
    put(ledger, "a", ["x"])
    ledger.remove_documents(1, ["a"])
    put(ledger, "b", ["y", "z"])
    put(ledger, "b", ["z"])
    # The store has deleted a/x and b/y, and the process died before forget_rows: nobody can know.
    for document_id, word in (("a", "x"), ("b", "y")):
        source, _, chunks = a_document(document_id, [word])
        assert needing_upsert(ledger, 1, source.path, chunks) == chunks


def test_a_row_counts_as_written_when_its_write_was_acknowledged_and_while_its_chunk_is_live(ledger: Ledger) -> None:
    assert not ledger.has_chunks(1)
    ledger.mark_dirty(1, ["a/one", "a/two"])
    assert ledger.written_rows(1) == 0
    put(ledger, "a", ["one", "two", "three"])
    assert (ledger.has_chunks(1), ledger.written_rows(1)) == (True, 3)
    assert ledger.live_ids(1) == {"a/one", "a/two", "a/three"}
    revision = ledger.revision()
    put(ledger, "a", ["one"])
    assert ledger.written_rows(1) == 1
    assert ledger.revision() > revision, "who counted the rows before sees that it has to count again"
    assert ledger.written_rows(2) == 0


def test_after_the_store_was_lost_every_live_chunk_is_unsynced_with_its_vectors_key(ledger: Ledger) -> None:
    put(ledger, "a", ["x", "y"])
    put(ledger, "b", ["x"])
    ledger.forget_all_rows(1)
    unsynced = list(ledger.unsynced_chunks(1))
    assert [(live.chunk.id, live.source) for live in unsynced] == [("a/x", "a.md"), ("a/y", "a.md"), ("b/x", "b.md")]
    assert unsynced[0].text_hash == unsynced[2].text_hash == text_hash("Title\n\nx")


def test_chunks_removed_while_walking_are_left_out(ledger: Ledger) -> None:
    put(ledger, "a", [f"w{i}" for i in range(600)])
    walk = ledger.all_chunks(1)
    assert next(walk).chunk.text == "w0"
    put(ledger, "a", ["w0", "w599"])
    assert [live.chunk.text for live in walk][-1] == "w599"


def test_a_hundred_thousand_ids_are_paged_where_sqlite_takes_only_999_variables(ledger: Ledger) -> None:
    ledger._connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 999)
    put(ledger, "a", [f"w{i}" for i in range(5_000)])
    ids = [f"a/w{i}" for i in range(100_000)]
    assert len(ledger.chunks(1, ids)) == 5_000
    ledger.mark_dirty(1, ids)
    stale = ledger.stale_rows(1)
    assert len(stale) == 95_000
    ledger.forget_rows(1, stale)
    assert ledger.counts(1).store_rows == 5_000


# Vectors


def test_vectors_come_back_bit_for_bit_and_belong_to_one_embedder(ledger: Ledger) -> None:
    vectors = np.random.default_rng(1).normal(size=(2_500, 3)).astype(np.float32)
    keys = [text_hash(str(i)) for i in range(2_500)]
    ledger.put_vectors("embedder-a", zip(keys, vectors, strict=True))
    known = ledger.known_vectors("embedder-a", [*keys, "never"])
    assert list(known) != []
    assert all(known[key].dtype == np.float32 and (known[key] == vectors[i]).all() for i, key in enumerate(keys))
    assert len(known) == 2_500
    assert ledger.known_vectors("embedder-b", keys) == {}
    assert ledger.unknown_texts("embedder-a", ["new", keys[0], "other", "new"]) == ["new", "other"]
    assert ledger.counts(1).vectors == 2_500


def test_vectors_outlive_the_generation_that_paid_for_them(ledger: Ledger) -> None:
    ledger.put_vectors("embedder-a", [("k", np.ones(3, dtype=np.float32))])
    ledger.complete_generation(1)
    ledger.complete_generation(ledger.begin_generation("embedder-b", 3).number)
    assert list(ledger.known_vectors("embedder-a", ["k"])) == ["k"]


def test_a_vector_that_is_not_finite_is_not_kept_and_nor_is_its_batch(ledger: Ledger) -> None:
    good, bad = np.ones(3, dtype=np.float32), np.array([1, np.nan, 0], dtype=np.float32)
    with pytest.raises(LedgerError, match="no vector of finite numbers"):
        ledger.put_vectors("embedder-a", [("good", good), ("bad", bad)])
    assert ledger.known_vectors("embedder-a", ["good", "bad"]) == {}


# Other processes

READER = """
import sys
import threading
from pathlib import Path
sys.path[:0] = sys.argv[1:3]
import test_ledger as t
reads = set()
with t.Ledger(Path(sys.argv[3]), read_only=True) as ledger:
    print("ready", flush=True)
    ids = [f"a/{v}{i}" for v in "AB" for i in range(40)]
    while "B-last" not in reads:
        with ledger.snapshot():
            found = ledger.chunks(1, ids)
            text = ledger.document(1, "a").text
        versions = {chunk.text[0] for chunk, _ in found.values()}
        assert len(versions) == 1 and len(found) == 40, (versions, len(found))
        assert all(text[c.start:c.end] == c.text == i.split("/")[1] for i, (c, _) in found.items())
        reads.add(versions.pop())
        if text.endswith(" last"):
            reads.add("B-last")
print(sorted(reads))
"""


def test_a_reader_in_another_process_sees_the_old_or_the_new_document_never_a_mix(ledger: Ledger) -> None:
    versions = {version: [f"{version}{i}" for i in range(40)] for version in "AB"}
    put(ledger, "a", versions["A"])
    arguments = [sys.executable, "-c", READER, str(ROOT), str(Path(__file__).parent), str(ledger.folder)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "ready\n"
        for turn in range(200):
            put(ledger, "a", versions["BA"[turn % 2]])
        source, document, chunks = a_document("a", [*versions["B"], "last"])
        ledger.mark_dirty(1, [chunk.id for chunk in chunks])
        replace_document(ledger, 1, source, document, chunks)
        assert reader.stdout.read() == "['A', 'B', 'B-last']\n"
    assert reader.returncode == 0


WRITER = """
import sys
import threading
from pathlib import Path
sys.path[:0] = sys.argv[1:3]
import test_ledger as t
with t.Ledger(Path(sys.argv[3])) as ledger:
    for turn in range(100_000):
        t.put(ledger, "a", [f"{turn}w{i}" for i in range(30)])
        print(turn, flush=True)
"""


def test_what_was_acknowledged_is_there_after_kill_9(ledger: Ledger) -> None:
    arguments = [sys.executable, "-c", WRITER, str(ROOT), str(Path(__file__).parent), str(ledger.folder)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        for _ in range(25):
            acknowledged = int(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
        rest = writer.stdout.read().splitlines()
        acknowledged = int(rest[-1]) if rest else acknowledged
    texts = [live.chunk.text for live in ledger.all_chunks(1)]
    turn = int(texts[0].split("w")[0])
    assert turn in (acknowledged, acknowledged + 1)
    assert texts == [f"{turn}w{i}" for i in range(30)]


def test_ctrl_c_does_not_wait_for_a_long_statement_and_what_it_did_is_undone(tmp_path: Path) -> None:
    endless = "INSERT INTO meta WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i, i FROM n"
    with Ledger(tmp_path) as ledger:
        timer = threading.Timer(0.2, signal.raise_signal, [signal.SIGINT])
        timer.start()
        told = pytest.raises(KeyboardInterrupt)
        with told, ledger.transaction():
            ledger.set_collection_name("before")
            ledger._connection.execute(endless)
        timer.join()
        assert ledger.collection_name() is None
        ledger.set_collection_name("after")
        assert ledger.collection_name() == "after"


def test_the_ids_of_all_chunks_are_given_when_they_are_few(ledger: Ledger) -> None:
    assert ledger.few_ids(1, 0) == []
    put(ledger, "d", ["one", "two", "three"])
    assert set(ledger.few_ids(1, 3) or []) == live_ids(ledger)
    assert ledger.few_ids(1, 3) == sorted(live_ids(ledger))
    assert ledger.few_ids(1, 2) is None
