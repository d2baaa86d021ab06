"""Embeddings from an OpenAI-compatible service: one request, its vectors in the order of its inputs."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kb.errors import ServiceError
from kb.services.connection import Connection
from kb.services.failures import not_an_answer

if TYPE_CHECKING:
    from kb.components import FloatArray


class OpenAIEmbeddings:
    """Sends one batch of texts at a time.

    Raises:
        MissingKeyError: the variable that should hold the key is not set.
    """

    def __init__(
        self,
        *,
        model: str,
        base_url: str,
        key_variable: str,
        dimensions: int | None,
        encoding_format: str,
        timeout_seconds: float,
        retries: int,
        secret: Callable[[str], str | None],
    ) -> None:
        self.requests = 0
        self._model = model
        # Named although base64 is the client's default: unnamed, the client decodes it, and fails on odd answers.
        self._more: dict[str, Any] = {"encoding_format": encoding_format}
        if dimensions is not None:
            self._more["dimensions"] = dimensions
        self._connection = Connection(
            kind="embedding",
            model=model,
            base_url=base_url,
            key_variable=key_variable,
            timeout_seconds=timeout_seconds,
            retries=retries,
            secret=secret,
        )
        self.service = self._connection.service

    def embed(self, texts: Sequence[str]) -> FloatArray:
        """Embed one batch: float32, shape (len(texts), width), unit rows; row i is `texts[i]`.

        Raises:
            ServiceError: the service failed, or its answer has not exactly one usable vector for each text.
        """
        embeddings = self._connection.client.embeddings
        answer = self._connection.call(lambda: embeddings.create(model=self._model, input=list(texts), **self._more))
        self.requests += 1
        data = getattr(answer, "data", None)
        if not isinstance(data, list):
            raise not_an_answer(self.service)
        return self._unit(self._in_order(data, len(texts)))

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

    def _unusable(self, what: str) -> ServiceError:
        return self.service.error(
            f"{self.service.named} answered with {what}: nothing of this batch is used; run it again"
        )


def _from_base64(vector: str) -> FloatArray:
    return np.frombuffer(base64.b64decode(vector, validate=True), dtype="<f4")
