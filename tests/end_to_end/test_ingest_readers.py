"""Questions go on while an ingest writes: real processes that ask all the time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.crash_harness import TASKS, new_server
from tests.end_to_end._bases import NUMBERS, CountingEmbedder, Place, a_text

if TYPE_CHECKING:
    from kb.components import FloatArray

READERS = 8
DOCUMENTS = ("harbour", "仓库", "倉庫", "crane")
SECTIONS = 5
CHUNKS = len(DOCUMENTS) * SECTIONS
WAYS: tuple[dict[str, Any], ...] = (
    {},
    # A new generation, cut otherwise; the old one is deleted below its readers.
    {"rebuild": True, "size_tokens": 40},
)


def write_version(documents: Path, version: int) -> None:
    documents.mkdir(exist_ok=True)
    for name in DOCUMENTS:
        parts = [
            f"## Part {word}\n\nThe {name} is about zebra {word} version{version}\n" for word in NUMBERS[:SECTIONS]
        ]
        (documents / f"{name}.md").write_text(f"# {name}\n\n" + "\n".join(parts), encoding="utf-8")


def test_eight_readers_see_one_state_of_each_document_during_ingests_and_rebuilds_and_the_new_one_after_them(
    tmp_path: Path,
) -> None:
    until = tmp_path / "end"
    with new_server() as server:
        write_version(tmp_path / "documents", 0)
        server.call(f"{TASKS}:ingest", folder=str(tmp_path))
        asking = {"folder": str(tmp_path), "dimension": 32, "question": "zebra", "chunks": CHUNKS, "until": str(until)}
        readers = [server.start(f"{TASKS}:read", **asking, anew=number % 2 == 1) for number in range(READERS)]
        for number, way in enumerate(WAYS, start=1):
            write_version(tmp_path / "documents", number)
            server.call(f"{TASKS}:ingest", folder=str(tmp_path), **way)
        until.touch()
        for reader in readers:
            seen = reader.result()
            assert seen["faults"] == {}, seen
            assert seen["asked"] > 2
            assert len(seen["texts"]) == CHUNKS
            assert {text.split()[-1] for text in seen["texts"]} == {f"version{len(WAYS)}"}


class InterruptedByAnIngest(CountingEmbedder):
    """While the first question is embedded, an ingest runs from beginning to end."""

    def __init__(self, place: Place, *, rebuild: bool) -> None:
        super().__init__()
        self._place = place
        self._rebuild: bool | None = rebuild

    def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        rebuild, self._rebuild = self._rebuild, None
        if rebuild is not None:
            self._place.ingest(rebuild=rebuild)
        return super().embed_queries(texts)


@pytest.mark.parametrize("rebuild", [False, True])
def test_a_search_in_the_middle_of_which_an_ingest_ends_finds_the_new_state(tmp_path: Path, rebuild: bool) -> None:
    place = Place(tmp_path / "documents", tmp_path / "data", embedder=CountingEmbedder())
    place.write("a.md", a_text(["zebra old", "giraffe old"]))
    place.ingest()
    place.write("a.md", a_text(["zebra new", "giraffe new"]))
    asking = place.with_embedder(InterruptedByAnIngest(place, rebuild=rebuild))
    assert "zebra new" in asking.found("zebra", keyword={"enabled": False})[0]
