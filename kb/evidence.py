"""Which sentences of some texts have most of what a statement says.

Words weigh by how few of the sentences hold them; a number weighs as much as a word of one sentence, and is found by
its value, however it is written (kb.quantities).
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from kb.quantities import Quantity, agrees, quantities
from kb.sentences import Span, sentence_spans
from kb.words import content_terms, script

ANOTHER_SENTENCE = 0.1
"""A further sentence belongs to the evidence when it has so much more of the claim."""
MOST_SENTENCES = 4


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of a source."""

    source: int
    """Which of the sources."""
    span: Span
    text: str
    terms: frozenset[str]
    spaceless: bool
    """Its source is written without spaces between words: Chinese or Japanese."""

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        """Its numbers, dates and times."""
        return quantities_of(self.text)

    @property
    def key(self) -> str:
        """It as it counts when two are compared letter by letter."""
        return key_of(self.text)


@dataclass(frozen=True, slots=True)
class Reading:
    """Some sources, read."""

    sources: tuple[str, ...]
    sentences: tuple[Sentence, ...]
    counts: Mapping[str, int]
    """In how many sentences each word is."""
    scripts: frozenset[bool]
    """Whether there are sources that are `spaceless`, and others."""

    def has(self, quantity: Quantity) -> bool:
        """Whether one of the sources states a quantity."""
        return agrees(quantity, (one for sentence in self.sentences for one in sentence.quantities))


@lru_cache(maxsize=64)
def read(sources: tuple[str, ...]) -> Reading:
    """Read some sources; what was read last is kept, as the claims of an answer cite the same ones."""
    every = tuple(
        Sentence(index, span, text, terms, is_spaceless(source))
        for index, source in enumerate(sources)
        for span, text, terms in _read_one(source)
    )
    counts = Counter(term for sentence in every for term in sentence.terms)
    return Reading(sources, every, counts, frozenset(is_spaceless(source) for source in sources))


def read_ahead(sources: Sequence[str]) -> None:
    """Read each of some sources, so that `read` of any of them, and comparing with them, is fast."""
    for source in sources:
        for sentence in read((source,)).sentences:
            quantities_of(sentence.text)
            key_of(sentence.text)


def sentences_of(sources: Sequence[str]) -> list[str]:
    """The sentences of some sources, in order."""
    return [text for source in sources for _, text, _ in _read_one(source)]


@lru_cache(maxsize=512)
def _read_one(source: str) -> tuple[tuple[Span, str, frozenset[str]], ...]:
    texts = [((start, end), source[start:end]) for start, end in sentence_spans(source)]
    return tuple((span, text, frozenset(content_terms(text))) for span, text in texts)


@lru_cache(maxsize=4096)
def quantities_of(sentence: str) -> tuple[Quantity, ...]:
    """The numbers, dates and times of a sentence, kept for the next claim."""
    return tuple(quantities(sentence))


@lru_cache(maxsize=1024)
def is_spaceless(text: str) -> bool:
    """Whether a text is written without spaces between words, in Chinese or Japanese."""
    return script(text) in ("han", "japanese")


_LIST_MARK = re.compile(r"^\s*(?:[-*+•・]\s+|#{1,6}\s+|\d{1,2}[.)、]\s*(?=\D))")
_ATTRIBUTION = re.compile(
    r"^(?:according to (?:the |this |that )?(?:text|document|source|passage|article|report)s?,?"
    r"|(?:the|this) (?:text|document|source|passage|article) (?:says|states|mentions|notes|explains)(?: that)?"
    r"|(?:根据|據|据|依据|依照)[^，,。]{0,8}(?:文|资料|資料|材料|文档|文件|内容)[^，,。]{0,3}[，,]"
    r"|(?:文中|文章|资料|文档)(?:提到|指出|说|显示|表明)[，,：:]?"
    r"|(?:本文|資料|文書|文章|テキスト)に(?:よると|よれば)、?)\s*",
    re.IGNORECASE,
)
_MARKUP = str.maketrans("", "", "*`")


def without_marks(sentence: str) -> str:
    """A sentence without what markdown and an answer put around it: "- **It is so.**", "According to the text, …"."""
    return _ATTRIBUTION.sub("", _LIST_MARK.sub("", sentence).translate(_MARKUP))


@lru_cache(maxsize=4096)
def key_of(sentence: str) -> str:
    """A sentence as it counts when two are compared letter by letter."""
    text = " ".join(unicodedata.normalize("NFKC", without_marks(sentence)).casefold().split())
    return text.strip(" .,;:!?。、\"'“”‘’()*_#-")


def find_evidence(terms: Sequence[str], checked: Sequence[Quantity], reading: Reading) -> tuple[float, list[int]]:
    """Find the sentences that together have most of a statement.

    Args:
        terms: Its words in their order.
        checked: Its numbers.
        reading: Where to look.

    Returns:
        How much of its weight they have, 0 to 1, and their places, best first; none when nothing was found.
    """
    sentences = reading.sentences
    most = math.log(1 + len(sentences))
    wanted = _without_straddling(terms, reading.counts)
    weight = {term: math.log(1 + len(sentences) / max(1, reading.counts.get(term, 0))) for term in wanted}
    total = sum(weight.values()) + most * len(checked)
    if not total:
        return 0.0, []
    held = [
        weight.keys() & sentence.terms | {f"#{i}" for i, one in enumerate(checked) if agrees(one, sentence.quantities)}
        for sentence in sentences
    ]
    weight |= {f"#{i}": most for i in range(len(checked))}
    covered: set[str] = set()
    evidence: list[int] = []
    while len(evidence) < MOST_SENTENCES:
        # Sorted, as a sum in another order may differ in the last digit.
        gains = [sum(sorted(weight[term] for term in one - covered)) for one in held]
        best = max(range(len(gains)), key=lambda i: (gains[i], -i))
        if gains[best] <= 0 or (evidence and gains[best] < ANOTHER_SENTENCE * total):
            break
        evidence.append(best)
        covered |= held[best]
    return min(1.0, sum(sorted(weight[term] for term in covered)) / total), evidence


def _without_straddling(terms: Sequence[str], known: Mapping[str, int]) -> dict[str, None]:
    """Each term once; without pairs of characters that only come of words standing side by side.

    Where AB and CD stand in the sources, "BC" says nothing: it is the seam of two words.
    """
    wanted: dict[str, None] = {}
    for i, term in enumerate(terms):
        if len(term) == 2 and term not in known and 0 < i < len(terms) - 1:
            before, after = terms[i - 1], terms[i + 1]
            if before[-1:] == term[0] and after[:1] == term[1] and before in known and after in known:
                continue
        wanted[term] = None
    return wanted
