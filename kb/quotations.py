"""Words that an answer puts in quotation marks, and where a source holds them.

They have to stand there as they are, but for what printing changes: white space, a word that is hyphenated over
two lines, the form of quotation marks and dashes, the case of the first letter, a stop at the end. "a … b" is two
pieces, in this order in one source.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from kb.sentences import CJK, Span

# Shorter quoted words are names and titles, not quotations of the source.
LEAST_CHARACTERS = 12
LEAST_CJK_CHARACTERS = 6

_CJK = re.compile(f"[{CJK}]")
_QUOTED = re.compile(
    r"“([^“”\n]+)”|(?<!\w)\"([^\"\n]+)\"|「([^「」\n]+)」|『([^『』\n]+)』|«([^«»\n]+)»|„([^„“”\n]+)[“”]"
    r"|(?<!\w)‘([^‘\n]{12,}?)’(?!\w)|(?<!\w)'([^'\n]{12,}?)'(?!\w)"
)
_ELLIPSIS = re.compile(r"\s*(?:[\[(（]\s*(?:…+|\.{3,})\s*[\])）]|…+|\.{3,}|(?:\. ){2,}\.)\s*")
_WIDE = "\u2e80"
"""From here on characters stand without spaces, so that a line may end after any of them."""
_ENDS = " .,;:!?。，、；：！？"
_QUOTES = "\"'“”‘’„«»「」『』"
_DASHES = "-‐‑–—−"
_SAME = ((_QUOTES, f"[{re.escape(_QUOTES)}]"), (_DASHES, f"[{re.escape(_DASHES)}]"))
# A hyphen at the end of a line, and a soft one anywhere, are not part of the word.
_INSIDE_WORD = r"(?:\u00ad|[-‐]\n[ \t]*)?"


def quotations(text: str) -> list[str]:
    """What a text puts in quotation marks, when it is long enough to be a quotation."""
    found = (next(filter(None, match.groups())).strip() for match in _QUOTED.finditer(text))
    return [quotation for quotation in found if _is_quotation(quotation)]


def _is_quotation(quotation: str) -> bool:
    return len(quotation) >= (LEAST_CJK_CHARACTERS if _CJK.search(quotation) else LEAST_CHARACTERS)


def find_quotation(quotation: str, source: str) -> Span | None:
    """Where a source holds a quotation, from its first piece to its last; None when it doesn't."""
    start, position = -1, 0
    for pattern in _patterns(quotation):
        found = pattern.search(source, position)
        if found is None:
            return None
        start = found.start() if start < 0 else start
        position = found.end()
    return (start, position) if start >= 0 else None


@lru_cache(maxsize=512)
def _patterns(quotation: str) -> tuple[re.Pattern[str], ...]:
    """One for each piece between ellipses."""
    pieces = [stripped for piece in _ELLIPSIS.split(quotation) if (stripped := piece.strip(_ENDS).strip())]
    return tuple(re.compile(_piece(piece)) for piece in pieces)


def _piece(piece: str) -> str:
    """A pattern for one piece; it begins and ends where words do."""
    words = piece.split()
    before = r"(?<!\w)" if words[0][0].isalnum() and not _CJK.match(words[0]) else ""
    after = r"(?!\w)" if words[-1][-1].isalnum() and not _CJK.match(words[-1][-1]) else ""
    return before + r"\s+".join(_word(word, first=not i) for i, word in enumerate(words)) + after


def _word(word: str, *, first: bool) -> str:
    written = [_character(character) for character in word]
    if first and word[0].isalpha() and word[0].lower() != word[0].upper():
        written[0] = f"[{re.escape(word[0].lower() + word[0].upper())}]"
    between = [r"\s*" if one >= _WIDE else _INSIDE_WORD if one.isalpha() else "" for one in word[:-1]]
    return "".join(map(str.__add__, written, [*between, ""]))


def _character(character: str) -> str:
    return next((pattern for characters, pattern in _SAME if character in characters), re.escape(character))


def missing_quotations(text: str, sources: Sequence[str]) -> list[str]:
    """The quotations of a text that none of the sources holds."""
    return [one for one in quotations(text) if not any(find_quotation(one, source) for source in sources)]
