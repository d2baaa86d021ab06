"""Embeddings from OpenAI or a service with the same interface (`text-embedding-3-small` by default).

Sends texts to the service, so it is used only when the configuration names it. Requests are packed by
number and by tokens; the vectors come back to their texts by `index`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field, model_validator

from kb.components import Parts
from kb.errors import RefusedError
from kb.records import EmbeddedPart
from kb.services.clock import REAL_TIME, Clock
from kb.services.embeddings import OpenAIEmbeddings
from kb.services.tokens import BYTES, TokenCounter
from kb.settings import ComponentOptions, ServiceOptions

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


class Options(ServiceOptions, ComponentOptions):
    """`[embedding.openai]`."""

    model: str = Field("text-embedding-3-small", min_length=1)
    dimensions: int | None = Field(None, ge=1)
    """Shorter vectors, for models that can (text-embedding-3-*); None: the model's own."""
    query_prefix: str = ""
    """Put before each question, for models of other services that were trained with it."""
    document_prefix: str = ""
    """Put before each passage, likewise."""
    vocabulary: Literal["auto", "cl100k_base", "o200k_base", "bytes"] = "auto"
    """What counts tokens. `auto`: cl100k_base for OpenAI's models; for others, whose vocabulary is not known, every
    UTF-8 byte counts, which is never too few."""
    max_batch_items: int = Field(MOST_ITEMS, ge=1, le=MOST_ITEMS)
    max_batch_tokens: int = Field(MOST_TOKENS, ge=1, le=MOST_TOKENS)
    max_tokens: int = Field(MOST_TOKENS_OF_ONE, ge=1, le=MOST_TOKENS_OF_ONE)
    """Of one text; lower it for a service whose model sees less."""
    in_flight: int = Field(4, ge=1, le=64)
    """Requests at the same time."""
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
    """Embeds passages and questions; OpenAI's own models have no prefixes, and embed both alike."""

    def __init__(self, options: Options, parts: Parts, clock: Clock = REAL_TIME) -> None:
        self._service = OpenAIEmbeddings(
            model=options.model,
            options=options,
            dimensions=options.dimensions,
            encoding_format=options.encoding_format,
            in_flight=options.in_flight,
            most_items=options.max_batch_items,
            most_tokens=options.max_batch_tokens,
            secret=parts.secret,
            clock=clock,
        )
        vocabulary: str = options.vocabulary
        if vocabulary == "auto":
            vocabulary = _OPENAI_VOCABULARY if options.model in DIMENSIONS else BYTES
        self._counter = TokenCounter(vocabulary)
        self._query_prefix, self._document_prefix = options.query_prefix, options.document_prefix
        if self._service.width is None:
            self._service.width = DIMENSIONS.get(options.model)
        self.model = options.model
        self.requests_per_minute = options.requests_per_minute
        self.tokens_per_minute = options.tokens_per_minute
        self.name = f"openai:{options.model}"
        self.max_tokens = options.max_tokens
        self.batch_texts = options.max_batch_items
        self.cutoff = CUTOFFS.get(options.model, UNMEASURED_CUTOFF) if options.cutoff is None else options.cutoff

    @property
    def dimension(self) -> int:
        """The width of a vector; of a model that isn't OpenAI's it is measured, once, by one request."""
        return self._service.width or int(self._embed(["dimension"], "").shape[1])

    @property
    def fingerprint(self) -> str:
        """Model, dimension and prefixes, if there are any; where the service runs does not change its vectors."""
        if not (self._query_prefix or self._document_prefix):
            return f"{self.name}:{self.dimension}"
        prefixes = hashlib.sha256(f"{self._query_prefix}\0{self._document_prefix}".encode()).hexdigest()
        return f"{self.name}:{self.dimension}:{prefixes[:8]}"

    @cached_property
    def token_overhead(self) -> int:
        """The tokens of the document prefix."""
        return self._counter.count(self._document_prefix) if self._document_prefix else 0

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
            RefusedError: a text is blank or, with its prefix, longer than `max_tokens`; nothing has been sent then.
            ServiceError: the service failed, or answered with something else than one vector for each text.
        """
        return self._embed(texts, self._document_prefix)

    def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        """Embed questions, in the same way."""
        return self._embed(texts, self._query_prefix)

    def embed_parts(self, texts: Sequence[str]) -> Generator[EmbeddedPart, None, None]:
        """Embed passages, and hand each request's vectors over as soon as they are there.

        A text that is refused (it is blank or longer than `max_tokens`, or the service refuses it) is a part of
        its own, and the others go on.

        Raises:
            ServiceError: the service failed, or answered with something else than one vector for each text;
                what was done by then has been yielded.
        """
        sizes: dict[int, int] = {}
        for row, text in enumerate(texts):
            try:
                sizes[row] = self._acceptable(row, text, self._document_prefix)
            except RefusedError as error:
                yield EmbeddedPart((row,), 0, None, error)
        rows = list(sizes)
        for part in self._service.embed([self._document_prefix + texts[row] for row in rows], list(sizes.values())):
            yield replace(part, rows=[rows[place] for place in part.rows])

    def _embed(self, texts: Sequence[str], prefix: str) -> FloatArray:
        sizes = [self._acceptable(row, text, prefix) for row, text in enumerate(texts)]
        rows: list[int] = []
        vectors: list[FloatArray] = []
        for part in self._service.embed([prefix + text for text in texts], sizes):
            if part.refused is not None:
                raise part.refused
            if part.vectors is not None:
                rows += part.rows
                vectors.append(part.vectors)
        if not vectors:
            return np.empty((0, self.dimension), dtype=np.float32)
        ordered: FloatArray = np.concatenate(vectors)[np.argsort(rows)]
        return ordered

    def _acceptable(self, i: int, text: str, prefix: str) -> int:
        service = self._service.service.named
        if not text.strip():
            raise RefusedError(
                f"text {i} is blank; there is nothing to embed, and {service} refuses it", service=service
            )
        count = self.count_tokens(text)
        before = self._counter.count(prefix) if prefix else 0
        if count + before > self.max_tokens:
            raise RefusedError(
                f"text {i} ({text.strip()[:40]!r}…) has {count} tokens; {service} takes at most "
                f"{self.max_tokens - before}: make chunks smaller",
                service=service,
            )
        return count + before
