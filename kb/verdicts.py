"""Does a source support a claim? A verdict by words, numbers, names and negations, without a model.

    claim → statements → the sentences of the sources that share most with each → what disagrees? → verdict

What a claim says in words of the source is found there, and what it says otherwise than the source (another
number, another name, a "not" more or less) is told. A claim in quite other words, or in another language, is
compared by the embedder where there is one, and otherwise called `partly` supported at most: words say nothing of it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from kb.alignment import align
from kb.answers import Verdict
from kb.evidence import (
    MOST_SENTENCES,
    Reading,
    Sentence,
    find_evidence,
    is_spaceless,
    key_of,
    quantities_of,
    read,
    without_marks,
)
from kb.names import missing_names
from kb.polarity import turned_around
from kb.quantities import Quantity, agrees
from kb.quotations import missing_quotations
from kb.sentences import sentence_spans
from kb.words import content_terms

Nearness: TypeAlias = Callable[[str, Sequence[str]], Sequence[float]]
"""Similarities of a text to some sentences."""

# Chosen on the questions at odd places; the table in docs/retrieval.md tells what they give at even ones.
SUPPORTED = 0.5
"""Share of a claim's words, by weight, that the source has to have."""
PARTLY = 0.25
ALIGNED = 0.4
"""From this share on a sentence is about the very thing that the claim says, so that what differs contradicts it."""
PENALTY = 0.35
"""What is left of the score for each thing that the source says otherwise: less than true claims in other words get."""
NEAR = 0.6
NEAR_SHARE = 0.35
"""A claim in other words is supported with so much of its words and such a similarity (e5's). Similarity alone tells
what is on the matter, but not whether it says so: without its evidence a passage is about as near as with it."""
ACROSS_SUPPORTED = 0.5
ACROSS_PARTLY = 0.3
"""e5's similarity of a claim to the sentence that says so in another language: .5 and more for nine of ten (XQuAD,
English and Chinese paragraphs side by side), of the second best of the same paragraph for one of five, of another
paragraph for none of a hundred."""
MOST_ANSWER_TERMS = 12
"""More words than these are a statement, and not the answer to a question alone."""
MOST_CHECKED = 100
"""Numbers of a statement; a longer list is no statement, and would take seconds."""
MOST_ASKED = 12
"""Sentences whose similarity is asked for, of a claim in another language; each takes some 5 ms."""
_REASON_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether sources support a claim."""

    verdict: Verdict
    score: float
    """0 to 1; higher is better supported."""
    quotes: tuple[tuple[int, int, int], ...]
    """(index of the source, start, end) of the sentences that come closest, best first."""
    reasons: tuple[str, ...]
    """Why it isn't supported, one sentence each."""


def judge(claim: str, sources: Sequence[str], nearness: Nearness | None = None) -> Judgement:
    """Judge whether sources support a claim.

    Args:
        claim: One or a few sentences, without citation markers.
        sources: The texts that it cites; together they have to support it.
        nearness: Asked only when words leave it open, about a few sentences.

    Returns:
        What the sources say otherwise makes it `partly` supported, or `unsupported` when they say the opposite or
        little of it. The same claim and sources always give the same.
    """
    reading = read(tuple(sources))
    statements = _statements(claim)
    if not statements or not reading.sentences:
        why = "there are no words in it to check" if reading.sentences else "there is no text behind what it cites"
        return Judgement("unsupported", 0.0, (), (why,))
    findings = [_find(statement, reading, nearness) for statement in statements]
    reasons = [f"the quotation “{_short(one)}” is not in the source" for one in missing_quotations(claim, sources)]
    return _judgement(findings, reasons, reading.sentences)


@dataclass(frozen=True, slots=True)
class _Finding:
    """What was found for one statement of a claim."""

    words: int
    share: float
    """Of its words, by weight, in `evidence`."""
    evidence: tuple[int, ...]
    reasons: tuple[str, ...] = ()
    opposite: bool = False
    open: bool = False
    """Words can't tell: it is in another language."""


