"""Question → ranked hits, the stages in reading order.

recall by vector (in every script of the base) and by keyword → drop what is not live →
fuse, less what is common to a script → cutoff → rerank → top_k
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from kb.background import Background, taken_off
from kb.fusion import reciprocal_rank, weighted_sum
from kb.ledger.words import most_score
from kb.records import Dropped, Hit, Scorer, SearchResult
from kb.words import has_cjk, script, terms

if TYPE_CHECKING:
    from kb.components import Embedder, FloatArray, Reranker, Store
    from kb.ledger.hashes import HashedChunk
    from kb.ledger.ledger import Ledger
    from kb.settings import KeywordSection, RetrievalSection

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
# A best candidate that stands so far above the middle of all candidates was hardly found by chance.
_CLEARLY_ABOVE = 0.12
# A cutoff so far below the best candidate lets it in, and its near neighbours.
_BELOW_BEST = 0.05


@dataclass(frozen=True, slots=True)
class Retriever:
    """Finds hits for questions in one generation of a collection."""

    embedder: Embedder
    store: Store
    ledger: Ledger
    generation: int
    reranker: Reranker
    retrieval: RetrievalSection
    keyword: KeywordSection
    background: Background

    def search_many(
        self, questions: Sequence[str], top_k: int | None = None, cutoff: float | None = None
    ) -> tuple[SearchResult, ...]:
        """Search several questions at once; one result each, in their order.

        Args:
            questions: What people ask; a blank one finds nothing, the same one twice is searched once.
            top_k: At most so many hits; None takes `[retrieval] top_k`.
            cutoff: The least similarity; None takes `[retrieval] cutoff`.
        """
        top_k = self.retrieval.top_k if top_k is None else top_k
        if cutoff is None:
            cutoff = self.embedder.cutoff if self.retrieval.cutoff == "auto" else self.retrieval.cutoff
        asked = [question for question in dict.fromkeys(questions) if question.strip()]
        results: dict[str, SearchResult] = {}
        if asked:
            wanted = max(self.retrieval.candidates, top_k)
            vectors = self.embedder.embed_queries(asked)
            nearest = self.store.search(vectors, wanted + _SPARE)
            for question, vector, near in zip(asked, vectors, nearest, strict=True):
                results[question] = self._search(question, vector, near, wanted, top_k, cutoff)
        blank = ("the question is empty",)
        return tuple(
            results.get(question) or SearchResult(question, (), (), cutoff, None, blank) for question in questions
        )

    def _search(
        self, question: str, vector: FloatArray, nearest: Ranking, wanted: int, top_k: int, cutoff: float
    ) -> SearchResult:
        """One question, with its nearest chunks already found."""
        weights: dict[str, float] = {}
        words: Ranking = []
        if self.keyword.enabled:
            words = self.ledger.search_words(self.generation, question, self.keyword.candidates)
            weights = self.ledger.word_weights(self.generation, question)
        others = self._in_other_scripts(question, vector)
        shares = _shares(words, weights)
        # Pairs of characters are many, and rarely all there: a share of them says more than a share of words.
        weight = self.keyword.weight_unspaced if has_cjk(question) else self.keyword.weight
        candidates = self._candidates(vector, nearest, shares, others, wanted, weight)
        result = self._ranked(question, candidates, top_k, cutoff)
        return replace(result, hits=tuple(_with_coverage(hit, weights) for hit in result.hits))

    def _in_other_scripts(self, question: str, vector: FloatArray) -> list[str]:
        """Chunk ids nearest to the question in each script of the base but its own."""
        directions = self.background.directions(vector, script(question))
        if not directions:
            return []
        import numpy as np

        return [i for ranking in self.store.search(np.stack(directions), _OF_EACH_SCRIPT) for i, _ in ranking]

    def _candidates(
        self,
        vector: FloatArray,
        nearest: Ranking,
        by_words: Mapping[str, float],
        others: Sequence[str],
        wanted: int,
        weight: float,
    ) -> list[Hit]:
        """Live chunks found by vector or by keyword, best first, as they were at one moment.

        Args:
            vector: The question's.
            nearest: The nearest chunks.
            by_words: The share of its words in the chunks that were found by them, falling.
            others: Chunks to be looked at beside.
            wanted: So many of the nearest.
            weight: How much that share counts.
        """
        live, dense = self._live(vector, nearest, [*by_words, *others], wanted)
        similarity = self._similarities(vector, dense, [*by_words, *others], live)
        levels = self.background.levels(vector)
        scripts = {chunk_id: script(live[chunk_id].chunk.text) for chunk_id in similarity}
        compared = {i: value - taken_off(levels, scripts[i]) for i, value in similarity.items()}
        ranking = sorted(compared.items(), key=lambda pair: (-pair[1], pair[0]))
        scorer: Scorer = "dense"
        if self.keyword.enabled:
            scorer = "fused"
            if self.keyword.fusion == "rank":
                by_rank = [chunk_id for chunk_id in by_words if chunk_id in similarity]
                ranking = reciprocal_rank([[chunk_id for chunk_id, _ in ranking], by_rank], self.keyword.fusion_k)
            else:
                ranking = weighted_sum(compared, by_words, weight)
        return [
            Hit(
                live[chunk_id].chunk,
                live[chunk_id].source,
                round(score, _DIGITS),
                scorer,
                similarity[chunk_id],
            )
            for chunk_id, score in ranking
        ]

    def _live(
        self, vector: FloatArray, nearest: Ranking, others: Sequence[str], wanted: int
    ) -> tuple[dict[str, HashedChunk], Ranking]:
        """What the ledger lists of all that was found, and the `wanted` nearest of it.

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
            (nearest,) = self.store.search(vector[None], limit)

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

    def _ranked(self, question: str, candidates: Sequence[Hit], top_k: int, cutoff: float) -> SearchResult:
        """Cut, rerank and keep the best; each candidate ends as a hit, or is dropped for one reason."""
        kept, dropped = _cut(candidates, cutoff)
        ranked, notes = self.reranker.rerank(question, kept)
        ranked_ids = {hit.chunk.id for hit in ranked}
        dropped += [Dropped(hit, "the reranker left it out") for hit in kept if hit.chunk.id not in ranked_ids]
        beyond = enumerate(ranked[top_k:], start=top_k + 1)
        dropped += [Dropped(hit, f"rank {rank}, and top_k is {top_k}") for rank, hit in beyond]
        best = max((hit.similarity for hit in candidates), default=None)
        if candidates and not kept:
            notes = (*notes, *_emptied(candidates, cutoff))
        return SearchResult(question, tuple(ranked[:top_k]), tuple(dropped), cutoff, best, notes)


