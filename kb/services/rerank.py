"""Scores from a rerank service: `POST {base}/rerank`, the form that Jina, Cohere, vLLM and others have in common.

Only the path differs between them. Some reply a bare list, whose items have a `score`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import openai

from kb.errors import ServiceError
from kb.services.clock import REAL_TIME, Clock
from kb.services.connection import Connection
from kb.services.failures import RERANK, not_an_answer
from kb.services.tokens import about_tokens
from kb.settings import ServiceOptions

# The client's own mark of a call whose answer is wanted with its headers, as `with_raw_response` sets it.
_WITH_HEADERS = {"X-Stainless-Raw-Response": "true"}


class RerankService:
    """Sends documents in requests of a limited size, and puts their scores in order.

    Raises:
        ConfigError: the key or the base URL cannot be one.
    """

    def __init__(
        self,
        *,
        model: str,
        options: ServiceOptions,
        path: str,
        most_documents: int,
        secret: Callable[[str], str | None],
        clock: Clock = REAL_TIME,
    ) -> None:
        self._model = model
        self._path = path
        self._most_documents = most_documents
        self._connection = Connection(
            kind=RERANK, model=model, options=options, secret=secret, clock=clock, needs_key=False
        )
        self._service = self._connection.service
        self._headers: dict[str, Any] = {**_WITH_HEADERS}
        if self._connection.has_no_key:
            self._headers["Authorization"] = openai.Omit()

    def scores(self, question: str, documents: Sequence[str]) -> list[float]:
        """Score each document for a question; finite numbers in the order of the documents, higher is better.

        They are sent in several requests, one after the other, where they are many: a document's score does
        not depend on the others.

        Raises:
            ServiceError: the service failed, or answered with something else than one score for each document.
        """
        scores: list[float] = []
        for start in range(0, len(documents), self._most_documents):
            scores += self._request(question, documents[start : start + self._most_documents])
        return scores

    def _request(self, question: str, documents: Sequence[str]) -> list[float]:
        body = {"model": self._model, "query": question, "documents": list(documents), "top_n": len(documents)}

        def send(client: openai.OpenAI) -> Any:
            return client.post(self._path, cast_to=object, body=body, options={"headers": self._headers})

        # The question is read with every document.
        tokens = about_tokens(documents) + len(documents) * about_tokens([question])
        return self._in_order(self._connection.call(send, tokens), len(documents))

    def _in_order(self, answer: Any, count: int) -> list[float]:
        """The scores by their `index`, which alone says whose they are."""
        results = answer.get("results") if isinstance(answer, dict) else answer
        if not isinstance(results, list):
            raise not_an_answer(self._service)
        scores: dict[int, float] = {}
        for result in results:
            if not isinstance(result, dict):
                raise not_an_answer(self._service)
            index = result.get("index")
            if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < count:
                raise self._unusable(f"a score for document {_shown(index)} of {count}")
            if index in scores:
                raise self._unusable(f"two scores for document {index} of {count}")
            scores[index] = self._number(result.get("relevance_score", result.get("score")))
        if len(scores) != count:
            raise self._unusable(f"{len(scores)} scores for {count} documents")
        return [scores[index] for index in range(count)]

    def _number(self, score: Any) -> float:
        try:
            number = float(score) if isinstance(score, (int, float)) and not isinstance(score, bool) else math.nan
        except OverflowError:  # an integer beyond every float
            number = math.inf
        if not math.isfinite(number):
            raise self._unusable("a score that is no finite number")
        return number

    def _unusable(self, what: str) -> ServiceError:
        return self._service.error(f"{self._service.named} answered with {what}: nothing of this answer is used")


def _shown(index: Any) -> str:
    return str(index) if isinstance(index, (int, float)) and abs(index) < 1e9 else "of no number"
