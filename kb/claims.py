r"""The statements of an answer, each with the sources that it cites, found while the text is being written.

    answer text → sentences → statements: what stands before each group of markers

A sentence that cites nothing is covered by what its paragraph cites next, as writers put one marker at the end of
a thought, or, in a list, by what the line before the list cites. Headings, questions, lines that only introduce
("These are:") and code state nothing.

    >>> text = "It takes 5 days [1], or 2 in Japan [2]. Both count from the day after. [3]"
    >>> [(statement.text, statement.numbers) for statement in statements(text)]
    [('It takes 5 days', (1,)), ('or 2 in Japan.', (2,)), ('Both count from the day after.', (3,))]
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from kb.markers import Marker, find_markers
from kb.sentences import Span, fence_after, fenced_spans, sentence_spans
from kb.words import content_terms

LEAST_TERMS = 2
"""Fewer terms than this between two markers are no statement of their own."""

# A sentence is over for good when a letter or digit and one more character follow it, as what ends a sentence is
# decided by the first letter behind it; where a bracket comes first, when so many characters follow.
_GOES_ON = re.compile(r"[^\w\[【［]*\w.", re.DOTALL)
_FOLLOWING = 80
_MAY_END = re.compile(r"[.!?。！？｡؟।…‥\n]")
# Sentences are looked for again when a paragraph has grown by this share of it: the time stays linear.
_GROWN = 32

_ITEM = re.compile(r"\s*(?:[-*+•]|\d{1,3}[.)、．])\s+")
_HEADING = re.compile(r"\s*#{1,6}\s|(?:\*\*[^*\n]+\*\*|__[^_\n]+__)[:：]?\s*\Z")
_TABLE_ROW = re.compile(r"\s*\|")
_RULE_ROW = re.compile(r"[\s|:+\-=]+\Z")
_INTRODUCES = re.compile(r"[:：][\"'”’」』）)\]*_]*\s*\Z")
_ASKS = re.compile(r"[?？][\"'”’」』）)\]*_]*\s*\Z")
_QUOTES = (("“", "”"), ("「", "」"), ("『", "』"), ("«", "»"))
_MOST_QUOTED = 4
"""A quotation of more sentences than this was never closed."""
_EDGES = " \t\n,，、;；"


@dataclass(frozen=True, slots=True)
class Statement:
    """Something that an answer states: `text[start:end]` of it is the statement with its markers."""

    text: str
    """Its words, without markers."""
    start: int
    end: int
    numbers: tuple[int, ...]
    """What it cites, in order, each once."""
    sentence: Span
    """The sentence that it is, or is a part of."""
    checkable: bool = True
    """It has words enough to compare; "Yes." has not."""
    states: bool = True
    """It does more than to introduce what comes next."""


def statements(text: str) -> list[Statement]:
    """All statements of a finished answer, in order."""
    reader = StatementReader()
    return [*reader.feed(text), *reader.finish()]


class StatementReader:
    """Finds statements in a text that comes in pieces, which may be cut anywhere: the result is that of the whole."""

    def __init__(self) -> None:
        self._text = ""
        self._paragraph = 0  # where the first paragraph begins that isn't finished
        self._given = 0  # so many of its sentences have been given out, or passed over
        self._looked = 0  # the length of the text when sentences were last looked for
        self._over = 0  # where the last sentence ends that was looked at
        self._pending: list[Statement] = []
        self._lead: tuple[int, ...] = ()

    @property
    def settled(self) -> int:
        """No further statement will begin before this offset of the text."""
        return self._pending[0].sentence[0] if self._pending else self._over

    def feed(self, piece: str) -> list[Statement]:
        """Take the next piece; give the statements that are decided by now, in order."""
        self._text += piece
        ended = _MAY_END.search(self._text, max(self._over, self._paragraph))
        grown = len(self._text) - self._looked >= (len(self._text) - self._paragraph) // _GROWN
        if ended is None or ended.end() == len(self._text) or not grown:
            return []
        return list(self._read(final=False))

    def finish(self) -> list[Statement]:
        """Give the rest; the text has ended."""
        return list(self._read(final=True))

    def _read(self, *, final: bool) -> Iterator[Statement]:
        self._looked = len(self._text)
        while self._paragraph < len(self._text):
            end, closed = _paragraph_end(self._text, self._paragraph)
            yield from self._sentences(end, whole=final or closed)
            if not (final or closed):
                return
            yield from self._covered_by(())
            self._paragraph, self._given, self._lead = end, 0, ()

    def _sentences(self, end: int, *, whole: bool) -> Iterator[Statement]:
        """What the sentences of the paragraph that are over state, beginning with the first that wasn't looked at."""
        start = self._paragraph
        text = self._text[start:end]
        spans, open_at_end = _with_whole_quotations(text, sentence_spans(text))
        code = fenced_spans(text)
        markers = find_markers(text)
        for index in range(self._given, len(spans)):
            goes_on = open_at_end and index == len(spans) - 1
            if not whole and (goes_on or not _is_over(text, spans[index][1])):
                return
            self._given = index + 1
            self._over = start + spans[index][1]
            if any(a <= spans[index][0] < b for a, b in code):
                continue
            here = [marker for marker in markers if spans[index][0] <= marker.start < spans[index][1]]
            if not here and _states_nothing(text, spans, index):
                continue
            for statement in _of_sentence(text, spans[index], here):
                yield from self._placed(replace(
                    statement,
                    start=statement.start + start,
                    end=statement.end + start,
                    sentence=(spans[index][0] + start, spans[index][1] + start),
                ))  # fmt: skip

    def _placed(self, statement: Statement) -> Iterator[Statement]:
        """A statement that cites, after those that were waiting for it; one that does not waits."""
        if not statement.numbers:
            self._pending.append(replace(statement, numbers=self._lead))
            return
        yield from self._covered_by(statement.numbers)
        introduces = _INTRODUCES.search(statement.text) is not None
        if introduces or not _ITEM.match(self._text, statement.start):
            self._lead = statement.numbers if introduces else ()
        yield statement if statement.checkable or not introduces else replace(statement, states=False)

    def _covered_by(self, numbers: Sequence[int]) -> Iterator[Statement]:
        for statement in self._pending:
            yield replace(statement, numbers=tuple(dict.fromkeys((*statement.numbers, *numbers))))
        self._pending.clear()


