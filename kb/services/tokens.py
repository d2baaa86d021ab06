"""Counting tokens as OpenAI's models do, or, without their vocabulary, never too few.

tiktoken fetches a vocabulary at its first use and keeps it (`TIKTOKEN_CACHE_DIR`). Where that fails,
the number of UTF-8 bytes stands in: each token of these models is at least one byte of the text.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tiktoken

BYTES = "bytes"
"""The name of the vocabulary that counts every byte."""
# tiktoken itself sets no limit of time; a vocabulary of 2 MB is here within this, or not at all.
FETCH_SECONDS = 10.0
# tiktoken's pattern may overflow its stack on a huge text; what is longer than this is beyond every limit anyway.
PART_CHARACTERS = 100_000

# English has four to five bytes a token, Chinese and Japanese about three: too many tokens are counted rather than too
# few, without a vocabulary that would have to be fetched.
_BYTES_OF_A_TOKEN = 3

_log = logging.getLogger(__name__)


def about_tokens(texts: Iterable[str]) -> int:
    """How many tokens texts have together for a model whose vocabulary is not known; seldom too few."""
    return sum(len(text.encode("utf-8", "surrogatepass")) for text in texts) // _BYTES_OF_A_TOKEN


class TokenCounter:
    """Counts the tokens of texts; the vocabulary is loaded at the first count."""

    def __init__(self, vocabulary: str) -> None:
        self._wanted = vocabulary
        self._lock = threading.Lock()
        self._loaded = vocabulary == BYTES
        self._encoding: tiktoken.Encoding | None = None

    @property
    def vocabulary(self) -> str:
        """What counts: the vocabulary's name, or "bytes" where it could not be had."""
        self._load()
        return BYTES if self._encoding is None else self._encoding.name

    def count(self, text: str) -> int:
        """Count the tokens of `text`, `<|endoftext|>` and the like as plain text; never too few."""
        self._load()
        if self._encoding is None:
            return len(text.encode("utf-8", "surrogatepass"))
        parts = range(0, len(text), PART_CHARACTERS)
        return sum(len(self._encoding.encode_ordinary(text[at : at + PART_CHARACTERS])) for at in parts)

    def _load(self) -> None:
        with self._lock:
            if self._loaded:
                return
            self._encoding, reason = _fetch(self._wanted)
            self._loaded = True
        if reason:
            _log.warning(
                "tokens are counted as UTF-8 bytes, which is safe but makes chunks and requests smaller than they "
                "could be: the vocabulary %s could not be loaded (%s). Let tiktoken fetch it once with a network, or "
                "point TIKTOKEN_CACHE_DIR at a folder that holds it",
                self._wanted,
                reason,
            )


def _fetch(vocabulary: str) -> tuple[tiktoken.Encoding | None, str]:
    """Load a vocabulary within FETCH_SECONDS, or say why not."""
    fetched: list[tiktoken.Encoding] = []
    reasons: list[str] = []

    def load() -> None:
        try:
            import tiktoken

            fetched.append(tiktoken.get_encoding(vocabulary))
        # What requests, the file system and tiktoken's own checks raise; a refused socket is a RuntimeError.
        except (OSError, ValueError, RuntimeError, ImportError) as error:
            reasons.append(" ".join(f"{type(error).__name__}: {error}".split())[:120])

    thread = threading.Thread(target=load, name="fetch-vocabulary", daemon=True)
    thread.start()
    thread.join(FETCH_SECONDS)
    if fetched:
        return fetched[0], ""
    return None, reasons[0] if reasons else f"no answer within {FETCH_SECONDS:g} seconds"
