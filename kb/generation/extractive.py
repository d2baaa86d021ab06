"""Answer without a model: quote the sentences that answer best, each with its number.

A unit (sentence, list item, table row) is scored by its similarity to the question, by the weight
of the question's words that it holds, and by how well its chunk was found. The best unit is quoted,
and the few others that come close to it and add something, in reading order.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import dataclass

from pydantic import Field

from kb.components import Embedder, Parts
from kb.errors import ConfigError
from kb.generation._units import Unit, plain, row_as_text, units
from kb.prompts import not_found_text, question_language
from kb.records import Generated, Hit
from kb.settings import ComponentOptions
from kb.words import content_terms, has_cjk

# How much the three signals count. Similarity says most; words catch names, codes and numbers.
_WORD_WEIGHT = 0.35
_CHUNK_WEIGHT = 0.25
# "How many", "when", 多少, 何日: a unit with a number is likelier to answer.
_NUMBER_BONUS = 0.12
_ASKS_NUMBER = re.compile(
    r"\bhow (?:many|much|long|often|far|old|big|large|soon|late)\b|\bwhen\b"
    r"|\bwhat (?:time|date|percentage|amount|rate)\b"
    r"|多少|几[个天次年月日小]|多久|多长|什么时候|何时|何日|何時|何回|何分|何年"
    r"|いくら|いくつ|いつ|どれくらい|どのくらい|何[%％円人件個本枚]",
    re.IGNORECASE,
)
# Only so many units are embedded, the likeliest by words and rank first: each costs a few milliseconds.
_EMBEDDED_UNITS = 40


class Options(ComponentOptions):
    """How much is quoted."""

    max_sentences: int = Field(3, ge=1, le=20)
    closeness: float = Field(0.8, gt=0, le=1)
    min_confidence: float = Field(0.48, ge=0)


# Is the question answered at all? How far the best similarity stands out of the base, and how much of the
# question's word weight the best chunks hold. Measured on odd-numbered XQuAD questions, English and Chinese, with
# and without the paragraph that answers (its neighbours from the same article stay), low-overlap questions weighted
# to be a third: at 0.48 the answerable are declined for 5 and 12 %, the unanswerable for 73 and 79 %.
_STANDOUT_WEIGHT = 0.1
_COVERAGE_WEIGHT = 0.3
_COVERING_HITS = 2


def _confidence(hits: Sequence[Hit]) -> float | None:
    """How sure it is that something found answers; None when the base is too small to tell."""
    standouts = [hit.standout for hit in hits if hit.standout is not None]
    if not standouts:
        return None
    coverage = max((hit.coverage or 0.0 for hit in hits[:_COVERING_HITS]), default=0.0)
    return _STANDOUT_WEIGHT * max(standouts) + _COVERAGE_WEIGHT * coverage


@dataclass(frozen=True, slots=True)
class _Scored:
    unit: Unit
    score: float


class ExtractiveGenerator:
    """Quotes; never writes a word of its own beyond naming a table's columns."""

    name = "extractive"

    def __init__(self, options: Options, embedder: Embedder) -> None:
        self._options = options
        self._embedder = embedder

    def generate(self, question: str, hits: Sequence[Hit]) -> Generated:
        """Quote what answers `question`; no hits, or nothing close enough, gives `answered = False`."""
        confidence = _confidence(hits)
        if confidence is not None and confidence < self._options.min_confidence:
            needed = self._options.min_confidence
            note = f"nothing found stands out enough to answer (confidence {confidence:.2f}, needed {needed:.2f})"
            return Generated(not_found_text(question_language(question)), answered=False, notes=(note,))
        scored = self._scored(question, hits)
        if not scored:
            return Generated(not_found_text(question_language(question)), answered=False)
        best = max(s.score for s in scored)
        chosen = self._chosen(scored, best)
        lines = [f"{_as_text(unit)} [{unit.number}]" for unit in chosen]
        return Generated(_joined(lines, chosen), True, tuple(q for unit in chosen for q in unit.quotes))

    def stream(self, question: str, hits: Sequence[Hit]) -> Generator[str, None, Generated]:
        """Yield the answer of `generate` sentence by sentence."""
        generated = self.generate(question, hits)
        for piece in re.split(r"(?<=\])", generated.text):
            if piece:
                yield piece
        return generated

    def _scored(self, question: str, hits: Sequence[Hit]) -> list[_Scored]:
        """Units with their scores; those that are certainly behind are left out."""
        found = units(hits)
        if not found:
            return []
        words = _word_scores(question, found)
        near = [hits[unit.number - 1].similarity for unit in found]
        likely = sorted(range(len(found)), key=lambda i: -(words[i] + near[i]))[:_EMBEDDED_UNITS]
        vectors = self._embedder.embed_documents([self._embedded(found[i]) for i in likely])
        similarities = vectors @ self._embedder.embed_queries([question])[0]
        bonus = _NUMBER_BONUS if _ASKS_NUMBER.search(question) else 0.0
        return [
            _Scored(
                found[i],
                float(similarity)
                + _WORD_WEIGHT * words[i]
                + _CHUNK_WEIGHT * near[i]
                + (bonus if re.search(r"\d", found[i].text) else 0.0),
            )
            for i, similarity in zip(likely, similarities, strict=True)
        ]

    def _embedded(self, unit: Unit) -> str:
        """A unit with its context, short enough for the embedder."""
        text = row_as_text(unit.context, unit.text) if unit.kind == "row" else f"{unit.context} {unit.text}".strip()
        text = plain(text)
        # Four characters are never more tokens than the model takes for a text of its own limit.
        return text[: self._embedder.max_tokens // 2] if has_cjk(text) else text[: self._embedder.max_tokens * 2]

    def _chosen(self, scored: list[_Scored], best: float) -> list[Unit]:
        """The best units that come close to the best one, in reading order."""
        floor = best * self._options.closeness
        ranked = sorted(scored, key=lambda s: (-s.score, s.unit.number, s.unit.start))
        chosen = [s.unit for s in ranked[: self._options.max_sentences] if s.score >= floor]
        first_seen = {number: i for i, number in reversed(list(enumerate(unit.number for unit in chosen)))}
        return sorted(chosen, key=lambda u: (first_seen[u.number], u.start))


def _word_scores(question: str, found: Sequence[Unit]) -> list[float]:
    """For each unit the share of the question's word weight that it holds, 0 to 1.

    A word's weight is its inverse document frequency among the units, so that a word which stands
    in all of them says nothing.
    """
    asked = set(content_terms(question))
    held = [set(content_terms(f"{unit.context} {unit.text}")) & asked for unit in found]
    counts = Counter(word for words in held for word in words)
    weights = {word: math.log((len(found) + 1) / (counts[word] + 0.5)) for word in asked}
    total = sum(weights.values()) or 1.0
    return [sum(weights[word] for word in words) / total for words in held]


def _as_text(unit: Unit) -> str:
    """A unit as the answer shows it."""
    if unit.kind == "row":
        return plain(row_as_text(unit.context, unit.text))
    if unit.kind == "item" and unit.context:
        return f"{plain(unit.context)} {plain(unit.text)}"
    return plain(f"{unit.context} {unit.text}" if unit.context else unit.text)


def _joined(lines: Sequence[str], chosen: Sequence[Unit]) -> str:
    """Sentences as running text; rows and items on lines of their own."""
    text = lines[0] if lines else ""
    for line, before, unit in zip(lines[1:], chosen, chosen[1:], strict=False):
        text += (" " if before.kind == unit.kind == "sentence" else "\n") + line
    return text


def build(options: Options, parts: Parts) -> ExtractiveGenerator:
    """Build the generator.

    Raises:
        ConfigError: there is no embedder to compare sentences with.
    """
    if parts.embedder is None:
        raise ConfigError("[generation] use = 'extractive' needs an embedder to compare sentences with")
    return ExtractiveGenerator(options, parts.embedder)
