"""Any model of sentence-transformers on this machine: M3E, BGE, GTE, multilingual E5 and others.

The model is a folder, or a name on the hub, which is then fetched once. With a folder no network is
used. Needs the extra `sentence-transformers` and torch; neither is imported before a text is embedded
or counted.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
from platformdirs import user_cache_dir
from pydantic import Field

from kb.embedding._passes import each
from kb.embedding._sentence_facts import Facts, known_facts
from kb.embedding._sentence_folder import SECTION, checked, own_prompts, stamp
from kb.errors import ConfigError, KbError
from kb.processors import processors
from kb.settings import ComponentOptions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kb.components import Parts
    from kb.embedding._sentence_model import SentenceModel

CUTOFF = 0.3
"""Not measured, as every model has a scale of its own: the least score of the second guide, which uses M3E. Where a
model's similarities all lie above it (those of raw E5 begin at .7), it drops nothing: calibrate."""
BATCH_TEXTS = 64
"""Some fifteen seconds' work of a model of M3E's size on two processors."""


class Options(ComponentOptions):
    """Settings of `[embedding.sentence_transformers]`."""

    model: str = Field("moka-ai/m3e-base", min_length=1)
    """A folder, or a name on the hub."""
    query_prefix: str | None = None
    """Put before each question; None: what the model's own files say, mostly nothing."""
    document_prefix: str | None = None
    """Put before each passage; None: likewise."""
    dimension: int | None = Field(None, ge=1)
    """Of the vectors that are expected: another model in its place is then found out."""
    max_tokens: int | None = Field(None, ge=1)
    """Of one text; None: what the model sees."""
    batch_texts: int = Field(BATCH_TEXTS, ge=1)
    """Texts between two commits."""
    threads: int = Field(0, ge=0)
    """Texts embedded at the same time on processors; 0 means one for each that this process may use."""
    device: str = ""
    """As torch calls it; empty: a GPU where there is one, else the processors."""
    cutoff: float | None = Field(None, ge=-1, le=1)
    """None: 0.3, unmeasured."""
    cache_dir: str = ""
    """Where models are kept that were fetched by name, and what is known of a model; empty: the hub's cache folder
    for the first, the user's for the second."""


def build(options: Options, parts: Parts) -> SentenceTransformersEmbedder:
    """Make the embedder; a model that is new here is loaded once to see what it is.

    Raises:
        ConfigError: a package is missing, there is no such model, it can't be loaded, or an option doesn't fit it.
        ServiceError: it is named as on the hub, isn't in the cache, and the hub can't be reached.
    """
    for package in ("torch", "sentence_transformers"):
        if not _is_installed(package):
            raise ConfigError(
                f"[embedding] use = 'sentence_transformers' needs the package {package!r}, which is not installed: "
                "first torch, in the build for your processor (pytorch.org, Start Locally; the plain one is for CUDA "
                "and large), then pip install 'kb[sentence-transformers]'"
            )
    return SentenceTransformersEmbedder(_folder(options, quiet=parts.quiet), options)


def _is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ValueError:  # it was imported, or barred from it, by hand
        return False


def _folder(options: Options, *, quiet: bool) -> Path:
    folder = Path(options.model).expanduser()
    if not folder.exists():
        from kb.embedding import _sentence_hub

        if _sentence_hub.is_hub_name(options.model):
            folder = _sentence_hub.model_folder(options.model, options.cache_dir, quiet=quiet)
    return checked(folder)


