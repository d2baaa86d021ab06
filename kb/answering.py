"""Hits → answer: the generator's text as it comes, its markers made uniform, its claims checked.

    hits → generator → text → markers (kb.markers) → text that is shown → claims (kb.citations) → verdicts

What becomes of a claim that nothing supports is a setting: it is shown and flagged, left out, or the generator is
asked to write the answer again. With the last two, text is shown only after it was checked.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from kb.abilities import Revises
from kb.answers import (
    Answer,
    AnswerReady,
    Citation,
    CitationFound,
    Claim,
    ClaimChecked,
    Failed,
    Generated,
    HitsFound,
    Quote,
    StreamEvent,
    TextPiece,
    Usage,
    UsageKnown,
)
from kb.citations import Checked, Checker, removed_note
from kb.dropping import Kept
from kb.errors import KbError
from kb.markers import MarkerFilter
from kb.prompts import not_found_text, question_language
from kb.services.usage import together, usage_told
from kb.settings import OnUnsupported
from kb.tracing import along, note, note_text, span

if TYPE_CHECKING:
    from kb.components import AnswerGenerator
    from kb.records import Document, SearchResult
    from kb.verdicts import Nearness

_Writing: TypeAlias = Generator[str | Quote, None, Generated]
_Shown: TypeAlias = str | Checked
"""A piece of the answer's text, or a statement of what was shown."""


@dataclass(slots=True)
class _Written:
    """An answer as it has been written."""

    generated: Generated
    text: str
    checked: list[Checked]
    notes: list[str]

    @property
    def claims(self) -> list[Claim]:
        return [one.claim for one in self.checked if one.claim is not None]

    @property
    def unsupported(self) -> list[Claim]:
        return [claim for claim in self.claims if claim.verdict == "unsupported"]


