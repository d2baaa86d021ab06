"""An engine whose files and texts go to helpers on other machines; how they are reached is another file's business."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from kb.abilities import KeepsTokenStates
from kb.errors import KbError, LoadError
from kb.ingest.engine import Cut, cut
from kb.ingest.engine._sent import SentVectors, chunks_of, sent_from, vectors_from
from kb.records import EmbeddedPart

if TYPE_CHECKING:
    from kb.components import Chunker, Embedder
    from kb.ingest.engine import Preparing
    from kb.ingest.walk import FoundFile
    from kb.records import FloatArray

_Result = TypeVar("_Result")

_LEAST_TEXTS = 16
"""Fewer in one task, and sending them takes longer than embedding them by the smallest model."""

_PARTS_A_THREAD = 2
"""So that helpers of different speed end at about the same time."""


class HelperDiedError(Exception):
    """Whoever did this has died, and so have others that were to do it again."""


class Helpers(Protocol):
    """Those who help with one ingest."""

    files_ahead: int
    """Files that may be begun for each of their threads."""

    @property
    def threads(self) -> int:
        """How many things they do at the same time now; at least 1."""
        ...

    def prepare(self, file: FoundFile) -> Future[tuple[str, bytes]]:
        """Have a file prepared: by whom, and a `Sent` as JSON."""
        ...

    def embed(self, texts: Sequence[str], *, keeping: bool) -> Future[SentVectors]:
        """Have texts embedded, before any file that waits."""
        ...

    def wait(self, futures: Sequence[Future[_Result]]) -> set[Future[_Result]]:
        """Wait until one of them is done: all that are.

        Raises:
            ServiceError: nobody is there any more who could do them.
        """
        ...


@dataclass(frozen=True, slots=True)
class HelpedEngine:
    """Files are prepared by helpers, and texts are embedded by them, unless `embedder` does that."""

    helpers: Helpers
    embedder: Embedder
    chunker: Chunker

    @contextmanager
    def preparing(self) -> Iterator[Preparing]:
        """Begin to prepare files; leaving it gives up whatever is under way."""
        begun: set[Future[tuple[str, bytes]]] = set()
        try:
            yield _HelpedPreparing(self.helpers, self.chunker, begun)
        finally:
            for future in begun:
                future.cancel()


@dataclass(frozen=True, slots=True)
class _HelpedPreparing:
    helpers: Helpers
    chunker: Chunker
    begun: set[Future[tuple[str, bytes]]]

    @property
    def ahead(self) -> int:
        return self.helpers.files_ahead * self.helpers.threads

    def begin(self, file: FoundFile, content_hash: str) -> Callable[[], Cut]:
        future = self.helpers.prepare(file)
        self.begun.add(future)
        return partial(self._finish, future, file, content_hash)

    def _finish(self, future: Future[tuple[str, bytes]], file: FoundFile, content_hash: str) -> Cut:
        self.helpers.wait([future])
        self.begun.discard(future)
        try:
            helper, content = future.result()
        except HelperDiedError as error:
            raise LoadError(
                file.relative,
                f"the workers that prepared it died ({error}), perhaps because a machine had no memory left; look into "
                "their logs, and ingest again",
            ) from error
        sent = sent_from(content, file)
        if not sent.content_hash and os.path.lexists(file.location):
            raise KbError(
                f"the worker {helper} cannot open {file.location} ({sent.reason}), which is there on this machine: "
                "give it the folder of documents at the same path, to be read by the user that it runs as"
            )
        if sent.document is None:
            raise LoadError(file.relative, sent.reason)
        if sent.content_hash != content_hash:
            raise LoadError(
                file.relative,
                f"the worker {helper} has read another content than it has here: it was just changed, or the shared "
                "folder is behind; the next ingest reads it again",
            )
        if sent.spans is None:
            return cut(self.chunker, sent.document)
        return Cut(sent.document, chunks_of(sent.document, sent.spans), sent.notes)


class SpreadEmbedder:
    """The configured embedder; helpers embed the passages, and all else is its own."""

    def __init__(self, embedder: Embedder, helpers: Helpers) -> None:
        self._embedder = embedder
        self._helpers = helpers
        self.name = embedder.name
        self.fingerprint = embedder.fingerprint
        self.dimension = embedder.dimension
        self.max_tokens = embedder.max_tokens
        self.cutoff = embedder.cutoff
        self.batch_texts = embedder.batch_texts
        self.keep_token_vectors = isinstance(embedder, KeepsTokenStates) and embedder.keep_token_vectors

    def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        """Embed passages: float32, shape (len(texts), dimension), unit rows; `[]` gives (0, dimension).

        Raises:
            KbError: as `embed_parts`.
        """
        import numpy as np

        vectors = np.empty((len(texts), self.dimension), np.float32)
        for part in self.embed_parts(texts):
            vectors[list(part.rows)] = part.vectors
        return vectors

    def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        """Embed questions, here."""
        return self._embedder.embed_queries(texts)

    def embed_parts(self, texts: Sequence[str]) -> Generator[EmbeddedPart, None, None]:
        """Embed passages; parts are in the order of completion.

        Raises:
            ServiceError: nobody is there any more who could embed; what was done by then has been yielded.
            KbError: a text cannot be embedded, or who should do it dies of it.
        """
        return self._parts(texts, keeping=False)

    def embed_parts_with_states(self, texts: Sequence[str]) -> Generator[EmbeddedPart, None, None]:
        """The same parts, with the packed token vectors of each text."""
        return self._parts(texts, keeping=True)

    def unpack_states(self, packed: bytes) -> FloatArray | None:
        """As the embedder does; None when it keeps none."""
        return self._embedder.unpack_states(packed) if isinstance(self._embedder, KeepsTokenStates) else None

    def _parts(self, texts: Sequence[str], *, keeping: bool) -> Generator[EmbeddedPart, None, None]:
        size = -(-len(texts) // (_PARTS_A_THREAD * self._helpers.threads))
        size = min(max(size, _LEAST_TEXTS), self.batch_texts)
        waiting = {}
        for start in range(0, len(texts), size):
            rows = range(start, min(start + size, len(texts)))
            waiting[self._helpers.embed(texts[rows.start : rows.stop], keeping=keeping)] = rows
        try:
            while waiting:
                for future in self._helpers.wait(list(waiting)):
                    rows = waiting.pop(future)
                    yield self._part(rows, future, keeping=keeping)
        finally:
            for future in waiting:
                future.cancel()

    def _part(self, rows: range, future: Future[SentVectors], *, keeping: bool) -> EmbeddedPart:
        try:
            sent = future.result()
        except HelperDiedError as error:
            raise KbError(
                f"the workers that embedded some texts died ({error}), perhaps because a machine had no memory left; "
                "look into their logs. What was embedded by then is kept"
            ) from error
        vectors = vectors_from(sent, len(rows), self.dimension, keeping=keeping)
        return EmbeddedPart(rows, sent.tokens, vectors, token_vectors=sent.token_vectors)
