"""Golden questions: what people ask, where the answer stands, and how a KnowledgeBase does on them.

The form of a question file is told at the top of `tests/golden/questions.toml`. Three things are
measured, each by language and by kind:

- found: the evidence's source is among the first five hits, or is the first. The cutoff is off for
  this, because it decides what is declined, not what is found.
- right: the answer holds the phrase that answers, and cites the source where that phrase stands.
- declined: no answer was given, which is right for an unanswerable question and wrong for another.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kb.errors import ConfigError

if TYPE_CHECKING:
    from kb.answers import Answer, Citation
    from kb.knowledge_base import KnowledgeBase
    from kb.records import SearchResult

KINDS = ("exact", "paraphrase", "table", "two_documents", "cross_language", "unanswerable")
LANGUAGES = ("en", "zh", "ja")

TOP_K = 5
"""Hits that a source must be among to count as found: what a reader, or a chat model, is shown."""
NO_CUTOFF = -1.0

_WIDE = "\u2e80-\u2fdf\u3001-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff"
"""Chinese and Japanese text with its punctuation, as the inside of a character class."""
_SPACE_BESIDE_WIDE = re.compile(rf"(?<=[{_WIDE}])\s+|\s+(?=[{_WIDE}])")


@dataclass(frozen=True, slots=True)
class Evidence:
    """A sentence of a document that answers a question."""

    source: str
    sentence: str
    phrase: str
    """The part of `sentence` that a right answer must hold."""
    heading: str | None = None
    """The innermost heading above the sentence."""
    page: int | None = None
    part: int = 1
    """Which part of the answer it gives; pieces of evidence with the same part are alternatives."""


@dataclass(frozen=True, slots=True)
class GoldenQuestion:
    """A question, and all the evidence there is for its answer; none means that it has no answer."""

    id: str
    language: str
    kind: str
    question: str
    low_overlap: bool
    evidence: tuple[Evidence, ...] = ()

    @property
    def answerable(self) -> bool:
        """Whether the documents answer it."""
        return bool(self.evidence)

    @property
    def parts(self) -> tuple[tuple[Evidence, ...], ...]:
        """The evidence by part; a right answer needs one piece of each."""
        numbers = sorted({piece.part for piece in self.evidence})
        return tuple(tuple(piece for piece in self.evidence if piece.part == number) for number in numbers)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one question."""

    question: GoldenQuestion
    found: bool
    """Every part has a source among the first five hits; False when unanswerable."""
    first: bool
    """The first hit is of one of the evidence's sources."""
    answered: bool
    right: bool
    """Answered, and every part's phrase is there with its source cited."""
    hits: tuple[str, ...]
    """The sources of the hits, best first."""
    answer: str
    citations: tuple[Citation, ...]


@dataclass(frozen=True, slots=True)
class Figures:
    """Counts over a group of questions, and their shares; a share of no questions is None."""

    answerable: int
    unanswerable: int
    found: int
    first: int
    right: int
    answerable_declined: int
    unanswerable_declined: int

    @classmethod
    def of(cls, outcomes: Iterable[Outcome]) -> Figures:
        """Count."""
        every = tuple(outcomes)
        answerable = [outcome for outcome in every if outcome.question.answerable]
        unanswerable = [outcome for outcome in every if not outcome.question.answerable]
        return cls(
            answerable=len(answerable),
            unanswerable=len(unanswerable),
            found=sum(outcome.found for outcome in answerable),
            first=sum(outcome.first for outcome in answerable),
            right=sum(outcome.right for outcome in answerable),
            answerable_declined=sum(not outcome.answered for outcome in answerable),
            unanswerable_declined=sum(not outcome.answered for outcome in unanswerable),
        )

    @property
    def shares(self) -> dict[str, float | None]:
        """Each count as a share of the answerable or unanswerable questions it is taken from."""
        counts = {field.name: getattr(self, field.name) for field in fields(self)}
        del counts["answerable"], counts["unanswerable"]
        bases = {name: self.unanswerable if name == "unanswerable_declined" else self.answerable for name in counts}
        return {name: counts[name] / base if base else None for name, base in bases.items()}


