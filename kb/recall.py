"""Question → candidates: recalled by vector (in every script of the base) and by keyword, then fused to one order."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kb.background import taken_off
from kb.base import similarities
from kb.fusion import reciprocal_rank, weighted_sum
from kb.ledger.words import WordsFound
from kb.records import Hit, Scorer, Step
from kb.words import has_cjk, script

if TYPE_CHECKING:
    from kb.base import Base, Part, Ranking
    from kb.components import Embedder, FloatArray
    from kb.ledger.hashes import HashedChunk
    from kb.narrowed import Narrowed
    from kb.settings import KeywordSection

# By how much more is asked for when some of what the store finds is not live.
_MORE = 4
# So many are taken of each script that is not the question's own.
_OF_EACH_SCRIPT = 20
# As the stores round: a float32 product is off by about 1e-7.
_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Recalled:
    """The candidates for one question."""

    hits: list[Hit]
    """Best first, each with the steps that brought it here."""
    words: WordsFound
    """What the words of the question find; nothing without keyword search."""


@dataclass(frozen=True, slots=True)
class _ByWords:
    """What the words of a question find, before its vector is known."""

    words: WordsFound
    shares: dict[str, float]
    """The share of the question's words in those that were found, falling."""
    steps: _Steps
    live: dict[str, HashedChunk]
    """Those of the found chunks that are live."""
    vectors: Part
    """Their vectors."""


@dataclass(frozen=True, slots=True)
class Recall:
    """Finds candidates in one generation of a collection."""

    embedder: Embedder
    base: Base
    keyword: KeywordSection

    def many(self, questions: Sequence[str], wanted: int, narrowed: Narrowed | None = None) -> list[Recalled]:
        """Recall for several questions at once, in their order.

        Args:
            questions: None of them blank.
            wanted: So many of the nearest by vector.
            narrowed: The chunks that are looked at; None looks at all.
        """
        # What the words find needs no vector: it is looked up while the embedder is at work.
        by_words = self.base.beside.submit(lambda: [self._by_words(question, narrowed) for question in questions])
        vectors = self.embedder.embed_queries(questions)
        directions = [
            [vector, *self.base.background.directions(vector, script(question))]
            for question, vector in zip(questions, vectors, strict=True)
        ]
        # One search for all, as each takes some time of its own.
        rankings = iter((narrowed or self.base).search(_stacked(directions), wanted))
        return [
            self._one(question, vector, [next(rankings) for _ in own], found, wanted, narrowed)
            for question, vector, own, found in zip(questions, vectors, directions, by_words.result(), strict=True)
        ]

    def with_coverage(self, hits: Sequence[Hit], words: WordsFound) -> tuple[Hit, ...]:
        """Hits with the share of the weight of the question's words that each holds."""
        held = self.base.ledger.held_shares(self.base.generation, words, [hit.chunk.id for hit in hits])
        return tuple(
            replace(hit, coverage=round(held[hit.chunk.id], 3)) if hit.chunk.id in held else hit for hit in hits
        )

    def _by_words(self, question: str, narrowed: Narrowed | None) -> _ByWords:
        if not self.keyword.enabled:
            return _ByWords(WordsFound(), {}, _Steps(), {}, self.base.vectors({}))
        rows = None if narrowed is None else narrowed.word_rows
        words = self.base.ledger.find_words(self.base.generation, question, self.keyword.candidates, rows)
        shares, steps = words.shares, _Steps()
        steps.add("keyword", shares.items())
        live = self.base.live_chunks(shares)
        return _ByWords(words, shares, steps, live, self.base.vectors(live))

    def _one(
        self,
        question: str,
        vector: FloatArray,
        nearest: Sequence[Ranking],
        by_words: _ByWords,
        wanted: int,
        narrowed: Narrowed | None,
    ) -> Recalled:
        """One question, with its nearest chunks already found: of all, and of each script but its own."""
        words, shares, steps = by_words.words, by_words.shares, by_words.steps
        # Of few chunks all are near every script.
        foreign = list(dict.fromkeys(i for ranking in nearest[1:] for i, _ in ranking[:_OF_EACH_SCRIPT]))
        live, dense = self._live(vector, nearest[0], foreign, wanted, narrowed or self.base)
        found = {i: live[i] for i in foreign if i in live}
        similarity = similarities(vector, self.base.vectors(found))
        similarity |= similarities(vector, by_words.vectors) | dict(dense)
        live |= by_words.live
        steps.add("dense", dense, place=0)
        steps.add("script", [(i, similarity.get(i, 0)) for i in foreign])
        weight = weight_of_words(self.keyword, question, words.largest_share)
        ranking = self._fused(self._compared(vector, similarity, live), shares, weight)
        scorer: Scorer = "fused" if self.keyword.enabled else "dense"
        hits = []
        for rank, (chunk_id, score) in enumerate(ranking, start=1):
            one, last = live[chunk_id], Step(scorer, rank, round(score, _DIGITS))
            said = steps.of(chunk_id, last)
            hits.append(Hit(one.chunk, one.source, last.score, scorer, similarity[chunk_id], steps=said))
        return Recalled(hits, words)

    def _live(
        self, vector: FloatArray, nearest: Ranking, others: Sequence[str], wanted: int, searched: Narrowed | Base
    ) -> tuple[dict[str, HashedChunk], Ranking]:
        """What the ledger lists of all that was found, and the `wanted` nearest of it.

        The store may still hold chunks that an ingest has just replaced, or one that was killed; then more are fetched.
        """
        limit = wanted
        while True:
            live = self.base.live_chunks([*(chunk_id for chunk_id, _ in nearest), *others])
            dense = [(chunk_id, score) for chunk_id, score in nearest if chunk_id in live]
            if len(dense) >= wanted or len(nearest) < limit:
                return live, dense[:wanted]
            limit *= _MORE
            (nearest,) = searched.search(vector[None], limit)

    def _compared(
        self, vector: FloatArray, similarity: Mapping[str, float], live: Mapping[str, HashedChunk]
    ) -> dict[str, float]:
        """Similarities that can be compared over scripts: less what the question has in common with each."""
        levels = self.base.background.levels(vector)
        if len(levels) < 2:
            return dict(similarity)
        less = {name: taken_off(levels, name) for name in {one.script for one in live.values()}}
        return {i: value - less[live[i].script] for i, value in similarity.items()}

    def _fused(self, compared: Mapping[str, float], shares: Mapping[str, float], weight: float) -> Ranking:
        """All candidates in one order.

        Args:
            compared: What their vectors say.
            shares: The share of the question's words in those that were found by them, falling.
            weight: How much that share counts.
        """
        by_vector = sorted(compared.items(), key=lambda pair: (-pair[1], pair[0]))
        if not self.keyword.enabled:
            return by_vector
        if self.keyword.fusion == "rank":
            by_words = [chunk_id for chunk_id in shares if chunk_id in compared]
            return reciprocal_rank([[chunk_id for chunk_id, _ in by_vector], by_words], self.keyword.fusion_k)
        return weighted_sum(compared, shares, weight)


