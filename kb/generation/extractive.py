"""Answer without a model: quote the sentences that answer best, each with its number.

A unit (sentence, list item, table row) is scored by its similarity to the question and to what is left of the question
without what its passage is about, by the weight of the question's words that it holds, and by how well its chunk was
found. The best unit is quoted first, with what belongs to it, then the few others that come close and add something.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from pydantic import Field

from kb.answers import Generated, Quote
from kb.components import Embedder, Parts
from kb.errors import ConfigError
from kb.generation._asked import definition, given_form, unknown_names
from kb.generation._choice import Scored, chosen, for_each_side
from kb.generation._rows import row_as_text
from kb.generation._sides import sides
from kb.generation._topic import without_topic
from kb.generation._units import Unit, list_mark, plain, units
from kb.prompts import not_found_text, question_language
from kb.records import Hit
from kb.remembered_vectors import RememberedVectors
from kb.settings import ComponentOptions
from kb.words import content_terms, has_cjk, script

if TYPE_CHECKING:
    from kb.records import FloatArray

# How much the three signals count. Similarity says most; words catch names, codes and numbers.
_WORD_WEIGHT = 0.35
_CHUNK_WEIGHT = 0.25
# A unit of the form that is asked for (a time, a sum, a number of people, "X is …") is likelier to answer.
_FORM_BONUS = 0.12
# Characters between two sentences of one paragraph.
_GAP = 2
# Only so many units are embedded, the likeliest by words and rank first: each costs a few milliseconds.
_EMBEDDED_UNITS = 24


class Options(ComponentOptions):
    """How much is quoted."""

    max_sentences: int = Field(4, ge=1, le=20)
    closeness: float = Field(0.7, gt=0, le=1)
    min_score: float = Field(0.48, ge=0)
    min_score_chinese: float = Field(0.68, ge=0)
    min_score_japanese: float = Field(0.56, ge=0)


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


class _Piece(NamedTuple):
    """A part of the answer's text, and what it quotes."""

    text: str
    quotes: tuple[Quote, ...] = ()


