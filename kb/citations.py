"""An answer's claims, checked while it is written: what each cites, where those words stand, and a verdict.

    answer text → statements (kb.claims) → citations of each, and the verdict on it (kb.verdicts)

A quote is always a span of the chunk behind `[n]`: one that the generator named, else what comes closest to the
claim. What cannot be confirmed is said in a note, never passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Timer

from kb.answers import Citation, Claim, Quote
from kb.claims import Statement, StatementReader
from kb.evidence import is_spaceless, read_ahead, sentences_of
from kb.quotations import find_quotation, quotations
from kb.records import Hit
from kb.verdicts import Judgement, Nearness, judge

_NOTE_CHARACTERS = 60
_MODEL_IS_ASKED_SECONDS = 0.03
"""By then the request is under way, and nothing is taken from what it needs; who quotes has answered already."""
_TOO_FEW_WORDS = "it has too few words to compare"


@dataclass(frozen=True, slots=True)
class Checked:
    """A statement of the answer with what was found of it."""

    statement: Statement
    citations: tuple[Citation, ...]
    """Of each of its numbers, what comes closest to it."""
    claim: Claim | None
    """None for what only introduces something."""


@dataclass(slots=True)
class Checker:
    """Checks one answer; its text may come in pieces that are cut anywhere."""

    hits: Sequence[Hit]
    """`[i]` means `hits[i - 1]`."""
    placed: Callable[[Citation, str], Citation]
    """Gives a citation the page and heading of its quote, by its document's id."""
    nearness: Nearness | None = None
    """Similarities by the embedder, for claims in another language than what they cite."""
    notes: list[str] = field(default_factory=list)
    _reader: StatementReader = field(default_factory=StatementReader)
    _quotes: list[tuple[int, Quote]] = field(default_factory=list)
    """Each with the length of the text when it was given."""
    _length: int = 0
    _waiting: list[Checked] | None = field(default_factory=list)
    """What cites nothing, until something cites: an answer without any citation may be none."""

    @property
    def settled(self) -> int:
        """No further statement will begin before this offset of the text."""
        return self._waiting[0].statement.sentence[0] if self._waiting else self._reader.settled

    @contextmanager
    def reading_ahead(self, question: str) -> Iterator[None]:
        """Read the sources while the model thinks: its first claim is then checked as fast as the others."""
        timer = Timer(_MODEL_IS_ASKED_SECONDS, self._read_ahead, [question])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _read_ahead(self, question: str) -> None:
        sources = [hit.chunk.text for hit in self.hits]
        read_ahead(sources)
        foreign = [source for source in sources if is_spaceless(source) != is_spaceless(question)]
        if self.nearness is not None and foreign:  # an answer is in the language of its question
            self.nearness(question, sentences_of(foreign))

    def quoted(self, quote: Quote) -> None:
        """Take what the generator quotes in the text that comes next."""
        number, start, end = quote
        if not 1 <= number <= len(self.hits) or not 0 <= start < end <= len(self.hits[number - 1].chunk.text):
            self.notes.append(f"a quote for [{number}] lies outside its source and was left out")
        else:
            self._quotes.append((self._length, quote))

    def feed(self, piece: str) -> list[Checked]:
        """Take the next piece of the text; give what is decided by now, in order."""
        self._length += len(piece)
        return self._checked(self._reader.feed(piece))

    def finish(self) -> list[Checked]:
        """Give the rest; the text has ended, and it is an answer."""
        rest = self._checked(self._reader.finish())
        waiting, self._waiting = self._waiting, None
        return [*(waiting or ()), *rest]

    def _checked(self, statements: Iterable[Statement]) -> list[Checked]:
        decided: list[Checked] = []
        for statement in statements:
            checked = self._check(statement)
            if self._waiting is not None and statement.numbers:
                decided += self._waiting
                self._waiting = None
            (decided if self._waiting is None else self._waiting).append(checked)
        return decided

    def _check(self, statement: Statement) -> Checked:
        numbers = [number for number in statement.numbers if 1 <= number <= len(self.hits)]
        looked_at = numbers or list(range(1, len(self.hits) + 1))
        sources = [self.hits[number - 1].chunk.text for number in looked_at]
        # In one language words do as well, and an embedder takes some milliseconds for each sentence.
        across = all(is_spaceless(source) != is_spaceless(statement.text) for source in sources)
        judgement = judge(statement.text, sources, self.nearness if across else None)
        self.notes += self._missing_quotations(statement.text, numbers)
        closest = [Quote(looked_at[source], start, end) for source, start, end in judgement.quotes]
        quotes = self._citable(statement, numbers, closest)
        claim = self._claim(statement, numbers, judgement, quotes or closest) if statement.states else None
        return Checked(statement, tuple(map(self._citation, quotes)), claim)

    def _citable(self, statement: Statement, numbers: Sequence[int], closest: Sequence[Quote]) -> list[Quote]:
        """The quotes behind the numbers: those that the generator named, else the closest."""
        quotes: list[Quote] = []
        given = max((at for at, _ in self._quotes if at <= statement.start), default=0)
        named = [quote for at, quote in self._quotes if at == given]
        for number in numbers:
            of_it = [quote for quote in named or closest if quote.number == number]
            found = self._repeated(statement.text, number) or of_it
            # Of a lone source it is known by now that nothing in it comes close.
            quotes += found or [self._whole(number) if len(numbers) == 1 else self._closest(statement.text, number)]
        return quotes

    def _repeated(self, text: str, number: int) -> list[Quote]:
        """What a text repeats of a source in quotation marks."""
        chunk = self.hits[number - 1].chunk
        spans = (find_quotation(quotation, chunk.text) for quotation in quotations(text))
        return [Quote(number, *span) for span in spans if span]

    def _closest(self, text: str, number: int) -> Quote:
        """What of one source comes closest to a text; all of it when nothing does."""
        found = judge(text, [self.hits[number - 1].chunk.text]).quotes[:1]
        return Quote(number, *found[0][1:]) if found else self._whole(number)

    def _whole(self, number: int) -> Quote:
        return Quote(number, 0, len(self.hits[number - 1].chunk.text))

    def _missing_quotations(self, text: str, numbers: Sequence[int]) -> Iterator[str]:
        """Notes on words in quotation marks that the cited sources don't hold, and where they are instead."""
        named = ", ".join(f"[{number}]" for number in numbers)
        for quotation in quotations(text) if numbers else ():
            holders = [number for number, hit in enumerate(self.hits, 1) if find_quotation(quotation, hit.chunk.text)]
            if not set(numbers) & set(holders):
                instead = f"; it is in [{holders[0]}]" if holders else ""
                yield f"the quotation “{_short(quotation)}” is not in {named}{instead}"

    def _claim(
        self, statement: Statement, numbers: Sequence[int], judgement: Judgement, quotes: Sequence[Quote]
    ) -> Claim:
        verdict, reasons = judgement.verdict, judgement.reasons
        if not statement.checkable:
            verdict, reasons = "partly", (_TOO_FEW_WORDS,)
        elif not numbers:
            said = verdict == "supported" and bool(quotes)
            verdict = "partly" if said else "unsupported"
            reasons = (f"it cites no source; [{quotes[0].number}] says it",) if said else ("it cites no source",)
        if verdict == "unsupported":
            self.notes.append(_unsupported_note(statement.text, numbers, reasons))
        return Claim(
            statement.text,
            statement.start,
            statement.end,
            tuple(numbers),
            verdict,
            judgement.score,
            tuple(map(self._citation, quotes)),
            reasons,
        )

    def _citation(self, quote: Quote) -> Citation:
        number, start, end = quote
        hit = self.hits[number - 1]
        chunk = hit.chunk
        citation = Citation(
            number=number,
            source=hit.source,
            page=chunk.page,
            heading=chunk.heading,
            start=chunk.start + start,
            end=chunk.start + end,
            quote=chunk.text[start:end],
            chunk_id=chunk.id,
        )
        return self.placed(citation, chunk.document_id)


def removed_note(numbers: Sequence[int]) -> str:
    """Say that the answer cited sources that it was not given."""
    named = ", ".join(f"[{number}]" for number in dict.fromkeys(numbers))
    return f"the answer cited {named}, which is none of the sources that were found; it does not count"


def _unsupported_note(text: str, numbers: Sequence[int], reasons: Sequence[str]) -> str:
    named = ", ".join(f"[{number}]" for number in numbers) or "what was found"
    why = f" ({'; '.join(reasons)})" if numbers and reasons else ""
    return f"nothing in {named} was found to support: {_short(text)}{why}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _NOTE_CHARACTERS else line[: _NOTE_CHARACTERS - 1] + "…"
