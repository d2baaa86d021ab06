"""From spans to chunks: ids, pages, heading paths and contextual headers, the same for every chunker."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from kb.abilities import CountsTokens, CountsWords, NamesVocabulary
from kb.chunking._counting import CountWords
from kb.components import Parts
from kb.errors import ConfigError
from kb.records import DOCUMENT_DIGITS, Block, Chunk, Document, Heading

Span: TypeAlias = tuple[int, int]

# Stands between the parts of a header; the same sign joins heading paths for people.
_ARROW = " › "
# Between a header and its text. Tokenizers split at blank lines before anything else, so the two
# counts add up but for this joint; where less than `_JOINT_TOKENS` is to spare the whole is counted.
_JOINT = "\n\n"
_JOINT_TOKENS = 8
# A header must leave so much to the text behind it, which is what counts.
_LEAST_TEXT_TOKENS = 16
_ID_DIGITS = 32


@dataclass(frozen=True, slots=True)
class Budget:
    """How many tokens of the embedder go to what."""

    count_tokens: Callable[[str], int]
    """The embedder's own count."""
    text_tokens: int
    """The most tokens of a chunk's text."""
    header_tokens: int
    """The most tokens of its header, the blank line behind it included; 0 for no header."""
    room: int
    """The most tokens of both together: what the embedder takes, less what it adds to every text."""
    count_words: CountWords | None = None
    """The embedder's count by words, when it has one."""


def open_budget(section: str, text_tokens: int | None, header_tokens: int, parts: Parts) -> Budget:
    """Check the sizes of a chunker's options against the embedder that the chunks are for.

    Args:
        section: The chunker's section in config.toml, for messages.
        text_tokens: The most tokens of a chunk's text; None, where sizes are not in tokens, for all that the header
            leaves.
        header_tokens: The most tokens of its header.
        parts: Lends the embedder and its count.

    Raises:
        ConfigError: a chunk with its header would not fit the embedder, or there is none that counts.
    """
    if parts.embedder is None or parts.count_tokens is None:
        raise ConfigError(f'[{section}] needs an embedder that counts tokens; [embedding] use = "e5" is one')
    overhead = parts.embedder.token_overhead if isinstance(parts.embedder, CountsTokens) else 0
    room = parts.embedder.max_tokens - overhead
    if text_tokens is None:
        text_tokens = room - header_tokens
        if text_tokens < _LEAST_TEXT_TOKENS:
            raise ConfigError(
                f"[{section}] header_tokens = {header_tokens} leaves too little of what {parts.embedder.name} takes "
                f"({room} tokens): lower header_tokens to {max(0, room - _LEAST_TEXT_TOKENS)} or less"
            )
    if text_tokens + header_tokens > room:
        raise ConfigError(
            f"[{section}] size_tokens = {text_tokens} and header_tokens = {header_tokens} are more together than "
            f"{parts.embedder.name} takes ({room} tokens): lower size_tokens to {max(0, room - header_tokens)} or less"
        )
    count_words = parts.embedder.count_words if isinstance(parts.embedder, CountsWords) else None
    return Budget(parts.count_tokens, text_tokens, header_tokens, room, count_words)


def counted_for(parts: Parts) -> str:
    """What the sizes of chunks are counted by, for a chunker's fingerprint: the embedder, and its vocabulary.

    A vocabulary that could not be had at one ingest may be there at the next, and then cuts otherwise.
    """
    if parts.embedder is None:
        return ""
    fingerprint = parts.embedder.fingerprint
    if isinstance(parts.embedder, NamesVocabulary):
        return f"{fingerprint} counted by {parts.embedder.counts_by}"
    return fingerprint


def build_chunks(document: Document, spans: Iterable[Span], limits: Budget) -> tuple[Chunk, ...]:
    """Make chunks of spans with rising starts: trimmed, blank ones dropped."""
    outline = _Outline(document.headings, document.text)
    headers = _Headers(document, limits)
    page_starts = [page.start for page in document.pages]
    seen: Counter[str] = Counter()
    chunks = []
    for span in spans:
        start, end = trim(document.text, *span)
        if start == end:
            continue
        text = document.text[start:end]
        path = outline.path(start)
        chunks.append(
            Chunk(
                id=chunk_id(document.id, text, seen[text]),
                document_id=document.id,
                text=text,
                start=start,
                end=end,
                page=document.pages[max(0, bisect_right(page_starts, start) - 1)].number if page_starts else None,
                heading_path=path,
                header=headers.header(path, start, text),
            )
        )
        seen[text] += 1
    return tuple(chunks)