_ASKED = re.compile(
    r"什么|甚麼|怎么|怎样|哪[些个種种里年国家位一儿]?|谁|誰|多少|几|如何|为什么|为何|何[时時]|是否|吗|呢|どこ|どの|どんな|いつ|なに|何"
)
_ASKS = re.compile(r"[?？](?:[\s—–-]|$)")
_QUESTION = re.compile(r"[?？]\W*$")


@lru_cache(maxsize=256)
def _statements(claim: str) -> tuple[str, ...]:
    """The sentences of a claim that say anything; a question belongs to the answer behind it."""
    statements: list[str] = []
    asked = ""
    for start, end in sentence_spans(claim):
        said = without_marks(claim[start:end])
        if _QUESTION.search(said):
            asked = f"{asked}{said} "
            continue
        statements.append(asked + said)
        asked = ""
    if asked:
        statements.append(asked)
    return tuple(one for one in statements if re.search(r"\w", one))


def _find(statement: str, reading: Reading, nearness: Nearness | None) -> _Finding:
    key = key_of(statement)
    same = next((i for i, sentence in enumerate(reading.sentences) if sentence.key == key), None)
    terms = _terms_of(statement)
    words = len(terms) or 1
    if same is not None and key:
        return _Finding(words, 1.0, (same,))
    checked = [one for one in quantities_of(statement) if one.sure][:MOST_CHECKED]
    foreign = [i for i, sentence in enumerate(reading.sentences) if sentence.spaceless != is_spaceless(statement)]
    if len(foreign) == len(reading.sentences):
        return _find_across(statement, words, foreign, reading, nearness)
    share, evidence = find_evidence(terms, checked, reading)
    reasons, opposite = _disagreements(statement, checked, share, evidence, reading)
    if not reasons and share < SUPPORTED and nearness is not None:
        if share >= NEAR_SHARE:
            similarity, ranked = _best_of(statement, evidence, reading, nearness)
            if similarity >= NEAR:
                return _Finding(words, SUPPORTED, tuple(ranked))
        if foreign:
            across = _find_across(statement, words, foreign, reading, nearness)
            return across if across.share > share else _Finding(words, share, tuple(evidence))
    return _Finding(words, share, tuple(evidence), tuple(reasons), opposite)


def _terms_of(statement: str) -> list[str]:
    """The words of a statement that mean something, without its numbers, which are compared by value."""
    text = unicodedata.normalize("NFKC", statement)
    for one in reversed(quantities_of(statement)):
        if one.sure:
            text = f"{text[: one.start]} {text[one.end :]}"
    return content_terms(_ASKED.sub(" ", text) if _ASKS.search(text) else text)


def _disagreements(
    statement: str, checked: Sequence[Quantity], share: float, evidence: Sequence[int], reading: Reading
) -> tuple[list[str], bool]:
    """What the sources say otherwise, in words, and whether they say the opposite."""
    missing = [one.text for one in checked if not reading.has(one)]
    if len(reading.scripts) == 1:  # a source in another script may have a name in its own letters
        missing += missing_names(statement, reading.sources)
    asked = _ASKS.search(statement)
    if asked:
        missing += _missing_answer(statement[asked.end() :], reading)
    reasons = [f"“{_short(text)}” is not in the source" for text in dict.fromkeys(missing)]
    # Of an answer behind its question no words stand in the places that they have in the source.
    if asked or share < ALIGNED or not evidence:
        return reasons, False
    sentence = reading.sentences[evidence[0]].text
    aligned = align(statement, sentence, reading.sources)
    for swap in aligned.swaps:
        if not any(_same_words(text, swap.claimed) for text in missing):
            reasons.append(f"the source says “{_short(swap.stated)}” where this says “{_short(swap.claimed)}”")
    word = turned_around(statement, sentence, aligned.gaps)
    if word:
        reasons.append(f"the source says it the other way round ({word})")
    return reasons, word is not None


