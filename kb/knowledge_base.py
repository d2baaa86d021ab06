"""KnowledgeBase: open, ingest, search, ask, stream, status."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Generator, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from kb.answering import Answerer, finished, reported
from kb.answers import Answer, StreamEvent, Usage
from kb.asynchronous import computed, iterated
from kb.catalogue import Catalogue
from kb.current import CurrentGeneration
from kb.errors import ConfigError, KbError, NothingIngestedError
from kb.filters import Filter, Where
from kb.opening import CollectionStore
from kb.records import Hit, Reranked, SearchResult
from kb.services.usage import metered
from kb.settings import Origins, Settings, load_settings
from kb.tracing import along, note_text, span, traced
from kb.wiring import Wiring

if TYPE_CHECKING:
    from kb.conversation import Conversation, PastTurn
    from kb.ingest.report import IngestReport
    from kb.maintenance.status import Status
    from kb.maintenance.upkeep import Upkeep

_TRIES, _PATIENCE = 5, 2.0
"""A search is done again when an ingest changed what can be found meanwhile, as it could miss some, or all: so many
times at least, and for so many seconds."""


class KnowledgeBase(Wiring):
    """A folder of documents that can be asked.

    Example:
        with KnowledgeBase.open("config.toml") as base:
            base.ingest()
            answer = base.ask("What does a 429 mean?")
    """

    def __init__(self, settings: Settings, origins: Origins, *, quiet: bool = True) -> None:
        super().__init__(settings, origins, quiet=quiet)
        self._store = CollectionStore(settings, origins)
        self._current = CurrentGeneration(self._store)

    @classmethod
    def open(cls, config: str | Path | None = None, *, quiet: bool = True, **overrides: Any) -> Self:
        """Open the knowledge base that the settings describe; nothing is loaded yet.

        Args:
            config: A configuration file; None takes `./config.toml` when there is one.
            quiet: No progress on stderr.
            overrides: Settings that win over all others, as nested dicts: `retrieval={"top_k": 3}`.

        Raises:
            ConfigError: a setting is unknown or wrong.
        """
        settings, origins = load_settings(config, **overrides)
        return cls(settings, origins, quiet=quiet)

    def variant(self, **changes: Any) -> Self:
        """The same with other settings, whole sections or single values by their names; the embedder is shared.

        Example:
            plain = base.variant(keyword=base.settings.keyword.model_copy(update={"enabled": False}))
        """
        other = type(self)(self.settings.model_copy(update=changes), self._origins, quiet=self._quiet)
        if "embedding" not in changes:
            other.embedder = self.embedder
        return other

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release files; the object can be used again, which opens them anew."""
        self._current.close()

    def prepare(self) -> None:
        """Build all parts that questions need, so that what is missing is told before the first one.

        Raises:
            ConfigError: a setting doesn't fit, or a package, a model or a key is missing.
        """
        _ = (self.embedder, self._reranker, self._generator, self._rewriter, self._expander, self._negation)

    # ── what people do ──

    def ingest(
        self,
        folder: str | Path | None = None,
        *,
        rebuild: bool = False,
        allow_removals: bool = False,
        only: str | Sequence[str] = (),
        dry_run: bool = False,
        max_cost: float | None = None,
    ) -> IngestReport:
        """Bring the collection in step with `folder` (`documents_dir` when not given).

        Args:
            folder: The folder of documents.
            rebuild: Build the collection anew beside the old one.
            allow_removals: Accept another folder, or the loss of many files.
            only: Patterns in gitignore form of what is looked at; the rest stays as it is.
            dry_run: Report what a run would do and cost, and do nothing.
            max_cost: Refuse what would cost more; dollars.

        Raises:
            KbError: see `kb.ingest.run.run`; what was done by then is kept.
        """
        from kb.ingest.engine import Means, open_engine
        from kb.ingest.estimate import dry_run as estimated
        from kb.ingest.reading import pipelines
        from kb.ingest.run import Job, run

        cut_by = pipelines(self.settings.loading, self.chunker.fingerprint)
        return (estimated if dry_run else run)(
            Job(
                root=self.folder_to_read(folder),
                data_dir=self.settings.data_dir,
                folder=self.folder,
                collection=self.settings.collection,
                lent=self.lent_embedder,
                chunker=self.chunker,
                open_engine=partial(open_engine, Means(self.settings, self.lent_embedder, self.chunker, cut_by)),
                pipelines=cut_by,
                store=self._store,
                limits=self.settings.ingest,
                include=self.settings.loading.include,
                exclude=self.settings.loading.exclude,
                only=[only] if isinstance(only, str) else only,
                max_cost=max_cost,
                rebuild=rebuild,
                allow_removals=allow_removals,
                quiet=self._quiet,
            )
        )

    def search(
        self, question: str, top_k: int | None = None, cutoff: float | None = None, where: Filter = None
    ) -> SearchResult:
        """Find the passages nearest to a question; see `search_many`."""
        return self.search_many([question], top_k, cutoff, where)[0]

    def search_many(
        self, questions: Sequence[str], top_k: int | None = None, cutoff: float | None = None, where: Filter = None
    ) -> tuple[SearchResult, ...]:
        """Search several questions in one call, one result each in their order.

        Args:
            questions: What people ask.
            top_k: At most so many hits; None takes `[retrieval] top_k`.
            cutoff: The least similarity; None takes `[retrieval] cutoff`.
            where: Search only what passes this filter: `{"kind": "pdf", "page": (3, 7)}`; see `kb.filters`.

        Raises:
            ConfigError: an argument is out of range, or `where` asks for a field that no document has.
            NothingIngestedError: there is no collection yet.
            IndexMismatchError: the collection was built with another embedder.
        """
        if top_k is not None and top_k < 1:
            raise ConfigError(f"top_k = {top_k}; allowed: a number from 1")
        if cutoff is not None and not -1 <= cutoff <= 1:
            raise ConfigError(f"cutoff = {cutoff}; allowed: a similarity from -1 to 1")
        narrow = Where.of(where)
        with (
            self._current.guard,
            traced(self._tracing),
            span("kb.retrieve", questions=len(questions), top_k=top_k) as told,
        ):
            until = time.monotonic() + _PATIENCE
            for tried in count(1):
                again = tried < _TRIES or time.monotonic() < until
                opened = self._current.opened(self.embedder)
                try:
                    narrowed = None if narrow is None else opened.narrowing.to(narrow)
                    retriever = self._retriever(opened.base)
                    found = retriever.search_many(questions, top_k, cutoff, narrowed)
                except KbError:
                    if not again or opened.is_current:
                        raise
                    continue
                if not again or opened.is_current:
                    break
            told.set(hits=sum(len(result.hits) for result in found), tries=tried)
            found = tuple(map(opened.told, found))
            return found if narrowed is None else tuple(map(narrowed.told, found))

    def rerank(self, question: str, hits: Sequence[Hit]) -> Reranked:
        """Put hits into the order of the configured reranker."""
        return self._reranker.rerank(question, hits)

    def ask(self, question: str, top_k: int | None = None, cutoff: float | None = None, where: Filter = None) -> Answer:
        """Answer a question from the documents, or say that they don't; see `search_many`."""
        return finished(self.stream(question, top_k, cutoff, where))

    def stream(
        self, question: str, top_k: int | None = None, cutoff: float | None = None, where: Filter = None
    ) -> Generator[StreamEvent, None, None]:
        """The same as `ask`, while it happens; closing it stops the request that is under way.

        HitsFound, then TextPiece, CitationFound and ClaimChecked as they come, UsageKnown when a chat model was
        asked, and AnswerReady; or Failed, after which the error is raised.
        """
        with traced(self._tracing):
            return reported(along("kb.question", self._events(question, top_k, cutoff, where)))

    def _events(
        self, question: str, top_k: int | None, cutoff: float | None, where: Filter
    ) -> Generator[StreamEvent, None, None]:
        started = time.perf_counter()
        note_text(question=question)
        with metered() as meter:
            result = self.search(question, top_k, cutoff, where)
        yield from self._answered(result, started, meter.usage)

    def chat(self, past: Sequence[PastTurn] = ()) -> Conversation:
        """Begin a conversation, where questions may lean on those before.

        Args:
            past: Turns of an earlier one that is resumed: `[turn.past for turn in earlier.turns]`.

        Raises:
            MissingKeyError: a model would make follow-ups questions of their own, and has no key.
        """
        return self._conversation(self.search, self._answered, past)

    def _answered(self, result: SearchResult, started: float, searched: Usage | None) -> Iterator[StreamEvent]:
        """Answer from what a search found; see `Answerer.stream`."""
        answerer = Answerer(
            generator=self._generator,
            document=self._current.opened(self.embedder).document,
            embedder=self.embedder.name,
            nearest=self.settings.retrieval.top_k,
            nearness=self._nearness,
            on_unsupported=self.settings.generation.on_unsupported,
        )
        return answerer.stream(result, started, searched)

    # ── the same for programs with an event loop; cancelling the task stops the request ──

    async def search_async(
        self, question: str, top_k: int | None = None, cutoff: float | None = None, where: Filter = None
    ) -> SearchResult:
        """As `search`."""
        return await computed(lambda: self.search(question, top_k, cutoff, where))

    async def ask_async(
        self, question: str, top_k: int | None = None, cutoff: float | None = None, where: Filter = None
    ) -> Answer:
        """As `ask`."""
        return await computed(lambda: self.ask(question, top_k, cutoff, where))

    def stream_async(
        self, question: str, top_k: int | None = None, cutoff: float | None = None, where: Filter = None
    ) -> AsyncGenerator[StreamEvent, None]:
        """As `stream`."""
        return iterated(lambda: self.stream(question, top_k, cutoff, where))

    def status(self) -> Status:
        """What the collection holds now, and how it is; see `upkeep`."""
        return self.upkeep.status()

    @property
    def upkeep(self) -> Upkeep:
        """Status, check, repair, copy, prune, delete, export and import of the collection."""
        from kb.maintenance.upkeep import Upkeep

        return Upkeep(self._store, quiet=self._quiet)

    @property
    def catalogue(self) -> Catalogue:
        """The documents of the collection: listed, and read as they were loaded."""
        return Catalogue(self._current)

    @property
    def root(self) -> Path | None:
        """The folder whose documents the collection holds; None before the first ingest."""
        with self._current.guard:
            try:
                return self._current.ledger().root()
            except NothingIngestedError:
                return None

    def changed_since_ingest(self) -> str | None:
        """Say in a few words what has changed in the folder since the last ingest; None when nothing has."""
        from kb.ingest.survey import changed_since

        opened = self._current.opened(self.embedder)
        sources = opened.ledger.sources(opened.generation.number)
        return changed_since(opened.ledger.root(), sources, self.settings.data_dir, self.settings.loading)

    # ── where things are ──

    def folder_to_read(self, folder: str | Path | None = None) -> Path:
        """The folder of documents that an ingest of `folder` reads, absolute."""
        return (Path(folder) if folder is not None else self.settings.documents_dir).expanduser().absolute()

    @property
    def folder(self) -> Path:
        """Where the collection's ledger, lock and generations are."""
        return self._store.folder

    def _kept_token_vectors(self, texts: Sequence[str]) -> Mapping[str, bytes]:
        return self._current.kept_token_vectors(self.embedder.fingerprint, texts)
