"""Embeddings from OpenAI or a service with the same interface (`text-embedding-3-small` by default).

Sends texts to the service, so it is used only when the configuration names it. Requests are packed by
number and by tokens; the vectors come back to their texts by `index`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field, model_validator

from kb.components import Parts
from kb.errors import RefusedError
from kb.services.embeddings import OpenAIEmbeddings
from kb.services.tokens import BYTES, TokenCounter
from kb.settings import BaseUrl, ComponentOptions, VariableName

if TYPE_CHECKING:
    from kb.components import FloatArray

DIMENSIONS = {"text-embedding-3-small": 1536, "text-embedding-3-large": 3072, "text-embedding-ada-002": 1536}
"""OpenAI's models, whose dimension is known without a call; they all count tokens by cl100k_base."""
_OPENAI_VOCABULARY = "cl100k_base"

# OpenAI refuses more than 2,048 inputs; the pipeline that this follows sends at most 2,000.
MOST_ITEMS = 2_000
MOST_TOKENS = 300_000
MOST_TOKENS_OF_ONE = 8_192

CUTOFFS = {"text-embedding-3-small": 0.7}
"""The guide's value. Users of this model report right answers from 0.35 on: calibrate on your documents."""
# Not measured for any other model: the least score of the second guide, which keeps too much rather than
# drop an answer; the answer model then says when its contexts don't settle the question.
UNMEASURED_CUTOFF = 0.3


class Options(ComponentOptions):
    """`[embedding.openai]`."""

    model: str = Field("text-embedding-3-small", min_length=1)
    base_url: BaseUrl = ""
    """Empty: OPENAI_BASE_URL, else OpenAI itself."""
    api_key_env: VariableName = "OPENAI_API_KEY"
    dimensions: int | None = Field(None, ge=1)
    """Shorter vectors, for models that can (text-embedding-3-*); None: the model's own."""
    vocabulary: Literal["auto", "cl100k_base", "o200k_base", "bytes"] = "auto"
    """What counts tokens. `auto`: cl100k_base for OpenAI's models; for others, whose vocabulary is not known, every
    UTF-8 byte counts, which is never too few."""
    max_batch_items: int = Field(MOST_ITEMS, ge=1, le=MOST_ITEMS)
    max_batch_tokens: int = Field(MOST_TOKENS, ge=1, le=MOST_TOKENS)
    max_tokens: int = Field(MOST_TOKENS_OF_ONE, ge=1, le=MOST_TOKENS_OF_ONE)
    """Of one text; lower it for a service whose model sees less."""
    timeout_seconds: float = Field(60.0, gt=0)
    retries: int = Field(5, ge=0)
    """More than a chat's: an ingest sends many requests, and meets the rate limit more often."""
    encoding_format: Literal["base64", "float"] = "base64"
    """How vectors travel; `float` for a service that does not know base64."""
    cutoff: float | None = Field(None, ge=-1, le=1)
    """None: 0.7 for text-embedding-3-small, 0.3 (unmeasured) for every other model."""

    @model_validator(mode="after")
    def _one_text_fits_a_request(self) -> Options:
        if self.max_tokens > self.max_batch_tokens:
            raise ValueError("max_tokens should be at most max_batch_tokens, or no text of that length could be sent")
        return self


def build(options: Options, parts: Parts) -> OpenAIEmbedder:
    """Build the embedder. Raises MissingKeyError."""
    return OpenAIEmbedder(options, parts)


class OpenAIEmbedder:
    """Embeds passages and questions alike; these models have no prefixes."""

    token_overhead = 0

    def __init__(self, options: Options, parts: Parts) -> None:
        self._options = options
        self._service = OpenAIEmbeddings(
            model=options.model,
            base_url=options.base_url,
            key_variable=options.api_key_env,
            dimensions=options.dimensions,
            encoding_format=options.encoding_format,
            timeout_seconds=options.timeout_seconds,
            retries=options.retries,
            secret=parts.secret,
        )
        vocabulary: str = options.vocabulary
        if vocabulary == "auto":
            vocabulary = _OPENAI_VOCABULARY if options.model in DIMENSIONS else BYTES
        self._counter = TokenCounter(vocabulary)
        self._dimension = options.dimensions or DIMENSIONS.get(options.model)
        self.name = f"openai:{options.model}"
        self.max_tokens = options.max_tokens
        self.batch_texts = options.max_batch_items
        self.cutoff = CUTOFFS.get(options.model, UNMEASURED_CUTOFF) if options.cutoff is None else options.cutoff

    @property
    def dimension(self) -> int:
        """The width of a vector; of a model that isn't OpenAI's it is measured, once, by one request."""
        if self._dimension is None:
            self._dimension = int(self._service.embed(["dimension"]).shape[1])
        return self._dimension

    @property
    def fingerprint(self) -> str:
        """Model and dimension; where the service runs does not change its vectors."""
        return f"{self.name}:{self.dimension}"

    @property
    def requests(self) -> int:
        """Requests that were answered, since it was built."""
        return self._service.requests

    @property
    def counts_by(self) -> str:
        """The vocabulary that counts tokens, "bytes" where it is not known or could not be had."""
        return self._counter.vocabulary

    def count_tokens(self, text: str) -> int:
        """Count the tokens of `text`, never too few."""
        return self._counter.count(text)

    def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        """Embed passages: float32, shape (len(texts), dimension), unit rows; `[]` gives (0, dimension).

        Raises:
            RefusedError: a text is blank or longer than `max_tokens`; nothing has been sent then.
            ServiceError: the service failed, or answered with something else than one vector for each text.
        """
        batches = list(self._batches(texts))
        vectors = [self._checked(self._service.embed(texts[start:end])) for start, end in batches]
        return np.concatenate(vectors) if vectors else np.empty((0, self.dimension), dtype=np.float32)

    def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        """Embed questions, in the same way."""
        return self.embed_documents(texts)

    def _batches(self, texts: Sequence[str]) -> Iterator[tuple[int, int]]:
        """Cut the texts into requests, in order, each within the limits on items and on tokens."""
        start = tokens = 0
        for i, text in enumerate(texts):
            count = self._acceptable(i, text)
            if i > start and (
                i - start == self._options.max_batch_items or tokens + count > self._options.max_batch_tokens
            ):
                yield start, i
                start, tokens = i, 0
            tokens += count
        if start < len(texts):
            yield start, len(texts)

    def _acceptable(self, i: int, text: str) -> int:
        service = self._service.service.named
        if not text.strip():
            raise RefusedError(
                f"text {i} is blank; there is nothing to embed, and {service} refuses it", service=service
            )
        count = self.count_tokens(text)
        if count > self.max_tokens:
            raise RefusedError(
                f"text {i} ({text.strip()[:40]!r}…) has {count} tokens; {service} takes at most {self.max_tokens}: "
                "make chunks smaller",
                service=service,
            )
        return count

    def _checked(self, vectors: FloatArray) -> FloatArray:
        width = vectors.shape[1]
        if self._dimension is None:
            self._dimension = width
        if width != self._dimension:
            service = self._service.service
            raise service.error(
                f"{service.named} answered with vectors of {width} numbers where {self._dimension} were expected: set "
                f"[embedding.openai] dimensions to what the model gives, and check base_url and model"
            )
        return vectors
