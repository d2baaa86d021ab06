"""A collection copied into another store: compared row by row, used once it is configured, and the old one safe."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kb.components import Parts, StorePlace, build_component
from kb.errors import ConfigError, KbError, LockedError, NothingIngestedError, StoreError
from kb.ingest.lock import write_lock
from kb.ledger.ledger import Ledger
from kb.maintenance.copying import MOST_DIFFERENCE, Copied
from kb.payloads import StoredRow
from kb.settings import component_names
from tests.chroma_server import chroma_server
from tests.commands import one_line, run
from tests.end_to_end._bases import CHUNKING, UNREADABLE, CountingEmbedder, Place, a_text
from tests.end_to_end.test_ingest_interrupted import interrupted_at
from tests.end_to_end.test_new_component import copy as package_copy  # noqa: F401  a fixture
from tests.end_to_end.test_new_component import python
from tests.end_to_end.test_upkeep_repair import check

COPY = "pipelines.copy"
SURROGATE = b"caf\xff.md".decode("utf-8", "surrogateescape")


def a_collection(tmp_path: Path, store: str = "memory", **options: Any) -> Place:
    """Three languages, a file name that is no text, a failed file, twins, and a chunk without a heading."""
    place = Place(tmp_path / "documents", tmp_path / "data", store, CountingEmbedder(), options)
    place.write("a.md", a_text(["one", "two", "zebra"]))
    place.write("zh/说明.md", "# 退款\n\n## 期限\n\n七天之内可以退款。🦜\n\n## 联系\n\n请写信给我们。\n")
    place.write("ja/返金.md", "# 返金\n\n## 期限\n\n七日以内に返金できます。\n")
    place.write(SURROGATE, a_text(["lion"]))
    place.write("twin.txt", "no heading here")
    place.write("twin2.txt", "no heading here")
    place.write("broken.md", UNREADABLE)
    place.ingest()
    return place


def copied(place: Place, to: str, **options: object) -> Copied:
    with place.open() as base:
        return base.upkeep.copy(to, **options)


@dataclass(frozen=True)
class Held:
    """What the folders of generations hold, read from the stores themselves."""

    places: Mapping[str, tuple[Any, ...]]
    vectors: Mapping[str, Any]


def held_in(place: Place, store: str, number: int, **options: Any) -> Held:
    """Everything that a store says of a generation."""
    with Ledger(place.folder, read_only=True) as ledger:
        current = ledger.current_generation()
        assert current is not None
    at = StorePlace(
        place.folder / "generations" / str(number), "knowledge_base", "knowledge_base", current.fingerprint, 64, number
    )
    with closing(build_component("store", store, options, Parts(place=at))) as opened:
        rows: dict[str, StoredRow] = opened.rows(list(opened.chunk_ids()))
        assert opened.count() == len(rows)
    return Held({i: row.place for i, row in rows.items()}, {i: row.vector for i, row in rows.items()})


def assert_same(one: Held, other: Held) -> None:
    assert one.places == other.places
    for i, vector in one.vectors.items():
        np.testing.assert_allclose(other.vectors[i], vector, atol=MOST_DIFFERENCE)


def sent(place: Place) -> int:
    assert isinstance(place.embedder, CountingEmbedder)
    return len(place.embedder.sent)


@pytest.mark.parametrize("first", component_names("store"))
def test_a_copy_from_each_store_to_each_other_one_holds_the_same(tmp_path: Path, first: str) -> None:
    place = a_collection(tmp_path, first)
    before, paid = held_in(place, first, 1), sent(place)
    assert len([row for row in before.places.values() if str(row[0]).startswith(("zh/说明", "ja/返金", "caf"))]) == 4
    others = [name for name in component_names("store") if name != first]
    for number, second in enumerate(others, start=2):
        done = copied(place, second)
        assert (done.store, done.chunks, done.searched, done.fault) == (second, 9, 9, None)
        assert done.largest_difference <= MOST_DIFFERENCE
        assert_same(held_in(place, second, number), before)
        assert len(replace(place, store=second).found("zebra")) == 1
    assert_same(held_in(place, first, 1), before)
    assert sent(place) == paid


def test_a_copy_is_used_by_a_change_of_one_line_and_the_next_ingest_goes_over_to_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = "memory", "chroma"
    place = a_collection(tmp_path, first)
    before, paid = held_in(place, first, 1), sent(place)
    done = copied(place, second)
    assert (done.store, done.former, done.chunks, done.without_vector) == (second, first, len(before.places), 0)
    assert (done.fault, done.settings) == (None, {"store": {"use": second}})
    assert_same(held_in(place, second, 2), before)
    assert_same(held_in(place, first, 1), before)

    # Both answer, and an ingest that changes nothing leaves both.
    other = replace(place, store=second)
    for _ in range(2):
        for one in (place, other):
            assert len(one.found("zebra")) == 1
            assert "七天之内可以退款" in one.found("七天之内可以退款")[0]
            with one.open() as base:
                assert base.status().store_fault is None
        assert place.ingest().unchanged == 6
        assert place.generation_folders == ["1", "2"]
    assert check(other).faults == ()

    # The first ingest with the other store goes over to it for good, and deletes the former.
    assert other.ingest().embedded == 0
    assert other.generation_folders == ["2"]
    assert_same(held_in(other, second, 2), before)
    assert len(other.contents()) == len(before.places)
    with pytest.raises(StoreError, match=f"'{first}' does not hold .* is in '{second}'. Configure it again"):
        place.found("zebra")

    # The former setting does not take it back without a word.
    shutil.copytree(place.data, tmp_path / "elsewhere")
    replace(place, data=tmp_path / "elsewhere").ingest()
    assert [record.getMessage() for record in caplog.records if "filled into" in record.getMessage()] == [
        "the collection was in the store 'chroma'; it is now filled into 'memory', which is configured"
    ]

    # And back.
    assert copied(other, first).chunks == len(before.places)
    assert place.ingest().embedded == 0
    assert place.generation_folders == ["3"]
    assert_same(held_in(place, first, 3), before)
    assert len(place.found("zebra")) == 1
    assert sent(place) == paid


def test_an_ingest_that_changes_something_makes_a_copy_out_of_date_and_deletes_it(tmp_path: Path) -> None:
    place = a_collection(tmp_path)
    copied(place, "chroma")
    with place.open() as base:
        kept = base.status().copy
        assert kept is not None
        assert (kept.store, kept.chunks) == ("chroma", 9)
    (place.documents / "a.md").unlink()
    place.write("b.md", a_text(["tiger"]))
    place.ingest()
    assert place.generation_folders == ["1"]
    with place.open() as base:
        assert base.status().copy is None
    other = replace(place, store="chroma")
    with pytest.raises(StoreError, match=r"'chroma' does not hold .* is in 'memory'.*fill this one"):
        other.found("tiger")
    assert other.ingest().embedded == 0
    assert len(other.found("tiger")) == 1


def test_a_second_copy_takes_the_place_of_the_first(tmp_path: Path) -> None:
    place = a_collection(tmp_path)
    for number in ("2", "3"):
        copied(place, "chroma")
        assert place.generation_folders == ["1", number]
    assert len(replace(place, store="chroma").found("zebra")) == 1


def test_a_repair_by_the_new_settings_and_a_rebuild_end_a_copy(tmp_path: Path) -> None:
    place = a_collection(tmp_path)
    copied(place, "chroma")
    other = replace(place, store="chroma")
    with other.open() as base:
        assert base.upkeep.repair().chunks == 9
    assert len(other.generation_folders) == 1
    assert len(other.found("zebra")) == 1
    copied(other, "memory")
    other.ingest(rebuild=True)
    assert len(other.generation_folders) == 1
    assert len(other.contents()) == 9


def test_a_reader_with_the_former_settings_is_not_interrupted_by_a_copy(tmp_path: Path) -> None:
    place = a_collection(tmp_path)
    with place.open() as reader:
        assert len(reader.search("zebra", cutoff=0.3).hits) == 1
        copied(place, "chroma")
        assert len(reader.search("zebra", cutoff=0.3).hits) == 1
        replace(place, store="chroma").ingest()
        with pytest.raises(StoreError, match="is in 'chroma'"):
            reader.search("zebra")


# ── to a server and back ──


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with chroma_server(tmp_path_factory.mktemp("server") / "data") as url:
        yield url


def test_a_copy_goes_to_a_server_and_back_into_a_folder(tmp_path: Path, server: str) -> None:
    place = a_collection(tmp_path, "chroma")
    before, paid = held_in(place, "chroma", 1), sent(place)
    done = copied(place, "chroma", url=server)
    assert done.store == f"chroma at {server}"
    assert done.settings == {"store": {"use": "chroma"}, "store.chroma": {"url": server}}
    assert_same(held_in(place, "chroma", 2, url=server), before)
    on_server = replace(place, store_options={"url": server})
    assert len(on_server.found("zebra")) == len(place.found("zebra")) == 1
    assert on_server.ingest().embedded == 0
    assert on_server.generation_folders == ["2"]
    with on_server.open() as base, pytest.raises(KbError, match=f"is in the store 'chroma at {server}' already"):
        base.upkeep.copy("chroma")
    done = copied(on_server, "chroma", url="")
    assert done.former == f"chroma at {server}"
    assert_same(held_in(place, "chroma", 3), before)
    assert place.ingest().embedded == 0
    assert place.generation_folders == ["3"]
    assert held_in(place, "chroma", 2, url=server).places == {}, "the server's rows are deleted"
    assert sent(place) == paid


def test_what_a_copy_left_on_a_server_when_it_was_killed_is_deleted_by_the_next_run(
    tmp_path: Path, server: str
) -> None:
    place = a_collection(tmp_path)
    target = replace(place, store="chroma", store_options={"url": server})
    # As after a kill in the middle of filling: rows there, and here only what names the server.
    with closing(build_component("store", "chroma", {"url": server}, Parts(place=a_place(place, 7)))) as opened:
        opened.upsert([])
    left_over = place.folder / "generations" / "7"
    left_over.mkdir()
    (left_over / "being-filled").write_text(f"chroma at {server}")
    place.ingest()
    assert place.generation_folders == ["1"]
    assert f"{a_place(place, 7).slug}-g7" not in names_on(server)
    assert copied(place, "chroma", url=server).chunks == 9
    assert len(target.found("zebra")) == 1
    with place.open() as base:
        base.upkeep.delete()
    assert not place.folder.exists()
    assert not [name for name in names_on(server) if name.startswith("knowledge_base-")]


def a_place(place: Place, number: int) -> StorePlace:
    return StorePlace(place.folder / "x", "knowledge_base", "knowledge_base", "counting:64", 64, number)


def names_on(url: str) -> list[str]:
    import chromadb
    from chromadb.config import Settings

    from kb.store._chroma_calls import close_client

    host, port = url.removeprefix("http://").split(":")
    client = chromadb.HttpClient(host, int(port), settings=Settings(anonymized_telemetry=False))
    try:
        return [one.name for one in client.list_collections()]
    finally:
        close_client(client)


# ── what is refused, and what fails ──


def test_what_cannot_be_copied_is_refused_and_nothing_is_changed(tmp_path: Path) -> None:
    place = a_collection(tmp_path)
    for to, options, error, said in (
        ("qdrnt", {}, ConfigError, r"'qdrnt': there is no such component; allowed: .*chroma.*memory"),
        ("chroma", {"ulr": "http://x"}, ConfigError, r"\[store.chroma\] ulr: unknown key"),
        ("memory", {}, KbError, r"is in the store 'memory' already, .*pipelines\.status --repair$"),
        ("chroma", {"url": "http://127.0.0.1:9"}, StoreError, "could not be reached"),
    ):
        with pytest.raises(error, match=said):
            copied(place, to, **options)
        assert place.generation_folders == ["1"]
    with write_lock(place.folder, "ingest"), pytest.raises(LockedError):
        copied(place, "chroma")
    with pytest.raises(NothingIngestedError):
        copied(replace(place, data=tmp_path / "nothing"), "chroma")
    assert len(place.found("zebra")) == 1


def test_an_empty_collection_is_copied_as_well(tmp_path: Path) -> None:
    place = Place(tmp_path / "documents", tmp_path / "data", "memory", CountingEmbedder())
    place.write("b.md", a_text(["lion"]))
    place.ingest()
    (place.documents / "b.md").unlink()
    place.ingest(allow_removals=True)
    done = copied(place, "chroma")
    assert (done.chunks, done.searched, done.largest_difference) == (0, 0, 0.0)
    other = replace(place, store="chroma")
    assert other.found("zebra") == []
    place.write("a.md", a_text(["zebra"]))
    other.ingest()
    assert len(other.found("zebra")) == 1


def test_a_store_in_use_that_is_lost_is_told_and_the_copy_is_made_from_the_ledger(tmp_path: Path) -> None:
    place = a_collection(tmp_path)
    before = held_in(place, "memory", 1)
    shutil.rmtree(place.folder / "generations" / "1")
    done = copied(place, "chroma")
    assert "has been deleted" in str(done.fault)
    assert_same(held_in(place, "chroma", 2), before)
    assert len(replace(place, store="chroma").found("zebra")) == 1


def test_an_interrupt_at_any_line_of_a_copy_leaves_the_old_store_as_it_was(tmp_path: Path) -> None:
    place = a_collection(tmp_path, "chroma")
    before = held_in(place, "chroma", 1)
    other = replace(place, store="memory")
    line, lines = 0, 0
    while lines >= line:
        line += 17
        lines = interrupted_at(line, lambda: copied(place, "memory"), r"copying\.py|repair\.py|copies\.py|left_over")
        assert len(place.found("zebra")) == 1, f"line {line}"
        with suppress(StoreError):
            assert len(other.found("zebra")) == 1, f"line {line}: what is not whole is refused"
        assert place.ingest().unchanged == 6
        assert len(place.generation_folders) <= 2
    assert line > 60
    assert_same(held_in(place, "chroma", 1), before)
    assert len(other.found("zebra")) == 1


# ── a store that lies ──

LIAR = '''
"""The store of memory with a fault that an option names."""

from dataclasses import replace
from typing import Literal

from kb.components import Parts
from kb.settings import ComponentOptions
from kb.store._rows import place_of
from kb.store.memory import MemoryStore


class Options(ComponentOptions):
    """What goes wrong."""

    fault: Literal["none", "loses", "alters", "turns", "forgets places", "counts wrong", "finds nothing"] = "none"


class Liar(MemoryStore):
    """Does not keep what it is given."""

    fault = "none"

    def upsert(self, rows):
        rows = list(rows)
        first = rows[0]
        if self.fault == "loses":
            rows[0] = replace(first, chunk=replace(first.chunk, id="x" + first.chunk.id))
        elif self.fault == "alters":
            rows[0] = replace(first, chunk=replace(first.chunk, text=first.chunk.text + " "))
        elif self.fault == "turns":
            rows[0] = replace(first, vector=first.vector * 0.9999)
        elif self.fault == "forgets places":
            rows[0] = replace(first, chunk=replace(first.chunk, heading_path=(), start=first.chunk.start + 1))
        super().upsert(rows)

    def chunk_ids(self):
        yield from super().chunk_ids()
        if self.fault == "counts wrong":
            yield "stranger"

    def search(self, vectors, limit, where=None):
        return [[] for _ in vectors] if self.fault == "finds nothing" else super().search(vectors, limit, where)


def build(options: Options, parts: Parts) -> Liar:
    """Open it."""
    store = Liar(place_of("liar_demo", parts))
    store.fault = options.fault
    return store
'''

SCRIPT = """
import json, sys
from pathlib import Path
from kb.errors import StoreError
from tests.end_to_end._bases import CountingEmbedder, Place, a_text

