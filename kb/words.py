"""Words in every script: what keyword search, quoting and checking compare.

Text with spaces gives case-folded words, English ones as their stems (Porter's Snowball algorithm), so
that `refunded` is found by `refunds`; codes, versions and numbers stay whole (`err_429`,
`v2.3.1`, `1,200`). Chinese and Japanese have no spaces: their runs give character bigrams, the
usual unit for them (Nie et al. 2000, doi:10.1145/355214.355235), so `パスワード` is found in
`パスワード再設定`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import cached_property
from operator import add
from threading import local
from typing import Any

# Without the middle dot ・ (U+30FB) and ゠ (U+30A0), which part words as a hyphen does.
_KANA = r"\u3040-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
_HAN = r"\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
_HAN_KANA = _HAN + _KANA
_TOKEN = re.compile(rf"[{_HAN_KANA}]+|[^\W{_HAN_KANA}]+(?:[.,'’\-@/:][^\W{_HAN_KANA}]+)*", re.UNICODE)
_CJK = re.compile(rf"[{_HAN_KANA}]")
_CJK_RUN = re.compile(rf"[{_HAN_KANA}]+")
_PART = re.compile(r"[.,'’\-@/:_]")

# A letter first, as "19th" and "24-hour" are none; then a digit or an underscore within.
_IDENTIFIER = re.compile(r"(?=.{4})(?=[^_]*[a-z].*[0-9_])[a-z_][a-z0-9_.\-@/:]*[a-z0-9]")

_SHORTEST_STEMMED = 4

_KNOWN_TOKENS = 100_000
"""Tokens whose terms are kept, in some 12 MB."""
_KNOWN_CHARACTERS = 32

_CLOSED_CLASS = """
    a about after all also am an and any are as at be been before being but by can could did do does doing done each
    for from get gets give given had has have having he her here him his how i if in into is it its itself just many may
    me might more most much must my no not of off on once one only or other our out over own per please s same shall she
    should so some such t tell than that the their them then there these they this those through to too under until up
    us very was we were what when where which while who whom whose why will with would you your
"""
STOP_WORDS = frozenset(_CLOSED_CLASS.split())
"""Closed-class English words; they say nothing about what a question is about."""

# "don't", "we'll", "what's": the word before the ending, "ca" and "wo" being "can" and "will".
_CONTRACTION = re.compile(r"(.+?)(?:n't|'(?:d|ll|m|re|s|ve))")
_CONTRACTED = STOP_WORDS | {"ca", "sha", "wo"}

# Bigrams of question words and grammar. Japanese needs few: most of its grammar is in hiragana.
_CJK_GRAMMAR = """
    什么 怎么 么样 怎样 如何 多少 几个 哪里 哪些 哪个 为什 可以 是否 有没 没有 请问 我们 你们 他们 需要 应该
    一个 这个 那个 的是 是什 时候 么时 何で
