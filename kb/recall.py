"""Question → candidates: recalled by vector (in every script of the base) and by keyword, then fused to one order."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from kb.background import Background, taken_off
from kb.fusion import reciprocal_rank, weighted_sum
from kb.ledger.words import WordsFound
from kb.records import Hit, Scorer, Step
from kb.words import has_cjk, script

if TYPE_CHECKING:
    from kb.components import Embedder, FloatArray, Store
    from kb.ledger.hashes import HashedChunk
    from kb.ledger.ledger import Ledger
    from kb.narrowed import Narrowed
    from kb.settings import KeywordSection

Ranking: TypeAlias = list[tuple[str, float]]
"""(chunk id, score), falling."""

# The store may still hold chunks that an ingest has just replaced; so many more are fetched.
_SPARE = 10
# By how much more is asked for when that was not enough: a large document was replaced, or an ingest was killed.
_MORE = 4
# So many are fetched of each script that is not the question's own.
_OF_EACH_SCRIPT = 20
# As the stores round: a float32 product is off by about 1e-7.
_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Recalled:
    """The candidates for one question."""

    hits: list[Hit]
    """Best first, each with the steps that brought it here."""
    word_weights: Mapping[str, float]
    """How much each word of the question says; none without keyword search."""


@dataclass(frozen=True, slots=True)
class Recall:
    """Finds candidates in one generation of a collection."""

    embedder: Embedder
    store: Store
    ledger: Ledger
    generation: int
    keyword: KeywordSection
    background: Background

    def many(self, questions: Sequence[str], wanted: int, narrowed: Narrowed | None = None) -> list[Recalled]:
        """Recall for several questions at once, in their order.

        Args:
            questions: None of them blank.
            wanted: So many of the nearest by vector.
            narrowed: The chunks that are looked at; None looks at all.
        """
        vectors = self.embedder.embed_queries(questions)
        nearest = (narrowed or self.store).search(vectors, wanted + _SPARE)
        return [
            self._one(question, vector, near, wanted, narrowed)
            for question, vector, near in zip(questions, vectors, nearest, strict=True)
        ]

    def _one(
        self, question: str, vector: FloatArray, nearest: Ranking, wanted: int, narrowed: Narrowed | None
    ) -> Recalled:
        """One question, with its nearest chunks already found."""
        words = WordsFound()
        if self.keyword.enabled:
            rows = None if narrowed is None else narrowed.word_rows
            words = self.ledger.find_words(self.generation, question, self.keyword.candidates, rows)
        shares = words.shares
        searched = narrowed or self.store
        foreign = self._in_other_scripts(question, vector, searched)
        live, dense = self._live(vector, nearest, [*shares, *foreign], wanted, searched)
        similarity = self._similarities(vector, dense, [*shares, *foreign], live)
        steps = _Steps(dense=dense, keyword=list(shares.items()), script=[(i, similarity.get(i, 0)) for i in foreign])
        weight = weight_of_words(self.keyword, question, words.largest_share)
        ranking = self._fused(self._compared(vector, similarity, live), shares, weight)
        scorer: Scorer = "fused" if self.keyword.enabled else "dense"
        return Recalled(
            [
                Hit(
                    live[chunk_id].chunk,
                    live[chunk_id].source,
                    round(score, _DIGITS),
                    scorer,
                    similarity[chunk_id],
                    steps=steps.of(chunk_id, (Step(scorer, rank, round(score, _DIGITS)),)),
                )
                for rank, (chunk_id, score) in enumerate(ranking, start=1)
            ],
            words.weights,
        )

    def _in_other_scripts(self, question: str, vector: FloatArray, searched: Narrowed | Store) -> list[str]:
        """Chunk ids nearest to the question in each script of the base but its own."""
        directions = self.background.directions(vector, script(question))
        if not directions:
            return []
        import numpy as np

        found = searched.search(np.stack(directions), _OF_EACH_SCRIPT)
        # Of few chunks all are near every script.
        return list(dict.fromkeys(i for ranking in found for i, _ in ranking))

    def _live(
        self, vector: FloatArray, nearest: Ranking, others: Sequence[str], wanted: int, searched: Narrowed | Store
    ) -> tuple[dict[str, HashedChunk], Ranking]:
        """What the ledger lists of all that was found, as it was at one moment, and the `wanted` nearest of it.

        Stale rows in the store may push live ones out of the list; then more are fetched.
        """
        limit = wanted + _SPARE
        while True:
            found = [*(chunk_id for chunk_id, _ in nearest), *others]
            live = self.ledger.live_chunks(self.generation, found)
            dense = [(chunk_id, score) for chunk_id, score in nearest if chunk_id in live]
            if len(dense) >= wanted or len(nearest) < limit:
                return live, dense[:wanted]
            limit *= _MORE
            (nearest,) = searched.search(vector[None], limit)

    def _similarities(
        self, vector: FloatArray, dense: Ranking, others: Sequence[str], live: Mapping[str, HashedChunk]
    ) -> dict[str, float]:
        """The cosine of every candidate; of those that were found otherwise, by the vector in the ledger."""
        similarity = dict(dense)
        hashes = {i: live[i].text_hash for i in others if i in live and i not in similarity}
        known = self.ledger.known_vectors(self.embedder.fingerprint, list(hashes.values()))
        for chunk_id, text in hashes.items():
            similarity[chunk_id] = round(max(-1.0, min(1.0, float(known[text] @ vector))), _DIGITS)
        return similarity

    def _compared(
        self, vector: FloatArray, similarity: Mapping[str, float], live: Mapping[str, HashedChunk]
    ) -> dict[str, float]:
        """Similarities that can be compared over scripts: less what the question has in common with each."""
        levels = self.background.levels(vector)
        if len(levels) < 2:
            return dict(similarity)
        scripts = {chunk_id: script(live[chunk_id].chunk.text) for chunk_id in similarity}
        return {i: value - taken_off(levels, scripts[i]) for i, value in similarity.items()}

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


class _Steps:
    """What each ranking says of a candidate."""

    def __init__(self, **rankings: Ranking) -> None:
        self._of: dict[str, list[Step]] = {}
        for stage, ranking in rankings.items():
            for rank, (chunk_id, score) in enumerate(ranking, start=1):
                self._of.setdefault(chunk_id, []).append(Step(stage, rank, round(score, _DIGITS)))

    def of(self, chunk_id: str, more: tuple[Step, ...]) -> tuple[Step, ...]:
        """The steps of one candidate, with the last; what has one ranking alone needs no step for its order."""
        found = tuple(self._of.get(chunk_id, ()))
        return found if more[0].stage == "dense" and found else (*found, *more)


def weight_of_words(keyword: KeywordSection, question: str, largest: float) -> float:
    """How much the share of a question's words counts against similarity; `largest` is the largest that a chunk has."""
    if has_cjk(question):  # pairs of characters are many, and rarely all there: a share of them says more
        return keyword.weight_unspaced
    # Where no chunk holds most of the words, the question is in others than the documents, and what fits is chance.
    return keyword.weight * math.sqrt(largest)
