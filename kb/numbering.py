"""Numbers of sources that last through a conversation: what was [1] in the first answer is [1] in all others.

A generator numbers its hits anew for each question, `[i]` being `hits[i - 1]`. Here the events of an answer pass
through with every such number replaced by the chunk's own in the conversation. A chunk gets its number, the next one
free, where it is first cited, by the answer or as evidence of a claim.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Mapping
from dataclasses import replace

from kb.answers import (
    Answer,
    AnswerReady,
    Citation,
    CitationFound,
    Claim,
    ClaimChecked,
    HitsFound,
    StreamEvent,
    TextPiece,
)
from kb.display import place_of
from kb.markers import find_markers
from kb.records import Hit

_MOST_SOURCES = 999
"""Of a conversation that is resumed; what looks like a year is no marker."""

_OPEN = re.compile(r"\[\d{0,9}\Z")
"""The beginning of a marker whose end is in the next piece."""
_NUMBER = re.compile(r"\[(\d{1,9})\]")


class Numbering:
    """The numbers that chunks have, by their ids."""

    def __init__(self, known: Mapping[str, int] | None = None, highest: int = 0) -> None:
        self._numbers = dict(known or {})
        self.highest = max((highest, *self._numbers.values()))
        """The last number that was given, to a chunk that is among `known` or not any more."""

    @classmethod
    def resumed(cls, known: Iterable[tuple[str, int]], highest: int = 0) -> Numbering:
        """Go on from what somebody else has kept: where it contradicts itself, what comes first counts.

        Args:
            known: Chunks and their numbers.
            highest: One that was given, though it may not be among them any more.
        """
        numbers: dict[str, int] = {}
        taken: set[int] = set()
        for chunk_id, number in known:
            if chunk_id not in numbers and number not in taken and 0 < number <= _MOST_SOURCES:
                numbers[chunk_id] = number
                taken.add(number)
        return cls(numbers, min(highest, _MOST_SOURCES))

    @property
    def known(self) -> Mapping[str, int]:
        """All numbers given so far."""
        return self._numbers

    def of(self, chunk_id: str) -> int:
        """The number of a chunk, given now when it has none."""
        if chunk_id not in self._numbers:
            self.highest += 1
            self._numbers[chunk_id] = self.highest
        return self._numbers[chunk_id]

    def copy(self) -> Numbering:
        """The same numbers, to go on with while it isn't known whether they will count."""
        return Numbering(self._numbers, self.highest)


def numbered(events: Iterable[StreamEvent], numbering: Numbering) -> Generator[StreamEvent, None, None]:
    """Pass the events of an answer on with the numbers of the conversation; joined pieces stay the answer's text."""
    text = _Text(numbering)
    for event in events:
        match event:
            case HitsFound():
                text.hits = event.result.hits
                yield event
            case TextPiece():
                if piece := text.feed(event.text):
                    yield TextPiece(piece)
            case CitationFound():
                yield CitationFound(text.citation(event.citation))
            case ClaimChecked():
                yield ClaimChecked(text.claim(event.claim))
            case AnswerReady():
                if piece := text.finish():
                    yield TextPiece(piece)
                yield AnswerReady(text.answer(event.answer))
            case _:
                yield event


class _Text:
    """An answer's text with its numbers replaced while it comes."""

    def __init__(self, numbering: Numbering) -> None:
        self.hits: tuple[Hit, ...] = ()
        self._numbering = numbering
        self._taken = ""
        """Of the text as the generator numbers it."""
        self._held = ""
        self._shifts: list[tuple[int, int]] = []
        """(the end of a marker in that text, by how much all behind it has moved)"""

    def feed(self, piece: str) -> str:
        """Take the next piece; give it with its markers replaced."""
        piece = self._held + piece
        opened = _OPEN.search(piece)
        self._held = piece[opened.start() :] if opened else ""
        return self._passed(piece[: opened.start()] if opened else piece)

    def finish(self) -> str:
        """Give what was held back."""
        held, self._held = self._held, ""
        return self._passed(held)

    def _passed(self, piece: str) -> str:
        before = len(self._taken)
        self._taken += piece
        if "]" not in piece:
            return piece
        # What is a marker is decided by what stands before it, so the text so far is looked at again.
        markers = [marker for marker in find_markers(self._taken) if marker.end > before]
        passed, at = "", before
        for marker in markers:
            written = "".join(f"[{number}]" for number in dict.fromkeys(map(self.number, marker.numbers)))
            passed += self._taken[at : marker.start] + written
            at = marker.end
            self._shifts.append((marker.end, self._moved(marker.end) + len(written) - (marker.end - marker.start)))
        return passed + self._taken[at:]

    def number(self, local: int) -> int:
        """The conversation's number for the generator's."""
        return self._numbering.of(self.hits[local - 1].chunk.id) if 1 <= local <= len(self.hits) else local

    def _moved(self, position: int) -> int:
        return next((moved for end, moved in reversed(self._shifts) if end <= position), 0)

    def citation(self, citation: Citation) -> Citation:
        """The same citation with the conversation's number."""
        return replace(citation, number=self._numbering.of(citation.chunk_id))

    def claim(self, claim: Claim) -> Claim:
        """The same claim, where it stands now."""
        return replace(
            claim,
            start=claim.start + self._moved(claim.start),
            end=claim.end + self._moved(claim.end),
            numbers=tuple(map(self.number, claim.numbers)),
            evidence=tuple(map(self.citation, claim.evidence)),
            reasons=tuple(map(self.words, claim.reasons)),
        )

    def words(self, note: str) -> str:
        """A sentence about the answer with the conversation's numbers; what has none is named by its place."""
        return _NUMBER.sub(self._in_words, note)

    def _in_words(self, found: re.Match[str]) -> str:
        local = int(found[1])
        if not 1 <= local <= len(self.hits):
            return found[0]
        hit = self.hits[local - 1]
        number = self._numbering.known.get(hit.chunk.id)
        return f"“{place_of(hit)}”" if number is None else f"[{number}]"

    def answer(self, answer: Answer) -> Answer:
        """The whole answer; its text is what has passed."""
        if not answer.answered:
            return answer
        again = _Text(self._numbering)
        again.hits = self.hits
        text = again.feed(answer.text) + again.finish()
        citations = sorted(map(self.citation, answer.citations), key=lambda citation: citation.number)
        return replace(
            answer,
            text=text,
            citations=tuple(citations),
            claims=tuple(map(again.claim, answer.claims)),
            notes=tuple(map(self.words, answer.notes)),
        )
