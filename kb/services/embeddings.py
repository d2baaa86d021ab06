"""Embeddings from an OpenAI-compatible service, as many requests at a time as its limits allow."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import openai

from kb.errors import ServiceError
from kb.services.batches import Batches
from kb.services.clock import REAL_TIME, Clock
from kb.services.connection import Connection
from kb.services.failures import Failure, not_an_answer
from kb.services.in_flight import InFlight

if TYPE_CHECKING:
    from kb.components import FloatArray
    from kb.records import EmbeddedPart
    from kb.services.limits import Turn
    from kb.settings import ServiceOptions


class OpenAIEmbeddings:
    """Sends texts in requests that keep every limit, and puts their vectors in order.

    Raises:
        MissingKeyError: the variable that should hold the key is not set.
    """

    def __init__(
        self,
        *,
        model: str,
        options: ServiceOptions,
        dimensions: int | None,
        encoding_format: str,
        in_flight: int,
        most_items: int,
        most_tokens: int,
        secret: Callable[[str], str | None],
        clock: Clock = REAL_TIME,
    ) -> None:
        self.requests = 0
        self.width = dimensions
        """Numbers in a vector; None until it is known."""
        self._model = model
        # Named although base64 is the client's default: unnamed, the client decodes it, and fails on odd answers.
        self._more: dict[str, Any] = {"encoding_format": encoding_format}
        if dimensions is not None:
            self._more["dimensions"] = dimensions
        self._in_flight = in_flight
        self._most_items = most_items
        self._most_tokens = min(most_tokens, options.tokens_per_minute or most_tokens)
        self._connection = Connection(kind="embedding", model=model, options=options, secret=secret, clock=clock)
        self.service = self._connection.service

    def embed(self, texts: Sequence[str], sizes: Sequence[int]) -> Iterator[EmbeddedPart]:
        """Embed texts of so many tokens each, and yield the vectors of each request as soon as it is answered.

        Vectors are float32, shape (len(rows), width), unit rows; row i is that of `texts[rows[i]]`. A text that
        the service refuses alone comes without one.

        Raises:
            ServiceError: the service failed; what was answered by then has been yielded.
        """

        def send(rows: Sequence[int], turn: Turn) -> FloatArray | Failure:
            return self._request([texts[row] for row in rows], turn)

        sending = InFlight(send, self._connection.limits, self._in_flight, self._connection.retries)
        for done in sending.run(Batches(sizes, self._most_items, self._most_tokens)):
            if done.vectors is not None:
                self.requests += 1
                self._check_width(done.vectors)
            yield done

    def _request(self, texts: list[str], turn: Turn) -> FloatArray | Failure:
        def send(client: openai.OpenAI) -> Any:
            return client.embeddings.with_raw_response.create(model=self._model, input=texts, **self._more)

        answer = self._connection.once(send, turn)
        if isinstance(answer, Failure):
            return answer
        data = getattr(answer, "data", None)
        if not isinstance(data, list):
            return Failure(not_an_answer(self.service), retry=False)
        try:
            return self._unit(self._in_order(data, len(texts)))
        except ServiceError as error:
            return Failure(error, retry=True)

    def _in_order(self, data: list[Any], count: int) -> list[Any]:
        """The vectors by their `index`, which alone says whose they are; the order of arrival does not."""
        rows: dict[int, Any] = {}
        for item in data:
            index = getattr(item, "index", None)
            if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < count:
                raise self._unusable(f"a vector for text {index!r} of {count}")
            if index in rows:
                raise self._unusable(f"two vectors for text {index} of {count}")
            rows[index] = getattr(item, "embedding", None)
        if len(rows) != count:
            raise self._unusable(f"{len(rows)} vectors for {count} texts")
        return [rows[index] for index in range(count)]

    def _unit(self, rows: list[Any]) -> FloatArray:
        try:
            decoded = [_from_base64(row) if isinstance(row, str) else row for row in rows]
            vectors = np.asarray(decoded, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise self._unusable("vectors of different widths or of no numbers") from error
        if vectors.ndim != 2 or not vectors.shape[1]:
            raise self._unusable("vectors of no numbers")
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not np.isfinite(lengths).all() or not lengths.all():
            raise self._unusable("a vector that is zero or not finite")
        return np.asarray(vectors / lengths, dtype=np.float32)

    def _check_width(self, vectors: FloatArray) -> None:
        width = vectors.shape[1]
        if self.width is None:
            self.width = width
        if width != self.width:
            raise self.service.error(
                f"{self.service.named} answered with vectors of {width} numbers where {self.width} were expected: set "
                f"[embedding.openai] dimensions to what the model gives, and check base_url and model"
            )

    def _unusable(self, what: str) -> ServiceError:
        return self.service.error(
            f"{self.service.named} answered with {what}: nothing of this batch is used; run it again"
        )


def _from_base64(vector: str) -> FloatArray:
    return np.frombuffer(base64.b64decode(vector, validate=True), dtype="<f4")
