"""A client's name for a file as a name that every file system takes, and that is what it looks like."""

from __future__ import annotations

import re
import unicodedata

MOST_BYTES = 200
"""Of a name in UTF-8; systems take 255, and a number may be added."""

_DEVICES = frozenset(
    (
        *("con", "prn", "aux", "nul", "conin$", "conout$", "clock$"),
        *(f"{port}{number}" for port in ("com", "lpt") for number in "0123456789¹²³"),
    )
)
"""Names that Windows keeps for devices, with whatever suffix."""
_RESERVED = re.compile('[<>:"|?*\ufffd]')
"""What Windows refuses, and what stands for bytes that are no text."""
_JOINERS = "\u200c\u200d"
"""The only invisible characters that writing needs: Persian and Indic words, and emoji."""
_LIKE_OFFICE_LOCKS = "~$"


def safe_name(given: str) -> str:
    r"""Make a name safe; empty when nothing is left of it.

    The last part of a path, in NFC, on one line, without controls and marks that turn the direction of writing, without
    dots and blanks at its ends, no device's name, at most 200 bytes in UTF-8 with its suffix.

    >>> safe_name("../../etc/passwd.md")
    'passwd.md'
    >>> safe_name("C:\\notes\\NUL.txt")
    '_NUL.txt'
    >>> safe_name("cod\u202etxt.exe")
    'codtxt.exe'
    """
    last = re.split(r"[/\\]", given)[-1]
    shown = "".join(map(_shown, last))
    name = unicodedata.normalize("NFC", _RESERVED.sub("_", shown))
    name = _without_ends(" ".join(name.split()))
    name = _shortened(name)
    return f"_{name}" if name.partition(".")[0].rstrip().lower() in _DEVICES else name


def suffix_of(name: str) -> str:
    """What decides who reads it: lower case, with the dot; empty when the name has none."""
    dot = name.rfind(".")
    return name[dot:].lower() if dot > 0 else ""


def folded(name: str) -> str:
    """Equal for names that some file systems take for one: in another case, or another form of Unicode."""
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", name).casefold())


def numbered(name: str, number: int) -> str:
    """The name with a number before its suffix."""
    stem, suffix = _parted(name)
    return f"{stem}-{number}{suffix}"


def _shown(character: str) -> str:
    if character.isspace():
        return " "
    hidden = unicodedata.category(character).startswith("C") and character not in _JOINERS
    return "" if hidden else character


def _without_ends(name: str) -> str:
    former = None
    while former != name:
        former = name
        name = name.strip(" ").lstrip(".").rstrip(". ").removeprefix(_LIKE_OFFICE_LOCKS)
    return name


def _shortened(name: str) -> str:
    stem, suffix = _parted(name)
    kept = suffix.encode()[:MOST_BYTES]
    room = MOST_BYTES - len(kept)
    if len(stem.encode()) <= room and len(suffix.encode()) <= MOST_BYTES:
        return name
    cut = stem.encode()[:room].decode("utf-8", "ignore")
    return _without_ends(cut.rstrip(". ") + kept.decode("utf-8", "ignore"))


def _parted(name: str) -> tuple[str, str]:
    dot = name.rfind(".")
    return (name[:dot], name[dot:]) if dot > 0 else (name, "")
