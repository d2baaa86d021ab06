"""Whether what an answer cites first is what people marked as the proof.

Each question is asked twice. Of its own passage alone, which is given as the only hit: then only the choice of the
sentence counts. It is known to answer, so the quoting generator is not allowed to decline there; what it declines, the
second way and `abstain` say. And of all passages as one collection, through the whole pipeline with every setting as
configured.

Beside the configured generator stand the passage's best sentence by words (BM25) and by the embedder's vectors. The
first cited sentence is the one that the answer's first marker leads to first. When it counts as evidence is told at
`kb.evaluation._quotes.is_evidence`.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from kb.answering import Answerer
from kb.answers import AnswerReady
from kb.components import Parts, build_component
from kb.evaluation._collection import corpus_collection, ingest, with_known_texts
from kb.evaluation._evidence_data import EvidenceData, Proved, load_data
from kb.evaluation._measures import interval
from kb.evaluation._quotes import best_f1, is_evidence, touches
from kb.evaluation._retrieval_data import Half, Passage
from kb.evaluation._vectors import KnownVectors, known_vectors
from kb.evaluation.retrieval import configuration
from kb.ingest.paid_embedding import batches
from kb.markers import find_markers
from kb.records import Chunk, Hit, SearchResult
from kb.sentences import Span, sentence_spans
from kb.words import has_cjk, terms

if TYPE_CHECKING:
    from kb.answers import Answer, Citation
    from kb.knowledge_base import KnowledgeBase

__all__ = ["CitationsResult", "System", "evaluate", "load_data"]

_FOLDER = "citations"
_BATCH = 64
"""Questions that are embedded between two commits."""
_K1, _B = 0.6, 0.75
"""BM25's, as in search by words."""
MEASURES = ("evidence", "touches", "answered", "passage", "f1")


class Measured(NamedTuple):
    """One question; what doesn't apply is None."""

    evidence: float
    """1 when the first cited sentence is what people marked; see `is_evidence`."""
    touches: float
    """1 when a marked clause of it is enough."""
    answered: float
    passage: float | None = None
    """1 when the first citation is of the question's own passage."""
    f1: float | None = None
    """Of the whole answer, beside the nearest of the right ones."""


@dataclass(frozen=True, slots=True)
class System:
    """One way to choose what is cited, measured."""

    name: str
    each: tuple[Measured, ...]
    """By question."""
    seconds: float

    def shares(self) -> Iterator[tuple[str, float, tuple[float, float]]]:
        """The mean of each measure that applies, with its interval."""
        for name in MEASURES:
            values = [value for one in self.each if (value := getattr(one, name)) is not None]
            if values:
                yield name, sum(values) / len(values), interval(values)


@dataclass(frozen=True, slots=True)
class CitationsResult:
    """One file, measured with one configuration."""

    dataset: str
    half: Half
    configuration: Mapping[str, Any]
    ids: tuple[str, ...]
    systems: tuple[System, ...]
    """`bm25`, `dense` and the generator on the question's passage, and the generator on all: `all passages`."""

    def as_dict(self) -> dict[str, Any]:
        """One object: the figures of every system, then every question."""
        return {
            "dataset": self.dataset,
            "half": self.half,
            "configuration": dict(self.configuration),
            "queries": len(self.ids),
            "systems": {
                one.name: {
                    **{name: {"value": value, "interval": list(ends)} for name, value, ends in one.shares()},
                    "seconds": one.seconds,
                    "each": {key: measured._asdict() for key, measured in zip(self.ids, one.each, strict=True)},
                }
                for one in self.systems
            },
        }


def evaluate(base: KnowledgeBase, data: EvidenceData, half: Half = "all") -> CitationsResult:
    """Ask the questions of a half; all passages of the file are searched.

    The configured collection is neither read nor changed. What was embedded is kept below `data_dir`.

    Raises:
        ConfigError: a component cannot be built.
        KbError: a part fails.
    """
    asked = data.take(half).questions
    corpus = _passages(data)
    with (
        known_vectors(base) as vectors,
        corpus_collection(base, (_FOLDER, data.name), corpus, vectors) as (own, names),
    ):
        own.embedder = with_known_texts(own.embedder, vectors)  # the same sentences are looked at again and again
        generator = _never_declining(own)  # built before anything is embedded, so that what is missing is said first
        ingest(own, data.name)
        for some in batches([one.question for one in asked], _BATCH):
            vectors.of_queries(some)
        systems = (
            _timed("bm25", asked, lambda one: _sentence(one, _by_words(one))),
            _timed("dense", asked, lambda one: _sentence(one, _by_vectors(one, vectors))),
            _timed(base.settings.generation.use, asked, lambda one: _alone(one, _ask_alone(one, generator))),
            _timed("all passages", asked, lambda one: _among_all(one, own.ask(one.question), names, corpus)),
        )
    made = {**configuration(base), "generation": base.settings.generation.model_dump(mode="json")}
    return CitationsResult(data.name, half, made, tuple(one.id for one in asked), systems)


