"""Question → ranked hits, the stages in reading order.

recall by vector and by keyword → drop what is not live → fuse → cutoff → rerank → top_k
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kb.fusion import reciprocal_rank
from kb.records import Dropped, Hit, Scorer, SearchResult

if TYPE_CHECKING:
    from kb.components import Embedder, FloatArray, Reranker, Store
    from kb.ledger.ledger import Ledger
    from kb.records import Chunk
    from kb.settings import KeywordSection, RetrievalSection

# The store may still hold chunks that an ingest has just replaced; so many more are fetched.
_SPARE = 10


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

    def search_many(
        self, questions: Sequence[str], top_k: int | None = None, cutoff: float | None = None
    ) -> tuple[SearchResult, ...]:
        """Search several questions at once; one result each, in their order.

        Args:
            questions: What people ask; a blank one finds nothing.
            top_k: At most so many hits; None takes `[retrieval] top_k`.
            cutoff: The least similarity; None takes `[retrieval] cutoff`.
        """
        top_k = self.retrieval.top_k if top_k is None else top_k
        if cutoff is None:
            cutoff = self.embedder.cutoff if self.retrieval.cutoff == "auto" else self.retrieval.cutoff
        asked = [question for question in questions if question.strip()]
        vectors = self.embedder.embed_queries(asked)
        fetch = max(self.retrieval.candidates, top_k) + _SPARE
        found = (
            dict(zip(asked, zip(vectors, self.store.search(vectors, fetch), strict=True), strict=True)) if asked else {}
        )
        results = []
        for question in questions:
            if question not in found:
                results.append(SearchResult(question, (), (), cutoff, None, ("the question is empty",)))
                continue
            vector, dense = found[question]
            results.append(self._one(question, vector, dense, top_k, cutoff))
        return tuple(results)

    def _one(
        self, question: str, vector: FloatArray, dense: list[tuple[str, float]], top_k: int, cutoff: float
    ) -> SearchResult:
        candidates = self._candidates(question, vector, dense)
        kept, dropped = _cut(candidates, cutoff)
        ranked, notes = self.reranker.rerank(question, kept)
        ranked_ids = {hit.chunk.id for hit in ranked}
        dropped += [Dropped(hit, "the reranker left it out") for hit in kept if hit.chunk.id not in ranked_ids]
        dropped += [Dropped(hit, f"rank {rank}, and top_k is {top_k}") for rank, hit in _beyond(ranked, top_k)]
        best = max((hit.similarity for hit in candidates), default=None)
        if candidates and not kept:
            notes = (*notes, *_emptied(candidates, cutoff))
        return SearchResult(question, tuple(ranked[:top_k]), tuple(dropped), cutoff, best, notes)

    def _candidates(self, question: str, vector: FloatArray, dense: list[tuple[str, float]]) -> list[Hit]:
        """Live chunks found by vector or by keyword, best first."""
        similarity = dict(dense)
        rankings = [[chunk_id for chunk_id, _ in dense]]
        scorer: Scorer = "dense"
        scores: Mapping[str, float] = similarity
        if self.keyword.enabled:
            by_words = self.ledger.search_words(self.generation, question, self.keyword.candidates)
            rankings.append([chunk_id for chunk_id, _ in by_words])
            unseen = [chunk_id for chunk_id in rankings[1] if chunk_id not in similarity]
            for chunk_id, stored in self.store.vectors(unseen).items():
                similarity[chunk_id] = max(-1.0, min(1.0, float(stored @ vector)))
            scores, scorer = dict(reciprocal_rank(rankings, self.keyword.fusion_k)), "fused"
        order = [chunk_id for chunk_id in sorted(scores, key=lambda i: -scores[i]) if chunk_id in similarity]
        live = self.ledger.chunks(self.generation, order)
        return [
            Hit(chunk, source, scores[chunk_id], scorer, similarity[chunk_id])
            for chunk_id, (chunk, source) in _in_order(live, order)
        ]


def _in_order(live: Mapping[str, tuple[Chunk, str]], order: Sequence[str]) -> list[tuple[str, tuple[Chunk, str]]]:
    """Only chunks that the ledger lists, in the order of `order`."""
    return [(chunk_id, live[chunk_id]) for chunk_id in order if chunk_id in live]


def _cut(candidates: Sequence[Hit], cutoff: float) -> tuple[list[Hit], list[Dropped]]:
    """Part candidates by similarity, the only scale that a cutoff applies to."""
    kept, dropped = [], []
    for hit in candidates:
        if hit.similarity >= cutoff:
            kept.append(hit)
        else:
            dropped.append(Dropped(hit, f"similarity {hit.similarity:.3f} is below the cutoff {cutoff:.3f}"))
    return kept, dropped


def _beyond(ranked: Sequence[Hit], top_k: int) -> list[tuple[int, Hit]]:
    return [(rank, hit) for rank, hit in enumerate(ranked, start=1) if rank > top_k]


# A best candidate that stands so far above the middle of all candidates was hardly found by chance.
_CLEARLY_ABOVE = 0.12


def _emptied(candidates: Sequence[Hit], cutoff: float) -> tuple[str, ...]:
    """A note when the cutoff removed everything although one candidate stands out."""
    similarities = sorted((hit.similarity for hit in candidates), reverse=True)
    best, middle = similarities[0], similarities[len(similarities) // 2]
    if best - middle < _CLEARLY_ABOVE:
        return ()
    return (f"the cutoff {cutoff:.2f} removed all; the best similarity was {best:.2f}: try --cutoff {best - 0.05:.2f}",)