def _paragraph_end(text: str, start: int) -> tuple[int, bool]:
    """Where the paragraph at `start` ends, behind its blank line, and whether that has come."""
    within, fence, position = False, "", start
    while (newline := text.find("\n", position)) >= 0:
        line = text[position : newline + 1]
        position = newline + 1
        fence = fence_after(fence, line)
        if line.strip():
            within = True
        elif within and not fence:
            return position, True
    return len(text), False


def _with_whole_quotations(text: str, spans: Sequence[Span]) -> tuple[list[Span], bool]:
    """Sentences, those that one pair of quotation marks holds as one; and whether the last may go on so.

    Two sentences of a source that were put together in one quotation would else look like two that are right.
    """
    joined: list[Span] = []
    held = 0  # sentences in the open quotation
    for span in spans:
        if held and "\n" not in text[joined[-1][1] : span[0]]:
            joined[-1] = (joined[-1][0], span[1])
            held += 1
        else:
            joined.append(span)
            held = 1
        if held >= _MOST_QUOTED or not _is_open(text[joined[-1][0] : joined[-1][1]]):
            held = 0
    return joined, held > 0


def _is_open(sentence: str) -> bool:
    """Whether a quotation begins in a sentence and doesn't end there."""
    return sentence.count('"') % 2 == 1 or any(
        sentence.count(opening) > sentence.count(end) for opening, end in _QUOTES
    )


def _is_over(text: str, end: int) -> bool:
    """Whether no text that may follow makes the sentence that ends at `end` another one."""
    return _GOES_ON.match(text, end) is not None or len(text) - end > _FOLLOWING


def _states_nothing(text: str, spans: Sequence[Span], index: int) -> bool:
    start, end = spans[index]
    sentence = text[start:end]
    if _HEADING.match(sentence) or _INTRODUCES.search(sentence) or _ASKS.search(sentence):
        return True
    if _TABLE_ROW.match(sentence):
        following = text[spans[index + 1][0] : spans[index + 1][1]] if index + 1 < len(spans) else ""
        return _RULE_ROW.match(sentence) is not None or _RULE_ROW.match(following) is not None
    return len(content_terms(sentence)) < LEAST_TERMS


def _of_sentence(text: str, span: Span, markers: Sequence[Marker]) -> Iterator[Statement]:
    """What a sentence states: a part for each group of markers, the last with what follows it."""
    start, end = span
    groups = _groups(text, markers)
    whole = _words(text, start, end, markers)
    if not groups:
        yield Statement(whole, start, end, (), span)
        return
    parts: list[tuple[int, int, list[Marker]]] = []
    previous = start
    for group in groups:
        part = text[previous : group[0].start]
        if parts and len(content_terms(part)) < LEAST_TERMS:
            first, _, before = parts.pop()
            parts.append((first, group[-1].end, [*before, *group]))
        else:
            parts.append((previous, group[-1].end, list(group)))
        previous = group[-1].end
    first, _, last = parts.pop()
    parts.append((first, end, last))
    for part_start, part_end, group in parts:
        words = _words(text, part_start, part_end, group)
        numbers = tuple(dict.fromkeys(number for marker in group for number in marker.numbers))
        part_start += len(text[part_start:part_end]) - len(text[part_start:part_end].lstrip(_EDGES))
        enough = len(content_terms(words)) >= LEAST_TERMS
        checkable = enough or len(content_terms(whole)) >= LEAST_TERMS
        yield Statement(words if enough else whole, part_start, part_end, numbers, span, checkable)


def _groups(text: str, markers: Sequence[Marker]) -> list[list[Marker]]:
    """Markers with nothing but separators between them belong together."""
    groups: list[list[Marker]] = []
    for marker in markers:
        if groups and not text[groups[-1][-1].end : marker.start].strip(_EDGES):
            groups[-1].append(marker)
        else:
            groups.append([marker])
    return groups


def _words(text: str, start: int, end: int, markers: Sequence[Marker]) -> str:
    """The text of a span without its markers and the blanks before them."""
    pieces: list[str] = []
    for marker in markers:
        pieces.append(text[start : marker.start].rstrip())
        start = marker.end
    return "".join([*pieces, text[start:end]]).strip(_EDGES)
