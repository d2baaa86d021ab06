"""The parts that the settings name, each built at first use. The only place that wires them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kb.abilities import Revises
from kb.base import Base
from kb.components import AnswerGenerator, Chat, Chunker, Embedder, Parts, Reranker, build_component
from kb.errors import ConfigError
from kb.expansion import Expander
from kb.ingest.remembering import RememberingEmbedder
from kb.negation import Negation
from kb.recall import Recall
from kb.remembered_vectors import RememberedVectors
from kb.retrieval import Retriever
from kb.rewriting import Rewriter
from kb.settings import ChatPurpose, Origins, Settings
from kb.tracing import Tracing

if TYPE_CHECKING:
    from kb.answers import StreamEvent, Usage
    from kb.conversation import Conversation, PastTurn
    from kb.filters import Filter
    from kb.records import SearchResult
    from kb.verdicts import Nearness


class Wiring:
    """The configured embedder, chunker, retriever and generator.

    Raises:
        ConfigError: tracing is on, and its package is not installed.
    """

    def __init__(self, settings: Settings, origins: Origins, *, quiet: bool) -> None:
        self.settings = settings
        self._origins = origins
        self._quiet = quiet
        section = settings.tracing
        self._tracing = Tracing.open(content=section.content) if section.enabled else None

    @cached_property
    def embedder(self) -> Embedder:
        """The configured embedder, built at first use."""
        embedder: Embedder = self._component("embedding", self.settings.embedding)
        return embedder

    @cached_property
    def chunker(self) -> Chunker:
        """The configured chunker, sized for the embedder."""
        lent = self.lent_embedder
        chunker: Chunker = self._component(
            "chunking", self.settings.chunking, embedder=lent, count_tokens=lent.count_tokens
        )
        return chunker

    @cached_property
    def lent_embedder(self) -> RememberingEmbedder:
        """The embedder as the chunker has it."""
        return RememberingEmbedder(self.embedder)

    @cached_property
    def _reranker(self) -> Reranker:
        reranker: Reranker = self._component(
            "rerank",
            self.settings.rerank,
            embedder=self.embedder,
            chat=self._judge_chat,
            token_vectors=self._kept_token_vectors,
        )
        return reranker

    def _kept_token_vectors(self, texts: Sequence[str]) -> Mapping[str, bytes]:
        """What the collection's ledger keeps of these texts' tokens, by text."""
        return {}

    @cached_property
    def _expander(self) -> Expander | None:
        section = self.settings.expansion
        return Expander(self._chat(self.settings.chat.expand), section) if section.enabled else None

    @cached_property
    def _negation(self) -> Negation:
        section = self.settings.negation
        chat = self._chat(self.settings.chat.negation) if section.check == "model" else None
        return Negation(section.check != "off", chat, section.most_checked)

    @cached_property
    def _rewriter(self) -> Rewriter | None:
        """The model that makes follow-ups questions of their own; None when words do."""
        how, chat = self.settings.conversation.rewrite, self.settings.chat
        if how == "model":
            return Rewriter(self._chat(chat.rewrite))
        if how == "auto" and self.settings.generation.use == "openai":
            from kb.services.connection import BASE_URL_VARIABLE

            return Rewriter(self._chat(chat.rewriting(elsewhere=bool(self._origins.secret(BASE_URL_VARIABLE)))))
        return None

    def _conversation(
        self,
        search: Callable[[str, int | None, float | None, Filter], SearchResult],
        answer: Callable[[SearchResult, float, Usage | None], Iterator[StreamEvent]],
        past: Sequence[PastTurn],
    ) -> Conversation:
        """A conversation; the arguments are those of `Conversation`."""
        from kb.conversation import Conversation

        return Conversation(
            search,
            answer,
            rewrites=self.settings.conversation.rewrite != "off",
            rewriter=self._rewriter,
            one_of_each_document=self.settings.retrieval.group_by == "document",
            tracing=self._tracing,
            past=past,
        )

    @cached_property
    def _generator(self) -> AnswerGenerator:
        generator: AnswerGenerator = self._component(
            "generation", self.settings.generation, embedder=self.embedder, chat=self._answer_chat
        )
        section = self.settings.generation
        if section.on_unsupported == "regenerate" and not isinstance(generator, Revises):
            raise ConfigError(
                f'[generation] on_unsupported = "regenerate" needs a generator that writes, such as "openai"; '
                f'use = "{section.use}" only quotes'
            )
        return generator

    @property
    def _nearness(self) -> Nearness | None:
        """Compares a claim with sentences in another language; the limits of kb.verdicts are measured with e5."""
        return self._similarities if self.settings.embedding.use == "e5" else None

    def _similarities(self, text: str, sentences: Sequence[str]) -> Sequence[float]:
        vectors = self._compared.of([text, *sentences])
        similarities: Sequence[float] = (vectors[1:] @ vectors[0]).tolist()
        return similarities

    @cached_property
    def _compared(self) -> RememberedVectors:
        return RememberedVectors(self.embedder)

    def _answer_chat(self) -> Chat:
        return self._chat(self.settings.chat.answer)

    def _judge_chat(self) -> Chat:
        return self._chat(self.settings.chat.judge)

    def _chat(self, purpose: ChatPurpose) -> Chat:
        from kb.services.chat import OpenAIChat

        return OpenAIChat(purpose, self._origins.secret, prices=self.settings.chat.prices)

    def _retriever(self, base: Base) -> Retriever:
        """Searches one generation of a collection."""
        keyword = self.settings.keyword
        return Retriever(
            Recall(self.embedder, base, keyword if base.has_words else keyword.model_copy(update={"enabled": False})),
            self._reranker,
            self.settings.retrieval,
            reranked=self.settings.rerank.candidates,
            expander=self._expander,
            negation=self._negation,
        )

    def _component(self, kind: str, section: Any, **lent: Any) -> Any:
        parts = Parts(secret=self._origins.secret, quiet=self._quiet, **lent)
        return build_component(kind, section.use, section.options(section.use), parts)
