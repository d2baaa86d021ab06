"""An answer and what it is made of, and the events of one that is being written.

`hits → Generated → Answer(text, citations, claims)`
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from kb.records import Dropped, Hit, SearchResult

if TYPE_CHECKING:
    from kb.display import PrettyPrinter
    from kb.errors import KbError

Verdict: TypeAlias = Literal["supported", "partly", "unsupported"]


class Quote(NamedTuple):
    """What a generator quotes: `hits[number - 1].chunk.text[start:end]`."""

    number: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Citation:
    """One `[number]` of an answer, resolved: `document.text[start:end] == quote`."""

    number: int
    source: str
    page: int | None
    heading: str | None
    start: int
    end: int
    quote: str
    chunk_id: str


@dataclass(frozen=True, slots=True)
class Claim:
    """One statement of an answer, checked without a model: `answer.text[start:end]` is it with its markers."""

    text: str
    """Its words, without markers."""
    start: int
    end: int
    numbers: tuple[int, ...]
    """What it cites, in order; none when it cites nothing."""
    verdict: Verdict
    score: float
    """How well what it cites supports it, 0 to 1."""
    evidence: tuple[Citation, ...] = ()
    """The passages that come closest to saying it, best first; of an unsupported claim too."""
    reasons: tuple[str, ...] = ()
    """Why it is not supported, one sentence each: "90 is not in [2]"."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What the chat models were asked for one answer."""

    requests: int
    prompt_tokens: int
    completion_tokens: int
    dollars: float | None
    """By the configured prices; None when the price of a model is not known."""
    estimated: bool = False
    """The service did not say how many tokens there were, so they were counted here."""


@dataclass(frozen=True, slots=True)
class Generated:
    """What a generator made of the hits, before citations are resolved to their sources."""

    text: str
    answered: bool
    quotes: tuple[Quote, ...] = ()
    """What the text quotes, in its order. A generator that writes freely leaves it empty."""
    notes: tuple[str, ...] = ()
    confidence: float | None = None
    """See `Answer.confidence`."""
    signals: Mapping[str, float] = field(default_factory=dict, hash=False)
    """See `Answer.signals`."""
    usage: Usage | None = None
    """See `Answer.usage`."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer whose every `[n]` resolves to a citation, or `answered = False` with the hits."""

    question: str
    answered: bool
    text: str
    citations: tuple[Citation, ...]
    hits: tuple[Hit, ...]
    cutoff: float
    best_score: float | None
    embedder: str
    generator: str
    seconds: float
    dropped: tuple[Dropped, ...] = ()
    notes: tuple[str, ...] = ()
    """What a reader should know: markers removed, a service that failed, a cutoff that emptied the list."""
    where: tuple[str, ...] = ()
    """The filter, each condition as `field=value`; none of all documents."""
    confidence: float | None = None
    """How well what was found answers, by the generator: `answered` from 1 on. None when it is not decided by a
    number, as by a chat model, or when nothing was found."""
    signals: Mapping[str, float] = field(default_factory=dict, hash=False)
    """What the generator made its confidence of, by name; higher is surer. `extractive` has `sentence`: its best
    sentence's score, as a share of the score that is needed."""
    claims: tuple[Claim, ...] = ()
    """Its statements in order, each with a verdict; none when it is not answered."""
    usage: Usage | None = None
    """What the chat models were asked for it; None when none was."""

    @property
    def support(self) -> float | None:
        """The share of the claims that are supported; None without claims."""
        if not self.claims:
            return None
        return sum(claim.verdict == "supported" for claim in self.claims) / len(self.claims)

    def __str__(self) -> str:
        """The text with its sources."""
        from kb.display import as_text

        return as_text(self)

    def _repr_html_(self) -> str:
        """The answer as a notebook shows it."""
        from kb.notebook import as_html

        return as_html(self)

    def _repr_markdown_(self) -> str:
        """The answer where a notebook is shown without HTML."""
        from kb.display import as_markdown

        return as_markdown(self)

    def _repr_pretty_(self, printer: PrettyPrinter, _cycle: bool) -> None:
        """The answer in an IPython terminal."""
        printer.text(str(self))


@dataclass(frozen=True, slots=True)
class HitsFound:
    """First event of a stream: what retrieval found."""

    result: SearchResult


@dataclass(frozen=True, slots=True)
class TextPiece:
    """The next piece of the answer's text; all pieces joined are `Answer.text`."""

    text: str


@dataclass(frozen=True, slots=True)
class CitationFound:
    """A citation of the text so far, before the verdict on the claim that cites it."""

    citation: Citation


@dataclass(frozen=True, slots=True)
class ClaimChecked:
    """The verdict on a claim of the text so far."""

    claim: Claim


@dataclass(frozen=True, slots=True)
class UsageKnown:
    """What the chat models were asked, when one was; once, after the text."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class AnswerReady:
    """Last event of a stream that went well: the whole answer with its citations."""

    answer: Answer


@dataclass(frozen=True, slots=True)
class Failed:
    """Last event of a stream that did not; the error is raised right after it."""

    error: KbError


StreamEvent: TypeAlias = HitsFound | TextPiece | CitationFound | ClaimChecked | UsageKnown | AnswerReady | Failed
