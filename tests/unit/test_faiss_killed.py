"""A process that writes the FAISS store may die at any step: the next opening finds the state before or after."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kb.store._faiss_files import damage
from tests.faiss_tasks import CHANGES, made_rows, names, open_store
from tests.fork_server import ForkServer

MOST_STEPS = 200
AGAIN_EVERY = 3
"""After every third step the change is made once more, which takes longer than all else."""


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with ForkServer("tests.faiss_tasks") as running:
        yield running


def contents(folder: Path, options: dict[str, Any]) -> dict[str, Any]:
    """All of a store, by id, each chunk found by its own vector, too."""
    store = open_store(folder, **options)
    try:
        ids = list(store.chunk_ids())
        rows = store.rows(ids)
        assert store.count() == len(ids) == len(rows)
        for i in ids[::7]:
            assert i in dict(store.search(rows[i].vector[None], 3)[0])
        return {i: (row.place, row.vector.tobytes()) for i, row in rows.items()}
    finally:
        store.close()


@pytest.mark.parametrize("change", CHANGES)
def test_killed_at_any_step_of_a_change(server: ForkServer, tmp_path: Path, change: str) -> None:
    options: dict[str, Any] = {"fold_rows": 20}
    before_folder = tmp_path / "before"
    store = open_store(before_folder, **options)
    store.upsert(made_rows(names(0, CHANGES[change].rows_before)))
    store.close()
    before = contents(before_folder, options)
    after = changed(server, before_folder, tmp_path / "whole", options, change, MOST_STEPS)
    assert after not in (before, None)
    seen = []
    for step in range(1, MOST_STEPS):
        folder = tmp_path / str(step)
        if changed(server, before_folder, folder, options, change, step) is not None:
            break
        assert damage(folder, filled=True) is None
        found = contents(folder, options)
        assert found in (before, after), f"step {step}"
        seen.append(found == after)
        if step % AGAIN_EVERY:
            continue
        store = open_store(folder, **options)
        CHANGES[change].make(store)
        store.close()
        assert contents(folder, options) == after, f"step {step}, and the change once more"
        for kind in ("index-*", "tail-*"):
            assert len(list(folder.glob(kind))) <= 1, "what the interrupted one left is gone"
    assert len(seen) > 10
    assert set(seen) == {True, False}, "it was killed before and after it counted"


def changed(
    server: ForkServer, before: Path, folder: Path, options: dict[str, Any], change: str, step: int
) -> dict[str, Any] | None:
    """Change a copy in a process that dies before a step; what it holds then, or None when the process was killed."""
    shutil.copytree(before, folder)
    child = server.start(
        "tests.faiss_tasks:change_and_die", folder=str(folder), options=options, change=change, step=step
    )
    code, _ = child.wait()
    assert code in (0, -9)
    return contents(folder, options) if code == 0 else None
