"""The tokenizer of multilingual-e5-small (SentencePiece Unigram), rebuilt from the weights file.

Text is brought to its normal form character by character (NFKC-like; line ends and tabs become
spaces, controls vanish), cut at white space, and each word, with `▁` before it, is cut into the
pieces whose scores have the highest sum. No piece holds a `▁` after its start, so words are
independent of each other: time is linear in the length, and the ids of two texts joined by a space
are the ids of one after those of the other.

Two ways to the same ids. The package `tokenizers` takes about a second to load the 250,002 pieces
and then reads a megabyte in one or two; a sorted table of the pieces, kept in the cache folder, is
there at once and is ten times as slow. A question needs the second, an ingest the first: so the
first `SMALL_TEXT_BUDGET` characters go by the table.

Kudo, Subword Regularization, 2018, arXiv:1804.10959.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, cast

import numpy as np

from kb.embedding._e5_counts import KNOWN_CHARACTERS, WordCounter

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

    from kb.embedding._e5_weights import E5Weights

WORD_START = "▁"
SMALL_TEXT_BUDGET = 20_000
"""Characters: by the table they take about 0.2 s, still less than loading `tokenizers`."""
UNKNOWN_PENALTY = 10.0
"""An unknown character scores this much less than the worst piece, as in SentencePiece."""
PIECE_CHARACTERS = 16
PIECE_BYTES = 48
"""The longest piece, in characters and in UTF-8."""
SPECIAL_PIECES = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
"""In a text these are plain characters: a document cannot end itself."""
UNMATCHABLE = "\x01"
"""Normalisation deletes this character, so a piece that begins with it is never found in a text."""
LONG_CHARACTERS = 200
"""From here on counting by parts, most of which were counted before, takes less time than cutting (0.6 at 400)."""
KNOWN_WORDS = 100_000
"""Words whose counts are kept, in some 10 MB."""
_SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class PieceTable:
    """The pieces in byte order, and the token id of each; special pieces are left out."""

    pieces: NDArray[np.bytes_]
    ids: NDArray[np.int32]

    @classmethod
    def of(cls, weights: E5Weights) -> PieceTable:
        """Sort the pieces of `weights`."""
        pieces = np.array([piece.encode() for piece in weights.pieces()], f"S{PIECE_BYTES}")
        order = np.argsort(pieces, kind="stable").astype(np.int32)
        special = np.isin(pieces[order], [piece.encode() for piece in SPECIAL_PIECES])
        return cls(pieces[order[~special]], order[~special])

    def texts(self) -> list[str]:
        """The pieces as text."""
        return b"\n".join(self.pieces.tolist()).decode().split("\n")

    def find(self, texts: set[str]) -> dict[str, int]:
        """The token ids of those texts that are pieces."""
        wanted = [text for text in texts if len(text.encode()) <= PIECE_BYTES]
        keys = np.array([text.encode() for text in wanted], self.pieces.dtype)
        places = np.minimum(np.searchsorted(self.pieces, keys), len(self.pieces) - 1)
        hits = np.flatnonzero(self.pieces[places] == keys)
        return {wanted[hit]: int(self.ids[places[hit]]) for hit in hits}


class E5Tokenizer:
    """Turns text into token ids, without prefix and special tokens."""

    def __init__(self, weights: E5Weights, table: PieceTable) -> None:
        self._weights = weights
        self._table = table
        # NUL is no text either (and would be lost in the table); the other controls are deleted by
        # the model's own normal forms.
        self._normal_forms = {**weights.normal_forms, 0: ""}
        self._line_forms = {**self._normal_forms, ord("\n"): "\n"}
        self._unknown_score = float(weights.scores.min()) - UNKNOWN_PENALTY
        self._fast: Tokenizer | None = None
        self._counter: WordCounter | None = None
        self._known_words: dict[str, int] = {}
        self._fast_lock = Lock()
        self._budget = SMALL_TEXT_BUDGET

    def load(self) -> None:
        """Load the fast way now, however little has been read."""
        self._load_counter()

    def ids(self, text: str) -> list[int]:
        """The token ids of `text`; blank text has none."""
        words = self._normal(text).split()
        fast = self._fast_tokenizer(len(text))
        if fast is None:
            by_word = self._ids_by_table([WORD_START + word for word in words])
            return [token for ids in by_word for token in ids]
        ids: list[int] = fast.encode(" ".join(words), add_special_tokens=False).ids
        return ids

    def count(self, text: str) -> int:
        """The number of token ids of `text`."""
        fast = self._fast_tokenizer(len(text))
        if fast is None:
            return len(self.ids(text))
        words = self._normal(text).split()
        if self._counter is not None and len(text) >= LONG_CHARACTERS:
            return self._counter.counts([WORD_START.join(["", *words])])[0]
        return len(fast.encode(" ".join(words), add_special_tokens=False))

    def count_words(self, words: Sequence[str]) -> list[int]:
        """The number of token ids of each of `words`, which hold no white space; short ones are remembered."""
        counts = list(map(self._known_words.get, words))
        missing = list(dict.fromkeys(word for word, count in zip(words, counts, strict=True) if count is None))
        if not missing:
            return cast("list[int]", counts)
        fresh = dict(zip(missing, self._count_different(missing), strict=True))
        if len(self._known_words) > KNOWN_WORDS:
            self._known_words.clear()
        self._known_words.update((word, count) for word, count in fresh.items() if len(word) <= KNOWN_CHARACTERS)
        return [fresh[word] if count is None else count for word, count in zip(words, counts, strict=True)]

    def _count_different(self, words: list[str]) -> list[int]:
        # All in one go, a line each, so that the line ends have to stay.
        lines = self._normal("\n".join(words), self._line_forms).split("\n")
        marked = [WORD_START.join(["", *line.split()]) for line in lines]
        if self._fast_tokenizer(sum(map(len, words))) is None:
            return list(map(len, self._ids_by_table(marked)))
        return self._load_counter().counts(marked)

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Where each token of `ids(text)` lies in `text`: (start, end) in characters.

        Starts and ends rise and spans don't overlap. A word's first token covers the white space
        before it as well; characters that normalisation deletes may lie in no span; where one
        character becomes several (`ﬁ`, `㌔`) and they fall into two tokens, the first has it and the
        second is empty.
        """
        fast = self._load_fast()
        normal, origins = self._normal_with_origins(text)
        spans = np.array(fast.encode(normal, add_special_tokens=False).offsets, np.int64).reshape(-1, 2)
        if not len(spans):
            return []
        starts = origins[np.minimum(spans[:, 0], len(origins) - 1)]
        ends = np.where(spans[:, 1] > spans[:, 0], origins[np.maximum(spans[:, 1] - 1, 0)] + 1, starts)
        ends = np.maximum.accumulate(ends)
        starts[1:] = np.maximum(starts[1:], ends[:-1])
        return list(zip(starts.tolist(), np.maximum(starts, ends).tolist(), strict=True))

    def _normal(self, text: str, forms: dict[int, str] | None = None) -> str:
        if not text.isascii():
            text = _SURROGATES.sub(" ", text)
        return text.translate(forms or self._normal_forms)

    def _normal_with_origins(self, text: str) -> tuple[str, np.ndarray[tuple[int], np.dtype[np.int64]]]:
        """The words joined by single spaces, and for each character its place in `text`."""
        normal = self._normal(text)
        lengths = [len(self._normal_forms[code]) if code in self._normal_forms else 1 for code in map(ord, text)]
        origins = np.repeat(np.arange(len(text)), lengths)
        blank = np.fromiter(map(str.isspace, normal), bool, len(normal))
        keep = ~blank
        keep[1:] |= ~blank[:-1]  # the first of several blanks stays
        keep[: len(normal) - len(normal.lstrip())] = False
        keep[len(normal.rstrip()) :] = False
        return " ".join(normal.split()), origins[keep]

    def _fast_tokenizer(self, characters: int) -> Tokenizer | None:
        """`tokenizers`, or None as long as it isn't worth loading."""
        if self._fast is None and characters <= self._budget:
            self._budget -= characters
            return None
        return self._load_fast()

    def _load_fast(self) -> Tokenizer:
        with self._fast_lock:
            if self._fast is None:
                from tokenizers import Tokenizer, models, pre_tokenizers

                pieces = [UNMATCHABLE + p if p in SPECIAL_PIECES else p for p in self._weights.pieces()]
                vocabulary = list(zip(pieces, self._weights.scores.tolist(), strict=True))
                fast = Tokenizer(models.Unigram(vocabulary, unk_id=self._weights.unknown_id))
                fast.pre_tokenizer = pre_tokenizers.Metaspace(WORD_START, prepend_scheme="always", split=True)
                self._fast = fast
            return self._fast

    def _load_counter(self) -> WordCounter:
        fast = self._load_fast()
        with self._fast_lock:
            if self._counter is None:
                from tokenizers import Tokenizer

                self._counter = WordCounter(self._table.texts(), Tokenizer(fast.model))
            return self._counter

    def _ids_by_table(self, words: list[str]) -> list[list[int]]:
        spans = {
            word[start:end]
            for word in set(words)
            for start in range(len(word))
            for end in range(start + 1, min(start + PIECE_CHARACTERS, len(word)) + 1)
        }
        found = self._table.find(spans)
        scores = {piece: float(self._weights.scores[token]) for piece, token in found.items()}
        return [self._word_ids(word, found, scores) for word in words]

    def _word_ids(self, word: str, found: dict[str, int], scores: dict[str, float]) -> list[int]:
        """The pieces with the highest sum of scores (Viterbi); unknown neighbours become one."""
        length = len(word)
        best = [0.0] + [-np.inf] * length
        arrived: list[tuple[int, int]] = [(0, 0)] * (length + 1)
        unknown = self._weights.unknown_id
        for start in range(length):
            for end in range(start + 1, min(start + PIECE_CHARACTERS, length) + 1):
                piece = word[start:end]
                if piece in found:
                    token, score = found[piece], best[start] + scores[piece]
                elif end == start + 1:
                    token, score = unknown, best[start] + self._unknown_score
                else:
                    continue
                if score > best[end]:
                    best[end], arrived[end] = score, (start, token)
        ids: list[int] = []
        position = length
        while position:
            position, token = arrived[position]
            if not (token == unknown and ids and ids[-1] == unknown):
                ids.append(token)
        return ids[::-1]