def chunk_id(document_id: str, text: str, occurrence: int) -> str:
    """Name a chunk by its document, its text and how often that text came before in the document.

    An edit elsewhere in the document, or a move within it, leaves the id alone. The ids of one document begin alike
    and so lie together in every index: writing a document touches a few of an index's pages, not one for each chunk.
    """
    document = hashlib.sha256(document_id.encode()).hexdigest()[:DOCUMENT_DIGITS]
    own = hashlib.sha256(f"{document_id}\0{occurrence}\0{text}".encode()).hexdigest()
    return document + own[: _ID_DIGITS - DOCUMENT_DIGITS]


def trim(text: str, start: int, end: int) -> Span:
    """Shrink a span so that it begins and ends with a character that is not white space."""
    part = text[start:end]
    left = len(part) - len(part.lstrip())
    right = len(part.rstrip())
    return (start + left, start + right) if left < right else (start, start)


class _Outline:
    """Answers which headings are open at an offset."""

    def __init__(self, headings: Sequence[Heading], text: str) -> None:
        self._starts = [heading.start for heading in headings]
        self._paths: list[tuple[str, ...]] = []
        open_headings: list[Heading] = []
        for heading in headings:
            while open_headings and open_headings[-1].level >= heading.level:
                open_headings.pop()
            open_headings.append(heading)
            self._paths.append(tuple(h.text for h in open_headings if h.text))
        # Heading lines that follow each other at once are read together: a text that begins with
        # the first of them is about what the last one says.
        for index in range(len(headings) - 2, -1, -1):
            if not text[headings[index].end : headings[index + 1].start].strip():
                self._paths[index] = self._paths[index + 1]

    def path(self, offset: int) -> tuple[str, ...]:
        """The heading path of a text that begins at `offset`, outermost first."""
        index = bisect_right(self._starts, offset) - 1
        return self._paths[index] if index >= 0 else ()


class _Headers:
    """Writes title › heading path, and the head row of a table that is continued, within the budget."""

    def __init__(self, document: Document, limits: Budget) -> None:
        self._text = document.text
        self._title = " ".join(document.title.split())
        self._limits = limits
        self._tables: list[Block] = [block for block in document.blocks if block.kind == "table"]
        self._table_starts = [block.start for block in self._tables]
        self._written: dict[tuple[tuple[str, ...], str, int], str] = {}

    def header(self, path: tuple[str, ...], start: int, text: str) -> str:
        """The header of the chunk `text` that begins at `start` below the headings of `path`."""
        limits = self._limits
        tokens = limits.header_tokens
        row = self._head_row(start)
        header = self._within(path, row, tokens)
        if limits.text_tokens + limits.header_tokens + _JOINT_TOKENS <= limits.room:
            return header
        while header and (excess := limits.count_tokens(header + _JOINT + text) - limits.room) > 0:
            tokens = min(tokens, limits.count_tokens(header + _JOINT)) - excess
            header = self._within(path, row, tokens)
        return header

    def _within(self, path: tuple[str, ...], row: str, tokens: int) -> str:
        key = path, row, tokens
        if key not in self._written:
            self._written[key] = self._write(path, row, tokens)
        return self._written[key]

    def _write(self, path: tuple[str, ...], row: str, tokens: int) -> str:
        """What fits, in this order: the table's head row, the innermost heading, the title, the rest from outside."""
        if tokens <= 0:
            return ""
        count = self._limits.count_tokens
        if row and count(row + _JOINT) > tokens:
            row = ""
        names = [" ".join(name.split()) for name in path]
        if self._title and names[:1] != [self._title]:
            names.insert(0, self._title)
        while True:
            header = _JOINT.join(filter(None, (_ARROW.join(names), row)))
            if not header or count(header + _JOINT) <= tokens:
                return header
            del names[-2 if len(names) > 2 else 0]

    def _head_row(self, start: int) -> str:
        """The first row of the table that `start` lies in, when it lies behind that row."""
        index = bisect_right(self._table_starts, start) - 1
        if index < 0 or start >= self._tables[index].end:
            return ""
        table = self._tables[index]
        end = self._text.find("\n", table.start, table.end)
        if end < 0:
            end = table.end
        row = self._text[table.start : end].strip()
        return row if start >= end else ""
