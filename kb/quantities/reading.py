"""Numbers, dates and times where they stand in a text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from kb.quantities.dates import Day, dates, times
from kb.quantities.numerals import DIGITS, ENGLISH, HAN, MIXED, NUMBER_WORDS, SCALE_WORDS, roman_value, value_of
from kb.quantities.units import currency_of, unit_at

_SHORTEST_HAN_NUMBER = 2


@dataclass(frozen=True, slots=True)
class Quantity:
    """One number, date or time of a text."""

    text: str
    """As it is written, with its unit, in NFKC."""
    start: int
    """Where it begins in the text in NFKC."""
    end: int
    value: Fraction
    """In the unit's base, such as seconds; of a date its year, of a time its minutes since midnight."""
    unit: str = ""
    """What it measures: "%", "USD", "seconds", "date", "time" …; "" where that is not known."""
    plain: Fraction | None = None
    """The number as it stands there, when it is another than `value`."""
    days: tuple[Day, ...] = ()
    """Of a date."""
    half_known: bool = True
    """Of a time, whether before or after noon is known."""
    loose: bool = False
    """It is said to be about so much."""
    sure: bool = True
    """It is a number for certain, and worth checking."""


# ── how numbers are written ──

# What a Han numeral counts, so that it is one: 三层 but not 三一堂.
_COUNTED = (
    "个個名位人年月日天岁歳才次回层層位场場座所条條只隻匹头頭本部件种種类類项項级級届代章节節段期集號号米公里千克斤吨噸元円"
    "圆美分秒小时時点倍家间間队隊艘架辆輛台臺枚张張首篇世周週つヶかカ番度票支杯名篇轮輪卷幅戸户口艦機校社人分"
)
_NOT_HAN_NUMBERS = re.compile(
    "十分(?!钟|鐘|之|の|間)|四周|四处|四川|万一|千万(?=不|别|別|要)|百度|一般|一些|一起|一定|统一|一樣|一样|唯一|十字|万能|千代|七夕"
)
_TENTH = r"[一二三四五六七八九\d]"
_SCALE = r"[ -]?(?:hundred|thousand|million|billion|trillion|dozen|bn|mn)\b|(?<=\d)[kMB]\b(?!B)"
_NUMBER = re.compile(
    r"(?P<code>(?<![\w.])\d+(?:\.\d+){2,}(?!\w))"
    rf"|(?P<share>百分之(?P<share_of>{DIGITS}|{HAN}(?:点{HAN})?)"
    rf"|(?P<tenths>{_TENTH})[割成](?P<hundredths>{_TENTH})?分?(?![功立为為员員长長绩績果就熟本]))"
    rf"|(?P<of>{HAN}|\d+)分[之の](?P<parts>{HAN}|\d+)"
    rf"|(?P<digits>(?P<currency>US\$|[$€£¥])?\s?(?<![\d.])(?P<number>{MIXED}|{DIGITS})(?P<scale>{_SCALE})?"
    r"(?:st|nd|rd|th)?)"
    r"|(?P<half>\bhalf\b|一半|半分|半数|半數)"
    r"|(?P<two>\b(?:both|twice|double|doubled|couple|pair|twin|dual)\b|两者|双方|一对)"
    r"|(?P<three>\b(?:triple|thrice|trio)\b)|(?P<four>\bquadruple\b)"
    rf"|(?P<han>{HAN})"
    rf"|(?P<words>{ENGLISH})"
    r"|(?P<roman>(?<=[a-z] )(?=[IVX]{1,6}\b)[IVX]+\b)",
    re.IGNORECASE,
)
_DIGIT_RUN = re.compile(rf"(?:US\$|[$€£¥])\s?\d[\d,.]*|\d[\d,.]*|百分之|[{HAN[1:-2]}半双]+|两者|一对", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z]{2,}|[VX]")
_NUMBER_WORDS = NUMBER_WORDS | {
    *("half", "both", "twice", "double", "doubled", "couple", "pair", "twin", "dual", "triple", "thrice", "trio"),
    *("quadruple", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x", "xi", "xii", "xiii", "xiv", "xv", "xvi"),
}
_FRACTION = re.compile(r"[ -](?P<part>half|halves|thirds?|quarters?|fourths?|fifths?|sixths?|eighths?|tenths?)\b", re.I)
_PARTS = {"hal": 2, "thi": 3, "qua": 4, "fou": 4, "fif": 5, "six": 6, "eig": 8, "ten": 10}
_LETTER_BEFORE = re.compile(r"[A-Za-z\u00c0-\u024f\u0370-\u04ff][-_/.]?$")
_ABOUT_BEFORE = re.compile(
    r"(?:about|around|roughly|approximately|approx\.?|nearly|almost|some|over|under|more than|less than|at least|up to"
    r"|[~≈]|约|約|大约|近|将近|超过|超過|逾|およそ|ほぼ)\s*(?:a |an |US)?$",
    re.I,
)
_ABOUT_AFTER = re.compile(r"\s?(?:or so|[a-z]{0,6}\+|余|餘|多|左右|上下|程度|前後|以上|あまり|余り|弱|強)")
_NOT_ONES = re.compile(r"\b(?:no|any|every|some|each|this|that|which|the|another|a|per|split|number)[ -]$", re.I)
_LOOK = 16


def quantities(text: str) -> list[Quantity]:
    """The numbers, dates and times of a text, in order, none overlapping another."""
    plain = unicodedata.normalize("NFKC", text)
    found: list[Quantity] = []
    rest = plain
    for date in dates(plain):
        year = date.alternatives[0][0]
        found.append(_at(plain, date.start, date.end, Fraction(year or 0), "date", days=date.alternatives))
        rest = _blank(rest, date.start, date.end)
    for time in times(rest):
        value = Fraction(time.minutes)
        found.append(_at(plain, time.start, time.end, value, "time", half_known=time.half_known))
        rest = _blank(rest, time.start, time.end)
    found += _numbers(rest)
    return sorted(found, key=lambda one: one.start)


def _numbers(text: str) -> Iterator[Quantity]:
    position = 0
    for start in _starts(text):
        if start < position or (match := _NUMBER.match(text, start)) is None:
            continue
        found = _READERS[_outer(match)](text, match)
        position = match.end() if match["words"] is None or found is None else found.end
        if found is not None:
            yield found


def _starts(text: str) -> list[int]:
    """Where a number may begin: looking there only takes a tenth of the time."""
    starts = [found.start() for found in _DIGIT_RUN.finditer(text)]
    starts += [found.start() for found in _WORD.finditer(text) if found.group().lower() in _NUMBER_WORDS]
    return sorted(starts)


def _outer(match: re.Match[str]) -> str:
    """The alternative that matched; groups inside it close before it, but may be the last that took part."""
    return next(name for name in _READERS if match[name] is not None)


def _code(text: str, match: re.Match[str]) -> Quantity:
    """A version or an address: compared letter by letter, as it is written."""
    return _at(text, match.start(), match.end(), Fraction(0), f"code {match[0]}")


def _share(text: str, match: re.Match[str]) -> Quantity | None:
    if match["share_of"]:
        value = value_of(match["share_of"].split("点")[0])
        if value is None:
            return None
        return _at(text, match.start(), match.end(), value, "%", sure="点" not in match["share_of"])
    tenths, hundredths = value_of(match["tenths"]), value_of(match["hundredths"] or "零")
    if tenths is None or hundredths is None:
        return None
    # 三成 is 30 %, but may be a name: 石田三成.
    sure = match["tenths"].isdigit() or "割" in match[0]
    return _at(text, match.start(), match.end(), 10 * tenths + hundredths, "%", sure=sure)


def _of(text: str, match: re.Match[str]) -> Quantity | None:
    whole, part = value_of(match["of"]), value_of(match["parts"])
    return _at(text, match.start(), match.end(), part / whole) if whole and part is not None else None


def _digits(text: str, match: re.Match[str]) -> Quantity | None:
    value = value_of(match["number"])
    if value is None:
        return None
    start, end = match.span()
    start += len(match[0]) - len(match[0].lstrip())
    sure = _LETTER_BEFORE.search(text[max(0, start - 2) : start]) is None
    if match["scale"]:
        scale = match["scale"].strip(" -").lower()
        value *= {"k": 1000, "m": 10**6, "b": 10**9}.get(scale) or value_of(scale) or 1
    currency = currency_of(match["currency"] or "")
    if currency:
        return _at(text, start, end, value, currency, sure=sure)
    return _measured(text, start, end, value, sure=sure)


def _han(text: str, match: re.Match[str]) -> Quantity | None:
    written = match["han"]
    value = value_of(written)
    before, after = text[match.start() - 1 : match.start()], text[match.end() : match.end() + 1]
    if value is None or _NOT_HAN_NUMBERS.match(text, match.start()):
        return None
    counted = after != "" and after in _COUNTED
    sure = value != 1 and (
        before == "第"
        or counted
        or (len(written) >= _SHORTEST_HAN_NUMBER and any(unit in written for unit in "十百千"))
    )
    return _measured(text, match.start(), match.end(), value, sure=sure)


def _words(text: str, match: re.Match[str]) -> Quantity | None:
    # Of "first three" and other lists only the beginning is one number; what follows is read next.
    written, value = "", None
    for word in re.finditer(r"[^ -]+", match["words"].lower()):
        longer = match["words"][: word.end()].lower()
        if (extended := value_of(longer)) is None:
            break
        written, value = longer, extended
    if value is None:
        return None
    start, end = match.start(), match.start() + len(written)
    part = _FRACTION.match(text, end)
    if part and value < 20:
        return _at(text, start, part.end(), value / _PARTS[part["part"][:3].lower()])
    if (
        written == "second"
        and _NOT_ONES.search(text[max(0, start - _LOOK) : start])
        and text[max(0, start - 4) : start].lower() != "the "
    ):
        return None
    # "one" and "first" stand for too much else to be checked.
    return _measured(text, start, end, value, sure=value != 1 and written not in SCALE_WORDS)


def _half(text: str, match: re.Match[str]) -> Quantity:
    return _at(text, match.start(), match.end(), Fraction(50), "%", sure=False)


def _multiple(times_of: int) -> Callable[[str, re.Match[str]], Quantity]:
    return lambda text, match: _at(text, match.start(), match.end(), Fraction(times_of), sure=False)


def _roman(text: str, match: re.Match[str]) -> Quantity | None:
    value = roman_value(match["roman"])
    if value is None:
        return None
    # I is a pronoun more often than a number; "World War II" may be 第二次世界大战.
    return _at(text, match.start(), match.end(), Fraction(value), sure=len(match["roman"]) > 1)


_READERS: dict[str, Callable[[str, re.Match[str]], Quantity | None]] = {
    "code": _code,
    "share": _share,
    "of": _of,
    "digits": _digits,
    "han": _han,
    "words": _words,
    "half": _half,
    "two": _multiple(2),
    "three": _multiple(3),
    "four": _multiple(4),
    "roman": _roman,
}


def _measured(text: str, start: int, end: int, value: Fraction, *, sure: bool) -> Quantity:
    """A number with the unit that follows it."""
    unit, factor, unit_end = unit_at(text, end)
    if unit == "months" and factor != 1 and value == int(value) and 1000 <= value < 3000:
        unit, factor = "", Fraction(1)  # 2021年 as a label is a date, "2021 years" hardly ever
    return _at(text, start, unit_end, value * factor, unit, plain=value, sure=sure)


def _at(
    text: str,
    start: int,
    end: int,
    value: Fraction,
    unit: str = "",
    *,
    plain: Fraction | None = None,
    days: tuple[Day, ...] = (),
    half_known: bool = True,
    sure: bool = True,
) -> Quantity:
    loose = unit not in ("date", "time") and bool(
        _ABOUT_BEFORE.search(text, max(0, start - _LOOK), start) or _ABOUT_AFTER.match(text, end)
    )
    written = text[start:end]
    return Quantity(written, start, end, value, unit, plain, days, half_known, loose, sure)


def _blank(text: str, start: int, end: int) -> str:
    return f"{text[:start]}{' ' * (end - start)}{text[end:]}"
