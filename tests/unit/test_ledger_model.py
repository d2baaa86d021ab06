"""Random histories of an ingest, with a crash after any step, against a plain dictionary."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from kb.ledger.documents import SourceRow
from kb.ledger.hashes import hashed, text_hash
from kb.ledger.ledger import Ledger
from kb.records import Chunk, Document
from tests.hashed_chunks import needing_upsert, replace_document

Words = tuple[str, ...]
Store = dict[str, str]
"""A vector store that keeps chunk id → payload hash and survives every crash."""

DOCUMENTS = st.sampled_from("abc")
WORDS = st.lists(st.sampled_from(("x", "yy", "知识", "🦜z")), unique=True, max_size=4).map(tuple)
STEPS = 5
"""Steps of one replacement: mark, upsert, flip, delete, forget."""

ACTIONS = st.one_of(
    st.tuples(st.just("replace"), DOCUMENTS, WORDS, st.integers(1, STEPS)),
    st.tuples(st.just("remove"), DOCUMENTS, st.just(()), st.integers(3, STEPS)),
    st.tuples(st.just("fail"), DOCUMENTS, st.just(()), st.just(STEPS)),
)


def cut(document_id: str, words: Words) -> tuple[Document, list[Chunk]]:
    text, chunks = "", []
    for word in words:
        chunks.append(Chunk(f"{document_id}/{word}", document_id, word, len(text), len(text) + len(word)))
        text += word + " "
    return Document(document_id, f"{document_id}.md", text, "", "text"), chunks


def source_row(document: Document, status: str = "indexed") -> SourceRow:
    return SourceRow(document.id, document.path, 1, 1, text_hash(document.text), status)  # type: ignore[arg-type]


def replace_steps(ledger: Ledger, store: Store, document_id: str, words: Words, steps: int) -> bool:
    """Do the first `steps` steps of an ingest of one document; say whether the flip was among them."""
    document, chunks = cut(document_id, words)
    due = needing_upsert(ledger, 1, document.path, chunks)
    ledger.mark_dirty(1, [chunk.id for chunk in due])
    if steps >= 2:
        store.update({chunk.id: hashed(chunk, document.path).payload_hash for chunk in due})
    if steps >= 3:
        gone = replace_document(ledger, 1, source_row(document), document, chunks)
        clean_up(ledger, store, gone, steps)
    return steps >= 3


def clean_up(ledger: Ledger, store: Store, gone: list[str], steps: int = STEPS) -> None:
    if steps >= 4:
        for chunk_id in gone:
            store.pop(chunk_id, None)
    if steps >= 5:
        ledger.forget_rows(1, gone)


def repair(ledger: Ledger, store: Store) -> None:
    """What the next run does first."""
    unsynced = list(ledger.unsynced_chunks(1))
    ledger.mark_dirty(1, [live.chunk.id for live in unsynced])
    for live in unsynced:
        store[live.chunk.id] = live.payload_hash
    ledger.mark_stored(1, {live.chunk.id: live.payload_hash for live in unsynced})
    clean_up(ledger, store, ledger.stale_rows(1))


def check(ledger: Ledger, store: Store, model: dict[str, Words]) -> None:
    live = {found.chunk.id: found for found in ledger.all_chunks(1)}
    assert {i: found.chunk.text for i, found in live.items()} == {
        f"{document_id}/{word}": word for document_id, words in model.items() for word in words
    }
    assert ledger.document_ids(1) == model.keys()
    # A reader finds every live chunk in the store with its payload, unless the ledger knows it doesn't …
    unsynced = {found.chunk.id for found in ledger.unsynced_chunks(1)}
    assert all(store[i] == found.payload_hash for i, found in live.items() if i not in unsynced)
    # … and nothing is in the store that the ledger has lost sight of.
    assert store.keys() <= set(ledger.stale_rows(1)) | live.keys()


@settings(max_examples=60, deadline=None)
@example([("replace", "a", ("x",), 3), ("remove", "a", (), 4), ("replace", "a", ("x",), 3)])
@example([("replace", "a", ("x",), 3), ("replace", "a", (), 4), ("replace", "a", ("x",), 3)])
@given(st.lists(ACTIONS, max_size=8))
def test_any_history_with_crashes_keeps_exactly_the_chunks_of_the_model(
    actions: list[tuple[str, str, Words, int]],
) -> None:
    model: dict[str, Words] = {}
    store: Store = {}
    with tempfile.TemporaryDirectory() as folder:
        with Ledger(Path(folder)) as ledger:
            ledger.begin_generation("e", 3)
        for action, document_id, words, steps in actions:
            with Ledger(Path(folder)) as ledger:
                if action == "replace":
                    if replace_steps(ledger, store, document_id, words, steps):
                        model[document_id] = words
                elif action == "remove":
                    clean_up(ledger, store, ledger.remove_documents(1, [document_id]), steps)
                    model.pop(document_id, None)
                else:
                    ledger.record_failure(1, source_row(cut(document_id, ())[0], "failed"))
                    assert ledger.sources(1)[document_id].status == "failed"
            # The process is gone here; what follows is the next one.
            with Ledger(Path(folder)) as ledger:
                check(ledger, store, model)
        with Ledger(Path(folder)) as ledger:
            repair(ledger, store)
            check(ledger, store, model)
            assert list(ledger.unsynced_chunks(1)) == []
            assert ledger.stale_rows(1) == []
            assert store == {found.chunk.id: found.payload_hash for found in ledger.all_chunks(1)}