def _stacked(directions: Sequence[Sequence[FloatArray]]) -> FloatArray:
    import numpy as np

    return np.stack([vector for own in directions for vector in own])


class _Steps:
    """What each ranking says of a candidate."""

    def __init__(self) -> None:
        self._of: dict[str, list[Step]] = {}

    def add(self, stage: str, ranking: Iterable[tuple[str, float]], place: int | None = None) -> None:
        """Note what a ranking says, at the place before others or behind all."""
        for rank, (chunk_id, score) in enumerate(ranking, start=1):
            said = self._of.setdefault(chunk_id, [])
            said.insert(len(said) if place is None else place, Step(stage, rank, round(score, _DIGITS)))

    def of(self, chunk_id: str, last: Step) -> tuple[Step, ...]:
        """The steps of one candidate, with the last; what has one ranking alone needs no step for its order."""
        found = self._of.get(chunk_id, ())
        return tuple(found) if last.stage == "dense" and found else (*found, last)


def weight_of_words(keyword: KeywordSection, question: str, largest: float) -> float:
    """How much the share of a question's words counts against similarity; `largest` is the largest that a chunk has."""
    if has_cjk(question):  # pairs of characters are many, and rarely all there: a share of them says more
        return keyword.weight_unspaced
    # Where no chunk holds most of the words, the question is in others than the documents, and what fits is chance.
    return keyword.weight * math.sqrt(largest)
