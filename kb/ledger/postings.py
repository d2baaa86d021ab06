"""An inverted index in the ledger's file: for each word the chunks that hold it, read as arrays.

A batch of chunks is written as one segment, a row for each of its words. When there are many segments the
last ones are written anew as one, so that a word is read from a few places and adding stays cheap (the
logarithmic method: Bentley and Saxe 1980, doi:10.1016/0196-6774(80)90015-2). A chunk that goes stays in its
segment, marked as gone, until that is written anew. All of it is part of the ledger's transactions.

SQLite's own FTS5, which was here before, scores each of the chunks that hold any of the words in turn:
70 ms where a question's words occur 36,000 times in 100,000 chunks. Here it is some array additions, 2 ms.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

from kb.ledger.connection import LedgerConnection

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Postings: TypeAlias = NDArray[np.void]
    """Of one word: `row` of a chunk, `count` of the word in it (at most 255), `length` of the chunk in words."""

_POSTING = [("row", "<u4"), ("count", "u1"), ("length", "<u2")]
_POSTING_BYTES = 7
_MOST_COUNT, _MOST_LENGTH = 255, 65_535
_MOST_SEGMENTS = 12
# Gone chunks are read with every question; beyond so many, and so large a share of all, everything is written anew.
_GONE_SHARE, _GONE_CHUNKS = 0.1, 1_000


class PostingList:
    """The chunks that hold a word, those among them that are gone as well."""

    def __init__(self, packed: bytes) -> None:
        """Read postings as they are kept, rows rising."""
        import numpy as np

        postings: Postings = np.frombuffer(packed, _POSTING)
        self.rows: NDArray[np.uint32] = np.ascontiguousarray(postings["row"])
        """Of the chunks in the index, rising."""
        self.counts: NDArray[np.uint8] = postings["count"]
        """How often each holds the word, at most 255."""
        self.lengths: NDArray[np.uint16] = postings["length"]
        """How many words each has, at most 65,535."""

    def __len__(self) -> int:
        return len(self.rows)

    def places_of(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Where in the list each of `rows` would be, and whether it is there."""
        import numpy as np

        # Of the same type: otherwise the whole list would be copied to that of `rows`.
        places = np.minimum(np.searchsorted(self.rows, rows.astype(np.uint32)), len(self) - 1)
        return places, self.rows[places] == rows

    def how_many_of(self, rows: NDArray[np.int64]) -> int:
        """How many of `rows` are there."""
        return int(self.places_of(rows)[1].sum())


class PostingLists(LedgerConnection):
    """The part of the ledger that keeps the index. All methods run inside a transaction or snapshot of the caller."""

    def _add_postings(self, generation: int, texts: Sequence[tuple[str, Sequence[str]]]) -> None:
        """Add chunks: the id and the words of each."""
        if not texts:
            return
        ((first,),) = self._rows(
            "SELECT 1 + MAX((SELECT COALESCE(MAX(id), 0) FROM word_rows), (SELECT COALESCE(MAX(id), 0) FROM word_gone))"
        )
        self._connection.executemany(
            "INSERT INTO word_rows (id, generation, chunk_id, length) VALUES (?, ?, ?, ?)",
            [(row, generation, chunk_id, len(words)) for row, (chunk_id, words) in enumerate(texts, first)],
        )
        length = sum(len(words) for _, words in texts)
        self._write_segment(generation, first, len(texts), length, _by_word(first, [words for _, words in texts]))
        self._tidy(generation)

    def _remove_postings(self, generation: int, chunk_ids: Sequence[str]) -> None:
        """Take chunks out; unknown ids are ignored."""
        rows = self._rows_of(
            "SELECT id, generation, length FROM word_rows WHERE generation = ? AND chunk_id IN (?)",
            (generation,),
            chunk_ids,
        )
        self._connection.executemany("INSERT INTO word_gone (id, generation, length) VALUES (?, ?, ?)", rows)
        self._connection.executemany("DELETE FROM word_rows WHERE id = ?", [row[:1] for row in rows])

    def _extent(self, generation: int) -> tuple[int, int]:
        """How many live chunks there are, and how many words they have together."""
        ((chunks, length),) = self._rows(
            "SELECT COALESCE(SUM(chunks), 0), COALESCE(SUM(length), 0) FROM word_segments WHERE generation = ?",
            (generation,),
        )
        ((gone, gone_length),) = self._rows(
            "SELECT COUNT(*), COALESCE(SUM(length), 0) FROM word_gone WHERE generation = ?", (generation,)
        )
        return chunks - gone, length - gone_length

    def _postings(self, generation: int, words: Sequence[str]) -> dict[str, PostingList]:
        """Who holds each of the words, in the order of `words`; a word that nobody holds is left out."""
        segments = ",".join(str(segment) for segment, *_ in self._segments(generation))
        # A later segment has higher rows.
        statement = f"SELECT term, chunks FROM postings WHERE segment IN ({segments}) AND term IN (?) ORDER BY segment"
        found: dict[str, list[bytes]] = {}
        for term, part in self._rows_of(statement, (), words):
            found.setdefault(term, []).append(part)
        return {word: PostingList(b"".join(found[word])) for word in words if word in found}

    def _gone(self, generation: int) -> NDArray[np.int64]:
        """The rows of chunks that are gone and still stand in lists, rising."""
        rows = self._rows("SELECT id FROM word_gone WHERE generation = ? ORDER BY id", (generation,))
        return _array(row for (row,) in rows)

    def _segments(self, generation: int) -> list[tuple[int, int, int, int]]:
        """Id, first row, chunks and length of each segment, the oldest first."""
        return self._rows(
            "SELECT id, first_row, chunks, length FROM word_segments WHERE generation = ? ORDER BY first_row",
            (generation,),
        )

    def _write_segment(
        self, generation: int, first: int, chunks: int, length: int, lists: Iterable[tuple[str, bytes]]
    ) -> None:
        ((segment,),) = self._rows("SELECT COALESCE(MAX(id), 0) + 1 FROM word_segments")
        self._connection.execute(
            "INSERT INTO word_segments VALUES (?, ?, ?, ?, ?)", (segment, generation, first, chunks, length)
        )
        self._connection.executemany(
            "INSERT INTO postings VALUES (?, ?, ?)", ((segment, term, part) for term, part in lists)
        )

    def _tidy(self, generation: int) -> None:
        """Write the last segments anew as one when there are too many, and all when too many chunks are gone."""
        segments = self._segments(generation)
        sizes = [chunks for _, _, chunks, _ in segments]
        live, _ = self._extent(generation)
        gone = sum(sizes) - live
        if gone > max(_GONE_CHUNKS, _GONE_SHARE * sum(sizes)):
            self._merge(generation, segments)
        elif len(segments) > _MOST_SEGMENTS:
            # From the first that is no larger than all behind it, so that large ones are seldom written again.
            start = next(i for i in range(len(sizes)) if sizes[i] <= sum(sizes[i + 1 :]) or i == len(sizes) - 2)
            self._merge(generation, segments[start:])

    def _merge(self, generation: int, segments: Sequence[tuple[int, int, int, int]]) -> None:
        """Write neighbouring segments anew as one, without the chunks that are gone."""
        first = segments[0][1]
        ids = [segment for segment, _, _, _ in segments]
        marks = ",".join("?" * len(ids))
        rows = self._rows(f"SELECT term, chunks FROM postings WHERE segment IN ({marks}) ORDER BY term", ids)
        gone = self._rows("SELECT id, length FROM word_gone WHERE generation = ? AND id >= ?", (generation, first))
        merged = _joined(rows, _array(row for row, _ in gone))
        for table, column in (("postings", "segment"), ("word_segments", "id")):
            self._connection.execute(f"DELETE FROM {table} WHERE {column} IN ({marks})", ids)
        self._connection.execute("DELETE FROM word_gone WHERE generation = ? AND id >= ?", (generation, first))
        chunks = sum(count for _, _, count, _ in segments) - len(gone)
        length = sum(words for _, _, _, words in segments) - sum(words for _, words in gone)
        self._write_segment(generation, first, chunks, length, merged)


