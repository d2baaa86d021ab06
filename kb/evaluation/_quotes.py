"""What a quote is worth beside what people marked, and an answer beside the right ones."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

from kb.markers import find_markers
from kb.sentences import CJK, Span

LEAST_OVERLAP = 0.8
"""So much of a sentence has to be evidence."""
_TOKEN = re.compile(rf"[{CJK}]|[^\W{CJK}]+")
_ARTICLES = frozenset({"a", "an", "the"})


def is_evidence(text: str, quote: Span, evidences: Sequence[Span]) -> bool:
    """Whether a sentence of `text` is what somebody marked as evidence, but for a fifth at most.

    Lengths are letters and digits, of whatever script; punctuation and spaces don't count. With q the length of the
    quote, e that of the evidence and o that of what they share, one of two has to hold:

    - o ≥ 0.8 × (q + e) / 2: the two are nearly the same (Dice's coefficient);
    - o ≥ 0.8 × q: nearly all of the quote is marked. The evidence may be longer, as it may be several sentences.

    So a long quote that holds a marked clause and as much again is none, nor is a whole passage that holds the evidence
    somewhere: quoting more never helps.
    """
    own = _length(text, quote)
    for evidence in evidences:
        shared = _length(text, (max(quote[0], evidence[0]), min(quote[1], evidence[1])))
        if shared and shared >= LEAST_OVERLAP * min(own, (own + _length(text, evidence)) / 2):
            return True
    return False


def touches(text: str, quote: Span, evidences: Sequence[Span]) -> bool:
    """The same of the shorter of the two: a marked clause of the sentence is enough (the overlap coefficient)."""
    own = _length(text, quote)
    for evidence in evidences:
        shared = _length(text, (max(quote[0], evidence[0]), min(quote[1], evidence[1])))
        if shared and shared >= LEAST_OVERLAP * min(own, _length(text, evidence)):
            return True
    return False


def _length(text: str, span: Span) -> int:
    return sum(letter.isalnum() for letter in text[span[0] : max(span)])


def best_f1(answer: str, right: Sequence[str]) -> float:
    """The highest F1 of an answer's tokens beside those of a right one, as SQuAD has it.

    Words without case, punctuation and English articles; of Chinese and Japanese, characters. Markers are left out.
    Rajpurkar et al. 2016, doi:10.18653/v1/D16-1264; for Chinese Cui et al. 2019, doi:10.18653/v1/D19-1600.
    """
    for marker in reversed(find_markers(answer)):
        answer = answer[: marker.start] + answer[marker.end :]
    given = _tokens(answer)
    return max((_f1(given, _tokens(one)) for one in right), default=0.0)


def _tokens(text: str) -> Counter[str]:
    return Counter(
        token for token in _TOKEN.findall(unicodedata.normalize("NFKC", text).casefold()) if token not in _ARTICLES
    )


def _f1(given: Counter[str], right: Counter[str]) -> float:
    shared = (given & right).total()
    return 2 * shared / (given.total() + right.total()) if shared else 0.0
