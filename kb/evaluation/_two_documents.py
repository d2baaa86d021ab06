"""Two documents of a collection, ranked for a question by each way of the first stage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from kb.fusion import reciprocal_rank, weighted_sum
from kb.ledger.ledger import Ledger
from kb.recall import weight_of_words
from kb.records import Hit

if TYPE_CHECKING:
    from kb.knowledge_base import KnowledgeBase
    from kb.ledger.hashes import HashedChunk
    from kb.ledger.words import WordsFound

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
        if stage == "dense":
            ranking = sorted(similarity.items(), key=lambda pair: -pair[1])
        else:
            words = self.ledger.find_words(self.generation, question, _ALL)
            found = words.shares
            shares = {i: found.get(i, 0.0) for i in every}
            ranking = sorted(shares.items(), key=lambda pair: -pair[1])
            if stage == "fused":
                ranking = self._fused(similarity, ranking, self._weight(question, words))
        return [
            Hit(every[i].chunk, every[i].source, round(score, _DIGITS), stage, round(similarity[i], _DIGITS))
            for i, score in ranking
        ]

    def _similarities(self, question: str, every: Mapping[str, HashedChunk]) -> dict[str, float]:
        hashes = [one.text_hash for one in every.values()]
        known = self.ledger.known_vectors(self.own.embedder.fingerprint, hashes)
        vector = self.own.embedder.embed_queries([question])[0]
        return {i: float(known[one.text_hash] @ vector) for i, one in every.items()}

    def _weight(self, question: str, words: WordsFound) -> float:
        return weight_of_words(self.own.settings.keyword, question, words.largest_share)

    def _fused(
        self, similarity: Mapping[str, float], by_words: Sequence[tuple[str, float]], weight: float
    ) -> list[tuple[str, float]]:
        keyword = self.own.settings.keyword
        if keyword.fusion == "rank":
            found = [i for i, share in by_words if share]
            return reciprocal_rank([sorted(similarity, key=lambda i: -similarity[i]), found], keyword.fusion_k)
        return weighted_sum(similarity, dict(by_words), weight)