def _shares(words: Ranking, weights: Mapping[str, float]) -> dict[str, float]:
    """BM25 scores relative to the most that the question's words can reach; in the same order."""
    most = most_score(weights)
    return {chunk_id: score / most if most else 0.0 for chunk_id, score in words}


def _with_coverage(hit: Hit, weights: Mapping[str, float]) -> Hit:
    """The hit with the share of the question's word weight that it holds."""
    total = sum(weights.values())
    if not total:
        return hit
    held = weights.keys() & set(terms(hit.chunk.embedded_text))
    return replace(hit, coverage=round(sum(weights[term] for term in held) / total, 3))


def _cut(candidates: Sequence[Hit], cutoff: float) -> tuple[list[Hit], list[Dropped]]:
    """Part candidates by similarity, the only scale that a cutoff applies to."""
    kept, dropped = [], []
    for hit in candidates:
        if hit.similarity >= cutoff:
            kept.append(hit)
        else:
            dropped.append(Dropped(hit, f"similarity {hit.similarity:.3f} is below the cutoff {cutoff:.3f}"))
    return kept, dropped


def _emptied(candidates: Sequence[Hit], cutoff: float) -> tuple[str, ...]:
    """A note when the cutoff removed everything although one candidate stands out."""
    similarities = sorted((hit.similarity for hit in candidates), reverse=True)
    best, middle = similarities[0], similarities[len(similarities) // 2]
    if best - middle < _CLEARLY_ABOVE:
        return ()
    advice = f"try --cutoff {best - _BELOW_BEST:.2f}"
    return (f"the cutoff {cutoff:.2f} removed all; the best similarity was {best:.2f}: {advice}",)
