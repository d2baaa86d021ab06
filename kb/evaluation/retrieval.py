"""How well the right document is found, measured as information retrieval measures it.

Every line of a corpus is a document of a collection of its own, cut, embedded and stored as an ingest
does it; a document counts as its best chunk. Measured are nDCG@10, recall at several depths and MRR@10.

Each stage of the pipeline is measured alone as well: `dense` and `keyword` are the two ways to
candidates, `fused` is both, and with a reranker configured there is one system more by its name.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from statistics import fmean
from typing import TYPE_CHECKING, Any

from kb.evaluation._collection import corpus_collection, ingest
from kb.evaluation._measures import DEPTH, MEASURES, Rankings, interval, measures, measuring
from kb.evaluation._retrieval_data import Half, RetrievalData, load_data
from kb.evaluation._vectors import known_vectors
from kb.ingest.paid_embedding import batches
from kb.ledger.ledger import Ledger

if TYPE_CHECKING:
    from kb.knowledge_base import KnowledgeBase

__all__ = ["MEASURES", "RetrievalResult", "System", "evaluate", "load_data", "take"]

_FOLDER = "retrieval"
_NO_CUTOFF = -1.0
_BATCH = 64
"""Questions of one search."""


@dataclass(frozen=True, slots=True)
class System:
    """One way to rank, measured."""

    name: str
    each: Mapping[str, Mapping[str, float]]
    """The measures of every question."""
    intervals: Mapping[str, tuple[float, float]]
    seconds: float
    """For all questions, without embedding those that were embedded in an earlier run."""

    @property
    def means(self) -> dict[str, float]:
        """Each measure over all questions."""
        return {name: fmean(values[name] for values in self.each.values()) for name in MEASURES}


@dataclass(frozen=True, slots=True)
class RetrievalResult:
    """One data set, measured with one configuration."""

    dataset: str
    half: Half
    configuration: Mapping[str, Any]
    documents: int
    chunks: int
    embedded: int
    """Chunks that were not known from an earlier run."""
    ingest_seconds: float
    systems: tuple[System, ...]
    """The last one is what the configuration gives."""

    def as_dict(self) -> dict[str, Any]:
        """One object: the figures of what is configured, then those of all systems, question by question."""
        last = self.systems[-1]
        return {
            "dataset": self.dataset,
            "configuration": dict(self.configuration),
            **last.means,
            "queries": len(last.each),
            "seconds": last.seconds,
            "half": self.half,
            "documents": self.documents,
            "chunks": self.chunks,
            "embedded": self.embedded,
            "ingest_seconds": self.ingest_seconds,
            "systems": {
                one.name: {
                    **one.means,
                    "intervals": {name: list(ends) for name, ends in one.intervals.items()},
                    "seconds": one.seconds,
                    "ndcg@10_of_each": {query: values["ndcg@10"] for query, values in one.each.items()},
                }
                for one in self.systems
            },
        }


def take(data: RetrievalData, half: Half) -> RetrievalData:
    """Keep the questions at odd or even places, counted from 1: one half to choose settings by, one to report."""
    if half == "all":
        return data
    kept = dict(list(data.queries.items())[half == "even" :: 2])
    return RetrievalData(data.name, data.corpus, kept, {query: data.relevant[query] for query in kept})


def evaluate(base: KnowledgeBase, data: RetrievalData, half: Half = "all") -> RetrievalResult:
    """Ingest the corpus into a collection of its own, ask all questions in every way, and measure.

    The configured collection is neither read nor changed. What was embedded is kept below `data_dir`.

    Args:
        base: Settings and embedder.
        data: What to measure on.
        half: Which of the questions; see `take`.

    Raises:
        ConfigError: the package that measures is not installed.
        KbError: a part cannot be built, or fails; what was embedded by then is kept.
    """
    measuring()  # told before hours of embedding
    asked = take(data, half)
    with (
        known_vectors(base) as vectors,
        corpus_collection(base, (_FOLDER, data.name), data.corpus, vectors) as (
            own,
            names,
        ),
    ):
        started = time.perf_counter()
        report = ingest(own, data.name)
        ingest_seconds = round(time.perf_counter() - started, 3)
        vectors.of_queries(list(asked.queries.values()))  # so that no system pays for it
        systems = tuple(_measured(name, own, asked, names, changes) for name, changes in _systems(base))
        return RetrievalResult(
            dataset=data.name,
            half=half,
            configuration=configuration(base),
            documents=len(data.corpus),
            chunks=report.chunks_total,
            embedded=report.embedded,
            ingest_seconds=ingest_seconds,
            systems=systems,
        )


# ── ways to rank ──


def _systems(base: KnowledgeBase) -> Iterator[tuple[str, dict[str, Any]]]:
    """The name of each way to rank, and the sections in which its settings differ; the configured one comes last."""
    settings = base.settings
    plain = settings.rerank.model_copy(update={"use": "none"})
    yield "dense", {"rerank": plain, "keyword": settings.keyword.model_copy(update={"enabled": False})}
    yield "keyword", {}
    if settings.keyword.enabled:
        yield "fused", {"rerank": plain}
    if settings.rerank.use != "none":
        yield settings.rerank.use, {}


def _measured(name: str, own: KnowledgeBase, asked: RetrievalData, names: Mapping[str, str], changes: Any) -> System:
    started = time.perf_counter()
    if name == "keyword":
        rankings = _by_words(own, asked.queries, names)
    else:
        with own.variant(**changes) as variant:
            rankings = _by_search(variant, asked.queries, names)
    seconds = round(time.perf_counter() - started, 3)
    each = measures(rankings, asked.relevant)
    intervals = {measure: interval([values[measure] for values in each.values()]) for measure in MEASURES}
    return System(name, each, intervals, seconds)


def _by_search(own: KnowledgeBase, queries: Mapping[str, str], names: Mapping[str, str]) -> Rankings:
    """All candidates of the pipeline in its order, each document at the place of its best chunk."""
    rankings: Rankings = {}
    most = own.settings.retrieval.candidates  # with a larger one the pipeline would look at more candidates
    for some in batches(queries.items(), _BATCH):
        results = own.search_many([text for _, text in some], most, _NO_CUTOFF)
        for (query, _), result in zip(some, results, strict=True):
            hits = [*result.hits, *(dropped.hit for dropped in result.dropped)]
            rankings[query] = _documents((hit.source for hit in hits), names)
    return rankings


def _by_words(own: KnowledgeBase, queries: Mapping[str, str], names: Mapping[str, str]) -> Rankings:
    with Ledger(own.folder, read_only=True) as ledger:
        generation = ledger.current_generation()
        assert generation is not None, "it has just been ingested"
        rankings: Rankings = {}
        for query, text in queries.items():
            found = [chunk_id for chunk_id, _ in ledger.find_words(generation.number, text, DEPTH).ranking]
            live = ledger.live_chunks(generation.number, found)
            rankings[query] = _documents((live[chunk_id].source for chunk_id in found), names)
        return rankings


def _documents(sources: Iterable[str], names: Mapping[str, str]) -> list[str]:
    return list(dict.fromkeys(names[source] for source in sources))[:DEPTH]


def configuration(base: KnowledgeBase) -> dict[str, Any]:
    """The settings and versions that a result depends on."""
    settings = base.settings
    return {
        "embedding": base.embedder.name,
        "embedder_fingerprint": base.embedder.fingerprint,
        "chunker_fingerprint": base.chunker.fingerprint,
        "store": settings.store.use,
        "rerank": settings.rerank.use,
        "keyword": settings.keyword.model_dump(mode="json"),
        "candidates": settings.retrieval.candidates,
        "versions": {name: _version(name) for name in ("kb", "chromadb", "onnxruntime", "numpy")},
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
