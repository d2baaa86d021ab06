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
from dataclasses import dataclass, replace

from pydantic import Field

from kb.answers import Generated
from kb.components import Embedder, Parts
from kb.errors import ConfigError
from kb.generation._asked import given_form, unknown_names
from kb.generation._remembered import RememberedVectors
from kb.generation._units import Unit, plain, row_as_text, units
from kb.prompts import not_found_text, question_language
from kb.records import Hit
from kb.settings import ComponentOptions
from kb.words import content_terms, has_cjk, script

# How much the three signals count. Similarity says most; words catch names, codes and numbers.
_WORD_WEIGHT = 0.35
_CHUNK_WEIGHT = 0.25
# A unit of the form that is asked for (a time, a sum, a number of people) is likelier to answer.
_FORM_BONUS = 0.12
# Only so many units are embedded, the likeliest by words and rank first: each costs a few milliseconds.
_EMBEDDED_UNITS = 24


class Options(ComponentOptions):
    """How much is quoted."""

    max_sentences: int = Field(4, ge=1, le=20)
    closeness: float = Field(0.7, gt=0, le=1)
    min_score: float = Field(0.54, ge=0)
    min_score_chinese: float = Field(0.70, ge=0)
    min_score_japanese: float = Field(0.58, ge=0)


# A question whose words the base knows must find them together: when at least this share of its word weight stands in
# one of the best chunks, and yet no unit scores well, the base speaks of the matter and does not answer. A question in
# other words, or in another language, can be judged by similarity alone, which the cutoff has done. Chinese and
# Japanese have bigrams for words: a smaller share of them is known, and scores run higher. All were chosen on the
# development questions (tests/golden/development.toml); docs/retrieval.md has the figures.
_KNOWN_SHARE = 0.2
_KNOWN_SHARE_UNSPACED = 0.1
_COVERING_HITS = 2


def _known(question: str, hits: Sequence[Hit]) -> bool:
    """Whether the base knows the question's words."""
    share = _KNOWN_SHARE_UNSPACED if has_cjk(question) else _KNOWN_SHARE
    return any((hit.coverage or 0.0) >= share for hit in hits[:_COVERING_HITS])


@dataclass(frozen=True, slots=True)
class _Scored:
    unit: Unit
    score: float
    has_form: bool
    """Whether it has the form that the question asks for."""


class ExtractiveGenerator:
    """Quotes; never writes a word of its own beyond naming a table's columns."""

    name = "extractive"

    def __init__(self, options: Options, embedder: Embedder) -> None:
        self._options = options
        self._embedder = embedder
        self._remembered = RememberedVectors(embedder)

    def generate(self, question: str, hits: Sequence[Hit]) -> Generated:
        """Quote what answers `question`; no hits, or nothing close enough, gives `answered = False`."""
        scored = self._scored(question, hits)
        if not scored:
            return _declined(question, ())
        least = self._least_score(question)
        if not least:  # whoever sets 0 wants every question answered
            return self._quoted(question, scored)
        best = max((s.score for s in scored if s.has_form), default=0.0)
        confidence, why = _confidence(question, hits, best, least)
        generated = _declined(question, (why,)) if confidence < 1 else self._quoted(question, scored)
        return replace(generated, confidence=confidence, signals={"sentence": best / least})

    def _quoted(self, question: str, scored: list[_Scored]) -> Generated:
        chosen = self._chosen(question, scored)
        lines = [f"{_as_text(unit)} [{unit.number}]" for unit in chosen]
        return Generated(_joined(lines, chosen), True, tuple(q for unit in chosen for q in unit.quotes))

    def stream(self, question: str, hits: Sequence[Hit]) -> Generator[str, None, Generated]:
        """Yield the answer of `generate` sentence by sentence."""
        generated = self.generate(question, hits)
        for piece in re.split(r"(?<=\])", generated.text):
            if piece:
                yield piece
        return generated

    def _least_score(self, question: str) -> float:
        options = self._options
        scores = {"han": options.min_score_chinese, "japanese": options.min_score_japanese}
        return scores.get(script(question), options.min_score)

    def _scored(self, question: str, hits: Sequence[Hit]) -> list[_Scored]:
        """Units with their scores; those that are certainly behind are left out."""
        found = units(hits)
        if not found:
            return []
        words = _word_scores(question, found)
        near = [hits[unit.number - 1].similarity for unit in found]
        likely = sorted(range(len(found)), key=lambda i: -(words[i] + near[i]))[:_EMBEDDED_UNITS]
        vectors = self._remembered.of([self._embedded(found[i]) for i in likely])
        similarities = vectors @ self._embedder.embed_queries([question])[0]
        form = given_form(question)
        result = []
        for i, similarity in zip(likely, similarities, strict=True):
            has_form = form is None or form.search(f"{found[i].context} {found[i].text}") is not None
            score = float(similarity) + _WORD_WEIGHT * words[i] + _CHUNK_WEIGHT * near[i]
            result.append(_Scored(found[i], score + (_FORM_BONUS if form and has_form else 0.0), has_form))
        return result

    def _embedded(self, unit: Unit) -> str:
        """A unit with its context, short enough for the embedder."""
        text = _row(unit) if unit.kind == "row" else f"{unit.context} {unit.text}".strip()
        text = plain(text)
        # Four characters are never more tokens than the model takes for a text of its own limit.
        return text[: self._embedder.max_tokens // 2] if has_cjk(text) else text[: self._embedder.max_tokens * 2]

    def _chosen(self, question: str, scored: list[_Scored]) -> list[Unit]:
        """The best units that come close to the best one: the question's script first, then in reading order."""
        floor = self._options.closeness * max(s.score for s in scored)
        ranked = sorted(scored, key=lambda s: (-s.score, s.unit.number, s.unit.start))
        chosen = [s.unit for s in ranked[: self._options.max_sentences] if s.score >= floor]
        first_seen = {number: i for i, number in reversed(list(enumerate(unit.number for unit in chosen)))}
        own = script(question)
        return sorted(chosen, key=lambda u: (script(u.text) != own, first_seen[u.number], u.start))


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


def _confidence(question: str, hits: Sequence[Hit], best: float, least: float) -> tuple[float, str]:
    """How well a best score of `best` answers when `least` is needed, 1 being just enough; and what it lacks."""
    names = unknown_names(question, (hit.chunk.embedded_text for hit in hits))
    if names:
        return 0.0, f"what was found does not name {', '.join(names)}"
    # Where the base doesn't know the question's words, a low score says nothing.
    confidence = best / least if _known(question, hits) else max(1.0, best / least)
    return confidence, f"no sentence found answers well enough (best score {best:.2f}, needed {least:.2f})"


def _declined(question: str, notes: tuple[str, ...]) -> Generated:
    return Generated(not_found_text(question_language(question)), answered=False, notes=notes)


def _row(unit: Unit) -> str:
    return row_as_text(unit.context, unit.text, unit.delimiter)


def _as_text(unit: Unit) -> str:
    """A unit as the answer shows it."""
    if unit.kind == "row":
        return plain(_row(unit))
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