def drop_postings(connection: sqlite3.Connection, generation: int) -> None:
    """Forget a generation's index; inside a transaction of the caller."""
    connection.execute(
        "DELETE FROM postings WHERE segment IN (SELECT id FROM word_segments WHERE generation = ?)", (generation,)
    )
    for table in ("word_segments", "word_gone", "word_rows"):
        connection.execute(f"DELETE FROM {table} WHERE generation = ?", (generation,))


def _by_word(first: int, texts: Sequence[Sequence[str]]) -> Iterator[tuple[str, bytes]]:
    """The packed postings of each word of texts, whose rows rise from `first`; words rise."""
    import numpy as np

    counts = [Counter(words) for words in texts]
    distinct = [len(count) for count in counts]
    all_words = list(chain.from_iterable(counts))
    words = sorted(set(all_words))
    number = {word: place for place, word in enumerate(words)}
    postings = np.empty(len(all_words), _POSTING)
    postings["row"] = np.repeat(np.arange(first, first + len(texts)), distinct)
    times = np.fromiter(chain.from_iterable(count.values() for count in counts), np.int64, len(all_words))
    postings["count"] = np.minimum(times, _MOST_COUNT)
    postings["length"] = np.repeat([min(len(text), _MOST_LENGTH) for text in texts], distinct)
    numbers = np.fromiter(map(number.__getitem__, all_words), np.int64, len(all_words))
    order = np.argsort(numbers, kind="stable")
    yield from _packed(words, postings[order], np.bincount(numbers, minlength=len(words)))


def _joined(rows: Sequence[tuple[str, bytes]], gone: NDArray[np.int64]) -> Iterator[tuple[str, bytes]]:
    """Lists of the same word behind each other as one, without the chunks that are gone."""
    import numpy as np

    words = list(dict.fromkeys(term for term, _ in rows))
    number = {word: place for place, word in enumerate(words)}
    postings = np.frombuffer(b"".join(part for _, part in rows), _POSTING)
    sizes = [len(part) // _POSTING_BYTES for _, part in rows]
    numbers = np.repeat(np.array([number[term] for term, _ in rows], dtype=np.int64), sizes)
    if len(gone):
        live = _live(postings, gone)
        postings, numbers = postings[live], numbers[live]
    yield from _packed(words, postings, np.bincount(numbers, minlength=len(words)))


def _array(numbers: Iterable[int]) -> NDArray[np.int64]:
    import numpy as np

    return np.fromiter(numbers, np.int64)


def _live(postings: Postings, gone: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which postings are of chunks that are still there."""
    import numpy as np

    rows = postings["row"]
    live = np.ones(max(int(rows.max(initial=0)), int(gone.max())) + 1, dtype=bool)
    live[gone] = False
    found: NDArray[np.bool_] = live[rows]
    return found


def _packed(words: Sequence[str], postings: Postings, sizes: Any) -> Iterator[tuple[str, bytes]]:
    """The bytes of each word's postings, which lie behind each other; a word without any is left out."""
    packed = memoryview(postings.tobytes())
    end = 0
    for word, size in zip(words, sizes.tolist(), strict=True):
        start, end = end, end + size * _POSTING_BYTES
        if size:
            yield word, bytes(packed[start:end])
