"""What each kind of component offers, and how one is found by its name.

A component's name in config.toml is its file's name: `[chunking] use = "recursive"` is
`kb/chunking/recursive.py`. There is no registry: `ls kb/chunking` is the list. Files whose name
begins with `_` are not components. A component file holds

    class Options(ComponentOptions): ...          its typed settings, `[chunking.recursive]`
    def build(options: Options, parts: Parts):     makes the component

and only the chosen file is imported, so it may import its heavy package at its top. What some
components can do beyond that stands in kb/abilities.py.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from kb.errors import ConfigError
from kb.settings import ComponentOptions, component_names, explain_validation

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kb.answers import Generated, Quote
    from kb.payloads import StoredRow
    from kb.records import Chunk, Document, Hit, Reranked, Scalar

    FloatArray: TypeAlias = NDArray[np.float32]


class Loader(Protocol):
    """Reads one file. Its module also declares `SUFFIXES`, lower case, with the dot."""

    def load(self, path: Path, relative: str) -> Document:
        """Read `path` into a Document whose `path` is `relative`.

        Raises:
            LoadError: the file cannot be read; nothing else is raised, whatever the bytes are.
        """
        ...


class Chunker(Protocol):
    """Cuts a document into chunks."""

    fingerprint: str
    """Changes whenever the same document could be cut otherwise; stored on each source."""

    def chunk(self, document: Document) -> tuple[Chunk, ...]:
        """Cut `document`; every non-blank character is in a chunk, spans rise, no chunk is blank."""
        ...


class Embedder(Protocol):
    """Turns text into vectors of unit length."""

    name: str
    """As shown in an answer, for example `e5` or `openai:text-embedding-3-small`."""
    fingerprint: str
    """Changes whenever the same text could give another vector: model, weights, dimension, prefixes, mean."""
    dimension: int
    max_tokens: int
    """The most tokens of one text that the model sees; longer input is an error of the caller."""
    cutoff: float
    """The least similarity that counts as evidence with this model, measured (`cutoff = "auto"`)."""
    batch_texts: int
    """So many texts are embedded between two commits: what an interruption may cost."""

    def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        """Embed passages: float32, shape (len(texts), dimension), unit rows; `[]` gives (0, dimension)."""
        ...

    def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        """Embed questions; the same form as `embed_documents`."""
        ...


@dataclass(frozen=True, slots=True)
class StorePlace:
    """Where a store keeps its data, and for which vectors."""

    folder: Path
    """A folder of its own; a store on a server ignores it."""
    collection: str
    """The name as the user wrote it, in any script."""
    slug: str
    """The same as 3–63 characters of `[a-z0-9_-]`, unique for the name."""
    fingerprint: str
    """The embedder's; a store that holds another one raises IndexMismatchError when opened."""
    dimension: int
    generation: int = 1
    """Which build of the collection; each has a folder of its own, and on a server needs a name of its own."""
    rebuild_command: str = "python -m pipelines.ingest --rebuild"
    """What builds the collection anew, for messages."""
    repair_command: str = "python -m pipelines.status --repair"
    """What fills the store anew from the ledger, for messages."""
    as_it_is: bool = False
    """A store on a server makes and changes nothing there when it is opened: what is not there is an error."""


@dataclass(frozen=True, slots=True)
class StoreRow:
    """One chunk as the store keeps it."""

    chunk: Chunk
    source: str
    vector: FloatArray


class Store(Protocol):
    """A vector index: a cache that can be rebuilt from the ledger.

    The module of one that keeps data on a server (its option `url`) also has
    `drop(options, parts, slug, generation)`, which deletes there what a generation left, and
    `generations(options, parts, slug)`, which gives the numbers of those that are there, each with its embedder's
    fingerprint, and makes nothing. One that keeps them in
    its process's memory has the option `in_memory`; a module whose store serves one process at a time when it is
    on no server says `ONE_PROCESS = True`. One whose files can
    be looked at without its heavy package has `damage(folder, *, filled)` in `_<name>_files.py`
    beside it: what is wrong with them, or None.
    """

    def upsert(self, rows: Sequence[StoreRow]) -> None:
        """Add rows, or replace those of the same chunk id, payload and all."""
        ...

    def delete(self, chunk_ids: Sequence[str]) -> None:
        """Remove chunks; unknown ids are ignored."""
        ...

    def delete_document(self, document_id: str) -> None:
        """Remove all chunks of one document."""
        ...

    def search(
        self, vectors: FloatArray, limit: int, where: Mapping[str, Scalar] | None = None
    ) -> list[list[tuple[str, float]]]:
        """Find the nearest chunks of each row of `vectors` (m, dimension).

        Returns:
            For each row at most `limit` pairs (chunk id, similarity), falling; similarity is
            1 − cosine distance, clamped to [−1, 1]. `where` keeps rows whose payload
            (`source`, `document_id`, `page`) equals every given value.
        """
        ...

    def vectors(self, chunk_ids: Sequence[str]) -> dict[str, FloatArray]:
        """The stored vectors of those ids that exist."""
        ...

    def rows(self, chunk_ids: Sequence[str]) -> dict[str, StoredRow]:
        """What is stored of those ids that exist."""
        ...

    def chunk_ids(self) -> Iterator[str]:
        """All ids, in no order, paged."""
        ...

    def count(self) -> int:
        """The number of rows."""
        ...

    def close(self) -> None:
        """Release files and connections; further calls are errors."""
        ...


