"""Late interaction: each token of the question is compared with every token of the passage, by the embedder's vectors.

A passage scores the mean over the question's tokens of the similarity to the passage's best matching
token. Alone that order loses to the fused one where words decide, and wins where wording differs; so
both count: what is ranked by is the sum of the two scores, each in standard deviations of this
question's candidates, which makes them comparable whatever their scales are. Of a few candidates these
deviations say nothing (of two that differ they are always 1 and −1), so there the tokens alone decide.

Khattab and Zaharia, ColBERT, 2020, arXiv:2004.12832.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from kb.abilities import KeepsTokenStates, TokenStates
from kb.errors import ConfigError
from kb.records import Hit, Reranked
from kb.rerank._order import best_first
from kb.settings import ComponentOptions

if TYPE_CHECKING:
    from kb.components import FloatArray, Parts

_DIGITS = 6
_ENOUGH = 5
"""Candidates whose spread can be told."""
_NO_TOKEN = -1.0
"""Of a passage that has no token: the least similarity there is."""


class Options(ComponentOptions):
    """Settings of `[rerank.maxsim]`."""

    weight: float = Field(1.0, ge=0, le=100)
    """How much late interaction counts against retrieval's own score."""


def build(options: Options, parts: Parts) -> MaxSim:
    """Build the reranker.

    Raises:
        ConfigError: the embedder has no token vectors.
    """
    if not isinstance(parts.embedder, TokenStates):
        raise ConfigError("[rerank] use = 'maxsim' needs an embedder with token vectors: [embedding] use = 'e5'")
    return MaxSim(parts.embedder, parts.token_vectors, options.weight)


class MaxSim:
    """Reranks by the tokens' vectors: those that an ingest kept, else computed now."""

    def __init__(
        self, embedder: TokenStates, kept: Callable[[Sequence[str]], Mapping[str, bytes]], weight: float
    ) -> None:
        self._embedder = embedder
        self._kept = kept
        self._weight = weight

    def rerank(self, question: str, hits: Sequence[Hit]) -> Reranked:
        """Order all of `hits` by both scores, equal ones as they came; so do all for a question without tokens."""
        if not hits:
            return Reranked(())
        (asked,) = self._embedder.query_token_states([question])
        if not len(asked):
            return Reranked(tuple(hits))
        interaction = max_sim(asked, self._states([hit.chunk.embedded_text for hit in hits]))
        retrieved = np.array([hit.score for hit in hits], np.float32)
        if len(hits) < _ENOUGH and self._weight:
            scores = interaction.astype(np.float64)
        else:
            scores = _in_deviations(retrieved) + self._weight * _in_deviations(interaction)
        return Reranked(
            best_first(hits, [round(float(score), _DIGITS) for score in scores], "maxsim"), scale="interval"
        )

    def _states(self, texts: Sequence[str]) -> list[FloatArray]:
        """The token vectors of passages, each (tokens, width)."""
        found: dict[str, FloatArray] = {}
        if isinstance(self._embedder, KeepsTokenStates):
            for text, packed in self._kept(texts).items():
                states = self._embedder.unpack_states(packed)
                if states is not None:
                    found[text] = states
        missing = [text for text in dict.fromkeys(texts) if text not in found]
        found.update(zip(missing, self._embedder.token_states(missing), strict=True))
        return [found[text] for text in texts]


def max_sim(asked: FloatArray, passages: Sequence[FloatArray]) -> FloatArray:
    """Compare a question with passages, all token vectors of unit length.

    Args:
        asked: (tokens, width), at least one token.
        passages: Each (tokens, width); one without tokens scores −1.

    Returns:
        For each passage the mean over the question's tokens of the best similarity: (len(passages),), in [−1, 1].
    """
    similarities = asked @ np.concatenate(passages).T  # all at once: many small products take several times as long
    ends = np.cumsum([len(states) for states in passages])
    parts = np.split(similarities, ends[:-1], axis=1)
    best = [part.max(axis=1, initial=_NO_TOKEN).mean() for part in parts]
    return np.array(best, np.float32)


def _in_deviations(scores: FloatArray) -> FloatArray:
    """Scores as standard deviations from their mean; equal ones are all 0."""
    values = scores.astype(np.float64)
    spread = values.std()
    return (values - values.mean()) / spread if spread > 10**-_DIGITS else np.zeros_like(values)