@dataclass(frozen=True, slots=True)
class Answerer:
    """Answers from what a search found."""

    generator: AnswerGenerator
    document: Callable[[str], Document | None]
    """The ingested document of an id; None when it has just been removed."""
    embedder: str
    """The embedder's name, for the answer."""
    nearest: int
    """So many hits are shown when a question is not answered."""
    nearness: Nearness | None = None
    """Similarities of a claim and sentences in another language."""
    on_unsupported: OnUnsupported = "flag"
    _documents: dict[str, Document | None] = field(default_factory=dict)

    def stream(self, result: SearchResult, started: float, searched: Usage | None = None) -> Iterator[StreamEvent]:
        """HitsFound, TextPiece, CitationFound, ClaimChecked …, UsageKnown, AnswerReady.

        Args:
            result: What was found.
            started: The time of the question by time.perf_counter.
            searched: What chat models were asked to find it.

        Raises:
            KbError: the generator failed.
        """
        yield HitsFound(result)
        written = yield from self._events(result)
        usage = together(searched, written.generated.usage)
        if usage is not None:
            yield UsageKnown(usage)
        answered = written.generated.answered
        note(answered=answered, hits=len(result.hits), best_score=result.best_score, **usage_told(usage))
        note_text(answer=written.text)
        yield AnswerReady(replace(self._answer(result, written, started), usage=usage))

    def _events(self, result: SearchResult) -> Generator[StreamEvent, None, _Written]:
        found: set[Citation] = set()
        with closing(self._written(result)) as writing:
            while True:
                try:
                    shown = next(writing)
                except StopIteration as stop:
                    written: _Written = stop.value
                    return written
                if isinstance(shown, str):
                    yield TextPiece(shown)
                    continue
                yield from map(CitationFound, (citation for citation in shown.citations if citation not in found))
                found.update(shown.citations)
                if shown.claim is not None:
                    yield ClaimChecked(shown.claim)

    def _answer(self, result: SearchResult, written: _Written, started: float) -> Answer:
        generated = written.generated
        citations = dict.fromkeys(citation for one in written.checked for citation in one.citations)
        return Answer(
            question=result.question,
            answered=generated.answered,
            text=written.text,
            citations=tuple(sorted(citations, key=lambda citation: citation.number)),
            hits=result.hits or tuple(drop.hit for drop in result.dropped[: self.nearest]),
            cutoff=result.cutoff,
            best_score=result.best_score,
            embedder=self.embedder,
            generator=self.generator.name,
            seconds=time.perf_counter() - started,
            dropped=result.dropped,
            notes=tuple(dict.fromkeys((*result.notes, *generated.notes, *written.notes))),
            where=result.where,
            confidence=generated.confidence,
            signals=generated.signals,
            claims=tuple(written.claims),
        )

    # ── what is written, as it is shown ──

    def _written(self, result: SearchResult) -> Generator[_Shown, None, _Written]:
        if not result.hits:
            text = not_found_text(question_language(result.question))
            yield text
            return _Written(Generated(text, answered=False), text, [], [])
        writing = self._traced(self.generator.stream(result.question, result.hits), result)
        if self.on_unsupported == "drop":
            return (yield from self._without_unsupported(result, writing))
        if self.on_unsupported == "regenerate":
            return (yield from self._written_again(result, writing))
        return (yield from self._as_it_comes(result, writing, self._checker(result)))

    def _traced(self, writing: _Writing, result: SearchResult) -> _Writing:
        return along(
            "kb.generate",
            writing,
            lambda generated: {"answered": generated.answered, **usage_told(generated.usage)},
            generator=self.generator.name,
            hits=len(result.hits),
        )

    def _checker(self, result: SearchResult) -> Checker:
        return Checker(result.hits, self._placed, self.nearness)

    def _as_it_comes(
        self, result: SearchResult, writing: _Writing, checker: Checker
    ) -> Generator[_Shown, None, _Written]:
        """The text piece by piece, and each statement once it is checked; what is no answer passes as it is."""
        markers = MarkerFilter(len(result.hits))
        checked: list[Checked] = []

        def shown(piece: str) -> Iterator[_Shown]:
            if piece:
                yield piece
                for one in checker.feed(piece):
                    checked.append(one)
                    yield one

        with closing(writing), checker.reading_ahead(result.question):
            while True:
                try:
                    piece = next(writing)
                except StopIteration as stop:
                    generated: Generated = stop.value
                    break
                if isinstance(piece, Quote):
                    checker.quoted(piece)
                else:
                    yield from shown(markers.feed(piece))
        yield from shown(markers.finish())
        if generated.answered:
            with span("kb.check", removed=len(markers.removed)) as told:
                rest = checker.finish()
                checked += rest
                told.set(claims=len(checked), citations=len({c for one in checked for c in one.citations}))
            yield from rest
        removed = [removed_note(markers.removed)] if markers.removed and generated.answered else []
        text = "".join(markers.passed) if generated.answered else generated.text
        return _Written(generated, text, checked, [*removed, *checker.notes])

    def _written_again(self, result: SearchResult, writing: _Writing) -> Generator[_Shown, None, _Written]:
        """The text, once it is checked; written a second time when something in it is not supported."""
        shown, written = _collected(self._as_it_comes(result, writing, self._checker(result)))
        if written.unsupported and isinstance(self.generator, Revises):
            again = self.generator.revise(result.question, result.hits, written.text, written.unsupported)
            coming = self._as_it_comes(result, self._traced(again, result), self._checker(result))
            shown, second = _collected(coming)
            count = len(written.unsupported)
            second.notes.insert(0, f"the answer was written again, as {count} of its claims had no support")
            usage = together(written.generated.usage, second.generated.usage)
            written = replace(second, generated=replace(second.generated, usage=usage))
        yield from shown
        return written

    def _without_unsupported(self, result: SearchResult, writing: _Writing) -> Generator[_Shown, None, _Written]:
        """The text sentence by sentence, without those in which a claim is not supported."""
        checker = self._checker(result)
        kept = Kept()
        coming = self._as_it_comes(result, writing, checker)
        while True:
            try:
                shown = next(coming)
            except StopIteration as stop:
                written: _Written = stop.value
                break
            if isinstance(shown, str):  # by now all statements of the text before it have been taken
                yield from kept.given(checker.settled)
            kept.take(shown)
        if not written.generated.answered:
            yield written.text
            return written
        yield from kept.given(len(written.text))
        if kept.left_out:
            written.notes.append(f"sentences left out, as nothing that they cite supports them: {kept.left_out}")
        if not any(one.claim for one in kept.checked):
            text = not_found_text(question_language(result.question))
            yield text
            return _Written(replace(written.generated, answered=False), text, [], written.notes)
        return replace(written, text=kept.text, checked=kept.checked)

    # ── where a quote stands ──

    def _placed(self, citation: Citation, document_id: str) -> Citation:
        """The citation with the page and the heading of its quote, which may lie behind its chunk's first ones."""
        if document_id not in self._documents:
            self._documents[document_id] = self.document(document_id)
        document = self._documents[document_id]
        if document is None or document.text[citation.start : citation.end] != citation.quote:
            return citation  # an ingest has replaced it a moment ago; the place of its chunk still holds
        page = bisect_right(document.pages, citation.start, key=lambda p: p.start) - 1
        heading = bisect_right(document.headings, citation.start, key=lambda h: h.start) - 1
        return replace(
            citation,
            page=document.pages[page].number if page >= 0 else None,
            heading=document.headings[heading].text if heading >= 0 else None,
        )


def finished(events: Iterable[StreamEvent]) -> Answer:
    """The answer at the end of a stream."""
    answer: Answer | None = None
    for event in events:
        if isinstance(event, AnswerReady):
            answer = event.answer
    assert answer is not None, "a stream ends with AnswerReady, or raises"
    return answer


def reported(events: Iterator[StreamEvent]) -> Generator[StreamEvent, None, None]:
    """The events of a stream; an error becomes the last of them, and is raised after it."""
    try:
        yield from events
    except KbError as error:
        yield Failed(error)
        raise


def _collected(writing: Generator[_Shown, None, _Written]) -> tuple[list[_Shown], _Written]:
    shown: list[_Shown] = []
    while True:
        try:
            shown.append(next(writing))
        except StopIteration as stop:
            return shown, stop.value
