"""Where a helper works: the configured parts, built once in its process, and the processes in which it reads.

A bench that nobody uses any more ends those processes by itself: whoever ingests may have been killed.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from kb.abilities import CountsRequests, CountsTokens, EmbedsInParts, EmbedsToCut, KeepsTokenStates, Metered
from kb.components import Parts, build_component
from kb.errors import LoadError
from kb.ingest.engine import cut
from kb.ingest.engine._sent import Difference, Sent, SentVectors, Setup, differences, span_of
from kb.ingest.reading import open_reading, pipelines
from kb.ingest.remembering import RememberingEmbedder
from kb.settings import ChunkingSection, EmbeddingSection, LoadingSection

if TYPE_CHECKING:
    from kb.components import Chunker, Embedder
    from kb.ingest.engine import Means
    from kb.ingest.reading import Reading
    from kb.ingest.walk import FoundFile
    from kb.records import EmbeddedPart

_IDLE_SECONDS = 30.0
"""Longer than an ingest takes to write a batch; then the process that reads, of some 40 MB, is ended."""


def setup_for(means: Means) -> Setup:
    """What a helper is told of this ingest."""
    settings = means.settings
    told = {
        "loading": settings.loading.model_dump(mode="json"),
        "chunking": settings.chunking.model_dump(mode="json"),
        "embedding": settings.embedding.model_dump(mode="json"),
        "here": _fingerprints(means.lent, means.pipelines),
        "dimension": means.lent.dimension,
        "service": means.lent.name if is_service(means.lent.embedder) else "",
    }
    return Setup(json.dumps(told, sort_keys=True))


def is_service(embedder: Embedder) -> bool:
    """Whether it asks a service, whose limits are kept by the one process that asks it."""
    return isinstance(embedder, (Metered, CountsRequests))


def embeds_to_cut(chunker: Chunker) -> bool:
    """Whether it embeds, so that it has to work where the ledger knows what is embedded already."""
    return isinstance(chunker, EmbedsToCut)


@lru_cache(maxsize=1)
def bench_for(setup: Setup) -> Bench:
    """This process's bench for an ingest.

    Raises:
        ConfigError: a package or a model that the settings ask for is not on this machine.
    """
    return Bench(setup)


class Bench:
    """Reads, cuts and embeds as the settings say that it was given."""

    def __init__(self, setup: Setup) -> None:
        told: dict[str, Any] = json.loads(setup.content)
        self._loading = LoadingSection.model_validate(told["loading"])
        chunking = ChunkingSection.model_validate(told["chunking"])
        embedding = EmbeddingSection.model_validate(told["embedding"])
        plain = Parts(secret=_no_key)
        self._embedder: Embedder = build_component("embedding", embedding.use, embedding.options(embedding.use), plain)
        lent = RememberingEmbedder(self._embedder)
        if is_service(self._embedder):  # it is not asked from here, not even for what it says of itself
            name = self._embedder.name
            known = told["here"][_EMBEDDER] if told["service"] == name else name
            lent = _NotAsked(self._embedder, known, told["dimension"])
        parts = Parts(secret=_no_key, embedder=cast("Embedder", lent), count_tokens=lent.count_tokens)
        self._chunker: Chunker = build_component("chunking", chunking.use, chunking.options(chunking.use), parts)
        found = _fingerprints(lent, pipelines(self._loading, self._chunker.fingerprint))
        self.differences: tuple[Difference, ...] = differences(told["here"], found)
        """What is not as it is where the ingest runs."""
        self._cutting = threading.Lock()
        self._guard = threading.Lock()
        self._readers = ExitStack()
        self._reading: Reading | None = None
        self._users = 0
        self._end_later: threading.Timer | None = None

    def prepare(self, file: FoundFile) -> Sent:
        """Read and cut a file; what keeps it from being read is said in what is given."""
        try:
            with file.path.open("rb") as opened:
                content_hash = hashlib.file_digest(opened, "sha256").hexdigest()
        except OSError as error:
            return Sent("", str(error.strerror))
        try:
            with self._reading_now() as reading:
                document = reading.begin(file)()
        except LoadError as error:
            return Sent(content_hash, error.reason)
        if embeds_to_cut(self._chunker):
            return Sent(content_hash, document=document)
        with self._cutting:  # of several threads of one worker, one at a time
            done = cut(self._chunker, document)
        return Sent(content_hash, "", document, tuple(map(span_of, done.chunks)), done.notes)

    def embed(self, texts: Sequence[str], *, keeping: bool) -> SentVectors:
        """Embed passages, with packed token vectors when they are kept."""
        import numpy as np

        embedder = self._embedder
        if keeping and isinstance(embedder, KeepsTokenStates):
            parts = list(embedder.embed_parts_with_states(texts))
        elif isinstance(embedder, EmbedsInParts):
            parts = list(embedder.embed_parts(texts))
        else:
            tokens = sum(map(embedder.count_tokens, texts)) if isinstance(embedder, CountsTokens) else 0
            return SentVectors(tokens, np.asarray(embedder.embed_documents(texts), "<f4").tobytes())
        vectors = np.empty((len(texts), embedder.dimension), "<f4")
        packed: dict[int, bytes] = {}
        for part in parts:
            vectors[list(part.rows)] = part.vectors
            packed.update(_packed(part))
        return SentVectors(
            sum(part.tokens for part in parts), vectors.tobytes(), tuple(packed[row] for row in sorted(packed))
        )

    @contextmanager
    def _reading_now(self) -> Iterator[Reading]:
        with self._guard:
            self._users += 1
            if self._end_later is not None:
                self._end_later.cancel()
                self._end_later = None
            if self._reading is None:
                self._reading = self._readers.enter_context(open_reading(self._loading))
            reading = self._reading
        try:
            yield reading
        finally:
            with self._guard:
                self._users -= 1
                if not self._users:
                    self._end_later = threading.Timer(_IDLE_SECONDS, self._end_readers)
                    self._end_later.daemon = True
                    self._end_later.start()

    def _end_readers(self) -> None:
        with self._guard:
            if not self._users:
                self._readers.close()
                self._reading = None


class _NotAsked(RememberingEmbedder):
    """An embedder behind a service, of which only counting tokens is wanted."""

    def __init__(self, embedder: Embedder, fingerprint: str, dimension: int) -> None:
        super().__init__(embedder)
        self._known = fingerprint, dimension

    @property
    def fingerprint(self) -> str:
        """As who ingests has been told by a service of that name."""
        return self._known[0]

    @property
    def dimension(self) -> int:
        """As who ingests has been told."""
        return self._known[1]


_EMBEDDER = "the embedder"


def _fingerprints(lent: RememberingEmbedder, of_suffixes: Mapping[str, str]) -> dict[str, str]:
    """What decides what comes out, by what it is called in a message."""
    from kb import __version__

    read_by = {f"the loader and chunker of {suffix}": fingerprint for suffix, fingerprint in of_suffixes.items()}
    return {"the version of kb": __version__, _EMBEDDER: lent.fingerprint, **read_by}


def _packed(part: EmbeddedPart) -> Iterator[tuple[int, bytes]]:
    return zip(part.rows, part.token_vectors, strict=True) if part.token_vectors else iter(())


def _no_key(name: str) -> str | None:
    """In place of the key of a service, of which only counting tokens is wanted: nothing is sent from here."""
    return f"no-{name.lower()}-here"
