"""Where a quote from a page's text stands among the characters that are drawn on the page.

The text was mended when it was loaded: words that were divided are whole, line breaks in Chinese and Japanese are
closed, ligatures are letters, headers that repeat are gone. So both are compared by what no mending changes.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache

_HYPHENS = frozenset("-\u00ad\u2010\u2011")
_UNSEEN = frozenset(("Cc", "Cf", "Cn", "Cs", "Zs", "Zl", "Zp"))
"""Categories of what is dropped or changed at loading: controls, marks of direction, blanks."""
_LAM, _ALEF = "\u0644", "\u0627"
"""pdfium has the two letters of their ligature in either order, so both are one letter here."""
_CONTEXT = 60
"""Letters around a quote that tell which of several equal places is meant."""
_MOST_PLACES = 1000
_LEAST_PIECE = 8
"""Letters: a shorter piece of a quote stands anywhere."""
_LEAST_SHARE = 0.5
"""Of a quote's letters; where fewer are found, it is another text."""


def find_quote(text: str, start: int, end: int, drawn: Sequence[str]) -> list[int]:
    """Find a quote among the characters of its page; their indices in `drawn`, rising.

    Args:
        text: The page's text as it was loaded.
        start: Where in it the quote begins.
        end: And ends.
        drawn: The page's characters in the order in which they are read; an empty one counts as none.
    """
    before, wanted, after = (_letters(part)[0] for part in (text[:start], text[start:end], text[end:]))
    letters, places = _letters(drawn)
    if not wanted:
        return []
    at = _nearest(before, wanted, after, letters)
    spans = [(at, at + len(wanted))] if at is not None else list(_pieces(wanted, letters))
    if sum(stop - first for first, stop in spans) < _LEAST_SHARE * len(wanted):
        return []
    return sorted({places[place] for first, stop in spans for place in range(first, stop)})


def _letters(characters: Sequence[str]) -> tuple[str, list[int]]:
    """What is compared of some characters, and the index of the one that each letter is of."""
    letters: list[str] = []
    places: list[int] = []
    for index, character in enumerate(characters):
        shown = _shown(character)
        letters.append(shown)
        places += [index] * len(shown)
    return "".join(letters), places


@lru_cache(maxsize=1 << 14)
def _shown(character: str) -> str:
    """A character without what may be written in several ways: forms of letters, marks above them, blanks, hyphens."""
    parts = unicodedata.normalize("NFKD", character).replace(_ALEF, _LAM)
    return "".join(
        part
        for part in parts
        if part not in _HYPHENS and not unicodedata.combining(part) and unicodedata.category(part) not in _UNSEEN
    )


def _nearest(before: str, wanted: str, after: str, letters: str) -> int | None:
    """Where `wanted` stands; of several places the one around which the text is most like `before` and `after`."""
    found: list[int] = []
    at = letters.find(wanted)
    while at >= 0 and len(found) < _MOST_PLACES:
        found.append(at)
        at = letters.find(wanted, at + 1)
    if len(found) < 2:
        return found[0] if found else None
    share = len(before) / max(1, len(before) + len(after))

    def likeness(place: int) -> tuple[int, float]:
        stop = place + len(wanted)
        alike = _alike(letters[max(0, place - _CONTEXT) : place][::-1], before[-_CONTEXT:][::-1])
        alike += _alike(letters[stop : stop + _CONTEXT], after[:_CONTEXT])
        return alike, -abs(place / max(1, len(letters) - len(wanted)) - share)

    return max(found, key=likeness)


def _alike(one: str, other: str) -> int:
    """So many letters are the same at the beginning."""
    length = 0
    for letter, another in zip(one, other, strict=False):
        if letter != another:
            break
        length += 1
    return length


def _pieces(wanted: str, letters: str) -> Iterator[tuple[int, int]]:
    """The parts of a quote that are found, in their order, where something stands between them: halves of halves."""
    done = 0
    waiting = [wanted]
    while waiting:
        piece = waiting.pop()
        at = letters.find(piece, done)
        if at >= 0:
            done = at + len(piece)
            yield at, done
        elif len(piece) >= 2 * _LEAST_PIECE:
            half = len(piece) // 2
            waiting += [piece[half:], piece[:half]]
