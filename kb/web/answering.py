"""A question's events as they are sent: plain values, made where the answer is made."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kb.answers import (
    Answer,
    AnswerReady,
    Citation,
    CitationFound,
    Claim,
    ClaimChecked,
    Failed,
    HitsFound,
    StreamEvent,
    TextPiece,
    UsageKnown,
)
from kb.conversation import Conversation, PastTurn
from kb.display import answer_as_dict, citation_as_dict, claim_as_dict, hit_as_dict, usage_as_dict
from kb.errors import KbError
from kb.filters import Where
from kb.knowledge_base import KnowledgeBase
from kb.records import Hit, SearchResult
from kb.settings import Settings
from kb.web.collections import Collections
from kb.web.refusals import Refusal, refusal_of, unforeseen
from kb.web.sse import Event, event


@dataclass(frozen=True, slots=True)
class Wanted:
    """A question as it travels to a worker."""

    question: str
    collection: str | None = None
    top_k: int | None = None
    cutoff: float | None = None
    where: tuple[str, ...] = ()
    history: tuple[Mapping[str, Any], ...] = ()
    """Turns as `done` gave them."""


@dataclass(slots=True)
class _Bodies:
    """Makes plain values of the parts of one answer."""

    _documents: dict[str, str] = field(default_factory=dict)

    def found(self, result: SearchResult) -> dict[str, Any]:
        self._documents = {hit.chunk.id: hit.chunk.document_id for hit in _all_hits(result)}
        return found_body(result)

    def citation(self, citation: Citation) -> dict[str, Any]:
        return {
            **citation_as_dict(citation),
            "chunk_id": citation.chunk_id,
            "document_id": self._documents.get(citation.chunk_id, ""),
        }

    def claim(self, claim: Claim) -> dict[str, Any]:
        return {**claim_as_dict(claim), "evidence": [self.citation(one) for one in claim.evidence]}

    def answer(self, answer: Answer, past: PastTurn) -> dict[str, Any]:
        return {
            **answer_as_dict(answer),
            "citations": [self.citation(one) for one in answer.citations],
            "claims": [self.claim(claim) for claim in answer.claims],
            "hits": [hit_body(hit) for hit in answer.hits],
            "notes": list(answer.notes),
            "turn": _turn_body(past),
        }


def events_of(collections: Collections, wanted: Wanted) -> Generator[Event, None, None]:
    """Answer a question: `hits`, `text` …, and `done`, or `error` at the end. Raises nothing of ours."""
    bodies = _Bodies()
    try:
        conversation = _conversation(collections, wanted)
        for happened in conversation.stream(wanted.question, wanted.top_k, wanted.cutoff, _where(wanted)):
            if not isinstance(happened, Failed):
                yield _event(happened, bodies, conversation)
    except KbError as error:
        yield _refused(refusal_of(error))
    except Refusal as refusal:
        yield _refused(refusal)


def found(collections: Collections, wanted: Wanted) -> Generator[Event, None, None]:
    """Find passages: `found`, or `error`."""
    try:
        base = collections.get(wanted.collection)
        result = base.search(wanted.question, wanted.top_k, wanted.cutoff, _where(wanted))
        yield event("found", found_body(result))
    except KbError as error:
        yield _refused(refusal_of(error))
    except Refusal as refusal:
        yield _refused(refusal)


WAYS: Mapping[str, Callable[[Collections, Wanted], Generator[Event, None, None]]] = {
    "stream": events_of,
    "search": found,
}
"""What can be asked of a process."""


def prepared(config: str | None, overrides: dict[str, Any]) -> Collections:
    """Open the knowledge base, with all that a question needs loaded.

    Raises:
        ConfigError: a setting is wrong, or a package or key is missing.
    """
    base = KnowledgeBase.open(config, **overrides)
    base.prepare()
    collections = Collections(base)
    if _is_local(base.settings):
        for told in events_of(collections, Wanted("Is everything loaded?")):
            if told.name == "error":  # such as that nothing has been ingested: a question will be told
                break
    return collections


def broken(error: Exception) -> Event:
    """What nobody foresaw, as the last event of an answer."""
    return _refused(unforeseen(error, "a process that answers"))


def hit_body(hit: Hit) -> dict[str, Any]:
    """A hit as clients see it."""
    return {
        **hit_as_dict(hit),
        "document_id": hit.chunk.document_id,
        "start": hit.chunk.start,
        "end": hit.chunk.end,
    }


def found_body(result: SearchResult) -> dict[str, Any]:
    """What a search found, as clients see it."""
    return {
        "question": result.question,
        "hits": [hit_body(hit) for hit in result.hits],
        "cutoff": result.cutoff,
        "best_score": result.best_score,
        "notes": list(result.notes),
    }


def _is_local(settings: Settings) -> bool:
    """Whether a question asks no service, which would cost something."""
    uses = (settings.embedding.use, settings.generation.use, settings.rerank.use)
    return (
        not {"openai", "endpoint", "llm_judge"}.intersection(uses)
        and not settings.expansion.enabled
        and settings.negation.check != "model"
    )


def _conversation(collections: Collections, wanted: Wanted) -> Conversation:
    past = [
        PastTurn(
            turn["question"],
            turn["searched"],
            turn["text"],
            _numbers(turn["cited"]),
            _numbers(turn["mentioned"]),
            turn["highest"],
        )
        for turn in wanted.history
    ]
    return collections.get(wanted.collection).chat(past)


def _numbers(cited: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    numbers: dict[str, int] = {}
    for one in cited:
        numbers.setdefault(one["chunk_id"], one["number"])
    return numbers


def _turn_body(past: PastTurn) -> dict[str, Any]:
    """A turn as a client keeps it, and sends it with the next question."""
    return {
        "question": past.question,
        "searched": past.searched,
        "text": past.text,
        "cited": [{"number": number, "chunk_id": chunk_id} for chunk_id, number in past.cited.items()],
        "mentioned": [{"number": number, "chunk_id": chunk_id} for chunk_id, number in past.mentioned.items()],
        "highest": past.highest,
    }


def _where(wanted: Wanted) -> Where | None:
    return Where.parse(wanted.where) if wanted.where else None


def _event(happened: StreamEvent, bodies: _Bodies, conversation: Conversation) -> Event:
    match happened:
        case HitsFound(result):
            return event("hits", bodies.found(result))
        case TextPiece(text):
            return event("text", {"text": text})
        case CitationFound(citation):
            return event("citation", bodies.citation(citation))
        case ClaimChecked(claim):
            return event("verdict", bodies.claim(claim))
        case UsageKnown(usage):
            return event("usage", usage_as_dict(usage))
        case AnswerReady(answer):
            return event("done", bodies.answer(answer, conversation.turns[-1].past))
        case Failed():
            raise AssertionError("its error is raised right after it")


def _refused(refusal: Refusal) -> Event:
    return event("error", {**refusal.body, "status": refusal.status})


def _all_hits(result: SearchResult) -> Iterable[Hit]:
    return (*result.hits, *(drop.hit for drop in result.dropped))
