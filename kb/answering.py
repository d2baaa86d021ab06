"""Hits → answer: the generator's text as it comes, its markers made uniform, its citations resolved."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kb.answers import Answer, AnswerReady, Citation, Generated, HitsFound, StreamEvent, TextPiece
from kb.citations import removed_note, resolve
from kb.markers import MarkerFilter
from kb.prompts import not_found_text, question_language
from kb.records import SearchResult

if TYPE_CHECKING:
    from kb.components import AnswerGenerator
    from kb.records import Document


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

    def stream(self, result: SearchResult, started: float) -> Iterator[StreamEvent]:
        """HitsFound, TextPiece …, AnswerReady; `started` is the time of the question by time.perf_counter."""
        yield HitsFound(result)
        markers = MarkerFilter(len(result.hits))
        generated = yield from self._pieces(result, markers)
        citations: tuple[Citation, ...] = ()
        notes = (*result.notes, *generated.notes)
        text = generated.text
        if generated.answered:
            text = "".join(markers.passed)
            citations, more = resolve(text, result.hits, generated.quotes)
            ids = self._document_ids(citations, result)
            documents = {document_id: self.document(document_id) for document_id in dict.fromkeys(ids)}
            citations = tuple(_placed(citation, documents[i]) for citation, i in zip(citations, ids, strict=True))
            removed = (removed_note(markers.removed),) if markers.removed else ()
            notes = tuple(dict.fromkeys((*notes, *removed, *more)))
        yield AnswerReady(
            Answer(
                question=result.question,
                answered=generated.answered,
                text=text,
                citations=citations,
                hits=result.hits or tuple(drop.hit for drop in result.dropped[: self.nearest]),
                cutoff=result.cutoff,
                best_score=result.best_score,
                embedder=self.embedder,
                generator=self.generator.name,
                seconds=time.perf_counter() - started,
                dropped=result.dropped,
                notes=notes,
                where=result.where,
                confidence=generated.confidence,
                signals=generated.signals,
            )
        )

    def _pieces(self, result: SearchResult, markers: MarkerFilter) -> Generator[StreamEvent, None, Generated]:
        """The text piece by piece; what is not an answer passes as it is."""
        if not result.hits:
            text = not_found_text(question_language(result.question))
            yield TextPiece(text)
            return Generated(text, answered=False)
        stream = self.generator.stream(result.question, result.hits)
        generated: Generated | None = None
        while generated is None:
            try:
                piece = markers.feed(next(stream))
            except StopIteration as stop:
                generated = stop.value
                piece = markers.finish()
            if piece:
                yield TextPiece(piece)
        return generated

    def _document_ids(self, citations: tuple[Citation, ...], result: SearchResult) -> list[str]:
        of_chunk = {hit.chunk.id: hit.chunk.document_id for hit in result.hits}
        return [of_chunk[citation.chunk_id] for citation in citations]


def _placed(citation: Citation, document: Document | None) -> Citation:
    """The citation with the page and the heading of its quote, which may lie behind its chunk's first ones."""
    if document is None or document.text[citation.start : citation.end] != citation.quote:
        return citation  # an ingest has replaced it a moment ago; the place of its chunk still holds
    page = bisect_right(document.pages, citation.start, key=lambda p: p.start) - 1
    heading = bisect_right(document.headings, citation.start, key=lambda h: h.start) - 1
    return replace(
        citation,
        page=document.pages[page].number if page >= 0 else None,
        heading=document.headings[heading].text if heading >= 0 else None,
    )
