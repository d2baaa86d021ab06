"""Similarities of questions to what is right for them and to what is not, from the vectors of an ingested base."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from kb.evaluation.golden import Evidence, GoldenQuestion, holds
from kb.ledger.hashes import HashedChunk
from kb.ledger.ledger import Ledger
from kb.records import Hit
from kb.sentences import sentence_spans
from kb.words import content_terms

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kb.knowledge_base import KnowledgeBase

    Similarity: TypeAlias = NDArray[np.float32]

_SENTENCES = 200
"""Chunks of which a sentence is asked: enough for 5 %, few enough to be embedded in seconds."""
_BESIDE = 500
"""Chunks, drawn evenly, that each question is compared with."""
_LEAST_WORDS = 4
"""A sentence of fewer says too little to be a question."""

Verdict: TypeAlias = Callable[[Hit], "bool | None"]
"""Whether a hit is right for a question; None when that is not known."""


@dataclass(frozen=True, slots=True)
class Similarities:
    """What a calibration is made of."""

    right: Similarity
    """For each part of each answerable question its most similar right passage."""
    question_of: Sequence[int]
    """The place in `wrong` of the question that each of them is right for."""
    wrong: Sequence[Similarity]
    """For each question, those with and without a right passage, passages of other documents."""
    questions: int
    unanswerable: int
    not_found: tuple[str, ...]
    notes: tuple[str, ...]
    asked: Sequence[tuple[str, Verdict]]
    """The answerable questions, when they are labelled."""


class _Base:
    """The chunks of an ingested base with their vectors."""

    def __init__(self, base: KnowledgeBase, ledger: Ledger) -> None:
        generation = ledger.current_generation()
        assert generation is not None, "the caller has searched it"
        self._ledger, self._generation = ledger, generation.number
        self._embedder = base.embedder
        self._documents = {row.path: row.document_id for row in ledger.sources(self._generation).values()}
        self.sample = list(ledger.live_chunks(self._generation, ledger.sample_ids(self._generation, _BESIDE)).values())
        self._sample_vectors = self._vectors(self.sample)

    def chunks_of(self, source: str) -> list[HashedChunk]:
        """The chunks of a document; none when there is no such one."""
        if source not in self._documents:
            return []
        ids = [chunk.id for chunk in self._ledger.chunks_of(self._generation, self._documents[source])]
        return list(self._ledger.live_chunks(self._generation, ids).values())

    def to_chunks(self, question: Similarity, chunks: Sequence[HashedChunk]) -> Similarity:
        """The similarity of a question's vector to each chunk."""
        return self._vectors(chunks) @ question

    def beside(self, question: Similarity, sources: Collection[str], right: Collection[str]) -> Similarity:
        """To the sample's chunks in other documents; with only one document, to its chunks that are not right."""
        elsewhere = [i for i, one in enumerate(self.sample) if one.source not in sources]
        others = elsewhere or [i for i, one in enumerate(self.sample) if one.chunk.id not in right]
        similarities: Similarity = self._sample_vectors[others] @ question
        return similarities

    def _vectors(self, chunks: Sequence[HashedChunk]) -> Similarity:
        known = self._ledger.known_vectors(self._embedder.fingerprint, [one.text_hash for one in chunks])
        vectors = [known[one.text_hash] for one in chunks]
        return np.stack(vectors) if vectors else np.empty((0, self._embedder.dimension), np.float32)


def from_questions(base: KnowledgeBase, questions: Sequence[GoldenQuestion]) -> Similarities:
    """Compare labelled questions with their evidence and with other documents."""
    right: list[float] = []
    question_of: list[int] = []
    wrong: list[Similarity] = []
    not_found: list[str] = []
    asked: list[tuple[str, Verdict]] = []
    with Ledger(base.folder, read_only=True) as ledger:
        stored = _Base(base, ledger)
        vectors = base.embedder.embed_queries([question.question for question in questions])
        for question, vector in zip(questions, vectors, strict=True):
            parts = [[chunk for piece in part for chunk in _holding(stored, piece)] for part in question.parts]
            if not all(parts):
                not_found.append(question.id)
                continue
            ids = {one.chunk.id for part in parts for one in part}
            sources = {piece.source for piece in question.evidence}
            right += [float(stored.to_chunks(vector, part).max()) for part in parts]
            question_of += [len(wrong)] * len(parts)
            wrong.append(stored.beside(vector, sources, ids))
            if parts:
                asked.append((question.question, _verdict(ids, sources)))
    notes = [f"{len(not_found)} questions whose evidence is not in the base were left out"] if not_found else []
    return Similarities(
        np.array(right, np.float32),
        question_of,
        wrong,
        len(asked),
        len(wrong) - len(asked),
        tuple(not_found),
        tuple(notes),
        asked,
    )


def _holding(stored: _Base, piece: Evidence) -> list[HashedChunk]:
    """The chunks that hold a piece of evidence: its sentence, or where none does, as in a table, its phrase."""
    chunks = stored.chunks_of(piece.source)
    whole = [one for one in chunks if holds(one.chunk.text, piece.sentence)]
    return whole or [one for one in chunks if holds(one.chunk.text, piece.phrase)]


def _verdict(right: Collection[str], sources: Collection[str]) -> Verdict:
    """Other passages of a right document may answer as well, so of them nothing is known."""

    def verdict(hit: Hit) -> bool | None:
        return True if hit.chunk.id in right else None if hit.source in sources else False

    return verdict


def from_base(base: KnowledgeBase) -> Similarities:
    """Compare a sentence of each chunk with the chunk and with other documents."""
    with Ledger(base.folder, read_only=True) as ledger:
        stored = _Base(base, ledger)
        step = -(-len(stored.sample) // _SENTENCES) or 1
        pairs = [(one, sentence) for one in stored.sample[::step] if (sentence := _sentence(one.chunk.text))]
        right: list[float] = []
        wrong: list[Similarity] = []
        vectors = base.embedder.embed_queries([sentence for _, sentence in pairs]) if pairs else ()
        for (one, _), vector in zip(pairs, vectors, strict=True):
            right.append(float(stored.to_chunks(vector, [one])[0]))
            wrong.append(stored.beside(vector, {one.source}, {one.chunk.id}))
    note = "sentences of the documents were asked for want of questions: what they keep is optimistic"
    return Similarities(np.array(right, np.float32), range(len(right)), wrong, len(right), 0, (), (note,), ())


def _sentence(text: str) -> str:
    """The sentence in the middle of those that say enough; "" when there is none."""
    sentences = [text[start:end] for start, end in sentence_spans(text)]
    saying = [sentence for sentence in sentences if len(content_terms(sentence)) >= _LEAST_WORDS]
    return saying[len(saying) // 2] if saying else ""