def _passages(data: EvidenceData) -> dict[str, Passage]:
    """Each passage once, by an id that says nothing."""
    titles: dict[str, str] = {}
    for one in data.questions:
        titles.setdefault(one.context, one.title)
    return {str(number): Passage(title, text) for number, (text, title) in enumerate(titles.items())}


def _never_declining(own: KnowledgeBase) -> Answerer:
    section = own.settings.generation
    if section.use == "extractive":
        zero = {"min_score": 0, "min_score_chinese": 0, "min_score_japanese": 0}
        options = {**section.options("extractive"), **zero}
        generator = build_component("generation", "extractive", options, Parts(embedder=own.embedder))
    else:
        generator = own._generator
    return Answerer(generator, lambda document_id: None, own.embedder.name, 1)


def _timed(name: str, asked: Sequence[Proved], measured: Callable[[Proved], Measured]) -> System:
    started = time.perf_counter()
    each = tuple(map(measured, asked))
    return System(name, each, round(time.perf_counter() - started, 3))


# ── one sentence of the passage ──


def _sentence(one: Proved, scores: Sequence[float]) -> Measured:
    spans = sentence_spans(one.context)
    return _judged(one, spans[max(range(len(spans)), key=lambda i: (scores[i], -i))])


def _by_words(one: Proved) -> list[float]:
    """BM25 of each sentence, the passage being the collection."""
    held = [terms(one.context[start:end]) for start, end in sentence_spans(one.context)]
    average = sum(map(len, held)) / len(held)
    documents = Counter(word for words in held for word in set(words))
    weights = {
        word: math.log(1 + (len(held) - documents[word] + 0.5) / (documents[word] + 0.5))
        for word in set(terms(one.question))
    }
    scores = []
    for words in held:
        counts = Counter(words)
        norm = _K1 * (1 - _B + _B * len(words) / average) if average else _K1
        scores.append(sum(w * counts[word] * (_K1 + 1) / (counts[word] + norm) for word, w in weights.items()))
    return scores


def _by_vectors(one: Proved, vectors: KnownVectors) -> list[float]:
    (question,) = vectors.of_queries([one.question])
    limit = vectors.max_tokens
    texts = [one.context[start:end] for start, end in sentence_spans(one.context)]
    # As the generator cuts what is too long for the embedder.
    short = [text[: limit // 2] if has_cjk(text) else text[: limit * 2] for text in texts]
    return [float(score) for score in vectors.of_documents(short) @ question]


# ── an answer ──


def _ask_alone(one: Proved, answerer: Answerer) -> Answer:
    """Answer from the question's own passage, given as the only hit."""
    chunk = Chunk(one.id, one.id, one.context, 0, len(one.context), header=one.title)
    hit = Hit(chunk, one.title or one.id, 1.0, "dense", 1.0)
    result = SearchResult(one.question, (hit,), (), 0.0, 1.0)
    for event in answerer.stream(result, time.perf_counter()):
        if isinstance(event, AnswerReady):
            return event.answer
    raise AssertionError("stream ends with AnswerReady")


def _alone(one: Proved, answer: Answer) -> Measured:
    first = first_cited(answer)
    judged = _judged(one, None if first is None else (first.start, first.end))
    return judged._replace(answered=float(answer.answered), f1=_f1(one, answer))


def _among_all(one: Proved, answer: Answer, names: Mapping[str, str], corpus: Mapping[str, Passage]) -> Measured:
    """As `_alone`; a sentence of another passage is none."""
    first = first_cited(answer)
    own = first is not None and corpus[names[first.source]].text == one.context
    judged = _judged(one, (first.start, first.end) if first is not None and own else None)
    return judged._replace(answered=float(answer.answered), passage=float(own), f1=_f1(one, answer))


def first_cited(answer: Answer) -> Citation | None:
    """The first citation that the answer's first marker stands for."""
    markers = find_markers(answer.text) if answer.answered else ()
    numbers = [number for marker in markers for number in marker.numbers][:1]
    return next((citation for citation in answer.citations if [citation.number] == numbers), None)


def _judged(one: Proved, quote: Span | None) -> Measured:
    if quote is None:
        return Measured(0.0, 0.0, 1.0)
    return Measured(
        float(is_evidence(one.context, quote, one.evidences)), float(touches(one.context, quote, one.evidences)), 1.0
    )


def _f1(one: Proved, answer: Answer) -> float:
    return best_f1(answer.text, one.answers) if answer.answered else 0.0
