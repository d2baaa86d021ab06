"""From `[n]` in an answer to a checked citation: source, page, heading and a quote that is really there.

    answer text → MarkerFilter (kb.markers) → text with `[n]` only → resolve → Citation for each quote

A quote is always a span of the chunk behind `[n]`: the one the generator named, or words that the answer
itself puts in quotation marks, or the sentence(s) of the chunk that share most with the claim before the
marker. What cannot be confirmed is said in a note, never passed over.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from kb.answers import Citation
from kb.markers import Marker, MarkerFilter, find_markers
from kb.records import Hit
from kb.sentences import CJK, Span, sentence_spans

__all__ = ["Marker", "MarkerFilter", "PageOf", "find_markers", "removed_note", "resolve"]

PageOf = Callable[[str, int], int | None]
"""(document id, offset into its text) → page number, or None."""

# A neighbouring sentence joins the quote when it supports at least this much more of the claim.
NEIGHBOUR_SHARE = 0.25
# Below this share of a claim's weight the cited chunk is not seen to support it. Low on purpose: a claim
# in other words is common, and the note says only that no sentence was found.
SUPPORT_SHARE = 0.2
# Fewer terms than this between two markers are not a claim of their own: the whole sentence is.
LEAST_CLAIM_TERMS = 2
# Shorter quoted words are names and titles, not quotations of the source.
LEAST_QUOTATION_CHARACTERS = 12
LEAST_CJK_QUOTATION_CHARACTERS = 6
_NOTE_CHARACTERS = 60

_CJK_RUN = re.compile(f"[{CJK}]+")
_WORD = re.compile(rf"[^\W_{CJK}]+(?:[._'’\-:/][^\W_{CJK}]+)*|_+[^\W_{CJK}]+|[{CJK}]+")
_WORD_PART = re.compile(r"[^\W_]+")
_QUOTED = re.compile(r"“([^“”\n]+)”|\"([^\"\n]+)\"|「([^「」\n]+)」|『([^『』\n]+)』|«([^«»\n]+)»|„([^„“\n]+)“")
_COMMON_ENGLISH = """
a an the of to in on at by for from with and or but is are was were be been it its this that these those as not no if
then than so can may will must have has had do does did you your we our they their i he she his her there which who
what when where how
"""
_COMMON_WORDS = frozenset(_COMMON_ENGLISH.split())
_COMMON_KANA = re.compile(r"[\u3041-\u309f]{2}")


def resolve(
    text: str,
    hits: Sequence[Hit],
    quotes: Iterable[tuple[int, int, int]] = (),
    page_of: PageOf | None = None,
) -> tuple[tuple[Citation, ...], tuple[str, ...]]:
    """Resolve the citation markers of a finished answer.

    Args:
        text: the answer; `[i]` means `hits[i - 1]`.
        hits: the hits it was written from.
        quotes: what the generator says it quoted: (number, start, end), offsets into the chunk's text.
        page_of: finds the page of a quote that lies beyond its chunk's first page.

    Returns:
        One citation for each distinct (number, quote), by number and then by position, and notes on
        whatever could not be confirmed. Text without markers gives no citations and no notes.
    """
    notes: list[str] = []
    given, notes_on_quotes = _given_quotes(hits, quotes)
    notes += notes_on_quotes
    spans: dict[tuple[int, int, int], None] = {}
    outside: list[int] = []
    for claim in _claims(text):
        notes += _quotation_notes(claim, hits)
        for number in claim.numbers:
            if not 1 <= number <= len(hits):
                outside.append(number)
                continue
            if number in given:
                spans.update(dict.fromkeys((number, start, end) for start, end in given[number]))
                continue
            start, end, supported = _quote(claim, hits[number - 1].chunk.text)
            spans[number, start, end] = None
            if not supported:
                notes.append(_unsupported_note(claim, number, hits[number - 1].chunk.text))
    if outside:
        notes.append(removed_note(outside))
    citations = [_citation(number, start, end, hits[number - 1], page_of) for number, start, end in sorted(spans)]
    return tuple(citations), tuple(dict.fromkeys(notes))


def removed_note(numbers: Sequence[int]) -> str:
    """Say that the answer cited sources that it was not given."""
    named = ", ".join(f"[{number}]" for number in dict.fromkeys(numbers))
    return f"the answer cited {named}, which is none of the sources that were found; it does not count"


@dataclass(frozen=True, slots=True)
class _Claim:
    """What stands before a group of adjacent markers, without markers, and the numbers of the group."""

    text: str
    numbers: tuple[int, ...]


def _claims(text: str) -> list[_Claim]:
    markers = find_markers(text)
    claims: list[_Claim] = []
    index = 0
    for start, end in sentence_spans(text):
        groups: list[list[Marker]] = []
        while index < len(markers) and markers[index].start < end:
            marker = markers[index]
            index += 1
            adjacent = groups and not text[groups[-1][-1].end : marker.start].strip(" \t,，、;；")
            if adjacent:
                groups[-1].append(marker)
            else:
                groups.append([marker])
        if not groups:
            continue
        sentence = _without(text, start, end, [marker for group in groups for marker in group])
        previous = start
        for group in groups:
            part = text[previous : group[0].start].strip(" \t\n,，、;；")
            whole = len(_terms(part)) < LEAST_CLAIM_TERMS
            numbers = tuple(dict.fromkeys(number for marker in group for number in marker.numbers))
            claims.append(_Claim(sentence if whole else part, numbers))
            previous = group[-1].end
    return claims


def _without(text: str, start: int, end: int, markers: Sequence[Marker]) -> str:
    pieces: list[str] = []
    for marker in markers:
        pieces.append(text[start : marker.start])
        start = marker.end
    return "".join([*pieces, text[start:end]]).strip()


def _given_quotes(
    hits: Sequence[Hit], quotes: Iterable[tuple[int, int, int]]
) -> tuple[dict[int, list[Span]], list[str]]:
    given: dict[int, list[Span]] = {}
    notes: list[str] = []
    for number, start, end in quotes:
        if not 1 <= number <= len(hits) or not 0 <= start < end <= len(hits[number - 1].chunk.text):
            notes.append(f"a quote for [{number}] lies outside its source and was left out")
            continue
        given.setdefault(number, []).append((start, end))
    return given, notes


def _citation(number: int, start: int, end: int, hit: Hit, page_of: PageOf | None) -> Citation:
    chunk = hit.chunk
    absolute = chunk.start + start
    page = page_of(chunk.document_id, absolute) if page_of else None
    return Citation(
        number=number,
        source=hit.source,
        page=chunk.page if page is None else page,
        heading=chunk.heading,
        start=absolute,
        end=chunk.start + end,
        quote=chunk.text[start:end],
        chunk_id=chunk.id,
    )


def _quote(claim: _Claim, chunk_text: str) -> tuple[int, int, bool]:
    """Choose the span of the chunk that best supports the claim, and say whether it does at all."""
    for quotation in _quotations(claim.text):
        found = _find_verbatim(quotation, chunk_text)
        if found:
            return *found, True
    spans = sentence_spans(chunk_text)
    if not spans:
        return 0, len(chunk_text), False
    wanted = _terms(claim.text)
    terms = [_terms(chunk_text[start:end]) for start, end in spans]
    counts = Counter(term for sentence in terms for term in sentence)
    weight = {term: math.log(1 + len(spans) / max(1, counts[term])) for term in wanted}
    total = sum(weight.values())

    def support(found: set[str]) -> float:
        return sum(weight[term] for term in wanted & found) / total if total else 0.0

    scores = [support(sentence) for sentence in terms]
    # Of equals the first, but no heading, which says nothing.
    best = max(range(len(spans)), key=lambda i: (scores[i], chunk_text[spans[i][0]] != "#", -i))
    first = last = best
    for neighbour in (best + 1, best - 1):
        if 0 <= neighbour < len(spans):
            joined = set().union(*terms[min(first, neighbour) : max(last, neighbour) + 1])
            if support(joined) >= support(set().union(*terms[first : last + 1])) + NEIGHBOUR_SHARE:
                first, last = min(first, neighbour), max(last, neighbour)
    return spans[first][0], spans[last][1], scores[best] >= SUPPORT_SHARE


def _terms(text: str) -> set[str]:
    """Words in lower case without the commonest, and pairs of CJK characters."""
    terms: set[str] = set()
    for found in _WORD.finditer(text):
        word = found.group().lower()
        if _CJK_RUN.fullmatch(word):
            pairs = {word[i : i + 2] for i in range(len(word) - 1)} or {word}
            terms |= {pair for pair in pairs if not _COMMON_KANA.fullmatch(pair)}
        elif word not in _COMMON_WORDS:
            terms.add(word)
            terms.update(part for part in _WORD_PART.findall(word) if part not in _COMMON_WORDS)
    return terms


def _quotations(claim: str) -> list[str]:
    """What the claim puts in quotation marks, when it is long enough to be a quotation."""
    found = (next(filter(None, match.groups())).strip() for match in _QUOTED.finditer(claim))
    return [quotation for quotation in found if _is_quotation(quotation)]


def _is_quotation(quotation: str) -> bool:
    least = LEAST_CJK_QUOTATION_CHARACTERS if _CJK_RUN.search(quotation) else LEAST_QUOTATION_CHARACTERS
    return len(quotation) >= least


def _find_verbatim(quotation: str, chunk_text: str) -> Span | None:
    """Find a quotation in a chunk; runs of white space count as one, a final stop may be the answer's own."""
    words = quotation.rstrip(".,;:!?。，、；：！？…").split()
    if not words:
        return None
    found = re.search(r"\s+".join(re.escape(word) for word in words), chunk_text)
    return found.span() if found else None


def _quotation_notes(claim: _Claim, hits: Sequence[Hit]) -> list[str]:
    """Report words in quotation marks that the cited chunks don't hold, and where they are instead."""
    notes: list[str] = []
    cited = [number for number in claim.numbers if 1 <= number <= len(hits)]
    named = ", ".join(f"[{number}]" for number in cited)
    for quotation in _quotations(claim.text) if cited else ():
        if any(_find_verbatim(quotation, hits[number - 1].chunk.text) for number in cited):
            continue
        elsewhere = [i for i, hit in enumerate(hits, 1) if _find_verbatim(quotation, hit.chunk.text)]
        instead = f"; it is in [{elsewhere[0]}]" if elsewhere else ""
        notes.append(f"the quotation “{_short(quotation)}” is not in {named}{instead}")
    return notes


def _unsupported_note(claim: _Claim, number: int, chunk_text: str) -> str:
    if bool(_CJK_RUN.search(claim.text)) != bool(_CJK_RUN.search(chunk_text)):
        return f"[{number}] is in another language than what cites it, so words say nothing: {_short(claim.text)}"
    return f"nothing in [{number}] was found to support: {_short(claim.text)}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _NOTE_CHARACTERS else line[: _NOTE_CHARACTERS - 1] + "…"
