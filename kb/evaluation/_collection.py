"""A collection of an evaluation's own: every document of a corpus in a file, ingested as any folder is."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING

from kb.abilities import EmbedsInParts
from kb.errors import IndexMismatchError, KbError
from kb.evaluation._retrieval_data import Passage
from kb.evaluation._vectors import EVALUATION_FOLDER, KnownVectors
from kb.ingest.paid_embedding import batches
from kb.ledger.names import collection_slug
from kb.records import EmbeddedPart

if TYPE_CHECKING:
    from kb.components import Embedder
    from kb.ingest.report import IngestReport
    from kb.knowledge_base import KnowledgeBase

_WRITTEN = "written"
_SPECIAL = re.compile(r"([\\*?\[\]!# ])")
"""What patterns in gitignore form have a meaning for."""


@contextmanager
def corpus_collection(
    base: KnowledgeBase, name: tuple[str, str], corpus: Mapping[str, Passage], vectors: KnownVectors
) -> Iterator[tuple[KnowledgeBase, dict[str, str]]]:
    """A knowledge base of the corpus, not yet ingested, and the id of each of its files' documents.

    Args:
        base: Settings and embedder; its own collection is neither read nor changed.
        name: The evaluation's, and the data set's.
        corpus: By id.
        vectors: Where questions are embedded, so that each is once.
    """
    home = base.settings.data_dir / EVALUATION_FOLDER / name[0] / collection_slug(name[1])
    documents = home / "documents"
    names = _write(documents, corpus)
    with base.variant(documents_dir=documents, data_dir=home / "data") as own:
        own.embedder = _with_known_queries(base.embedder, vectors)
        yield own, names


@contextmanager
def folder_collection(
    base: KnowledgeBase, name: tuple[str, str], folder: Path, files: Sequence[str], vectors: KnownVectors
) -> Iterator[KnowledgeBase]:
    """A knowledge base of some files of a folder, not yet ingested.

    Args:
        base: Settings and embedder; its own collection is neither read nor changed.
        name: The evaluation's, and the data set's.
        folder: What is ingested of.
        files: Which of its files, by their paths below it.
        vectors: Where texts and questions are embedded, so that each is once.
    """
    home = base.settings.data_dir / EVALUATION_FOLDER / name[0] / collection_slug(name[1])
    include = tuple("/" + _SPECIAL.sub(r"\\\1", file) for file in files)
    loading = base.settings.loading.model_copy(update={"include": include, "exclude": ()})
    with base.variant(documents_dir=folder, data_dir=home / "data", loading=loading) as own:
        own.embedder = with_known_texts(base.embedder, vectors)
        yield own


def ingest(own: KnowledgeBase, dataset: str) -> IngestReport:
    """Ingest what `corpus_collection` has written.

    Raises:
        KbError: a part fails, or a document could not be ingested; what was embedded by then is kept.
    """
    try:
        report = own.ingest(allow_removals=True)  # a corpus may have changed altogether, or have moved with `data_dir`
    except IndexMismatchError:  # an earlier measurement was made with another embedder
        report = own.ingest(allow_removals=True, rebuild=True)
    if report.failed:
        raise KbError(f"{dataset}: {report.failed} documents could not be ingested: {report.problems[0]}")
    return report


def _write(folder: Path, corpus: Mapping[str, Passage]) -> dict[str, str]:
    """Have each document in a file of its own, whose name says nothing; the ids by file name."""
    names = {}
    content = hashlib.sha256()
    for number, (document, passage) in enumerate(corpus.items()):
        names[f"{number:07}.{'md' if passage.title else 'txt'}"] = document
        content.update(json.dumps([passage.title, passage.text]).encode())
    written = folder.with_name(_WRITTEN)
    if written.exists() and written.read_text(encoding="ascii") == content.hexdigest():
        return names
    written.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, passage in zip(names, corpus.values(), strict=True):
        # A title is no part of the text, as in a file's own front matter.
        front = f"---\ntitle: {json.dumps(passage.title, ensure_ascii=False)}\n---\n" if passage.title else ""
        (folder / name).write_text(front + passage.text, encoding="utf-8")
    written.write_text(content.hexdigest(), encoding="ascii")
    return names


def _with_known_queries(embedder: Embedder, vectors: KnownVectors) -> Embedder:
    """The same embedder; questions that were embedded once are not embedded again."""
    remembering = copy(embedder)
    remembering.embed_queries = vectors.of_queries  # type: ignore[method-assign]
    return remembering


def with_known_texts(embedder: Embedder, vectors: KnownVectors) -> Embedder:
    """The same embedder; neither passages nor questions that were embedded once are embedded again."""

    def embed_parts(texts: Sequence[str]) -> Generator[EmbeddedPart, None, None]:
        for rows in batches(range(len(texts)), embedder.batch_texts):
            yield EmbeddedPart(rows, 0, vectors.of_documents([texts[row] for row in rows]))

    remembering = _with_known_queries(embedder, vectors)
    remembering.embed_documents = vectors.of_documents  # type: ignore[method-assign]
    if isinstance(embedder, EmbedsInParts):
        remembering.embed_parts = embed_parts  # type: ignore[attr-defined]
    return remembering