"""
_CJK_STOP = frozenset(_CJK_GRAMMAR.split())


def has_cjk(text: str) -> bool:
    """Whether a text holds any Han, hiragana or katakana."""
    return _CJK.search(text) is not None


def terms(text: str) -> list[str]:
    """The terms of a text in order, with repetition.

    A compound such as `ERR_429_RATE` or `two-factor` gives itself and its parts, so that either
    form finds the other. A lone Han or kana character gives itself.
    """
    return joined_terms(text).split()


def joined_terms(text: str) -> str:
    """The same as one string, with white space between them."""
    tokens = _TOKEN.findall(unicodedata.normalize("NFKC", text).casefold().replace("’", "'"))
    return " ".join(map(_known.__getitem__, tokens))


class _Known(dict[str, str]):
    """The terms of tokens, as one string each; most tokens of a base come again and again."""

    def __missing__(self, token: str) -> str:
        found = " ".join(_terms_of(token))
        if len(token) <= _KNOWN_CHARACTERS:
            if len(self) >= _KNOWN_TOKENS:
                self.clear()
            self[token] = found
        return found


_known = _Known()


def _terms_of(token: str) -> Iterable[str]:
    if not token.isascii() and _CJK.match(token):
        return map(add, token, token[1:]) if len(token) > 1 else (token,)
    if token.isalnum():  # nothing joins parts, as in most words
        return (_stem(token),)
    parts = _parts(token)
    found = [token] if parts else []  # a rule of underscores has none
    return found if parts == [token] or _is_contraction(token) else found + [_stem(part) for part in parts]


def _stem(word: str) -> str:
    """What forms of an English word have in common; any other token as it is."""
    if len(word) < _SHORTEST_STEMMED or word in STOP_WORDS or not (word.isascii() and word.isalpha()):
        return word
    stem: str = _stemmers.english.stemWord(word)
    return stem


class _Stemmers(local):
    """One for each thread: it keeps the word that it works on in itself."""

    @cached_property
    def english(self) -> Any:
        from snowballstemmer import stemmer

        return stemmer("english")


_stemmers = _Stemmers()


def identifiers(text: str) -> list[str]:
    """The codes, versions and names of code in a text, case-folded: `err_429`, `v2.3.1`, `max_retries`."""
    tokens = _TOKEN.findall(unicodedata.normalize("NFKC", text).casefold())
    return list(dict.fromkeys(token for token in tokens if _IDENTIFIER.fullmatch(token)))


def content_terms(text: str) -> list[str]:
    """The terms that carry meaning: without stop words and without pure grammar in kana."""
    return [term for term in terms(text) if not _is_grammar(term)]


def _parts(token: str) -> list[str]:
    return [part for part in _PART.split(token) if part]


def _is_contraction(term: str) -> bool:
    """Whether a term is a stop word with an ending, such as "don't"; a possessive such as "user's" is not."""
    match = _CONTRACTION.fullmatch(term)
    return match is not None and match.group(1) in _CONTRACTED


def _is_grammar(term: str) -> bool:
    """Stop words, alone or joined ("and/or"); a bigram of two hiragana is nearly always an ending or a particle."""
    return (
        term in _CJK_STOP
        or (len(term) <= 2 and all("\u3040" <= c <= "\u309f" for c in term))
        or all(part in STOP_WORDS for part in _parts(term))
        or _is_contraction(term)
    )


# Letters of scripts that one language, or a few near ones, are written in; the rest counts as Latin.
_SCRIPTS = (
    ("hangul", re.compile(r"[\uac00-\ud7a3]")),
    ("cyrillic", re.compile(r"[\u0400-\u04ff]")),
    ("arabic", re.compile(r"[\u0600-\u06ff]")),
    ("devanagari", re.compile(r"[\u0900-\u097f]")),
    ("thai", re.compile(r"[\u0e00-\u0e7f]")),
    ("hebrew", re.compile(r"[\u0590-\u05ff]")),
    ("greek", re.compile(r"[\u0370-\u03ff]")),
)
_KANA_LETTER = re.compile(r"[\u3041-\u30ff]")
_LETTERS = re.compile(r"[^\W\d_]+")
_SCRIPT_SAMPLE = 1000
_NO_LETTERS = bytes(code for code in range(128) if not chr(code).isalpha())
# A Han or kana character says as much as two or three letters, and code or names stand in Latin letters.
_CJK_SHARE = 0.2
_KANA_SHARE = 0.1


def script(text: str) -> str:
    """The script that a text is written in: `japanese`, `han`, `hangul`, `cyrillic` …, else `latin`.

    Decided by the letters at its beginning; a text without letters is `latin`.
    """
    sample = text[:_SCRIPT_SAMPLE]
    ascii_only = sample.encode("ascii", "ignore")
    if len(sample) - len(ascii_only) < _CJK_SHARE * len(ascii_only.translate(None, _NO_LETTERS)):
        return "latin"  # so few other characters decide nothing, whatever they are
    letters = "".join(_LETTERS.findall(sample))
    cjk = sum(map(len, _CJK_RUN.findall(letters)))
    if letters and cjk >= _CJK_SHARE * len(letters):
        return "japanese" if len(_KANA_LETTER.findall(letters)) >= _KANA_SHARE * cjk else "han"
    for name, pattern in _SCRIPTS:
        if len(pattern.findall(letters)) * 2 > len(letters):
            return name
    return "latin"
