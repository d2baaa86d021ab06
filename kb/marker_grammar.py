r"""What stands inside a bracket that cites: `1, 3-5`, `source 1`, `^1`, `1†L3-L5`, `来源：1`, `資料1と3`.

Letters, digits and stops of full width are read as the usual ones, and case does not count. Read are

- numbers with what models put between them: `1, 3-5`, `1;2`, `1 and 2`, `1、2和3`, `1と3`, `1 to 3`;
- signs before them: `#1`, and `^1` of a footnote, with the second sign of `^1^`;
- a word for a source before them, `source 1`, `Doc1`, `ref. 2`, `来源：1`, `出典: 1`, before each or before the
  first, with `see` or 参见 before it; after such a word 一 to 九十九 are numbers, too;
- what says where in the source, which does not count: `1, p. 3`, `1: handbook.md`, `source 1, 第3页`;
- what OpenAI's models were taught, `1†source`, `1†L3-L5` and `4:0†file.pdf`, of which the first number counts: a
  prompt that numbers its contexts gives a model no other number of a source.

Not read are superscripts (m² is a unit), years (`2024`), and an interval or array that begins at 0 (`0, 1`, `0-9`).

    >>> [cited and cited.numbers for cited in map(read, ["Sources 1, 3–5", "参见资料一和３", "step 1", "2024"])]
    [(1, 3, 4, 5), (1, 3), None, None]
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

MAX_INSIDE = 80
"""Characters inside a bracket; what is longer is prose."""
# "[1-4]" means four sources; a wider range is a span of years or a mistake, of which only the ends count.
MAX_RANGE = 20
# No prompt holds so many contexts, and "[2024] UKSC 5" or "〔2024〕" is a year.
_YEARS = range(1500, 2200)

# What models call what they were given. Not "note", "figure", "step", "article" or "section": documents have these.
_ENGLISH = """
source sources src context contexts ctx doc docs document documents ref refs reference references citation citations
cite cites cited passage passages excerpt excerpts snippet snippets chunk chunks
"""
_CHINESE = """
来源 來源 资料 資料 参考 參考 参考资料 參考資料 文档 文檔 文献 文獻
参考文献 參考文獻 引用 引用来源 引用來源 出处 出處 上下文
材料 片段 资料来源 資料來源 信息来源 参考来源 參考來源 参考文档 參考文檔 依据 依據
"""
_JAPANESE = """
出典 資料 参考 参考資料 文書 参考文書 文献 参考文献
引用 引用元 参照 参照元 典拠 根拠 根拠資料 情報源 抜粋 ソース コンテキスト
ドキュメント 文脈
"""
# In round brackets only what a document hardly calls its own parts; "(document 1)" may be an attachment.
_IN_ROUND = """
source sources context contexts 来源 來源 资料 資料 参考资料 參考資料 参考資料 出处 出處 出典 上下文 ソース コンテキスト
"""
_LABELS = frozenset(f"{_ENGLISH} {_CHINESE} {_JAPANESE}".split())
_LABELS_IN_ROUND = frozenset(_IN_ROUND.split())
_LEAD_INS = ("see also", "see", "cf.", "from", "per", "via", "参见", "參見", "参照", "参考", "见", "見")
_SEE = ("see also", "see", "cf.", "参见", "參見", "参照", "见", "見")
_NUMBER_WORDS = ("no.", "no", "nr.", "number", "numbers", "id", "编号", "編號", "番号", "第")
_JOINING = ("and", "&", "・", "·", "以及", "和", "与", "與", "及び", "及", "および", "ならびに", "と", "跟")
_RANGING = ("to", "through", "至", "到", "から")


def _any_of(words: Iterable[str]) -> str:
    return "|".join(map(re.escape, sorted(set(words), key=len, reverse=True)))


_DASHES = re.escape("-–—~〜～−")
_SEPARATORS = ",，、;； \u3000\t"
_INNER = rf"[ \u3000]?\d[\d{_SEPARATORS}{_DASHES}]{{0,24}}"
BRACKETED_NUMBERS = rf"(?:\[{_INNER}\]|【{_INNER}】|［{_INNER}］)"
"""A bracket of numbers alone, as an answer has it and a document may have it for itself."""

_S = r"[ \t]*"
_ARABIC = r"\d{1,9}(?!\d)"
_HAN_DIGITS = "一二三四五六七八九"
_HAN = rf"[十{_HAN_DIGITS}]{{1,3}}(?![十{_HAN_DIGITS}])"
_ANY_NUMBER = rf"(?:{_ARABIC}|{_HAN})"
_PREFIX = (
    rf"(?:(?:(?:{_any_of(_LEAD_INS)}){_S})?(?:{_any_of(_LABELS)})|(?:{_any_of(_SEE)}))"
    rf"{_S}[:.\-_=]?{_S}(?:(?:{_any_of(_NUMBER_WORDS)})[:.]?{_S})?"
)
_SIGNED = r"(?:\^{0}\^|[#^№]?{0}(?:号|號)?)"
_RANGE = rf"{_S}(?:[{_DASHES}]|{_any_of(_RANGING)}){_S}"
_JOIN = rf"(?:[,、;]?{_S}(?:{_any_of(_JOINING)}){_S}|[,、; \t]+)"
_LINK = rf"(?:{_RANGE}|{_JOIN})"

_BY_UNIT = r"(?:pp?\.?|pages?|ll?\.?|lines?|§§?|sections?|sec\.?|paras?\.?|paragraphs?|页|頁|ページ|行)"
_LOCATOR = (
    rf"(?:{_BY_UNIT}{_S}:?{_S}\d[\d.,{_DASHES}]*"
    rf"|(?:第{_S})?\d+(?:{_S}[{_DASHES}]{_S}\d+)?{_S}(?:页|頁|ページ|行目?|节|節|章|条|條))"
)
_FILE = r"[^\W\d][^,;|:()…†]{0,60}\.[a-z][a-z0-9]{1,4}"
_WHERE = rf"(?:(?:{_S}[,、:;|(/{_DASHES}]{_S}|[ \t])(?:{_LOCATOR}|{_FILE})\)?){{1,3}}"
_TAUGHT = rf"(?::{_ARABIC})?{_S}†[^…]*"
_END = rf"(?:{_WHERE}|{_TAUGHT})?[,、; \t]*"

_OF_ARABIC, _OF_ANY = _SIGNED.format(_ARABIC), _SIGNED.format(_ANY_NUMBER)
_BARE = rf"[,、; \t]*(?P<list>{_OF_ARABIC}(?:{_LINK}{_OF_ARABIC})*){_END}"
_NAMED = rf"{_S}(?P<list>{_PREFIX}{_OF_ANY}(?:{_LINK}(?:{_PREFIX})?{_OF_ANY})*){_END}"
_LABEL = re.compile(_any_of(_LABELS))
_PART = rf"({_ANY_NUMBER})(?:\^?{_RANGE}(?:{_PREFIX})?[#^№]?({_ANY_NUMBER}))?"
BARE_NUMBERS = re.compile(rf"[\d{_SEPARATORS}{_DASHES}]*")
"""The inside of a bracket of numbers alone."""

_WORDS = (*_LABELS, *_LEAD_INS, *_NUMBER_WORDS)
_PREFIXES = _any_of(word[:length] for word in _WORDS for length in range(1, len(word)))
_STOPS = r"[\s#^№:.\-_=,、;]*"
# At most three words stand before the first number, so there are few ways to read a beginning; behind it anything may.
_BEGINNING = rf"{_STOPS}(?:(?:{_any_of(_WORDS)}){_STOPS}){{0,3}}(?:{_PREFIXES}|[\d十{_HAN_DIGITS}][^…]*)?"


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compiled when first needed: whoever only wants `BRACKETED_NUMBERS` would wait for all of them."""
    return re.compile(pattern, re.DOTALL)


