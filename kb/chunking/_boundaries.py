"""Where a text may be cut: kinds of boundary from the best to the last resort, and how each is found."""

from __future__ import annotations

import re
import unicodedata

from kb.records import BlockKind
from kb.sentences import sentence_spans

BLANK_LINE, LINE, SENTENCE, LINE_BREAK, CLAUSE, SPACE, CHARACTER, NEVER = range(8)

_ITEM = (
    r"\n\s*(?=[-*+•]\s|[・①-⑳]|[（(]?(?:\d{1,3}|[a-zA-Z])[.)）]\s|"
    r"(?:\d{1,3}|[一二三四五六七八九十]{1,3})[、．]|[（(][\d一二三四五六七八九十]{1,3}[）)])"
)
_PATTERNS = {
    BLANK_LINE: re.compile(r"\n[^\S\n]*\n\s*"),
    # A line that ends what it says, or begins an item. Other line breaks may only wrap a sentence,
    # which is worse to cut than to keep; they come after sentences.
    LINE: re.compile(r"[.!?…。！？｡؟।:：;；][\"'”’」』）)\]*_`]{0,4}[^\S\n]*\n\s*|" + _ITEM),
    LINE_BREAK: re.compile(r"\n\s*"),
    CLAUSE: re.compile(r"[,;:]\s+|[、，；：،؛]\s*"),
    SPACE: re.compile(r"\s+"),
}
_LIST_ITEM = re.compile(_ITEM)
_TABLE_RULE = re.compile(r"[\s|:+=-]*-[\s|:+=-]*")
_JOINER = "\u200d"
_SKIN_TONES = range(0x1F3FB, 0x1F400)
# Longer clusters than this are no writing; looking back only so far keeps the time linear.
_LONGEST_CLUSTER = 32


def cuts(text: str, start: int, end: int, boundary: int) -> list[int]:
    """Offsets in `text[start:end]` at which a new piece begins, rising."""
    if boundary == SENTENCE:
        return [start + left for left, _ in sentence_spans(text[start:end])]
    return [match.end() for match in _PATTERNS[boundary].finditer(text, start, end)]


def block_cuts(text: str, start: int, end: int, kind: BlockKind) -> list[int]:
    """Offsets of a block's rows, items or lines."""
    items = [match.end() for match in _LIST_ITEM.finditer(text, start, end)] if kind == "list" else []
    return items or [match.end() for match in _PATTERNS[LINE_BREAK].finditer(text, start, end)]


def table_head_rows(table: str) -> int:
    """How many rows stay with the first one: the next, and one more when that is only a rule."""
    rows = table.split("\n", 2)
    return 2 if len(rows) > 1 and _TABLE_RULE.fullmatch(rows[1]) else 1


def cluster_edge(text: str, start: int, stop: int, end: int) -> int:
    """Move a cut back out of an emoji sequence or a letter with its marks, when that leaves text."""
    edge = stop
    while start < edge < end and stop - edge < _LONGEST_CLUSTER:
        after = text[edge]
        joins = _JOINER in (after, text[edge - 1]) or ord(after) in _SKIN_TONES
        if not joins and not unicodedata.category(after).startswith("M"):
            return edge
        edge -= 1
    return stop
