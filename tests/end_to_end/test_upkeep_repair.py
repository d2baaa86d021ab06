"""An index that is lost or damaged is noticed by whatever comes next, never a crash, and built anew from the ledger."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import chromadb
import numpy as np
import pytest
from chromadb.config import Settings

from kb.components import StoreRow
from kb.errors import StoreError
from kb.ledger.ledger import Ledger
from kb.maintenance import check as checking
from kb.maintenance.check import Checked
from kb.maintenance.repair import Repaired
from kb.store._chroma_calls import close_client
from tests.commands import ROOT, run
from tests.end_to_end._bases import NUMBERS, CountingEmbedder, Place, a_text
from tests.end_to_end.test_upkeep_status import kill_an_ingest

STATUS = "pipelines.status"
REPAIR = r"python -m pipelines\.status --repair"
both_stores = pytest.mark.parametrize("store", ["memory", "chroma", "faiss"])


def a_collection(tmp_path: Path, store: str = "memory") -> Place:
    place = Place(tmp_path / "documents", tmp_path / "data", store, CountingEmbedder())
    place.write("a.md", a_text(NUMBERS[:4]))
    place.write("b.md", a_text(["zebra"]))
    place.ingest()
    return place


def repair(place: Place) -> Repaired:
    with place.open() as base:
        return base.upkeep.repair()


def check(place: Place) -> Checked:
    with place.open() as base:
        return base.upkeep.check()


def assert_same(one: dict[str, tuple[Any, ...]], other: dict[str, tuple[Any, ...]]) -> None:
    """Compare contents; Chroma gives a vector back with another last bit now and then."""
    assert {i: row[:2] for i, row in one.items()} == {i: row[:2] for i, row in other.items()}
    for i, (_, _, vector) in one.items():
        np.testing.assert_allclose(np.frombuffer(vector, "<f4"), np.frombuffer(other[i][2], "<f4"), atol=1e-6)


# Repair


@both_stores
def test_a_deleted_index_is_told_by_the_next_command_and_repaired_without_an_embedding(
    tmp_path: Path, store: str
) -> None:
    place = a_collection(tmp_path, store)
    before = place.contents()
    assert isinstance(place.embedder, CountingEmbedder)
    sent = len(place.embedder.sent)
    shutil.rmtree(place.folder / "generations" / "1")
    with pytest.raises(StoreError, match=rf"has been deleted.*: {REPAIR}$"):
        place.found("zebra")
    with place.open() as base:
        assert "has been deleted" in str(base.status().store_fault)
    (fault,) = check(place).faults
    assert fault.mend == "python -m pipelines.status --repair"
    repaired = repair(place)
    assert (repaired.chunks, repaired.without_vector, len(place.embedder.sent)) == (5, 0, sent)
    assert_same(place.contents(), before)
    assert len(place.found("zebra")) == 1
    assert place.generation_folders == ["2"]
    assert place.ingest().unchanged == 2


def test_a_repair_needs_no_key_no_model_and_no_documents(tmp_path: Path) -> None:
    place = replace(a_collection(tmp_path), embedder=None)
    shutil.rmtree(place.documents)
    shutil.rmtree(place.folder / "generations")
    variables = {"KB_EMBEDDING__USE": "openai", "OPENAI_API_KEY": None, "KB_DATA_DIR": str(place.data)}
    done = run(STATUS, "--repair", cwd=tmp_path, env=variables)
    assert (done.returncode, done.stderr) == (0, "")
    assert "5 chunks, 0 embedding calls" in done.stdout
    assert run(STATUS, "--check", cwd=tmp_path, env=variables).returncode == 0


def test_a_repair_takes_the_configured_store(tmp_path: Path) -> None:
    place = a_collection(tmp_path, "memory")
    before = place.contents()
    other = replace(place, store="chroma")
    assert repair(other).chunks == 5
    assert_same(other.contents(), before)
    with pytest.raises(StoreError, match="is in 'chroma'"):
        place.found("zebra")


def test_questions_are_answered_during_a_repair_and_after_it(tmp_path: Path) -> None:
    place = a_collection(tmp_path, "chroma")
    answers = []
    with place.open() as reader, place.open(ingest={"batch_chunks": 1}) as base:

        def ask(chunks: int = 0) -> None:
            answers.append([hit.source for hit in reader.search("zebra", cutoff=0.3).hits])

        ask()
        from kb.maintenance.repair import repair as repair_with

        repair_with(base._store, ask)
        ask()
    assert answers == [["b.md"]] * 7


def test_chunks_without_a_vector_are_left_to_the_next_ingest(tmp_path: Path) -> None:
    place = a_collection(tmp_path)
    before = place.contents()
    with Ledger(place.folder) as ledger, ledger.transaction():
        ledger._connection.execute("DELETE FROM vectors WHERE rowid = 1")
    assert [fault.mend for fault in check(place).faults] == ["python -m pipelines.ingest"]
    repaired = repair(place)
    assert (repaired.chunks, repaired.without_vector) == (4, 1)
    assert place.ingest().embedded == 1
    assert place.contents() == before


def died_at(line: int, within: tuple[str, ...], work: Callable[[], object]) -> bool:
    """Run `work` in a forked process that is gone at one line of these files, as by kill -9; says whether it was."""
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    lines = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal lines
        if not frame.f_code.co_filename.endswith(within):
            return None
        if event == "line":
            lines += 1
            if lines == line:
                os._exit(9)
        return trace

    status = 1
    try:
        sys.settrace(trace)
        work()
        status = 0
    finally:
        os._exit(status)


def test_a_repair_that_is_killed_anywhere_leaves_a_store_that_answers(tmp_path: Path) -> None:
    start = a_collection(tmp_path)
    expected = start.contents()
    files = ("repair.py", "maintenance/locked.py", "ledger/upkeep.py", "left_over.py", "in_step.py", "opening.py")
    line, died = 0, True
    while died:
        line += 13
        place = replace(start, data=tmp_path / f"killed{line}")
        shutil.copytree(start.data, place.data)
        died = died_at(line, files, lambda: repair(place))  # noqa: B023  called at once
        assert len(place.found("zebra")) == 1, f"line {line}"
        assert place.contents() == expected, f"line {line}"
        repair(place)
        assert place.contents() == expected, f"line {line}"
        assert len(place.generation_folders) == 1, f"line {line}"
        shutil.rmtree(place.data)
    assert line > 60


# Damaged files

DAMAGE = """
import json, os, shutil, sys
from dataclasses import replace
from pathlib import Path
from kb.errors import KbError
from tests.end_to_end._bases import NUMBERS, CountingEmbedder, Place, a_text

