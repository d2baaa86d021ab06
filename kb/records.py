"""The values that travel through the pipeline.

`folder → Document → Chunk → (Chunk, vector) → collection` and
`question → vector → candidates → Hit → Answer(text, citations, hits)`

All are frozen: a stage that changes something makes a new record. Offsets are Python string
indices into `Document.text`, half open, so `document.text[start:end]` is the text they speak of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kb.display import PrettyPrinter
    from kb.errors import RefusedError

    FloatArray: TypeAlias = NDArray[np.float32]

Scalar: TypeAlias = str | int | float | bool
BlockKind: TypeAlias = Literal["table", "code", "list", "math"]
Scorer: TypeAlias = Literal["dense", "keyword", "fused", "maxsim", "endpoint", "judge"]
Scale: TypeAlias = Literal["ratio", "logit", "interval"]
"""What scores can be asked: twice as much is twice as good (`ratio`), the same of 1 / (1 + e^−score)
(`logit`), or nothing but which is higher and by how much more (`interval`)."""

DOCUMENT_DIGITS = 8
"""So many digits at the beginning of a chunk's id are those of its document; the rest is a hash of its own."""


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a paged document; blank pages are kept, with start == end."""

    number: int
    """As a reader counts, from 1."""
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Heading:
    """One heading line: `document.text[start:end]` is the line as written, `text` its words only."""

    level: int
    """1 is the highest."""
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Block:
    """A span that a chunker keeps whole when it fits: a table, a code fence, a list, a formula."""

    kind: BlockKind
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Document:
    r"""One source's text and what is known about it.

    `text` is normalised once, at loading (NFC, `\n` line ends, no NUL, no lone surrogate, no
    U+FFFE); nothing changes it afterwards. `pages`, `headings` and `blocks` rise by `start` and
    don't overlap.
    """

    id: str
    path: str
    """Relative to the folder, NFC, forward slashes: what a citation shows as `source`."""
    text: str
    title: str
    """From the content, never from the file name; empty when the content has none."""
    kind: str
    """The name of the loader that read it: markdown, text, pdf, docx …"""
    metadata: Mapping[str, Scalar] = field(default_factory=dict)
    pages: tuple[Page, ...] = ()
    headings: tuple[Heading, ...] = ()
    blocks: tuple[Block, ...] = ()
    warnings: tuple[str, ...] = ()
    """What was lost or guessed at loading, for the report; one sentence each."""


def embedded_text(header: str, text: str) -> str:
    """What is embedded and searched for a chunk's header and text."""
    return f"{header}\n\n{text}" if header else text


@dataclass(frozen=True, slots=True)
class Chunk:
    """A contiguous span of one document: `document.text[start:end] == text`."""

    id: str
    document_id: str
    text: str
    start: int
    end: int
    page: int | None = None
    """The page on which the chunk starts; None when the format has no pages."""
    heading_path: tuple[str, ...] = ()
    """The headings above the chunk's start, outermost first."""
    header: str = ""
    """Context (title › heading path) put before the text that is embedded, never quoted."""

    @property
    def embedded_text(self) -> str:
        """The text that is sent to the embedder."""
        return embedded_text(self.header, self.text)

    @property
    def heading(self) -> str | None:
        """The heading path as one string, or None."""
        return " › ".join(self.heading_path) or None


@dataclass(frozen=True, slots=True)
class EmbeddedPart:
    """What an embedder has done of the texts that it was given."""

    rows: Sequence[int]
    """Places of the texts in what was given."""
    tokens: int
    vectors: FloatArray | None
    """Shape (len(rows), dimension), unit rows; None when the one text is refused."""
    refused: RefusedError | None = None
    token_vectors: Sequence[bytes] = ()
    """Of each text its packed token vectors, when they were asked for."""


class Step(NamedTuple):
    """What one stage of retrieval said of a candidate."""

    stage: str
    """`dense`, `keyword`, `script` (nearest in another script), `fused`, `identifier` (kept below the cutoff
    for an identifier of the question), `wording 2` … and `expanded` (found by other wordings of the question),
    the scorer of a reranker, `negation` (a model says that what the question excludes is respected), or `earlier`
    (cited by an earlier answer of the conversation)."""
    rank: int
    """From 1, among those that the stage looked at."""
    score: float


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk found for a question; `score` is on the scale of `scored_by`, higher is better."""

    chunk: Chunk
    source: str
    score: float
    scored_by: Scorer
    similarity: float
    """Cosine of question and chunk, in [−1, 1]; the only scale that a cutoff applies to."""
    coverage: float | None = None
    """The share of the question's word weight that the chunk holds, 0 to 1; None without keyword search."""
    steps: tuple[Step, ...] = ()
    """What each stage said of it, in the order of the stages."""


@dataclass(frozen=True, slots=True)
class Reranked:
    """What a reranker made of its hits: a permutation of them, or a prefix of one, best first."""

    hits: tuple[Hit, ...]
    notes: tuple[str, ...] = ()
    """For the reader, above all that the reranker failed and the hits are as they came."""
    scale: Scale | None = None
    """Of the hits' scores; None when they are still those of retrieval."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """A candidate that did not become a hit, and the reason, for `--explain`."""

    hit: Hit
    reason: str


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What retrieval hands to generation: hits best first, and what was looked at and left out."""

    question: str
    hits: tuple[Hit, ...]
    dropped: tuple[Dropped, ...]
    cutoff: float
    best_score: float | None
    """The highest similarity among all candidates, or None when there were none."""
    notes: tuple[str, ...] = ()
    where: tuple[str, ...] = ()
    """The filter, each condition as `field=value`; none of all documents."""

    def _repr_html_(self) -> str:
        """What was found as a notebook shows it."""
        from kb.notebook import search_as_html

        return search_as_html(self)

    def _repr_markdown_(self) -> str:
        """The same where a notebook is shown without HTML."""
        from kb.display import hits_as_markdown

        return hits_as_markdown(self)

    def _repr_pretty_(self, printer: PrettyPrinter, _cycle: bool) -> None:
        """The same in an IPython terminal."""
        from kb.display import hits_as_text

        printer.text(hits_as_text(self))