@dataclass(frozen=True, slots=True)
class GoldenResult:
    """The outcomes of all questions with one configuration."""

    embedder: str
    generator: str
    outcomes: tuple[Outcome, ...]

    def groups(self) -> Iterator[tuple[str, Figures]]:
        """Figures for all questions, each language, each kind, each kind of a language, and low overlap."""
        yield "all", Figures.of(self.outcomes)
        for language in self._present("language", LANGUAGES):
            yield language, self.figures(language=language)
        for kind in self._present("kind", KINDS):
            yield kind, self.figures(kind=kind)
        yield "low_overlap", self.figures(low_overlap=True)
        for language in self._present("language", LANGUAGES):
            for kind in self._present("kind", KINDS):
                yield f"{language}/{kind}", self.figures(language=language, kind=kind)

    def figures(self, **wanted: str | bool) -> Figures:
        """Figures for the questions whose fields have the wanted values: `figures(language="zh")`."""
        return Figures.of(o for o in self.outcomes if all(getattr(o.question, k) == v for k, v in wanted.items()))

    def failures(self) -> tuple[Outcome, ...]:
        """The outcomes that are not as they should be, in the order of the questions."""
        return tuple(o for o in self.outcomes if not (o.found and o.right if o.question.answerable else not o.answered))

    def as_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        groups = {name: {**asdict(figures), "shares": figures.shares} for name, figures in self.groups()}
        outcomes = [{**asdict(outcome), "question": outcome.question.id} for outcome in self.outcomes]
        return {"embedder": self.embedder, "generator": self.generator, "groups": groups, "outcomes": outcomes}

    def _present(self, field: str, known: tuple[str, ...]) -> list[str]:
        return [value for value in known if any(getattr(o.question, field) == value for o in self.outcomes)]


def load_questions(path: str | Path, *, any_language: bool = False) -> tuple[GoldenQuestion, ...]:
    """Read a question file.

    Args:
        path: The file.
        any_language: Accept questions in languages that are not told apart in the figures.

    Raises:
        ConfigError: the file is missing or no TOML, or a question lacks a field or has an unknown one.
    """
    try:
        tables = tomllib.loads(Path(path).read_text(encoding="utf-8"))["question"]
    except OSError as error:
        raise ConfigError(f"{path}: the question file cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: this is no valid TOML: {error}") from error
    except KeyError as error:
        raise ConfigError(f"{path}: there is no [[question]] in it") from error
    return tuple(
        _question(table, f"{path}: question {number}", any_language) for number, table in enumerate(tables, start=1)
    )


def evaluate(base: KnowledgeBase, questions: Iterable[GoldenQuestion]) -> GoldenResult:
    """Ask every question and score what comes back.

    Raises:
        NothingIngestedError: the documents were not ingested.
        ConfigError: there are no questions.
    """
    asked = tuple(questions)
    if not asked:
        raise ConfigError("there are no questions to ask; give a file that holds at least one [[question]]")
    results = base.search_many([question.question for question in asked], top_k=TOP_K, cutoff=NO_CUTOFF)
    answers = [base.ask(question.question) for question in asked]
    outcomes = tuple(map(score, asked, results, answers))
    return GoldenResult(answers[0].embedder, answers[0].generator, outcomes)


def score(question: GoldenQuestion, result: SearchResult, answer: Answer) -> Outcome:
    """Compare what was found and answered with the evidence."""
    hits = tuple(hit.source for hit in result.hits[:TOP_K])
    cited = {citation.source for citation in answer.citations}
    return Outcome(
        question=question,
        found=question.answerable and all(any(e.source in hits for e in part) for part in question.parts),
        first=bool(hits) and any(piece.source == hits[0] for piece in question.evidence),
        answered=answer.answered,
        right=question.answerable
        and answer.answered
        and all(any(e.source in cited and holds(answer.text, e.phrase) for e in part) for part in question.parts),
        hits=hits,
        answer=answer.text,
        citations=answer.citations,
    )


def holds(text: str, phrase: str) -> bool:
    """Whether a text says a phrase, whatever its spacing, width, case and markup.

    A number is not found inside a longer one:

        >>> holds("Carry over at most 5 days.", "5 days"), holds("You get 15 days.", "5 days")
        (True, False)
    """
    wanted = plain(phrase)
    before = r"(?<!\d)(?<!\d[.,:])" if wanted[:1].isdigit() else ""
    after = r"(?!\d|[.,:]\d)" if wanted[-1:].isdigit() else ""
    return re.search(before + re.escape(wanted) + after, plain(text)) is not None


def plain(text: str) -> str:
    """Reduce a text to what counts when two are compared.

    Case, full or half width, the markup `*`, backtick and `|`, and how much white space there is do
    not count; beside Chinese and Japanese, white space does not count at all.

        >>> plain("| Team |  **300** 枚（1秒） |")
        'team 300枚(1秒)'
    """
    words = text.replace("|", " ").replace("*", "").replace("`", "")
    words = " ".join(_SPACE_BESIDE_WIDE.sub("", words.strip()).split())
    return unicodedata.normalize("NFKC", words).casefold()


def _question(table: Mapping[str, Any], where: str, any_language: bool) -> GoldenQuestion:
    try:
        evidence = tuple(Evidence(**piece) for piece in table.get("evidence", ()))
        question = GoldenQuestion(**{**table, "evidence": evidence})
    except TypeError as error:
        raise ConfigError(f"{where}: a field is missing or unknown: {error}") from error
    if question.kind not in KINDS or not (any_language or question.language in LANGUAGES):
        raise ConfigError(
            f"{where} ({question.id}): kind {question.kind!r}, language {question.language!r}; "
            f"allowed: {', '.join(KINDS)}; {', '.join(LANGUAGES)}"
        )
    return question
