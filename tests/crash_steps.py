"""The steps of an ingest by name, and how a process dies at one of them; kb itself knows nothing of it."""

from __future__ import annotations

import functools
import importlib
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

STEPS: dict[str, tuple[str, str]] = {
    "lock taken": ("kb.ingest.lock", "_write_holder"),
    "ledger opened": ("kb.ledger.ledger:Ledger", "__init__"),
    "generation begun": ("kb.ledger.ledger:Ledger", "begin_generation"),
    "texts embedded": ("tests.crash_tasks:LoggedEmbedder", "embed_documents"),
    "vectors into the ledger": ("kb.ledger.ledger:Ledger", "put_vectors"),
    "store opened": ("kb.store.chroma:ChromaStore", "__init__"),
    "rows marked dirty": ("kb.ledger.ledger:Ledger", "mark_dirty"),
    "store upsert": ("kb.store.chroma:ChromaStore", "upsert"),
    "ledger flip": ("kb.ledger.ledger:Ledger", "replace_documents"),
    "file touched": ("kb.ledger.ledger:Ledger", "touch_source"),
    "failure recorded": ("kb.ledger.ledger:Ledger", "record_failure"),
    "document removed": ("kb.ledger.ledger:Ledger", "remove_documents"),
    "store delete": ("kb.store.chroma:ChromaStore", "delete"),
    "rows forgotten": ("kb.ledger.ledger:Ledger", "forget_rows"),
    "all rows forgotten": ("kb.ledger.ledger:Ledger", "forget_all_rows"),
    "rows put back": ("kb.ledger.ledger:Ledger", "mark_stored"),
    "marker written": ("kb.ingest.synced_store", "remember_filled"),
    "marker taken away": ("kb.ingest.synced_store", "forget_filled"),
    "generation swapped": ("kb.ledger.ledger:Ledger", "complete_generation"),
    "left-over deleted": ("shutil", "rmtree"),
    "store closed": ("kb.store.chroma:ChromaStore", "close"),
    "store process started": ("kb.ingest.store_process:StoreProcess", "__init__"),
    "batch handed over": ("kb.ingest.store_process:StoreProcess", "begin_upsert"),
    "batch waited for": ("kb.ingest.store_process:StoreProcess", "_done"),
    "store process ended": ("kb.ingest.store_process:StoreProcess", "close"),
}
"""Every step of the order of writes, and the function that does it."""
BESIDE = {step for step, (place, _) in STEPS.items() if place.startswith("kb.ingest.store_process:")}
"""Those of an ingest whose store is open in a process of its own."""
COMMIT, STATEMENT = "ledger commit", "ledger statement"
"""Steps that are seen in SQL only; a process can die before them."""


def die_at(step: str, moment: str, call: int, number: int = signal.SIGKILL) -> None:
    """Have this process killed at a moment, or met by another signal."""
    calls = 0

    def meet() -> None:
        os.kill(os.getpid(), number)

    def reached() -> bool:
        nonlocal calls
        calls += 1
        return calls == call

    if step in (COMMIT, STATEMENT):

        def see(sql: str) -> None:
            if (step == STATEMENT or sql == "COMMIT") and reached():
                meet()

        _watch_sql(see)
        return
    place, name = STEPS[step]
    module, _, owner = place.partition(":")
    holder = importlib.import_module(module)
    holder = getattr(holder, owner) if owner else holder
    original = getattr(holder, name)

    @functools.wraps(original)
    def wrapped(*arguments: Any, **options: Any) -> Any:
        now = reached()
        if now and moment == "before":
            meet()
        if now and moment == "during":
            threading.Timer(0.002, meet).start()
        given = original(*arguments, **options)
        if now:
            meet()
        return given

    setattr(holder, name, wrapped)


def _watch_sql(see: Callable[[str], None]) -> None:
    connection: Any = importlib.import_module("kb.ledger.connection")
    original = connection.open_connection

    def opened(*arguments: Any, **options: Any) -> Any:
        made = original(*arguments, **options)
        made.set_trace_callback(see)
        return made

    connection.open_connection = opened
