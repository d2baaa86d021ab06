"""How many tokens words have, without cutting each of them anew.

No token holds two neighbouring characters that are neighbours in no piece. There a word falls into
parts that are cut independently of each other. Parts are short, in Chinese and Japanese two
characters on average, and come again and again: nearly all were counted before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

WORD_START = "▁"
NEIGHBOUR_BITS = 22
"""Neighbours are looked up by a hash of so many bits, in 4 MB. The 45,602 pairs of the pieces fill 1 % of them; where
another pair falls on one of these, two parts are counted as one, which changes no count."""
KNOWN_PARTS = 200_000
"""Parts whose counts are kept, in some 25 MB: scifact (8 MB of English) has 60,000, JaQuAD (2 MB) 30,000."""
KNOWN_CHARACTERS = 32
"""Longer parts hardly come again."""
CODE_POINTS = 0x110000


class WordCounter:
    """Counts normalised words, each with `▁` before it; what `raw` cuts them into decides.

    Args:
        pieces: All that a token may be.
        raw: The tokenizer without its pre-tokenizer: it takes a text as it is.
    """

    def __init__(self, pieces: Iterable[str], raw: Tokenizer) -> None:
        self._raw = raw
        self._known: dict[str, int] = {}
        self._lock = Lock()
        codes = _codes("\n".join(pieces))  # no piece holds a line break
        inside = codes != ord("\n")
        self._neighbours = np.zeros(1 << NEIGHBOUR_BITS, bool)
        self._neighbours[_pairs(codes)[inside[:-1] & inside[1:]]] = True
        alone = np.concatenate(([True], ~inside, [True]))
        self._characters = np.zeros(CODE_POINTS, bool)
        self._characters[codes[inside & alone[:-2] & alone[2:]]] = True

    def counts(self, words: Sequence[str]) -> list[int]:
        """The number of tokens of each of `words`."""
        text = "".join(words)
        if not text:
            return [0] * len(words)
        codes = _codes(text)
        unknown = ~self._characters[codes]
        # Unknown neighbours become one token.
        joined = self._neighbours[_pairs(codes)] | (unknown[:-1] & unknown[1:])
        joined &= codes[1:] != ord(WORD_START)
        edges = np.concatenate(([0], np.flatnonzero(~joined) + 1, [len(text)]))
        tokens = np.ones(len(edges) - 1, np.int64)  # as many as a single character has, known or not
        longer = np.flatnonzero(np.diff(edges) > 1)
        starts, ends = edges[longer].tolist(), edges[longer + 1].tolist()
        tokens[longer] = self._tokens([text[start:end] for start, end in zip(starts, ends, strict=True)])
        before = np.concatenate(([0], np.cumsum(tokens)))
        words_end = np.cumsum(np.fromiter(map(len, words), np.int64, len(words)))
        counts: list[int] = np.diff(before[np.searchsorted(edges, words_end)], prepend=0).tolist()
        return counts

    def _tokens(self, parts: list[str]) -> list[int]:
        with self._lock:
            if len(self._known) > KNOWN_PARTS:
                self._known.clear()
            missing = [part for part in dict.fromkeys(parts) if part not in self._known]
            cut = self._raw.encode_batch_fast(missing, add_special_tokens=False)
            self._known.update(zip(missing, map(len, cut), strict=True))
            counts = list(map(self._known.__getitem__, parts))
            for part in missing:
                if len(part) > KNOWN_CHARACTERS:
                    del self._known[part]
        return counts


def _codes(text: str) -> NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)


def _pairs(codes: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """A hash of each character and the next one."""
    mixed = codes[:-1] * np.uint32(0x9E3779B1) + codes[1:] * np.uint32(0x85EBCA77)
    hashes: NDArray[np.uint32] = mixed >> np.uint32(32 - NEIGHBOUR_BITS)
    return hashes
