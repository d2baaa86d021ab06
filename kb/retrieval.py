"""Question → ranked hits, the stages in reading order.

(other wordings) → recall by vector and by keyword, fused → cutoff → rerank → relative threshold → what the question
excludes → one hit a document → top_k
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kb.expansion import Expanded, Expander, fuse_wordings
from kb.negation import Negation
from kb.records import Dropped, Hit, Reranked, SearchResult, Step
from kb.thresholds import cut, relative
from kb.tracing import span
from kb.words import identifiers

if TYPE_CHECKING:
    from kb.components import Reranker
    from kb.narrowed import Narrowed
    from kb.recall import Recall, Recalled
    from kb.settings import RetrievalSection


@dataclass(frozen=True, slots=True)
class Retriever:
    """Finds hits for questions in one generation of a collection."""

    recall: Recall
    reranker: Reranker
    retrieval: RetrievalSection
    reranked: int
    """So many candidates are given to the reranker."""
    expander: Expander | None = None
    negation: Negation = field(default_factory=Negation)

    def search_many(
        self,
        questions: Sequence[str],
        top_k: int | None = None,
        cutoff: float | None = None,
        narrowed: Narrowed | None = None,
    ) -> tuple[SearchResult, ...]:
        """Search several questions at once; one result each, in their order.

        Args:
            questions: What people ask; a blank one finds nothing, the same one twice is searched once.
            top_k: At most so many hits; None takes `[retrieval] top_k`.
            cutoff: The least similarity; None takes `[retrieval] cutoff`.
            narrowed: The chunks that are looked at; None looks at all.
        """
        top_k = self.retrieval.top_k if top_k is None else top_k
        if cutoff is None:
            cutoff = self.recall.embedder.cutoff if self.retrieval.cutoff == "auto" else self.retrieval.cutoff
        asked = [question for question in dict.fromkeys(questions) if question.strip()]
        results: dict[str, SearchResult] = {}
        if asked:
            expanded = self._expanded(asked)
            wordings = [wording for one in expanded for wording in one.wordings]
            with span("kb.recall", wordings=len(wordings), embedder=self.recall.embedder.name) as told:
                found = self.recall.many(wordings, max(self.retrieval.candidates, top_k), narrowed)
                told.set(candidates=sum(len(recalled.hits) for recalled in found))
            fused = fuse_wordings(found, expanded, self.recall.keyword.fusion_k)
            for one, recalled in zip(expanded, fused, strict=True):
                result = self._ranked(one.question, recalled, top_k, cutoff)
                results[one.question] = replace(result, notes=(*one.notes, *result.notes))
        blank = ("the question is empty",)
        return tuple(
            results.get(question) or SearchResult(question, (), (), cutoff, None, blank) for question in questions
        )

    def _ranked(self, question: str, recalled: Recalled, top_k: int, cutoff: float) -> SearchResult:
        """Cut, rerank and keep the best; each candidate ends as a hit, or is dropped for one reason."""
        candidates = recalled.hits
        exempted = identifiers(question) if self.retrieval.keep_identifiers else ()
        kept, dropped, notes = cut(candidates, cutoff, exempted)
        reranked, out = self._reranked(question, kept)
        dropped += out
        kept, out = relative(reranked.hits, reranked.scale, self.retrieval.relative_threshold, candidates)
        dropped += out
        with span("kb.exclude", hits=len(kept)) as told:
            checked = self.negation.check(question, kept, lambda hits: len(self._grouped(hits)[0]) >= top_k)
            told.set(left_out=len(checked.dropped))
        dropped += checked.dropped
        kept, out = self._grouped(checked.hits)
        dropped += out
        beyond = enumerate(kept[top_k:], start=top_k + 1)
        dropped += [Dropped(hit, f"rank {rank}, and top_k is {top_k}") for rank, hit in beyond]
        return SearchResult(
            question,
            self.recall.with_coverage(kept[:top_k], recalled.words),
            tuple(dropped),
            cutoff,
            best_score=max((hit.similarity for hit in candidates), default=None),
            notes=(*reranked.notes, *notes, *checked.notes),
        )

    def _expanded(self, questions: Sequence[str]) -> list[Expanded]:
        if self.expander is None:
            return [Expanded(question) for question in questions]
        with span("kb.expand", questions=len(questions)) as told:
            expanded = self.expander.expand(questions)
            told.set(wordings=sum(len(one.others) for one in expanded))
            return expanded

    def _reranked(self, question: str, hits: Sequence[Hit]) -> tuple[Reranked, list[Dropped]]:
        """The reranker's order; what it doesn't look at, or leaves out, is dropped."""
        name = type(self.reranker).__module__.rpartition(".")[2]
        with span("kb.rerank", reranker=name, candidates=len(hits[: self.reranked])) as told:
            reranked = self.reranker.rerank(question, hits[: self.reranked])
            told.set(ranked=reranked.scale is not None)
        if reranked.scale is None:  # still in retrieval's order, so that the rest may follow
            return replace(reranked, hits=(*reranked.hits, *hits[self.reranked :])), []
        ranked = [_with_step(hit, rank) for rank, hit in enumerate(reranked.hits, start=1)]
        there = {hit.chunk.id for hit in ranked}
        left_out = [
            Dropped(hit, "the reranker left it out") for hit in hits[: self.reranked] if hit.chunk.id not in there
        ]
        beyond = enumerate(hits[self.reranked :], start=self.reranked + 1)
        unseen = [Dropped(hit, f"rank {rank}, and {self.reranked} are reranked") for rank, hit in beyond]
        return replace(reranked, hits=tuple(ranked)), [*left_out, *unseen]

    def _grouped(self, hits: Sequence[Hit]) -> tuple[list[Hit], list[Dropped]]:
        """All hits, or the best of each document, as the setting says."""
        return _best_of_each_document(hits) if self.retrieval.group_by == "document" else (list(hits), [])


def _with_step(hit: Hit, rank: int) -> Hit:
    return replace(hit, steps=(*hit.steps, Step(hit.scored_by, rank, hit.score)))


def _best_of_each_document(hits: Sequence[Hit]) -> tuple[list[Hit], list[Dropped]]:
    """The best chunk of each document stands for it."""
    best: dict[str, Hit] = {}
    dropped = []
    for hit in hits:
        first = best.setdefault(hit.chunk.document_id, hit)
        if first is not hit:
            dropped.append(Dropped(hit, "a better chunk of the same document stands for it"))
    return list(best.values()), dropped
