"""How documents are cut: how much of what answers a question the chunks found for it hold, and how little else.

This is Chroma's chunking evaluation (see `_intervals` for its measures and source): all corpora are
cut into one collection, the hits of each question are taken, and compared with the passages that
answer it. The data is not part of this project; `_chunking_data` tells its form.

Each stage of the pipeline is measured as well as all of it: `dense` is search by vector alone, as the
report has it, `fused` by words too, and with a reranker configured there is one system more by its
name. Cutoff, relative threshold and the number of hits are in all of them as they are configured.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from kb.components import component_module
from kb.errors import ConfigError, KbError
from kb.evaluation._chunking_data import ChunkingData, Question, load_data
from kb.evaluation._collection import folder_collection, ingest
from kb.evaluation._intervals import Shares, Span, length, shares
from kb.evaluation._retrieval_data import Half
from kb.evaluation._vectors import KnownVectors, known_vectors
from kb.ingest.paid_embedding import batches
from kb.ingest.progress import Progress
from kb.settings import explain_validation

if TYPE_CHECKING:
    from kb.knowledge_base import KnowledgeBase
    from kb.records import Chunk, Hit

__all__ = ["ChunkingData", "ChunkingResult", "Question", "Seconds", "Shares", "System", "evaluate", "load_data", "take"]

_FOLDER = "chunking"
_BATCH = 64
"""Questions of one search."""

Cut: TypeAlias = dict[str, tuple["Chunk", ...]]
"""The chunks of each corpus."""

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Seconds:
    """What took how long, less when vectors are known; a chunker that compares sentences embeds while chunking."""

    chunking: float
    embedding: float
    ingest: float
    """Cutting once more, and storing."""
    search: float
    """In all systems."""

    @property
    def total(self) -> float:
        """All of them."""
        return self.chunking + self.embedding + self.ingest + self.search


@dataclass(frozen=True, slots=True)
class System:
    """One way to search, measured."""

    name: str
    outcomes: tuple[tuple[Question, Shares, int], ...]
    """Each question, what was found for it, and the number of hits."""
    seconds: float
    """For all questions, which had been embedded before."""

    def figures(self, corpus: str | None = None) -> dict[str, float]:
        """Means over the questions on one corpus or on all: the shares and `hits`."""
        chosen = [(found, hits) for question, found, hits in self.outcomes if corpus in (None, question.corpus)]
        means = {name: fmean(getattr(found, name) for found, _ in chosen) for name in Shares._fields}
        return {**means, "hits": fmean(hits for _, hits in chosen)}


@dataclass(frozen=True, slots=True)
class ChunkingResult:
    """One configuration, measured."""

    configuration: Mapping[str, Any]
    half: Half
    systems: tuple[System, ...]
    """The last one is what the configuration gives."""
    chunks: Mapping[str, int]
    """By corpus."""
    unfound: tuple[str, ...]
    """References that do not stand in their corpus."""
    embedded: int
    """Texts that were not known from an earlier run: chunks, questions, and what the chunker compared."""
    seconds: Seconds

    def figures(self, corpus: str | None = None) -> dict[str, float]:
        """What is found as it is configured, with the numbers of questions and chunks."""
        last = self.systems[-1]
        questions = sum(corpus in (None, question.corpus) for question, *_ in last.outcomes)
        chunks = sum(self.chunks.values()) if corpus is None else self.chunks[corpus]
        return {**last.figures(corpus), "chunks": chunks, "questions": questions}

    def corpora(self) -> list[str]:
        """The corpora that questions are asked about, in the order of the questions."""
        return list(dict.fromkeys(question.corpus for question, *_ in self.systems[-1].outcomes))

    def as_dict(self) -> dict[str, Any]:
        """Everything but the single questions, for JSON: what is configured, then all systems."""
        return {
            **self.figures(),
            "half": self.half,
            "seconds": self.seconds.total,
            "seconds_of": asdict(self.seconds),
            "embedded": self.embedded,
            "unfound": list(self.unfound),
            "corpora": {corpus: self.figures(corpus) for corpus in self.corpora()},
            "systems": {
                one.name: {
                    **one.figures(),
                    "seconds": one.seconds,
                    "corpora": {corpus: one.figures(corpus) for corpus in self.corpora()},
                }
                for one in self.systems
            },
            "configuration": dict(self.configuration),
        }


def take(data: ChunkingData, half: Half) -> ChunkingData:
    """Keep the questions at odd or even places, counted from 1: one half to choose settings by, one to report.

    Raises:
        ConfigError: there is none.
    """
    if half == "all":
        return data
    kept = data.questions[half == "even" :: 2]
    if not kept:
        raise ConfigError("there is one question only, so there is none at even places; leave out --half")
    return replace(data, questions=kept)


def evaluate(base: KnowledgeBase, data: ChunkingData, half: Half = "all", *, quiet: bool = True) -> ChunkingResult:
    """Cut the corpora by the configured chunker into a collection of its own, and search it in every way.

    The configured collection is neither read nor changed. What was embedded is kept below `data_dir`.

    Raises:
        ConfigError: there is no question in that half.
        KbError: a part cannot be built, or fails; what was embedded by then is kept.
    """
    asked = take(data, half)
    with known_vectors(base) as vectors:
        chunker = base.chunker
        cut, chunking = _timed(lambda: {name: chunker.chunk(document) for name, document in data.corpora.items()})
        _, embedding = _timed(lambda: _embed(asked, cut, vectors, quiet=quiet))
        files = {data.file(name): name for name in cut}
        with folder_collection(base, (_FOLDER, data.folder.name), data.folder, list(files), vectors) as own:
            _, ingesting = _timed(lambda: _ingest(own, data))
            systems = tuple(_measured(name, own, asked, files, changes) for name, changes in _systems(base))
        embedded = vectors.embedded
    return ChunkingResult(
        configuration=_configuration(base),
        half=half,
        systems=systems,
        chunks={name: len(chunks) for name, chunks in cut.items()},
        unfound=data.unfound,
        embedded=embedded,
        seconds=Seconds(chunking, embedding, ingesting, round(sum(one.seconds for one in systems), 3)),
    )


def score(question: Question, retrieved: Sequence[tuple[str, Span]]) -> Shares:
    """Compare what was retrieved, (corpus, span) each, with the references of a question."""
    here = [span for corpus, span in retrieved if corpus == question.corpus]
    return shares(question.references, here, length(span for corpus, span in retrieved if corpus != question.corpus))


def _embed(data: ChunkingData, cut: Cut, vectors: KnownVectors, *, quiet: bool) -> None:
    """Have the vectors of chunks and questions known, so that neither the ingest nor a system pays for them."""
    with Progress(len(cut), quiet=quiet) as progress:
        for chunks in cut.values():
            vectors.of_documents([chunk.embedded_text for chunk in chunks])
            progress.embedded(len(chunks))
            progress.done(1)
    vectors.of_queries([question.text for question in data.questions])


def _ingest(own: KnowledgeBase, data: ChunkingData) -> None:
    report = ingest(own, data.folder.name)
    if report.indexed + report.unchanged < len(data.corpora):
        raise KbError(f"{data.folder}: not every corpus was ingested, so nothing can be measured: {report.problems}")


# ── ways to search ──


def _systems(base: KnowledgeBase) -> Iterator[tuple[str, dict[str, Any]]]:
    """The name of each way to search, and the sections in which its settings differ; the configured one comes last."""
    settings = base.settings
    plain = settings.rerank.model_copy(update={"use": "none"})
    yield "dense", {"rerank": plain, "keyword": settings.keyword.model_copy(update={"enabled": False})}
    if settings.keyword.enabled:
        yield "fused", {"rerank": plain}
    if settings.rerank.use != "none":
        yield settings.rerank.use, {}


def _measured(
    name: str, own: KnowledgeBase, asked: ChunkingData, files: Mapping[str, str], changes: dict[str, Any]
) -> System:
    with own.variant(**changes) as variant:
        found, seconds = _timed(lambda: _hits(variant, [question.text for question in asked.questions]))

    def place(hit: Hit) -> tuple[str, Span]:
        """Corpus and span: where the text stands first, as in the report's code.

        One corpus repeats many of its passages, the references name the first place, and the second holds
        the same words.
        """
        corpus = files[hit.source]
        start = asked.corpora[corpus].text.find(hit.chunk.text)
        return corpus, (start, start + len(hit.chunk.text))

    outcomes = tuple(
        (question, score(question, [place(hit) for hit in hits]), len(hits))
        for question, hits in zip(asked.questions, found, strict=True)
    )
    return System(name, outcomes, seconds)


def _hits(own: KnowledgeBase, questions: Sequence[str]) -> list[tuple[Hit, ...]]:
    return [result.hits for some in batches(questions, _BATCH) for result in own.search_many(some)]


def _configuration(base: KnowledgeBase) -> dict[str, Any]:
    section, retrieval = base.settings.chunking, base.settings.retrieval
    options = component_module("chunking", section.use).Options
    chosen = explain_validation(options, section.options(section.use), f"chunking.{section.use}")
    return {
        "chunking": section.use,
        "options": chosen.model_dump(mode="json"),
        "embedding": base.embedder.name,
        "embedder_fingerprint": base.embedder.fingerprint,
        "keyword": base.settings.keyword.model_dump(mode="json"),
        "rerank": base.settings.rerank.use,
        "top_k": retrieval.top_k,
        "cutoff": retrieval.cutoff,
        "relative_threshold": retrieval.relative_threshold,
    }


def _timed(work: Callable[[], _Value]) -> tuple[_Value, float]:
    started = time.perf_counter()
    return work(), round(time.perf_counter() - started, 3)
