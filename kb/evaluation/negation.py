"""Whether two documents are told apart that differ in a negation, or in what is left out.

Weller et al. 2024, NevIR: Negation in Neural Information Retrieval, arXiv:2305.07614. Of each pair both
questions are asked, and a system is right on the pair when each question ranks its own document first;
chance gives 25 %. A tie is wrong. The documents of all pairs are one collection, so that words have the
weights they would have there, but only the two of a pair are compared. A reranker that measures hits against each
other, such as by standard deviations, has then only these to measure by, and ties where its sides disagree.

The file has an object a line: `q1` belongs to `doc1`, `q2` to `doc2`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from kb.errors import ConfigError
from kb.evaluation._collection import corpus_collection, ingest
from kb.evaluation._measures import interval
from kb.evaluation._retrieval_data import Passage, objects
from kb.evaluation._two_documents import Stage, TwoDocuments
from kb.evaluation._vectors import known_vectors
from kb.evaluation.retrieval import configuration
from kb.ingest.paid_embedding import batches
from kb.records import Hit

if TYPE_CHECKING:
    from kb.knowledge_base import KnowledgeBase

_FOLDER = "negation"
_BATCH = 64
"""Questions that are embedded between two commits."""

Rank: TypeAlias = Callable[[str, Sequence[str]], Sequence[Hit]]
"""The chunks of two documents for a question, best first."""


class Pair(NamedTuple):
    """Two questions, each with its document."""

    questions: tuple[str, str]
    documents: tuple[str, str]


@dataclass(frozen=True, slots=True)
class NegationData:
    """The pairs of a file."""

    name: str
    pairs: tuple[Pair, ...]


@dataclass(frozen=True, slots=True)
class Judged:
    """One way to rank, measured."""

    name: str
    right: tuple[bool, ...]
    """Of each pair, whether both questions rank their own document first."""
    seconds: float
    notes: tuple[str, ...] = ()
    """What a reranker said, each note once: above all that it failed."""

    @property
    def accuracy(self) -> float:
        """The share of right pairs."""
        return sum(self.right) / len(self.right)

    @property
    def between(self) -> tuple[float, float]:
        """Where the accuracy lies with a probability of 95 %."""
        return interval([float(one) for one in self.right])


@dataclass(frozen=True, slots=True)
class NegationResult:
    """One file, measured with one configuration."""

    dataset: str
    configuration: Mapping[str, Any]
    systems: tuple[Judged, ...]

    def as_dict(self) -> dict[str, Any]:
        """One object with the figures of every system."""
        return {
            "dataset": self.dataset,
            "configuration": dict(self.configuration),
            "pairs": len(self.systems[0].right),
            "systems": {
                one.name: {
                    "accuracy": one.accuracy,
                    "interval": list(one.between),
                    "seconds": one.seconds,
                    "notes": list(one.notes),
                    "right": list(one.right),
                }
                for one in self.systems
            },
        }


def load_data(file: Path, limit: int | None = None) -> NegationData:
    """Read pairs, at most `limit` of them.

    Raises:
        ConfigError: the file is missing, holds no pair, or a line is not of the form above.
    """
    rows = list(objects(file, "q1", "q2", "doc1", "doc2"))[:limit]
    if not rows:
        raise ConfigError(f"{file}: there is no pair in it")
    pairs = [Pair((str(r["q1"]), str(r["q2"])), (str(r["doc1"]), str(r["doc2"]))) for r in rows]
    return NegationData(file.resolve().stem, tuple(pairs))


def evaluate(base: KnowledgeBase, data: NegationData, rerankers: Sequence[str] = ()) -> NegationResult:
    """Ingest all documents into a collection of its own, ask all questions in every way, and measure.

    The configured collection is neither read nor changed. What was embedded is kept below `data_dir`.

    Args:
        base: Settings and embedder.
        data: The pairs.
        rerankers: Their names, as in `[rerank] use`; the configured one is measured as well.

    Raises:
        ConfigError: there is no such reranker, or it cannot be built.
        KbError: a part fails.
    """
    wanted = [name for name in dict.fromkeys([*rerankers, base.settings.rerank.use]) if name != "none"]
    corpus = {
        f"{number}-{side}": Passage("", text)
        for number, pair in enumerate(data.pairs)
        for side, text in enumerate(pair.documents)
    }
    with (
        known_vectors(base) as vectors,
        corpus_collection(base, (_FOLDER, data.name), corpus, vectors) as (own, names),
        ExitStack() as opened,
    ):
        # Built before hours of embedding, so that what is missing is said first.
        rerankers_built = {name: opened.enter_context(_with_reranker(own, name)) for name in wanted}
        ingest(own, data.name)
        for some in batches((question for pair in data.pairs for question in pair.questions), _BATCH):
            vectors.of_queries(some)
        two = opened.enter_context(TwoDocuments.open(own, names))
        systems = [_measured(stage, data, names, partial(two.hits, stage=stage)) for stage in _stages(base)]
        for name, reranking in rerankers_built.items():
            systems.append(_reranked(name, data, names, two, reranking))
        return NegationResult(data.name, configuration(base), tuple(systems))


def _stages(base: KnowledgeBase) -> tuple[Stage, ...]:
    return ("dense", "keyword", "fused") if base.settings.keyword.enabled else ("dense", "keyword")


def _with_reranker(own: KnowledgeBase, name: str) -> KnowledgeBase:
    variant = own.variant(rerank=own.settings.rerank.model_copy(update={"use": name}))
    variant.rerank("", ())
    return variant


def _reranked(
    name: str, data: NegationData, names: Mapping[str, str], two: TwoDocuments, reranking: KnowledgeBase
) -> Judged:
    stage: Stage = "fused" if reranking.settings.keyword.enabled else "dense"
    notes: dict[str, None] = {}

    def rank(question: str, documents: Sequence[str]) -> Sequence[Hit]:
        reranked = reranking.rerank(question, two.hits(question, documents, stage))
        notes.update(dict.fromkeys(reranked.notes))
        # What failed has ranked nothing; retrieval's order is not its own.
        return reranked.hits if reranked.scale is not None else ()

    return replace(_measured(name, data, names, rank), notes=tuple(notes))


def _measured(name: str, data: NegationData, names: Mapping[str, str], rank: Rank) -> Judged:
    started = time.perf_counter()
    right = tuple(_is_right(number, pair, names, rank) for number, pair in enumerate(data.pairs))
    return Judged(name, right, round(time.perf_counter() - started, 3))


def _is_right(number: int, pair: Pair, names: Mapping[str, str], rank: Rank) -> bool:
    """Whether the best chunk of each question's own document scores higher than every chunk of the other."""
    documents = [f"{number}-0", f"{number}-1"]
    for own, question in zip(documents, pair.questions, strict=True):
        best: dict[str, float] = {}
        for hit in rank(question, documents):
            document = names[hit.source]
            best[document] = max(hit.score, best.get(document, hit.score))
        other = documents[1 - documents.index(own)]
        if own not in best or best.get(other, -math.inf) >= best[own]:
            return False
    return True
