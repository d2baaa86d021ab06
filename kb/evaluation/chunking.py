"""How documents are cut: how much of what answers a question the chunks found for it hold, and how little else.

This is Chroma's chunking evaluation (see `_intervals` for its measures and source): all corpora are
cut into one collection, the five nearest chunks of each question are taken by vector alone, and
compared with the passages that answer it. The data is not part of this project; `_chunking_data`
tells its form.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from kb.components import Parts, Store, StorePlace, StoreRow, build_component, component_module
from kb.evaluation._chunking_data import ChunkingData, Question, load_data
from kb.evaluation._intervals import Shares, Span, length, shares
from kb.evaluation._vectors import KnownVectors, known_vectors
from kb.ingest.progress import Progress
from kb.settings import explain_validation

if TYPE_CHECKING:
    from kb.components import FloatArray
    from kb.knowledge_base import KnowledgeBase
    from kb.records import Chunk, Document

__all__ = ["ChunkingData", "ChunkingResult", "Question", "Seconds", "Shares", "evaluate", "load_data"]

TOP_K = 5
"""Chunks retrieved for a question, as in the report's table."""

Cut: TypeAlias = dict[str, tuple["Chunk", ...]]
"""The chunks of each corpus."""

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Seconds:
    """What took how long, less when vectors are known; a chunker that compares sentences embeds while chunking."""

    chunking: float
    embedding: float
    search: float

    @property
    def total(self) -> float:
        """All three."""
        return self.chunking + self.embedding + self.search


@dataclass(frozen=True, slots=True)
class ChunkingResult:
    """One configuration, measured."""

    configuration: Mapping[str, Any]
    outcomes: tuple[tuple[Question, Shares], ...]
    chunks: Mapping[str, int]
    """By corpus."""
    unfound: tuple[str, ...]
    """References that do not stand in their corpus."""
    embedded: int
    """Texts that were not known from an earlier run: chunks, questions, and what the chunker compared."""
    seconds: Seconds

    def figures(self, corpus: str | None = None) -> dict[str, float | int]:
        """Means over the questions on one corpus or on all, with the numbers of questions and chunks."""
        chosen = [found for question, found in self.outcomes if corpus in (None, question.corpus)]
        means = {name: fmean(getattr(found, name) for found in chosen) for name in Shares._fields}
        chunks = sum(self.chunks.values()) if corpus is None else self.chunks[corpus]
        return {**means, "chunks": chunks, "questions": len(chosen)}

    def corpora(self) -> list[str]:
        """The corpora that questions are asked about, in the order of the questions."""
        return list(dict.fromkeys(question.corpus for question, _ in self.outcomes))

    def as_dict(self) -> dict[str, Any]:
        """Everything but the single questions, for JSON."""
        return {
            **self.figures(),
            "seconds": self.seconds.total,
            "seconds_of": asdict(self.seconds),
            "embedded": self.embedded,
            "unfound": list(self.unfound),
            "corpora": {corpus: self.figures(corpus) for corpus in self.corpora()},
            "configuration": dict(self.configuration),
        }


def evaluate(base: KnowledgeBase, data: ChunkingData, *, quiet: bool = True) -> ChunkingResult:
    """Cut the corpora by the configured chunker, and search them with the configured embedder.

    The collection of `base` is neither read nor changed. Vectors are kept in its `data_dir`.

    Raises:
        KbError: the chunker or the embedder cannot be built, or fails; what was embedded by then is kept.
    """
    with known_vectors(base) as vectors:
        chunker = base.chunker
        cut, chunking = _timed(lambda: {name: chunker.chunk(document) for name, document in data.corpora.items()})
        (rows, questions), embedding = _timed(lambda: _embedded(data, cut, vectors, quiet=quiet))
        embedded = vectors.embedded
    found, search = _timed(lambda: _nearest(rows, questions, base.embedder.fingerprint))
    places = _places(data.corpora, cut)
    return ChunkingResult(
        configuration=_configuration(base),
        outcomes=tuple(
            (question, score(question, [places[chunk_id] for chunk_id in ids]))
            for question, ids in zip(data.questions, found, strict=True)
        ),
        chunks={name: len(chunks) for name, chunks in cut.items()},
        unfound=data.unfound,
        embedded=embedded,
        seconds=Seconds(chunking, embedding, search),
    )


def score(question: Question, retrieved: Sequence[tuple[str, Span]]) -> Shares:
    """Compare what was retrieved, (corpus, span) each, with the references of a question."""
    here = [span for corpus, span in retrieved if corpus == question.corpus]
    return shares(question.references, here, length(span for corpus, span in retrieved if corpus != question.corpus))


def _embedded(data: ChunkingData, cut: Cut, vectors: KnownVectors, *, quiet: bool) -> tuple[list[StoreRow], FloatArray]:
    """Chunks and questions with their vectors."""
    rows: list[StoreRow] = []
    with Progress(len(cut), quiet=quiet) as progress:
        for name, chunks in cut.items():
            known = vectors.of_documents([chunk.embedded_text for chunk in chunks])
            rows += [StoreRow(chunk, data.corpora[name].path, v) for chunk, v in zip(chunks, known, strict=True)]
            progress.embedded(len(chunks))
            progress.done(1)
    return rows, vectors.of_queries([question.text for question in data.questions])


def _nearest(rows: Sequence[StoreRow], questions: FloatArray, fingerprint: str) -> list[list[str]]:
    """The ids of the nearest chunks of each question, by exact search."""
    with tempfile.TemporaryDirectory(prefix="kb-") as folder:
        place = StorePlace(Path(folder), "chunking", "chunking", fingerprint, questions.shape[1])
        store: Store = build_component("store", "memory", {}, Parts(place=place))
        with closing(store):
            store.upsert(rows)
            return [[chunk_id for chunk_id, _ in hits] for hits in store.search(questions, TOP_K)]


def _places(corpora: Mapping[str, Document], cut: Cut) -> dict[str, tuple[str, Span]]:
    """The corpus and span of each chunk, by id.

    A chunk counts where its text stands first, as in the report's code: one corpus repeats many of
    its passages, the references name the first place, and the second holds the same words.
    """
    places = {}
    for name, chunks in cut.items():
        for chunk in chunks:
            start = corpora[name].text.find(chunk.text)
            places[chunk.id] = name, (start, start + len(chunk.text))
    return places


def _configuration(base: KnowledgeBase) -> dict[str, Any]:
    section = base.settings.chunking
    options = component_module("chunking", section.use).Options
    chosen = explain_validation(options, section.options(section.use), f"chunking.{section.use}")
    return {
        "chunking": section.use,
        "options": chosen.model_dump(mode="json"),
        "embedding": base.embedder.name,
        "embedder_fingerprint": base.embedder.fingerprint,
        "top_k": TOP_K,
    }


def _timed(work: Callable[[], _Value]) -> tuple[_Value, float]:
    started = time.perf_counter()
    return work(), round(time.perf_counter() - started, 3)