def _same_words(one: str, other: str) -> bool:
    return one in other or other in one or bool({*re.findall(r"\w+", one)} & {*re.findall(r"\w+", other)})


def _missing_answer(answer: str, reading: Reading) -> list[str]:
    """A short answer to the question before it, when nothing of it is in the sources."""
    said = answer.strip(' \n—–-:.。「」“”"')
    terms = content_terms(said)
    known = any(term in reading.counts for term in terms) or any(map(reading.has, quantities_of(said)))
    return [said] if 0 < len(terms) <= MOST_ANSWER_TERMS and not known else []


def _find_across(
    statement: str, words: int, foreign: Sequence[int], reading: Reading, nearness: Nearness | None
) -> _Finding:
    """Compare with sentences in another language: numbers by value, all else by the embedder."""
    checked = [one for one in quantities_of(statement) if one.sure][:MOST_CHECKED]
    reasons = tuple(f"“{_short(one.text)}” is not in the source" for one in checked if not reading.has(one))
    holding = {i: sum(agrees(one, reading.sentences[i].quantities) for one in checked) for i in foreign}
    ranked = sorted(foreign, key=lambda i: (-holding[i], i))
    if nearness is None:
        return _Finding(words, PARTLY, tuple(ranked[:1]), reasons, open=not reasons)
    similarity, nearest = _best_of(statement, ranked[:MOST_ASKED], reading, nearness)
    return _Finding(words, _near_share(similarity), tuple(nearest[:1]), reasons)


def _near_share(similarity: float) -> float:
    """A similarity across languages on the scale of a share of words."""
    if similarity >= ACROSS_SUPPORTED:
        return min(1.0, SUPPORTED + similarity - ACROSS_SUPPORTED)
    if similarity >= ACROSS_PARTLY:
        rise = (SUPPORTED - PARTLY) / (ACROSS_SUPPORTED - ACROSS_PARTLY)
        return PARTLY + rise * (similarity - ACROSS_PARTLY)
    return max(0.0, PARTLY * similarity / ACROSS_PARTLY)


def _best_of(statement: str, places: Sequence[int], reading: Reading, nearness: Nearness) -> tuple[float, list[int]]:
    """The highest similarity of some sentences, and the sentences by it."""
    near = nearness(statement, [reading.sentences[place].text for place in places])
    ranked = sorted(zip(near, places, strict=True), key=lambda pair: (-pair[0], pair[1]))
    return float(ranked[0][0]), [place for _, place in ranked]


def _judgement(findings: Sequence[_Finding], reasons: list[str], sentences: Sequence[Sentence]) -> Judgement:
    words = sum(finding.words for finding in findings)
    share = sum(finding.share * finding.words for finding in findings) / words
    reasons = list(dict.fromkeys([*reasons, *(reason for finding in findings for reason in finding.reasons)]))
    places = dict.fromkeys(
        place for rank in range(MOST_SENTENCES) for finding in findings for place in finding.evidence[rank : rank + 1]
    )
    quotes = tuple((sentences[i].source, *sentences[i].span) for i in places)
    score = share * PENALTY ** min(3, len(reasons))
    lowest = min(finding.share for finding in findings)
    verdict: Verdict
    if reasons:
        opposite = all(finding.opposite for finding in findings)
        verdict = "unsupported" if opposite or share < PARTLY else "partly"
    elif any(finding.open for finding in findings):
        verdict, reasons = "partly", ["the source is in another language, so words say nothing of it"]
    elif share >= SUPPORTED and lowest >= PARTLY:
        verdict = "supported"
    elif share >= PARTLY:
        verdict, reasons = "partly", ["only a part of it was found in the source"]
    else:
        verdict, reasons = "unsupported", ["no sentence of the source was found that says it"]
    return Judgement(verdict, score, quotes, tuple(reasons))


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _REASON_CHARACTERS else line[: _REASON_CHARACTERS - 1] + "…"
