"""Names in a claim that its source doesn't have.

A name is told by how it is written: capital letters within an English sentence, Latin letters or katakana in
Chinese and Japanese text. Chinese names look like any other words; see kb/alignment.py.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache

from kb.sentences import CJK
from kb.words import STOP_WORDS

_LATIN_WORD = re.compile(rf"[^\W_{CJK}]+(?:['’.\-&_][^\W_{CJK}]+)*")
_KATAKANA = re.compile(r"[ァ-ヺー]{3,}")
_CJK = re.compile(f"[{CJK}]")
_STARTS_AFTER = re.compile(r"(?:^|[.!?:;—–•|]|[\"“‘(\[]|\n)[\s\"“‘(\[]*$")
COMMON_CAPITALS = frozenset(
    [
        "i",
        "i'm",
        "i'll",
        "i've",
        "i'd",
        "ok",
        "monday",
        "tuesday",
        "wednesday",
        "thursday",
        "friday",
        "saturday",
        "sunday",
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
        "bc",
        "ad",
        "ce",
        "bce",
        "am",
        "pm",
    ]
)
_TITLE_CASE_SHARE = 0.6
"""Of a claim's words: where so many have capitals, as in a heading, they mark no names."""
_LEAST_JOINED = 5

_NATIONS = """
french france | spanish spain | dutch netherlands | greek greece | swiss switzerland | welsh wales | english england
| polish poland | danish denmark | turkish turkey | swedish sweden | finnish finland | irish ireland | thai thailand
| scottish scotland | british britain | chinese china | german germany | norwegian norway | portuguese portugal
| american america | american us | american usa | british uk | uk britain | us usa | eu europe | european europe
"""
_NATION: dict[str, set[str]] = {}
for _pair in _NATIONS.split("|"):
    _one, _other = _pair.split()
    _NATION.setdefault(_one, set()).add(_other)
    _NATION.setdefault(_other, set()).add(_one)
_ENDING = re.compile(r"(?:ese|ians?|ans?|n|ish|ic|s|ists?|ism|ia|a|y|e)$")
_LEAST_STEM = 4


@lru_cache(maxsize=1024)
def _known(source: str) -> tuple[frozenset[str], str, frozenset[str]]:
    """The words of a source, folded; all in one; the initials of its capitalised words."""
    plain = unicodedata.normalize("NFKC", source)
    words: set[str] = set()
    initials: list[str] = []
    for found in _LATIN_WORD.finditer(plain):
        word = found.group()
        folded = fold(word)
        words.update((folded, folded.replace(".", ""), *re.split(r"['.\-&_]", folded)))
        if word[0].isupper():
            initials.append(word[0])
        elif folded not in STOP_WORDS:
            initials.append(" ")
    return frozenset(words), re.sub(r"[\s-]", "", fold(plain)), frozenset("".join(initials).lower().split())


def fold(word: str) -> str:
    """Without case, accents and a possessive ending."""
    if not word.isascii():
        decomposed = unicodedata.normalize("NFD", word.replace("’", "'"))
        word = unicodedata.normalize("NFC", "".join(c for c in decomposed if not "\u0300" <= c <= "\u036f"))
    folded = word.casefold()
    return folded.removesuffix("'s").removesuffix("'")


def missing_names(claim: str, sources: Sequence[str]) -> list[str]:
    """The names of a claim that no source has, in order, words that stand together as one."""
    text = unicodedata.normalize("NFKC", claim)
    known = [_known(source) for source in sources]
    missing: list[tuple[int, int]] = []
    for start, end in _names(text):
        if any(_has(text[start:end], *one) for one in known):
            continue
        if missing and not text[missing[-1][1] : start].strip():
            missing[-1] = missing[-1][0], end
        else:
            missing.append((start, end))
    return list(dict.fromkeys(text[start:end] for start, end in missing))


def _names(text: str) -> Iterator[tuple[int, int]]:
    """What is surely a name or a code, by how it is written."""
    cjk = _CJK.search(text) is not None
    words = list(_LATIN_WORD.finditer(text))
    capitals = sum(found.group()[0].isupper() for found in words)
    titled = not cjk and len(words) > 2 and capitals >= _TITLE_CASE_SHARE * len(words)
    for i, found in enumerate(words):
        word = found.group()
        if _is_name(text, words, i, cjk=cjk, titled=titled):
            yield found.start(), found.start() + len(word.rstrip(".'’"))
    for found in _KATAKANA.finditer(text):
        yield found.span()


def _is_name(text: str, words: Sequence[re.Match[str]], i: int, *, cjk: bool, titled: bool) -> bool:
    word = words[i].group()
    letters = [character for character in word if character.isalpha()]
    if not letters or fold(word) in COMMON_CAPITALS or (len(word) == 1 and not cjk):
        return False
    if any(character.isdigit() for character in word):  # a code: F-16, G7412; but not 30kg, 19th
        return word[0].isalpha() or (sum(map(str.isupper, word)) > 1 and len(word) > 3)
    if cjk:
        return len(letters) > 1 or word[0].isupper()
    if sum(map(str.isupper, letters)) > 1 and len(word) > 1 and not titled:
        return True
    if not word[0].isupper() or titled or fold(word) in STOP_WORDS:
        return False
    if _STARTS_AFTER.search(text, max(0, words[i].start() - 4), words[i].start()) is None and i > 0:
        return True
    # The first word of a sentence has a capital anyway; it is a name when another one follows it at once.
    after = words[i + 1] if i + 1 < len(words) else None
    return after is not None and after.group()[0].isupper() and text[words[i].end() : after.start()] == " "


def _has(name: str, words: frozenset[str], joined: str, initials: frozenset[str]) -> bool:
    """Whether a source has a name, or a form of it: its adjective, its initials, written as one word."""
    folded = fold(name)
    if folded in words or folded.replace(".", "") in words:
        return True
    joins = not folded.isascii() or any(map(str.isdigit, folded)) or len(folded) >= _LEAST_JOINED
    if joins and re.sub(r"[\s-]", "", folded) in joined:
        return True
    if "-" in folded and all(part in words for part in folded.split("-")):
        return True
    if name.isupper() and any(folded.replace(".", "") in one for one in initials):
        return True
    if _NATION.get(folded, frozenset()) & words:
        return True
    stem = _ENDING.sub("", folded)
    return len(stem) >= _LEAST_STEM and any(word.startswith(stem) and _ENDING.sub("", word) == stem for word in words)
