"""A rerank service: `POST {base_url}{path}`, as Jina, Cohere, vLLM, llama.cpp and others offer it.

The question and the text of each candidate are sent to the service, so it is used only when the
configuration names it.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from kb.components import Parts
from kb.errors import ConfigError, ServiceError
from kb.records import Hit, Reranked, Scale
from kb.rerank._order import as_they_came, best_first
from kb.services.clock import REAL_TIME, Clock
from kb.services.rerank import RerankService
from kb.settings import ComponentOptions, ServiceOptions, VariableName


class Options(ServiceOptions, ComponentOptions):
    """`[rerank.endpoint]`."""

    model: str = Field("bge-reranker-v2-m3", min_length=1)
    path: str = Field("/rerank", pattern=r"^/\S*$")
    api_key_env: VariableName = "RERANK_API_KEY"
    """Where it is not set, no key is sent: a server of one's own wants none. It is not OPENAI_API_KEY, as that key
    would go to a stranger."""
    timeout_seconds: float = Field(20.0, gt=0)
    retries: int = Field(1, ge=0)
    max_documents: int = Field(100, ge=1)
    """In one request."""


def build(options: Options, parts: Parts) -> EndpointReranker:
    """Build the reranker. Raises ConfigError."""
    return EndpointReranker(options, parts)


class EndpointReranker:
    """Orders hits by the scores of a service."""

    def __init__(self, options: Options, parts: Parts, clock: Clock = REAL_TIME) -> None:
        if not options.base_url:
            raise ConfigError(
                '[rerank] use = "endpoint" needs the address of a rerank service: set [rerank.endpoint] base_url, such '
                'as "http://localhost:8000/v1" (what stands before /rerank), and model; a key belongs into '
                f"{options.api_key_env}"
            )
        self._service = RerankService(
            model=options.model,
            options=options,
            path=options.path,
            most_documents=options.max_documents,
            secret=parts.secret,
            clock=clock,
        )

    def rerank(self, question: str, hits: Sequence[Hit]) -> Reranked:
        """Order all hits by the service's scores; when it fails, they come back as they are, with a note.

        Scores that all lie from 0 to 1 are taken as relevance itself, others as logits of it.
        """
        try:
            # As it was searched: the header says what a passage is about.
            scores = self._service.scores(question, [hit.chunk.embedded_text for hit in hits])
        except ServiceError as error:
            return as_they_came(hits, error)
        scale: Scale | None = None
        if hits:
            scale = "ratio" if all(0 <= score <= 1 for score in scores) else "logit"
        return Reranked(best_first(hits, scores, "endpoint"), scale=scale)