class ExtractiveGenerator:
    """Quotes; never writes a word of its own beyond naming a table's columns."""

    name = "extractive"

    def __init__(self, options: Options, embedder: Embedder) -> None:
        self._options = options
        self._embedder = embedder
        self._remembered = RememberedVectors(embedder)

    def generate(self, question: str, hits: Sequence[Hit]) -> Generated:
        """Quote what answers `question`; no hits, or nothing close enough, gives `answered = False`."""
        return self._generated(question, hits)[0]

    def stream(self, question: str, hits: Sequence[Hit]) -> Generator[str | Quote, None, Generated]:
        """Yield the answer of `generate` unit by unit, each after what it quotes."""
        generated, pieces = self._generated(question, hits)
        for piece in pieces:
            yield from piece.quotes
            yield piece.text
        return generated

    def _generated(self, question: str, hits: Sequence[Hit]) -> tuple[Generated, list[_Piece]]:
        """The answer, and the pieces that it is made of."""
        scored = self._scored(question, hits)
        if not scored:
            return _in_one_piece(_declined(question, ()))
        least = self._least_score(question)
        if not least:  # whoever sets 0 wants every question answered
            return self._quoted(question, hits, scored)
        best = max((s.score for s in scored if s.has_form), default=0.0)
        confidence, why = _confidence(question, hits, best, least)
        declined = confidence < 1
        generated, pieces = (
            _in_one_piece(_declined(question, (why,))) if declined else self._quoted(question, hits, scored)
        )
        return replace(generated, confidence=confidence, signals={"sentence": best / least}), pieces

    def _quoted(self, question: str, hits: Sequence[Hit], scored: list[Scored]) -> tuple[Generated, list[_Piece]]:
        options = self._options
        best = chosen(question, scored, units(hits), most=options.max_sentences, closeness=options.closeness)
        pieces = _pieces(self._of_sides(question, hits, best))
        text = "".join(piece.text for piece in pieces)
        return Generated(text, True, tuple(quote for piece in pieces for quote in piece.quotes)), pieces

    def _of_sides(self, question: str, hits: Sequence[Hit], best: list[list[Unit]]) -> list[list[Unit]]:
        """What answers each of the two things that a question asks for, then the rest; of other questions `best`."""
        asked = sides(question)
        both = [side for one in asked if (side := self._scored(one, hits))]
        if len(both) < 2 or self._options.max_sentences < len(both):
            return best
        first = for_each_side(both)
        held = {unit for group in first for unit in group}
        rest = [group for group in best if not held & set(group)]
        return [*first, *rest][: self._options.max_sentences]

    def _least_score(self, question: str) -> float:
        options = self._options
        scores = {"han": options.min_score_chinese, "japanese": options.min_score_japanese}
        return scores.get(script(question), options.min_score)

    def _scored(self, question: str, hits: Sequence[Hit]) -> list[Scored]:
        """Units with their scores; those that are certainly behind are left out."""
        found = units(hits)
        if not found:
            return []
        words = _word_scores(question, found)
        near = [hits[unit.number - 1].similarity for unit in found]
        likely = sorted(range(len(found)), key=lambda i: -(words[i] + near[i]))[:_EMBEDDED_UNITS]
        vectors = self._remembered.of([self._embedded(found[i]) for i in likely])
        similarities = vectors @ self._asked(question, hits, found)
        form, defines = given_form(question), definition(question)
        result = []
        for i, similarity in zip(likely, similarities, strict=True):
            has_form = form is None or form.search(f"{found[i].context} {found[i].text}") is not None
            score = float(similarity) + _WORD_WEIGHT * words[i] + _CHUNK_WEIGHT * near[i]
            fits = bool(form and has_form) or bool(defines and defines.match(plain(found[i].text)))
            result.append(Scored(found[i], score + _FORM_BONUS * fits, has_form))
        return _with_what_goes_on(result) if form else result

    def _asked(self, question: str, hits: Sequence[Hit], found: Sequence[Unit]) -> FloatArray:
        """The mean of the vectors of the question and of what is left of it without what the best hit is about."""
        chunk = hits[found[0].number - 1].chunk
        rest = without_topic(question, (*chunk.header.split("\n"), *chunk.heading_path, found[0].text))
        mean: FloatArray = self._embedder.embed_queries([question] if rest is None else [question, rest]).mean(axis=0)
        return mean

    def _embedded(self, unit: Unit) -> str:
        """A unit as it is compared with the question, short enough for the embedder."""
        text = _row(unit) if unit.kind == "row" else unit.alone
        text = plain(text)
        # Four characters are never more tokens than the model takes for a text of its own limit.
        return text[: self._embedder.max_tokens // 2] if has_cjk(text) else text[: self._embedder.max_tokens * 2]


def _with_what_goes_on(scored: list[Scored]) -> list[Scored]:
    """A sentence right after the best one that alone has the form that is asked for answers with it, as well as it.

    "The import changes in summer. The old form works until 30 June.": asked for a date, the second needs the first.
    """
    best = max(scored, key=lambda s: s.score)
    if best.has_form or best.unit.kind != "sentence":
        return scored
    said = (best.unit.start, best.unit.end)
    for place, one in enumerate(scored):
        near = one.unit.number == best.unit.number and 0 <= one.unit.start - best.unit.end <= _GAP
        if near and one.has_form and one.unit.kind == "sentence":
            both = Scored(replace(one.unit, context=best.unit.text, context_span=said), best.score, has_form=True)
            rest = [other for other in (*scored[:place], *scored[place + 1 :]) if other is not best]
            return [both, *rest]
    return scored


def _word_scores(question: str, found: Sequence[Unit]) -> list[float]:
    """For each unit the share of the question's word weight that it holds, 0 to 1.

    A word's weight is its inverse document frequency among the units, so that a word which stands
    in all of them says nothing.
    """
    asked = set(content_terms(question))
    held = [set(content_terms(unit.alone)) & asked for unit in found]
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


def _pieces(groups: Sequence[Sequence[Unit]]) -> list[_Piece]:
    """Sentences as running text; rows and items on lines of their own."""
    pieces: list[_Piece] = []
    before: Sequence[Unit] = ()
    for group in groups:
        between = " " if all(unit.kind == "sentence" for unit in (*before, *group)) else "\n"
        for text, quotes in _lines(group):
            pieces.append(_Piece(f"{between}{text}" if pieces else text, quotes))
        before = group
    return pieces


def _lines(group: Sequence[Unit]) -> list[_Piece]:
    """Each unit with its number; of a list the line that leads to it once, and the items as they are marked."""
    first = group[0]
    if len(group) == 1 or first.list is None:
        return [_Piece(f"{_as_text(unit)} [{unit.number}]", unit.quotes) for unit in group]
    lead_in = [_Piece(f"{plain(first.context)} [{first.number}]", first.quotes[1:])] if first.context else []
    items = [_Piece(f"{list_mark(unit.text)} {plain(unit.text)} [{unit.number}]", unit.quotes[:1]) for unit in group]
    return [*lead_in, *items]


def _in_one_piece(generated: Generated) -> tuple[Generated, list[_Piece]]:
    return generated, [_Piece(generated.text)]


def build(options: Options, parts: Parts) -> ExtractiveGenerator:
    """Build the generator.

    Raises:
        ConfigError: there is no embedder to compare sentences with.
    """
    if parts.embedder is None:
        raise ConfigError("[generation] use = 'extractive' needs an embedder to compare sentences with")
    return ExtractiveGenerator(options, parts.embedder)