class SentenceTransformersEmbedder:
    """Embeds texts by a model of sentence-transformers; vectors are of length one."""

    def __init__(self, folder: Path, options: Options) -> None:
        """Say what the model in `folder` is."""
        self._folder = folder
        self._device = options.device
        self._threads = options.threads or processors()
        own_query, own_document = own_prompts(folder)
        self._query_prefix = own_query if options.query_prefix is None else options.query_prefix
        self._document_prefix = own_document if options.document_prefix is None else options.document_prefix
        facts = self._facts(options.cache_dir)
        _fits(options, facts, folder)
        self._limit = options.max_tokens
        self.name = f"sentence_transformers:{_named(options.model)}"
        self.dimension = facts.dimension
        self.max_tokens = options.max_tokens or facts.max_tokens
        self.token_overhead = facts.overhead
        self.batch_texts = options.batch_texts
        self.cutoff = CUTOFF if options.cutoff is None else options.cutoff
        prefixes = hashlib.sha256(f"{self._query_prefix}\0{self._document_prefix}".encode()).hexdigest()
        # The folder's name is left out: a model that is moved gives the same vectors.
        self.fingerprint = f"sentence_transformers:{facts.dimension}:{facts.digest[:16]}:{prefixes[:8]}"
        self._guard = Lock()
        self._loading: Future[SentenceModel] | None = None

    def load_ahead(self) -> None:
        """Begin to load the model, while the caller opens other things; a failure is raised at the first use."""
        self._begin_loading()

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed passages: float32, shape (len(texts), dimension), unit rows; `[]` gives (0, dimension).

        Raises:
            KbError: a text has more than `max_tokens - token_overhead` tokens.
        """
        room = self.max_tokens - self.token_overhead
        for text in texts:
            count = self.count_tokens(text)
            if count > room:
                raise KbError(
                    f"a text of {count} tokens ({text.strip()[:40]!r}…) was to be embedded, but {self.name} sees at "
                    f"most {room}: cut it into smaller chunks ([chunking] size)"
                )
        return self._vectors(texts, self._document_prefix)

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed questions, cut where the model ends; the same form as `embed_documents`."""
        return self._vectors(texts, self._query_prefix)

    def count_tokens(self, text: str) -> int:
        """Count the tokens of a passage, without prefix and special tokens; never too few."""
        return self._loaded().count(text, self._document_prefix)

    def _vectors(self, texts: Sequence[str], prefix: str) -> NDArray[np.float32]:
        if not texts:
            return np.empty((0, self.dimension), np.float32)
        model = self._loaded()
        # A GPU is kept busy by one thread, and takes no more from several.
        threads = self._threads if model.on_processor else 1
        return np.array(each(lambda text: model.vector(text, prefix), texts, threads), np.float32)

    def _facts(self, cache_dir: str) -> Facts:
        from importlib.metadata import version

        # Another version may read the same files otherwise.
        known = f"{version('sentence-transformers')}\n{self._document_prefix}\n{stamp(self._folder)}"
        place = Path(cache_dir or user_cache_dir("kb", appauthor=False)).expanduser()
        return known_facts(place, known, self._measured)

    def _measured(self) -> Facts:
        from kb.embedding._sentence_model import measure

        return measure(self._folder, self._device, self._document_prefix)

    def _loaded(self) -> SentenceModel:
        return self._begin_loading().result()

    def _begin_loading(self) -> Future[SentenceModel]:
        with self._guard:
            if self._loading is None:
                background = ThreadPoolExecutor(1, thread_name_prefix="sentence-model-load")
                self._loading = background.submit(self._load)
                background.shutdown(wait=False)
            return self._loading

    def _load(self) -> SentenceModel:
        from kb.embedding._sentence_model import SentenceModel

        return SentenceModel(self._folder, self._device, self._limit)


def _fits(options: Options, facts: Facts, folder: Path) -> None:
    """Compare what is configured with what the model is."""
    if options.dimension is not None and options.dimension != facts.dimension:
        raise ConfigError(
            f"{SECTION} dimension = {options.dimension}, but the model in {folder} gives vectors of {facts.dimension} "
            "numbers: correct it, or give the folder of the model that is meant"
        )
    if options.max_tokens is not None and options.max_tokens > facts.max_tokens:
        raise ConfigError(
            f"{SECTION} max_tokens = {options.max_tokens}, but the model in {folder} sees at most {facts.max_tokens}"
        )
    most = options.max_tokens or facts.max_tokens
    if facts.overhead >= most:
        raise ConfigError(
            f"{SECTION} document_prefix: with it and the model's own marks {facts.overhead} of {most} tokens are used, "
            "so there is no room for a text: shorten it, or raise max_tokens"
        )


def _named(model: str) -> str:
    """The last part of the folder or of the name on the hub."""
    return Path(model).expanduser().name or model
