"""Two documents of a collection, ranked for a question by each way of the first stage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from kb.fusion import reciprocal_rank, weighted_sum
from kb.ledger.ledger import Ledger
from kb.ledger.words import most_score
from kb.records import Hit
from kb.words import has_cjk

if TYPE_CHECKING:
    from kb.knowledge_base import KnowledgeBase
    from kb.ledger.hashes import HashedChunk

Stage: TypeAlias = Literal["dense", "keyword", "fused"]

# More chunks than any collection holds: the two need their scores wherever they stand.
_ALL = 1 << 40
_DIGITS = 6


@dataclass(frozen=True, slots=True)
class TwoDocuments:
    """Ranks the chunks of two documents, with the weights that words have in the whole collection."""

    own: KnowledgeBase
    ledger: Ledger
    generation: int
    chunks: Mapping[str, Sequence[HashedChunk]]
    """By document."""

    @classmethod
    @contextmanager
    def open(cls, own: KnowledgeBase, names: Mapping[str, str]) -> Iterator[TwoDocuments]:
        """Open an ingested collection whose files are the documents `names` says."""
        with Ledger(own.folder, read_only=True) as ledger:
            generation = ledger.current_generation()
            assert generation is not None, "it has just been ingested"
            chunks: dict[str, list[HashedChunk]] = {}
            for one in ledger.all_chunks(generation.number):
                chunks.setdefault(names[one.source], []).append(one)
            yield cls(own, ledger, generation.number, chunks)

    def hits(self, question: str, documents: Sequence[str], stage: Stage) -> list[Hit]:
        """All chunks of the documents, best first; a word score is relative, as in the pipeline."""
        every = {one.chunk.id: one for document in documents for one in self.chunks.get(document, ())}
        similarity = self._similarities(question, every)
        shares = {} if stage == "dense" else self._shares(question, every)
        ranking = sorted((similarity if stage == "dense" else shares).items(), key=lambda pair: -pair[1])
        if stage == "fused":
            ranking = self._fused(question, similarity, shares)
        return [
            Hit(every[i].chunk, every[i].source, round(score, _DIGITS), stage, round(similarity[i], _DIGITS))
            for i, score in ranking
        ]

    def _similarities(self, question: str, every: Mapping[str, HashedChunk]) -> dict[str, float]:
        hashes = [one.text_hash for one in every.values()]
        known = self.ledger.known_vectors(self.own.embedder.fingerprint, hashes)
        vector = self.own.embedder.embed_queries([question])[0]
        return {i: float(known[one.text_hash] @ vector) for i, one in every.items()}

    def _shares(self, question: str, every: Mapping[str, HashedChunk]) -> dict[str, float]:
        """Those of chunks that hold none of the question's words are 0."""
        most = most_score(self.ledger.find_words(self.generation, question, 0).weights)
        found = dict(self.ledger.find_words(self.generation, question, _ALL).ranking)
        return {i: found.get(i, 0.0) / most if most else 0.0 for i in every}

    def _fused(
        self, question: str, similarity: Mapping[str, float], shares: Mapping[str, float]
    ) -> list[tuple[str, float]]:
        keyword = self.own.settings.keyword
        if keyword.fusion == "rank":
            by_words = [i for i in sorted(shares, key=lambda i: -shares[i]) if shares[i]]
            return reciprocal_rank([sorted(similarity, key=lambda i: -similarity[i]), by_words], keyword.fusion_k)
        weight = keyword.weight_unspaced if has_cjk(question) else keyword.weight
        return weighted_sum(similarity, shares, weight)
