"""A conversation: questions that lean on those before, and sources whose numbers last.

question → one of its own → search → what earlier turns cited joins in → answer → its numbers those of the conversation
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from operator import itemgetter
from threading import Lock, get_ident
from typing import TYPE_CHECKING

from kb.answering import finished, reported
from kb.answers import AnswerReady, Citation, HitsFound, StreamEvent
from kb.asynchronous import computed, iterated
from kb.display import as_markdown, as_text, one_each, place
from kb.errors import KbError, ServiceError
from kb.exclusions import exclusions
from kb.followups import Topic, begun, followed
from kb.inert import inert, one_line
from kb.leaning import leaning, plain
from kb.numbering import Numbering, numbered
from kb.records import Hit, SearchResult, Step
from kb.rewriting import TURNS_SHOWN, Rewriter, Said
from kb.services.cancel import NEVER, current
from kb.services.usage import metered
from kb.tracing import Tracing, along, note_text, traced

if TYPE_CHECKING:
    from kb.answers import Answer, Usage
    from kb.filters import Filter

_EARLIER_TURNS = 2
"""What was cited longer ago is found again when it is meant: its question was a follow-up's last base."""
_MOST_EARLIER = 3
"""Some 600 tokens more than the five hits of a question, which are about 1,000."""


@dataclass(frozen=True, slots=True)
class PastTurn:
    """What a conversation has to know of a turn to be resumed later, or elsewhere; it may come from anybody."""

    question: str
    """As it was asked."""
    searched: str
    """As a question of its own; see `Turn`. Empty: not known."""
    text: str
    """Of the answer."""
    cited: Mapping[str, int] = field(default_factory=dict)
    """The numbers of the chunks that the answer cites, by their ids."""
    mentioned: Mapping[str, int] = field(default_factory=dict)
    """Those of other chunks that got one, as evidence of a claim."""
    highest: int = 0
    """The highest number given so far, in case earlier turns are left out."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One question of a conversation and its answer."""

    question: str
    """As it was asked."""
    searched: str
    """As a question of its own, which was searched and answered; the same when it was one."""
    answer: Answer
    past: PastTurn
    """What to keep of it, to resume the conversation by `KnowledgeBase.chat`."""


