"""Normalisation, done once: every loader passes its text through `clean`."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

_LINE_ENDS = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
_TERMINAL_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\))")
"""Colours and cursor moves (`CSI …`), titles and links (`OSC …`) of logs."""
_SURROGATE_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")

# Never part of what a reader sees: control characters; soft hyphens, zero-width spaces, word
# joiners and byte order marks, which split a word for every search; overrides and embeddings of
# direction, which show other text than is there; code points that are no characters.
# Kept: ZWJ and ZWNJ (emoji, Persian), the isolates and marks of direction.
_DROPPED = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u200b\u2060\ufeff\u202a-\u202e\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)
_DROPPED_ABOVE_16_BITS = re.compile(
    "[" + "".join(chr(plane * 0x10000 + last) for plane in range(1, 17) for last in (0xFFFE, 0xFFFF)) + "]"
)
"""Apart, and asked only where such characters are: one class of both is 15 times slower on Chinese text."""
_ABOVE_16_BITS = re.compile("[\U00010000-\U0010ffff]")

_ASCII_CONTROLS = bytes([*range(0x09), 0x0B, 0x0C, *range(0x0D, 0x20), 0x7F])

MAX_COMBINING = 30
"""Combining marks kept after one letter, as in Unicode's Stream-Safe format (UAX 15). Without a
limit, normalising a run of n marks takes time that grows with n² (200,000 marks: 42 s)."""
_LAST_MARK = 0x1E94A
"""The highest combining mark of Unicode 16."""


_RARE_SCRIPTS = re.compile(f"[\U000101fd-{chr(_LAST_MARK)}]")
"""Where combining marks above 16 bits lie; emoji and rare Han characters are higher."""


@cache
def _mark_run(last: int) -> re.Pattern[str]:
    marks = "[" + "".join(chr(code) for code in range(0x300, last + 1) if unicodedata.combining(chr(code))) + "]"
    return re.compile(f"{marks}{marks}{{{MAX_COMBINING},}}")  # two classes: the first is searched fast


def _limit_marks(text: str) -> str:
    """Cut runs of combining marks to `MAX_COMBINING`."""
    # A class within 16 bits is searched a hundred times faster, so the whole one waits for its need.
    rare = any(map(unicodedata.combining, set(_RARE_SCRIPTS.findall(text))))
    return _mark_run(_LAST_MARK if rare else 0xFFFF).sub(lambda run: run[0][:MAX_COMBINING], text)


def clean(text: str) -> str:
    r"""Normalise text: NFC, `\n` line ends, nothing invisible that breaks search or storage.

    Vertical tab, form feed, NEL and the Unicode line and paragraph separators end a line too.
    Surrogate pairs become the character they stand for, lone ones are dropped. Full-width forms
    and ligatures stay: NFC changes no letter. `clean(clean(text)) == clean(text)`.
    """
    if text.isascii() and len(text.encode("ascii").translate(None, _ASCII_CONTROLS)) == len(text):
        return text  # nothing to do, found out 50 times faster than by the patterns below
    text = _LINE_ENDS.sub("\n", text)
    if "\x1b" in text:
        text = _TERMINAL_ESCAPE.sub("", text)
    text = _SURROGATE_PAIR.sub(_paired, text)
    text = _DROPPED.sub("", text)
    if _ABOVE_16_BITS.search(text):
        text = _DROPPED_ABOVE_16_BITS.sub("", text)
    # Limited before, for the time that NFC takes, and after: it takes U+0344 and a few others apart.
    limited = _limit_marks(text)
    normal = unicodedata.normalize("NFC", limited)
    return normal if normal == limited else _limit_marks(normal)


def _paired(pair: re.Match[str]) -> str:
    return pair[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le")