@dataclass(frozen=True, slots=True)
class Cited:
    """What a bracket cites."""

    numbers: tuple[int, ...]
    """In order, each once."""
    plain: bool
    """Nothing but numbers and what parts them stands in it."""
    ranged: bool
    """It is one range and nothing else, as `[1-9]`."""
    note: bool
    """It is written as a footnote, `^1`."""


def read(inside: str, opening: str = "[") -> Cited | None:
    """What the inside of a bracket cites; None when the bracket is no marker. `opening` is its first character."""
    text = _usual(inside)
    found = _compiled(_NAMED).fullmatch(text)
    named = found is not None
    if found is None:
        found = _compiled(_BARE).fullmatch(text)
    if found is None or (opening in "(（" and not (named and _said_in_round(text))):
        return None
    listed = found["list"]
    parts = _compiled(_PART).findall(listed)
    numbers = _counted(parts)
    ranged = len(parts) == 1 and bool(parts[0][1])
    plain = BARE_NUMBERS.fullmatch(text) is not None
    note = "^" in listed
    zero_first = len(numbers) > 1 and numbers[0] == 0
    if not named and (zero_first or (ranged and note) or (plain and all(number in _YEARS for number in numbers))):
        return None
    return Cited(numbers, plain, ranged, note)


def may_become(inside: str, opening: str = "[") -> bool:
    """Whether a bracket that has come so far may still be one that `read` reads; never False of one that is."""
    text = _usual(inside)
    if opening in "(（" and text.lstrip()[:1].isdigit():
        return False
    return _compiled(_BEGINNING).fullmatch(text) is not None


def _said_in_round(text: str) -> bool:
    label = _LABEL.search(text)
    return label is not None and label.group() in _LABELS_IN_ROUND


def _counted(parts: Iterable[tuple[str, str]]) -> tuple[int, ...]:
    numbers: list[int] = []
    for written, last_written in parts:
        first = _number(written)
        last = _number(last_written) if last_written else first
        numbers += range(first, last + 1) if 0 <= last - first <= MAX_RANGE else (first, last)
    return tuple(dict.fromkeys(numbers))


def _number(written: str) -> int:
    """The value of `12`, `１２`, 七, 十二 or 三十."""
    if written[0].isdigit():
        return int(written)
    tens, ten, ones = written.rpartition("十")
    value = _HAN_DIGITS.find(ones[:1]) + 1 if ones else 0
    return value + 10 * (_HAN_DIGITS.find(tens[:1]) + 1 if tens else 1) if ten else value


def _usual(text: str) -> str:
    """The text in small letters of usual width; one by one, so that the beginning of a text stays one."""
    return text.lower() if text.isascii() else "".join(map(_usual_character, text))


@cache
def _usual_character(character: str) -> str:
    if unicodedata.decomposition(character).startswith(("<wide>", "<narrow>", "<circle>")):
        character = unicodedata.normalize("NFKC", character)
    return character.lower()
