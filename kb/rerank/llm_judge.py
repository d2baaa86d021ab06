"""A chat model (`[chat.judge]`, gpt-4o-mini by default) rates each hit from 0 to 10.

Each hit is a request of its own, several at the same time: a passage can't speak for or against another one. The
question and the candidates are sent to the service, so it is used only when the configuration names it.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from kb.components import Chat, Parts
from kb.errors import ConfigError, ServiceError
from kb.records import Hit, Reranked
from kb.rerank._order import as_they_came, best_first
from kb.rerank._rating import rating_prompt, read_rating
from kb.services.replies import replies
from kb.settings import ComponentOptions


class Options(ComponentOptions):
    """`[rerank.llm_judge]`; model, address and key stand in `[chat.judge]`."""

    in_flight: int = Field(8, ge=1, le=64)
    """Hits that are rated at the same time."""


def build(options: Options, parts: Parts) -> LlmJudge:
    """Build the reranker. Raises MissingKeyError."""
    if parts.chat is None:
        raise ConfigError('[rerank] use = "llm_judge" needs a chat model: set [chat.judge]')
    return LlmJudge(options, parts.chat())


class LlmJudge:
    """Orders hits by the ratings of a chat model."""

    def __init__(self, options: Options, chat: Chat) -> None:
        self._in_flight = options.in_flight
        self._chat = chat

    def rerank(self, question: str, hits: Sequence[Hit]) -> Reranked:
        """Order all hits by their ratings; a reply that is none counts 0, and a note says how many were.

        When the service fails for one hit, all come back as they are, with a note: ratings of some
        can't be mixed with the order of the rest.
        """
        prompts = [rating_prompt(question, hit.chunk.embedded_text) for hit in hits]
        try:
            ratings = [read_rating(reply) for reply in replies(self._chat, prompts, self._in_flight)]
        except ServiceError as error:
            return as_they_came(hits, error)
        ranked = best_first(hits, [rating or 0.0 for rating in ratings], "judge")
        unreadable = ratings.count(None)
        notes = (
            (
                f"{unreadable} of {len(hits)} ratings by {self._chat.name} were no number and count 0: "
                "raise [chat.judge] max_tokens, or choose another model",
            )
            if unreadable
            else ()
        )
        return Reranked(ranked, notes, scale="ratio" if hits else None)
