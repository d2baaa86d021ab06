"""What some components can do beyond what all of their kind do; whoever needs one looks with `isinstance`."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from kb.answers import Claim, Generated, Quote
    from kb.records import Chunk, Document, EmbeddedPart, FloatArray, Hit


@runtime_checkable
class NotesCuts(Protocol):
    """A chunker that may have to cut otherwise than its options say."""

    def chunk_with_notes(self, document: Document) -> tuple[tuple[Chunk, ...], tuple[str, ...]]:
        """As `chunk`, and what the report should say of it, in the same words for the same cause."""
        ...


@runtime_checkable
class EmbedsToCut(Protocol):
    """A chunker that compares vectors: it works where it is known what is embedded already."""

    embeds_to_cut: bool


@runtime_checkable
class CountsTokens(Protocol):
    """An embedder that can say how many tokens it would see."""

    def count_tokens(self, text: str) -> int:
        """Count the tokens of `text` as sent, without prefix and special tokens; never too few."""
        ...

    token_overhead: int
    """Tokens that are added to every text: prefix and special tokens."""


@runtime_checkable
class CountsWords(Protocol):
    """An embedder whose tokens never reach over white space: a text has as many as its words together."""

    def count_words(self, words: Sequence[str]) -> Sequence[int]:
        """Count the tokens of each of `words`, which hold no space, tab, line break or ideographic space.

        The sum over the words of a text is what `count_tokens` gives for it.
        """
        ...


@runtime_checkable
class NamesVocabulary(Protocol):
    """An embedder whose tokens are not always counted in the same way."""

    counts_by: str
    """What counts now; it shapes the chunks, so it is part of the chunker's fingerprint."""


@runtime_checkable
class LoadsAhead(Protocol):
    """An embedder that takes a while to load, which can happen while its caller does other things."""

    def load_ahead(self) -> None:
        """Begin to load what the first text needs; again is nothing. A failure is raised at the first use."""
        ...


@runtime_checkable
class CountsRequests(Protocol):
    """An embedder behind a service, which counts what it sent."""

    requests: int
    """Requests that were answered, since it was built."""


@runtime_checkable
class Metered(Protocol):
    """An embedder behind a service that is paid for, or that takes only so much in a minute."""

    model: str
    """The service's name for it, as in `[ingest.prices]`."""
    tokens_per_minute: int | None
    """What is sent at most; None when no rate is configured."""
    requests_per_minute: int | None


@runtime_checkable
class EmbedsInParts(Protocol):
    """An embedder that hands over what is done while the rest is under way, so that it can be kept at once."""

    def embed_parts(self, texts: Sequence[str]) -> Generator[EmbeddedPart, None, None]:
        """Embed passages; each is in one part, parts are in the order of completion.

        Raises:
            ServiceError: the service failed; what was done by then has been yielded.
        """
        ...


@runtime_checkable
class TokenStates(Protocol):
    """An embedder that also gives each token of a text a vector, in its context: what late interaction compares."""

    def token_states(self, texts: Sequence[str]) -> list[FloatArray]:
        """Compute the token vectors of passages: for each float32, shape (tokens, width), unit rows.

        Width is the embedder's; prefix and special tokens are left out. Blank text gives (0, width).
        """
        ...

    def query_token_states(self, texts: Sequence[str]) -> list[FloatArray]:
        """Compute those of questions; the same form."""
        ...


@runtime_checkable
class KeepsTokenStates(Protocol):
    """An embedder whose token vectors can be kept, packed, from the pass that gives the vector."""

    keep_token_vectors: bool
    """Whether an ingest is to keep them."""

    def embed_parts_with_states(self, texts: Sequence[str]) -> Generator[EmbeddedPart, None, None]:
        """Embed passages as `embed_parts` does, each part with the packed token vectors."""
        ...

    def unpack_states(self, packed: bytes) -> FloatArray | None:
        """Give what `token_states` gave but for rounding; None for what was packed in another form."""
        ...


@runtime_checkable
class Revises(Protocol):
    """A generator that can write an answer again."""

    def revise(
        self, question: str, hits: Sequence[Hit], text: str, unsupported: Sequence[Claim]
    ) -> Generator[str | Quote, None, Generated]:
        """Write the answer `text` again, without the claims that its sources don't support; as `stream` does."""
        ...
