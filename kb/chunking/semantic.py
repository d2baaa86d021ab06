"""Cut where the topic changes: where sentences are least like those before them.

Each sentence is embedded, and so is each table, code fence, list and formula, which stay whole when
they fit. A chunk ends at a heading, or where the similarity of both sides falls below the threshold
and both are large enough to stand alone; what would pass `size_tokens` is cut where both sides are
least alike. Without a threshold for the embedder it is a percentile of each document's similarities,
as their level depends on the model, the language and the kind of text.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, groupby, islice
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError

from kb.chunking._counting import SpanCounts
from kb.chunking._packing import Packer
from kb.chunking._spans import Budget, build_chunks, counted_for, open_budget, trim
from kb.chunking._topics import TOGETHER, TopicCutter, Unit
from kb.components import Parts
from kb.records import Block, Chunk, Document, Heading
from kb.sentences import sentence_spans
from kb.settings import ComponentOptions

if TYPE_CHECKING:
    from kb.components import Embedder, FloatArray

SECTION = "chunking.semantic"

THRESHOLDS = {"openai:text-embedding-3-small": 0.8}
"""What `threshold = "auto"` means with this model: the guide's value, compared as there with the cosine of two
neighbouring sentences. Every other model has a percentile."""
PERCENTILE, MIN_TOKENS = 20.0, 64
"""Chosen for chunks as large as those of `recursive`. With e5 the sample documents (three languages) give 289 of 144
tokens on average, where `recursive` gives 286 of 146; with 30 % 296 of 141, with 50 % 314 of 133. Without headings
and blocks they give 255 of 163; with 30 % 281 of 148, with 50 % 325 of 128."""
# With a percentile, so many sentences on each side are compared. Measured with e5 on runs of 4 to 10 sentences of the
# sample documents put one after another: of as many cuts as there are joins, this share is at a join (English / Chinese
# / Japanese): .36 / .45 / .37 with one sentence, .39 / .56 / .45 with two, .40 / .68 / .52 with three, .46 / .67 / .55
# with four, .45 / .65 / .50 with five. Not asking for the lowest place around: .41 / .51 / .43 with four. Another draw
# of such runs gave .42 / .70 / .49 with three, .46 / .65 / .58 with four, .50 / .68 / .51 with five; they are close.
_WINDOW = 4


class Options(ComponentOptions):
    """Where the topic counts as changed, and how large chunks are, in tokens of the embedder."""

    threshold: float | Literal["auto"] = "auto"
    percentile: float = Field(PERCENTILE, ge=0, le=100)
    size_tokens: int = Field(300, ge=16, le=8192)
    min_tokens: int = Field(MIN_TOKENS, ge=0)
    header_tokens: int = Field(64, ge=0)

    @field_validator("threshold")
    @classmethod
    def _is_a_cosine(cls, threshold: float | Literal["auto"]) -> float | Literal["auto"]:
        if threshold != "auto" and not -1.0 <= threshold <= 1.0:
            raise PydanticCustomError("threshold", "should be 'auto' or a cosine similarity from -1 to 1")
        return threshold


class _Piece(NamedTuple):
    """A sentence or a block, with the heading lines above it."""

    start: int
    heading_end: int
    """Where those end; `start` when there are none."""
    end: int
    level: int
    """Of the heading that it stands below; 0 before the first one."""
    tied: bool
    """It has nothing to compare, or the line before it announces it."""


class SemanticChunker:
    """Ends a chunk where the text goes on with another topic."""

    embeds_to_cut = True

    def __init__(self, options: Options, budget: Budget, embedder: Embedder, counted: str) -> None:
        self._options = options
        self._budget = budget
        self._embedder = embedder
        self._packer = Packer(budget.count_tokens, options.size_tokens, options.size_tokens, options.min_tokens)
        self._threshold = THRESHOLDS.get(embedder.name) if options.threshold == "auto" else options.threshold
        self._window = _WINDOW if self._threshold is None else 1
        below = f"{options.percentile}%" if self._threshold is None else f"{self._threshold}"
        self.fingerprint = (
            f"semantic/1 size={options.size_tokens} min={options.min_tokens} header={options.header_tokens} "
            f"below={below} window={self._window} for {counted}"
        )

    def chunk(self, document: Document) -> tuple[Chunk, ...]:
        """Cut `document`; a blank document gives no chunk, and nothing is embedded."""
        counts = SpanCounts(document.text, self._budget.count_tokens, self._budget.count_words)
        units = [unit for piece in _pieces(document) for unit in self._units(counts, piece, document.blocks)]
        similarities = self._similarities(document.text, units)
        cutter = TopicCutter(
            counts,
            units,
            [TOGETHER if similarity is None else similarity for similarity in similarities],
            self._changes(similarities),
            self._options.size_tokens,
            self._options.min_tokens,
        )
        return build_chunks(document, cutter.spans(), self._budget)

    def _units(self, counts: SpanCounts, piece: _Piece, blocks: Sequence[Block]) -> Iterator[Unit]:
        """The piece, or its parts when it is larger than a chunk, and so perhaps than the embedder takes."""
        spans = [(piece.start, piece.end)]
        if self._packer.tokens(counts, *spans[0]) > self._options.size_tokens:
            spans = self._packer.pack(counts, piece.start, piece.heading_end, piece.end, blocks)
        for start, end in spans:
            opens = start == piece.start < piece.heading_end
            yield Unit(start, end, counts.tokens(start, end), piece.level, opens, piece.tied and start == piece.start)

    def _similarities(self, text: str, units: Sequence[Unit]) -> list[float | None]:
        """The cosine of what a unit begins and what stands before it in its section; None where there is none."""
        found: list[float | None] = [None] * len(units)
        said = [at for at, unit in enumerate(units) if any(map(str.isalnum, text[unit.start : unit.end]))]
        vectors = self._vectors([text[units[at].start : units[at].end] for at in said])
        sections = list(accumulate(unit.opens for unit in units))
        for _, members in groupby(said, key=sections.__getitem__):
            section = list(members)
            cosines = _cosines(islice(vectors, len(section)), self._window, self._embedder.dimension)
            for at, cosine in zip(section[1:], cosines, strict=True):
                found[at] = None if units[at].tied else cosine
        return found

    def _vectors(self, texts: Sequence[str]) -> Iterator[FloatArray]:
        """The vectors of `texts`, a batch at a time, so that few are held."""
        size = self._embedder.batch_texts
        for start in range(0, len(texts), size):
            yield from self._embedder.embed_documents(texts[start : start + size])

    def _changes(self, similarities: Sequence[float | None]) -> set[int]:
        """The units at which the topic changes."""
        if self._threshold is not None:
            return {at for at, cosine in enumerate(similarities) if cosine is not None and cosine < self._threshold}
        known = [cosine for cosine in similarities if cosine is not None]
        limit = float(np.percentile(known, self._options.percentile)) if known else TOGETHER
        # As sides of several sentences overlap, one change makes several places low: the lowest is the change.
        around = [TOGETHER if cosine is None else cosine for cosine in (None, *similarities, None)]
        return {
            at
            for at, cosine in enumerate(similarities)
            if cosine is not None and cosine < limit and around[at] >= cosine < around[at + 2]
        }


def _pieces(document: Document) -> Iterator[_Piece]:
    """The sentences and blocks that together hold all of the text."""
    text, at, level = document.text, 0, 0
    heading: tuple[int, int] | None = None  # lines whose text has not come yet
    marks: list[Heading | Block] = [*document.headings, *document.blocks]
    for mark in [*sorted(marks, key=lambda mark: mark.start), None]:
        stop = len(text) if mark is None else mark.start
        if stop < at:  # a heading inside a block
            continue
        spans = [(at + left, at + right, False) for left, right in sentence_spans(text[at:stop])]
        if isinstance(mark, Block):
            start, end = trim(text, mark.start, mark.end)
            if start < end:
                spans.append((start, end, text[at:stop].rstrip().endswith((":", "："))))
        for start, end, tied in spans:
            first, heading_end = heading or (start, start)
            yield _Piece(trim(text, first, end)[0], heading_end, end, level, tied)
            heading = None
        if isinstance(mark, Heading):  # lines that follow each other belong to what follows them
            level = mark.level if heading is None else min(level, mark.level)
            heading = (mark.start if heading is None else heading[0], mark.end)
        if mark is not None:
            at = mark.end
    if heading is not None:
        start, end = trim(text, *heading)
        yield _Piece(start, end, end, level, tied=False)


def _cosines(vectors: Iterable[FloatArray], window: int, dimension: int) -> Iterator[float]:
    """The cosine of both sides of each place between two vectors; a side is the sum of up to `window` of them."""
    outside = [np.zeros(dimension, np.float32)] * (window - 1)
    near: deque[FloatArray] = deque(maxlen=2 * window)
    for vector in chain(outside, vectors, outside):
        near.append(vector)
        if len(near) == 2 * window:
            rows = np.array(near, np.float64)
            before, after = rows[:window].sum(axis=0), rows[window:].sum(axis=0)
            lengths = float(np.linalg.norm(before) * np.linalg.norm(after))
            # Without a vector there is no sign of another topic.
            yield float(before @ after) / lengths if lengths else TOGETHER


def build(options: Options, parts: Parts) -> SemanticChunker:
    """Build the chunker for the embedder at hand.

    Raises:
        ConfigError: a chunk with its header would not fit the embedder, or there is none that counts.
    """
    budget = open_budget(SECTION, options.size_tokens, options.header_tokens, parts)
    assert parts.embedder is not None, "open_budget has checked it"
    return SemanticChunker(options, budget, parts.embedder, counted_for(parts))
