"""How the contract suite builds each embedder: options and environment that a second process can use as well.

An embedder without an entry in `SETUPS` is built with its defaults.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kb.components import Embedder, Parts, build_component
from tests import tiny_sentence_model
from tests.llm_server import embedding_rows, embeddings_reply, scripted_server


@dataclass(frozen=True)
class Setup:
    """What an embedder is built with; `local` ones must give the same bits, services nearly the same."""

    options: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    local: bool = True
    missing: str | None = None
    """Why it cannot be built here."""


def build(name: str, setup: Setup) -> Embedder:
    parts = Parts(secret=lambda variable: setup.environment.get(variable) or os.environ.get(variable))
    embedder: Embedder = build_component("embedding", name, setup.options, parts)
    return embedder


@contextlib.contextmanager
def _e5(folder: Path) -> Iterator[Setup]:
    yield Setup({"cache_dir": str(folder), "threads": 2})


@contextlib.contextmanager
def _openai(folder: Path) -> Iterator[Setup]:
    del folder
    dimension = 16
    with scripted_server(lambda request: embeddings_reply(request, embedding_rows(request, dimension))) as server:
        yield Setup(
            {"base_url": server.base_url, "model": "a-model", "dimensions": dimension, "vocabulary": "bytes"},
            {"OPENAI_API_KEY": "none"},
            local=False,
        )


@contextlib.contextmanager
def _sentence_transformers(folder: Path) -> Iterator[Setup]:
    if reason := tiny_sentence_model.missing():
        yield Setup(missing=reason)
        return
    model = tiny_sentence_model.write_model(folder)
    prefixes = {"query_prefix": "查询:", "document_prefix": "passage: "}
    yield Setup({"model": str(model), "cache_dir": str(folder / "cache"), "threads": 2, **prefixes})


SETUPS: dict[str, Callable[[Path], AbstractContextManager[Setup]]] = {
    "e5": _e5,
    "openai": _openai,
    "sentence_transformers": _sentence_transformers,
}


def setup_for(name: str, folder: Path) -> AbstractContextManager[Setup]:
    """The setup of component `name`; `folder` is empty and its own."""
    return SETUPS[name](folder) if name in SETUPS else contextlib.nullcontext(Setup())