class Conversation:
    """Questions one after another; opened by `KnowledgeBase.chat`.

    A turn counts once its answer is complete: an error, or a stream that is closed before, leaves everything as it was.
    For any number of threads: a question waits until the one before has been answered.
    """

    def __init__(
        self,
        search: Callable[[str, int | None, float | None, Filter], SearchResult],
        answer: Callable[[SearchResult, float, Usage | None], Iterator[StreamEvent]],
        *,
        rewrites: bool = True,
        rewriter: Rewriter | None = None,
        one_of_each_document: bool = False,
        tracing: Tracing | None = None,
        past: Sequence[PastTurn] = (),
    ) -> None:
        """Begin, or go on.

        Args:
            search: Finds passages, as `KnowledgeBase.search` does.
            answer: Answers from them, as `Answerer.stream` does.
            rewrites: Make follow-ups questions of their own; else each is searched as it is asked.
            rewriter: A model that does it; without one, words do.
            one_of_each_document: The hits of a question are of as many documents.
            tracing: What its spans go to.
            past: Turns of a conversation that is resumed: the next answer is the same as if it had never ended.
        """
        self._search = search
        self._answer = answer
        self._rewrites = rewrites
        self._rewriter = rewriter
        self._one_of_each_document = one_of_each_document
        self._tracing = tracing
        self._lock = Lock()
        self._asker: object = None
        self._turns: tuple[Turn, ...] = ()
        self._resumed = tuple(past)
        self._topic = self._topic_of(self._resumed)
        self._numbering = Numbering.resumed(
            (pair for turn in self._resumed for numbers in (turn.cited, turn.mentioned) for pair in numbers.items()),
            max((turn.highest for turn in self._resumed), default=0),
        )

    @property
    def turns(self) -> tuple[Turn, ...]:
        """All turns of this object so far, in order."""
        return self._turns

    @property
    def _past(self) -> tuple[PastTurn, ...]:
        """What is known of all turns, with those before this object."""
        return (*self._resumed, *(turn.past for turn in self._turns))

    @property
    def sources(self) -> tuple[Citation, ...]:
        """What has been cited, by number: of each number and place the first citation."""
        every = [citation for turn in self._turns for citation in _cited(turn.answer)]
        return tuple(citation for _, citation in one_each(sorted(every, key=lambda citation: citation.number)))

    def reset(self) -> None:
        """Begin anew: no turns, and numbers from 1."""
        with self._one_at_a_time():
            self._turns, self._resumed, self._topic, self._numbering = (), (), None, Numbering()

    def ask(self, question: str, top_k: int | None = None, cutoff: float | None = None, where: Filter = None) -> Answer:
        """Answer a question, or a follow-up of those before; the arguments are those of `KnowledgeBase.ask`."""
        return finished(self.stream(question, top_k, cutoff, where))

    async def ask_async(
        self, question: str, top_k: int | None = None, cutoff: float | None = None, where: Filter = None
    ) -> Answer:
        """As `ask`."""
        return await computed(lambda: self.ask(question, top_k, cutoff, where))

    def stream(
        self, question: str, top_k: int | None = None, cutoff: float | None = None, where: Filter = None
    ) -> Generator[StreamEvent, None, None]:
        """The same as `ask`, while it happens: the events of `KnowledgeBase.stream`."""
        with traced(self._tracing):
            return reported(along("kb.question", self._events(question, top_k, cutoff, where)))

    def stream_async(
        self, question: str, top_k: int | None = None, cutoff: float | None = None, where: Filter = None
    ) -> AsyncGenerator[StreamEvent, None]:
        """As `stream`."""
        return iterated(lambda: self.stream(question, top_k, cutoff, where))

    def _events(
        self, question: str, top_k: int | None, cutoff: float | None, where: Filter
    ) -> Generator[StreamEvent, None, None]:
        with self._one_at_a_time():
            started = time.perf_counter()
            note_text(question=question)
            with metered() as meter:
                topic, notes = self._standing(question)
                searched = topic.standing
                result = self._search(searched, top_k, cutoff, where)
            leans = plain(searched) != plain(question)
            if leans:
                notes = (f"searched as: {searched}", *notes)
            if leans:
                result = self._with_earlier(result)
            numbering = self._numbering.copy()
            with closing(numbered(self._answer(result, started, meter.usage), numbering)) as events:
                for event in events:
                    match event:
                        case HitsFound():
                            found = replace(event.result, notes=(*notes, *event.result.notes))
                            yield HitsFound(found)
                        case AnswerReady():
                            answer = replace(event.answer, question=question, notes=(*notes, *event.answer.notes))
                            self._keep(topic, question, answer, numbering)
                            yield AnswerReady(answer)
                        case _:
                            yield event

    def _keep(self, topic: Topic, question: str, answer: Answer, numbering: Numbering) -> None:
        """A turn is complete."""
        cited = {one.chunk_id: one.number for one in answer.citations}
        new = numbering.known.items() - self._numbering.known.items() - cited.items()
        mentioned = dict(sorted(new, key=itemgetter(1)))
        past = PastTurn(question, topic.standing, answer.text, cited, mentioned, numbering.highest)
        self._turns += (Turn(question, topic.standing, answer, past),)
        self._topic, self._numbering = topic, numbering

    # ── a question of its own ──

    def _topic_of(self, past: Sequence[PastTurn]) -> Topic | None:
        """What the last of these turns was about."""
        topic: Topic | None = None
        for turn in past:
            by_words = followed(topic, turn.question) if self._rewrites else begun(turn.question)
            # Else a model has rewritten it, or what it leans on is not among these turns.
            topic = by_words if turn.searched in ("", by_words.standing) else begun(turn.searched)
        return topic

    def _standing(self, question: str) -> tuple[Topic, tuple[str, ...]]:
        """What is asked, as a topic whose question stands by itself, and notes on how that was told."""
        if not self._past or not self._rewrites:
            return begun(question), ()
        by_words = followed(self._topic, question)
        if self._rewriter is None:
            return by_words, ()
        said = [Said(turn.searched or turn.question, turn.text) for turn in self._past[-TURNS_SHOWN:]]
        try:
            found = self._rewriter.rewritten(question, said)
        except ServiceError as error:
            return by_words, (f"what the question leans on was told by words alone, as the model failed: {error}",)
        # A model that repeats "And in Japan?" has not understood it.
        repeated = plain(found) == plain(question) and leaning(question) is not None
        return (by_words if repeated else begun(found)), ()

    # ── what was cited before ──

    def _with_earlier(self, result: SearchResult) -> SearchResult:
        """What the last turns cited joins the hits when the search found it too, though not among the best.

        That is: it is still there, passes the filter, and is as similar as evidence has to be.
        """
        if exclusions(result.question):  # then what was dropped may be what is excluded
            return result
        candidates = {drop.hit.chunk.id: drop.hit for drop in result.dropped}
        documents = {hit.chunk.document_id for hit in result.hits} if self._one_of_each_document else set()
        joined: list[Hit] = []
        for chunk_id in self._cited_lately():
            hit = candidates.get(chunk_id)
            if hit is not None and hit.similarity >= result.cutoff and hit.chunk.document_id not in documents:
                step = Step("earlier", len(joined) + 1, hit.similarity)
                joined.append(replace(hit, steps=(*hit.steps, step)))
        ids = {hit.chunk.id for hit in joined}
        dropped = tuple(drop for drop in result.dropped if drop.hit.chunk.id not in ids)
        return replace(result, hits=(*result.hits, *joined), dropped=dropped)

    def _cited_lately(self) -> list[str]:
        """Chunks that the last turns cited, the latest turn's first."""
        lately = reversed(self._past[-_EARLIER_TURNS:])
        ids = dict.fromkeys(chunk_id for turn in lately for chunk_id in turn.cited)
        return list(ids)[:_MOST_EARLIER]

    # ── one at a time ──

    @contextmanager
    def _one_at_a_time(self) -> Iterator[None]:
        asker = get_ident() if current() is NEVER else current()  # tasks of an event loop share threads
        if self._asker == asker:  # it would wait for itself
            raise KbError("an answer of this conversation is still being streamed: read it to its end, or close it")
        with self._lock:
            self._asker = asker
            try:
                yield
            finally:
                self._asker = None

    # ── shown ──

    def __str__(self) -> str:
        """All turns: each question behind a mark, then its answer with its sources."""
        return "\n\n".join(f"? {one_line(turn.question)}\n\n{as_text(turn.answer)}" for turn in self._turns)

    def _repr_markdown_(self) -> str:
        """All turns as a notebook shows them."""
        return "\n\n".join(
            f"**{inert(one_line(turn.question))}**\n\n{as_markdown(turn.answer)}" for turn in self._turns
        )


def _cited(answer: Answer) -> list[Citation]:
    return [*answer.citations, *(citation for claim in answer.claims for citation in claim.evidence)]


def sources_as_text(sources: tuple[Citation, ...]) -> str:
    """Numbered sources, one a line."""
    return "\n".join(f"  [{c.number}] {place(c.source, c.page, c.heading)}" for c in sources)