start = Place(Path(sys.argv[1]), Path(sys.argv[2]), "chroma", CountingEmbedder(), {"sync_threshold": 10})
start.write("a.md", a_text([f"{word} {number}" for word in NUMBERS for number in range(3)]))
start.write("b.md", a_text(["zebra"]))
start.ingest()
(generation,) = (start.folder / "generations").iterdir()

def said(work):
    try:
        work()
    except KbError as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"

for number, file in enumerate(sorted(generation.rglob("*.*"))):
    for cut in (None, file.stat().st_size // 4):  # the files have room for more rows
        place = replace(start, data=start.data.with_name(f"damaged {number} {cut}"))
        shutil.copytree(start.data, place.data)
        target = place.data / file.relative_to(start.data)
        target.unlink() if cut is None else os.truncate(target, cut)
        for one in place.folder.rglob("*"):
            os.utime(one, (1, 1))
        told = {"file": file.name, "cut": cut, "question": said(lambda: place.found("zebra")),
                "unchanged": said(place.ingest)}
        place.write("c.md", a_text(["lion"]))
        told["ingest"] = said(place.ingest)
        (place.documents / "c.md").unlink()
        if cut is None:
            sent = len(place.embedder.sent)
            with place.open() as base:
                base.upkeep.repair()
            told["embedded"] = len(place.embedder.sent) - sent
            told["found"] = len(place.found("zebra"))
        print(json.dumps(told), flush=True)
"""


def test_every_file_of_the_index_can_be_missing_or_cut_off_without_a_crash_or_a_wrong_answer(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", DAMAGE, str(tmp_path / "documents"), str(tmp_path / "data")],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, (done.returncode, done.stderr[-1000:], told[-1:])
    assert len(told) == 2 * 6
    for one in told:
        for command in ("question", "ingest"):
            assert one[command].startswith("StoreError: "), one
            assert one[command].endswith("python -m pipelines.status --repair"), one
        # Whole pages that are missing of SQLite's file are only found when it is opened.
        assert one["unchanged"].startswith("StoreError: ") or one["file"] == "chroma.sqlite3", one
        assert (one.get("embedded", 0), one.get("found", 1)) == (0, 1), one


def test_an_index_that_was_cut_off_by_the_death_of_an_ingest_is_filled_again_by_the_next_one(tmp_path: Path) -> None:
    place = a_collection(tmp_path, "chroma")
    before = place.contents()
    assert isinstance(place.embedder, CountingEmbedder)
    (level,) = place.folder.rglob("data_level0.bin")
    os.truncate(level, 10)
    for one in place.folder.rglob("*"):
        os.utime(one, (1, 1))
    for _ in range(2):
        with pytest.raises(StoreError, match=REPAIR):
            place.ingest()
    kill_an_ingest(place)
    place.write("c.md", a_text(["lion"]))
    sent = len(place.embedder.sent)
    assert place.ingest().embedded == len(place.embedder.sent) - sent == 1
    assert_same({i: row for i, row in place.contents().items() if i in before}, before)
    assert check(place).faults == ()


# Check


@both_stores
def test_a_sound_collection_has_no_faults(tmp_path: Path, store: str) -> None:
    place = a_collection(tmp_path, store)
    checked = check(place)
    assert (checked.chunks, checked.sampled, checked.faults) == (5, 5, ())
    assert len(place.contents()) == 5


def faults_after(place: Place, change: Callable[[Any, list[StoreRow]], None]) -> list[str]:
    """What a check finds after a change of the store behind the ledger's back."""
    with Ledger(place.folder, read_only=True) as ledger:
        live = list(ledger.all_chunks(1))
        vectors = ledger.known_vectors("counting:64", [one.text_hash for one in live])
    opened = place.open_store()
    change(opened, [StoreRow(one.chunk, one.source, vectors[one.text_hash]) for one in live])
    opened.close()
    checked = check(place)
    assert {fault.mend for fault in checked.faults} <= {"python -m pipelines.status --repair"}
    assert repair(place).chunks == 5
    assert len(place.contents()) == 5
    return [fault.what for fault in checked.faults]


def test_rows_that_the_store_lost_are_found(tmp_path: Path) -> None:
    place = a_collection(tmp_path)
    (told,) = faults_after(place, lambda store, rows: store.delete([rows[0].chunk.id]))
    assert "lacks 1 (" in told


def test_rows_that_belong_to_no_document_are_found(tmp_path: Path) -> None:
    place = a_collection(tmp_path)

    def add(store: Any, rows: list[StoreRow]) -> None:
        store.upsert([replace(rows[0], chunk=replace(rows[0].chunk, id="stranger"))])

    (told,) = faults_after(place, add)
    assert "holds 1 (stranger) that are in no document" in told


def test_another_vector_or_place_than_the_ledgers_is_found(tmp_path: Path) -> None:
    place = a_collection(tmp_path)

    def change(store: Any, rows: list[StoreRow]) -> None:
        store.upsert([replace(rows[0], vector=-rows[0].vector), replace(rows[1], source="elsewhere.md")])

    vectors, *searched = faults_after(place, change)
    assert "other vectors than the ledger for 1 (" in vectors
    assert "another source or page than the ledger for 1 (" in searched[-1]


def test_a_collection_that_measures_distance_otherwise_is_told_and_repaired(tmp_path: Path) -> None:
    place = a_collection(tmp_path, "chroma")
    before = place.contents()
    client = chromadb.PersistentClient(
        os.path.realpath(place.folder / "generations" / "1"), settings=Settings(anonymized_telemetry=False)
    )
    metadata = client.get_collection("knowledge_base", embedding_function=None).metadata
    client.delete_collection("knowledge_base")
    client.create_collection(
        "knowledge_base", configuration={"hnsw": {"space": "l2"}}, metadata=metadata, embedding_function=None
    )
    close_client(client)
    with pytest.raises(StoreError, match="measures distance by 'l2'"):
        place.found("zebra")
    (fault,) = check(place).faults
    assert "measures distance by 'l2'" in fault.what
    assert repair(place).chunks == 5
    assert_same(place.contents(), before)
    with place.open() as base:
        (text,) = (chunk.embedded_text for _, chunk, _ in before.values() if "zebra" in chunk.text)
        assert base.search(text).hits[0].similarity == 1.0


def test_a_ledger_whose_file_is_damaged_is_found_and_not_repaired_into_loss(tmp_path: Path) -> None:
    place = Place(tmp_path / "documents", tmp_path / "data", embedder=CountingEmbedder(dimension=512))
    place.write("a.md", a_text([f"{word} {n}" for word in NUMBERS for n in range(9)]))
    place.ingest()
    with Ledger(place.folder) as ledger:
        (root,) = ledger._rows("SELECT rootpage FROM sqlite_master WHERE name = 'chunks'")
        ledger._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (size,) = ledger._rows("PRAGMA page_size")
    with (place.folder / "ledger.sqlite").open("r+b") as file:
        file.seek((root[0] - 1) * size[0])
        file.write(b"\xff" * 64)
    checked = check(place)
    assert checked.faults
    assert all("ledger is damaged" in fault.what and "pipelines.import FILE" in fault.mend for fault in checked.faults)


@pytest.mark.parametrize(
    ("fate", "told"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "crashed (SIGSEGV)"),
        ("import time; time.sleep(60)", "did not answer within 2 seconds"),
        ("import os; os._exit(3)", "ended with status 3"),
    ],
    ids=["crash", "hang", "exit"],
)
def test_a_store_that_takes_its_process_along_is_a_fault_and_not_the_end_of_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fate: str, told: str
) -> None:
    place = a_collection(tmp_path)
    (tmp_path / "early").mkdir()
    (tmp_path / "early" / "sitecustomize.py").write_text(fate)  # befalls each Python that is started
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "early"))
    monkeypatch.setattr(checking, "_LEAST_SECONDS", 2.0)
    (fault,) = check(place).faults
    assert told in fault.what
    assert fault.mend == "python -m pipelines.status --repair"


def test_the_command_says_what_is_wrong_and_ends_with_1(tmp_path: Path) -> None:
    place = replace(a_collection(tmp_path), embedder=None)
    store = place.open_store()
    store.delete(list(place.contents())[:1])
    store.close()
    variables = {"KB_DATA_DIR": str(place.data)}
    done = run(STATUS, "--check", cwd=tmp_path, env=variables)
    assert done.returncode == 1
    assert done.stdout.startswith("wrong: the store lacks 1 (")
    assert done.stdout.endswith("mend it: python -m pipelines.status --repair\n")
