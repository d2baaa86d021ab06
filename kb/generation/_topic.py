"""What a passage is about, as far as a question names it: what is left of the question asks for something.

A passage names its matter once, mostly at its beginning or in a title above it, and then speaks of "it" or of nothing:
「王永吉，号铁山。… 谥文通。」. A question names it too: 「王永吉的谥号是什么？」. By likeness to the whole question
the sentence that names the matter comes first, whatever it says of it. Likeness to the rest of the question,
「的谥号是什么？」, finds the one that answers.
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher

from kb.sentences import CJK
from kb.words import content_terms

_TOKEN = re.compile(rf"[{CJK}]|[^\W{CJK}]+")
_PARTICLES = "的是在由被了はがをにのでとも"
_LEAST_CJK = 2
"""Characters; a single one that two texts share is an accident."""


def without_topic(question: str, beginnings: tuple[str, ...]) -> str | None:
    """The question without the longest run of words that it shares with one of `beginnings`.

    >>> without_topic("Who improved the Savery water pump?", ("Savery water pump (1698)",))
    'Who improved the ?'

    Returns:
        None when nothing that says anything is shared, or nothing would be left.
    """
    asked = list(_TOKEN.finditer(question))
    words = [found.group().casefold() for found in asked]
    best = (0, 0, 0)
    for beginning in beginnings:
        others = [found.group().casefold() for found in _TOKEN.finditer(beginning)]
        first, last = _trimmed(words, *_shared(words, others))
        if first < last and content_terms(question[asked[first].start() : asked[last - 1].end()]):
            best = max(
                best, (asked[last - 1].end() - asked[first].start(), asked[first].start(), asked[last - 1].end())
            )
    length, start, end = best
    rest = " ".join(f"{question[:start]} {question[end:]}".split()) if length else ""
    return rest if content_terms(rest) else None


def _shared(words: list[str], others: list[str]) -> tuple[int, int]:
    """The longest run of `words` that stands in `others` too; of equals the first."""
    match = SequenceMatcher(None, words, others, autojunk=False).find_longest_match()
    return match.a, match.a + match.size


def _trimmed(words: list[str], first: int, last: int) -> tuple[int, int]:
    """The run without particles at its ends; nothing when it is a single Chinese or Japanese character."""
    while first < last and words[first] in _PARTICLES:
        first += 1
    while first < last and words[last - 1] in _PARTICLES:
        last -= 1
    return (first, last) if sum(map(len, words[first:last])) >= _LEAST_CJK else (first, first)