class Reranker(Protocol):
    """Reorders hits by a closer look."""

    def rerank(self, question: str, hits: Sequence[Hit]) -> Reranked:
        """Give a permutation of `hits` (or a prefix of one), best first, with `score` and `scored_by` set anew.

        A service that fails raises nothing: the hits come back as they are, with a note that says so.
        """
        ...


class AnswerGenerator(Protocol):
    """Writes an answer from numbered hits: `[i]` in its text means `hits[i - 1]`."""

    name: str

    def generate(self, question: str, hits: Sequence[Hit]) -> Generated:
        """Answer at once; `hits` may be empty, which gives `answered = False`."""
        ...

    def stream(self, question: str, hits: Sequence[Hit]) -> Generator[str | Quote, None, Generated]:
        """Yield the text in pieces, a quote before the text that makes it; return what `generate` would give."""
        ...


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a chat."""

    role: str
    content: str


class Chat(Protocol):
    """A chat model behind a service."""

    name: str

    def complete(self, messages: Sequence[Message]) -> str:
        """The whole reply. Raises ServiceError."""
        ...

    def stream(self, messages: Sequence[Message]) -> Iterable[str]:
        """The reply in pieces, empty ones skipped. Raises ServiceError."""
        ...


def _no_secret(name: str) -> str | None:
    return None


def _none_kept(texts: Sequence[str]) -> Mapping[str, bytes]:
    return {}


@dataclass(frozen=True, slots=True)
class Parts:
    """What others lend a component. What a kind of component is not lent is None."""

    embedder: Embedder | None = None
    chat: Callable[[], Chat] | None = None
    """Opens the chat model of the component's purpose (`[chat.answer]` for a generator)."""
    count_tokens: Callable[[str], int] | None = None
    place: StorePlace | None = None
    secret: Callable[[str], str | None] = _no_secret
    """Looks a variable up in the environment, then in .env; for keys."""
    token_vectors: Callable[[Sequence[str]], Mapping[str, bytes]] = _none_kept
    """Reads what is kept of these embedded texts, packed by the embedder (`KeepsTokenStates`); of some, nothing is."""
    quiet: bool = True
    """No progress on stderr."""


_PACKAGES = {"docx": "python-docx", "dotenv": "python-dotenv", "yaml": "pyyaml"}
"""Modules whose package has another name; under the module's own there may be a stranger's."""


def component_module(kind: str, name: str) -> Any:
    """Import `kb/<kind>/<name>.py`.

    Raises:
        ConfigError: there is no such component, or the package it needs is not installed.
    """
    names = component_names(kind)
    if name not in names:
        raise ConfigError(f"[{kind}] use = {name!r}: there is no such component; allowed: {', '.join(names)}")
    try:
        return importlib.import_module(f"kb.{kind}.{name}")
    except ModuleNotFoundError as error:
        raise not_installed(f"[{kind}] use = {name!r}", name, error) from error


def not_installed(setting: str, component: str, error: ModuleNotFoundError) -> ConfigError:
    """What to say when the package that a setting's component needs is not there.

    Raises:
        ModuleNotFoundError: `error` itself, when what is missing is a part of kb.
    """
    if error.name and error.name.split(".")[0] == "kb":
        raise error
    return ConfigError(
        f"{setting} needs the package {error.name!r}, which is not installed: "
        f"pip install {_to_install(component, error.name or component)}"
    )


def _to_install(component: str, module: str) -> str:
    """What pip calls it: kb's extra for the component when it has one, else the missing package itself."""
    from importlib.metadata import PackageNotFoundError, metadata

    try:
        extras = metadata("kb").get_all("Provides-Extra") or []
    except PackageNotFoundError:  # run from a folder, without being installed
        extras = []
    extra = component.replace("_", "-")
    package = module.split(".")[0]
    return f"'kb[{extra}]'" if extra in extras else _PACKAGES.get(package, package)


def build_component(kind: str, name: str, options: Mapping[str, Any], parts: Parts) -> Any:
    """Build the component `name` of `kind` from its table of options.

    Raises:
        ConfigError: no such component, a wrong option, or a part that it needs is missing.
    """
    module = component_module(kind, name)
    option_class: type[ComponentOptions] = getattr(module, "Options", ComponentOptions)
    return module.build(explain_validation(option_class, options, section=f"{kind}.{name}"), parts)