place = Place(Path("documents"), Path("data"), "memory", CountingEmbedder())
place.write("a.md", a_text(["one", "two", "zebra"]))
place.write("zh.md", "# 退款\\n\\n七天之内可以退款。")
place.ingest()
before = place.contents()
for fault in json.loads(sys.argv[1]):
    try:
        with place.open() as base:
            copied = base.upkeep.copy("liar_demo", fault=fault)
        said = f"copied {copied.chunks}, {copied.settings}"
    except StoreError as error:
        said = str(error)
    assert place.contents() == before and len(place.found("zebra")) == 1
    print(json.dumps({"fault": fault, "said": said, "folders": place.generation_folders}))
"""

FAULTS = {
    "loses": "it lacks 1 (",
    "alters": "another text, source or place of 1 (",
    "forgets places": "another text, source or place of 1 (",
    "turns": "another vector of 1 (",
    "counts wrong": "it lists 5 chunks and counts 4 instead of 4",
    "finds nothing": "a search for its own vector does not find 4",
    "none": "copied 4, {'store': {'use': 'liar_demo'}, 'store.liar_demo': {'fault': 'none'}}",
}


def test_a_store_that_does_not_give_back_what_it_was_given_is_found_out(package_copy: Path) -> None:  # noqa: F811
    (package_copy / "kb" / "store" / "liar_demo.py").write_text(LIAR, encoding="utf-8")
    for name in ("__init__.py", "end_to_end"):
        source = Path(__file__).parents[1] / name
        if source.is_dir():
            (package_copy / "tests" / name).mkdir()
            shutil.copy(source / "_bases.py", package_copy / "tests" / name)
        elif source.exists():
            shutil.copy(source, package_copy / "tests" / name)
    told = [json.loads(line) for line in python(package_copy, "-c", SCRIPT, json.dumps(list(FAULTS))).splitlines()]
    assert [one["fault"] for one in told] == list(FAULTS)
    for one in told:
        assert FAULTS[one["fault"]] in one["said"], one
        assert one["folders"] == (["1"] if one["fault"] != "none" else ["1", one["folders"][-1]])
        assert one["fault"] == "none" or "Nothing was changed" in one["said"]


# ── the command ──


def test_the_command_copies_says_what_to_configure_and_what_it_says_works(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    lines = f'data_dir = "data"\n[chunking.recursive]\nsize_tokens = {CHUNKING["recursive"]["size_tokens"]}\n'
    config.write_text(lines)
    place = Place(tmp_path / "documents", tmp_path / "data")
    place.write("说明.md", "# 退款\n\n七天之内可以退款。zebra")
    place.ingest(options={"collection": "笔记"})
    where = ("--collection", "笔记")
    done = run(COPY, "--to", "chroma", "--set", "ef_search=50", *where, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("1 chunk copied to the store 'chroma', 0 embedding calls: ")
    told = done.stdout[done.stdout.index("\n[store]") :]
    assert told == '\n[store]\nuse = "chroma"\n\n[store.chroma]\nef_search = 50\n'
    config.write_text(lines + told)
    done = run("kb.query", "七天之内可以退款", *where, cwd=tmp_path, env={"KB_STORE__USE": None})
    assert done.returncode == 0, done.stderr
    assert "七天之内可以退款" in done.stdout
    back = run(COPY, "--to", "memory", "--json", *where, cwd=tmp_path)
    assert one_line(back).startswith("error: the collection '笔记' is in the store 'memory' already")
    assert back.returncode == 2
    done = run(COPY, "--to", "chroma", "--set", "ef_search", *where, cwd=tmp_path)
    assert one_line(done).startswith("error: argument --set: should be the name of an option, = and its value")
