"""Numbers that are written in words: thirty-two, 三十二, 3万2千, 二〇二一, XIV.

>>> [str(value_of(text)) for text in ("thirty-two", "1.5 million", "三十二", "1億2,000万", "二〇二一", "a dozen")]
['32', '1500000', '32', '120000000', '2021', '12']
"""

from __future__ import annotations

import re
from fractions import Fraction

HAN_DIGITS = "〇零一二两兩三四五六七八九壹贰貳叁參肆伍陆陸柒捌玖"
_HAN_VALUES = dict(
    zip(HAN_DIGITS, (0, 0, 1, 2, 2, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 2, 3, 3, 4, 5, 6, 6, 7, 8, 9), strict=True)
)
_HAN_TENS = {"十": 10, "拾": 10, "百": 100, "佰": 100, "千": 1_000, "仟": 1_000}
_HAN_MYRIADS = {"万": 10**4, "萬": 10**4, "亿": 10**8, "億": 10**8, "兆": 10**12}
HAN_UNITS = "".join([*_HAN_TENS, *_HAN_MYRIADS])
"""Characters that multiply what stands before them."""

_UNITS = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_ORDINALS = [
    "zeroth",
    "first",
    "second",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
    "eleventh",
    "twelfth",
    "thirteenth",
    "fourteenth",
    "fifteenth",
    "sixteenth",
    "seventeenth",
    "eighteenth",
    "nineteenth",
]
_TENTHS = ["twentieth", "thirtieth", "fortieth", "fiftieth", "sixtieth", "seventieth", "eightieth", "ninetieth"]
_SMALL = {word: value for words in (_UNITS, _ORDINALS) for value, word in enumerate(words)}
_SMALL |= {word: 10 * value for words in (_TENS, _TENTHS) for value, word in enumerate(words, start=2)}
_SCALES = {"hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_SCALES |= {"mn": 10**6, "bn": 10**9, "dozen": 12, "hundredth": 100, "thousandth": 10**3, "millionth": 10**6}

SCALE_WORDS = frozenset(_SCALES)
NUMBER_WORDS = frozenset([*_SMALL, *_SCALES])
_MOST_WORDS = 15
"""Words of a number after its first; a longer run is a list, and would be tried in every length."""
_ANY = "|".join(sorted(NUMBER_WORDS, key=lambda word: (len(word), word), reverse=True))
ENGLISH = rf"\b(?:{_ANY})(?:(?:[ -]|[ -]and[ -])(?:{_ANY})){{0,{_MOST_WORDS}}}\b"
"""A run of English number words, in lower case; a list of years or scores may be one too."""
DIGITS = r"\d+(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"
HAN = rf"[{HAN_DIGITS}{HAN_UNITS}]+"
MIXED = rf"(?:(?:{DIGITS})\s?[十百千]?[万萬亿億兆千百])+(?:\d+)?"
"""Digits with Han multipliers: 3万2千, 1.5亿."""

_ROMAN = {"I": 1, "V": 5, "X": 10}
_ONLY_DIGITS = re.compile(f"(?:{DIGITS})\\Z")
_MIXED_PART = re.compile(rf"({DIGITS})\s?([十百千]?)([万萬亿億兆千百]?)")


def value_of(text: str) -> Fraction | None:
    """The value of a number, however it is written, without its unit; None when it is none."""
    text = text.strip().lower()
    if _ONLY_DIGITS.match(text):
        return Fraction(text.replace(",", ""))
    if re.fullmatch(HAN, text):
        return han_value(text)
    if re.fullmatch(MIXED, text):
        return _mixed_value(text)
    return english_value(text)


def han_value(text: str) -> Fraction | None:
    """三十二 by its multipliers, 二〇二一 digit by digit; None for what is no number, as 十十 and 万千."""
    if not any(character in HAN_UNITS for character in text):
        return Fraction(int("".join(str(_HAN_VALUES[character]) for character in text)))
    total = section = digit = 0
    last_ten, last_myriad = 10**5, 10**16
    pending = False
    for character in text:
        if character in _HAN_VALUES:
            if pending and digit:  # two digits side by side, as in 三四十: about so many, and no one value
                return None
            digit, pending = _HAN_VALUES[character], True
        elif character in _HAN_TENS:
            ten = _HAN_TENS[character]
            if ten >= last_ten:
                return None
            section += (digit if pending else 1) * ten
            digit, pending, last_ten = 0, False, ten
        else:
            myriad = _HAN_MYRIADS[character]
            if myriad >= last_myriad or not (section + digit):
                return None
            total += (section + digit) * myriad
            section, digit, pending, last_ten, last_myriad = 0, 0, False, 10**5, myriad
    return Fraction(total + section + digit)


def _mixed_value(text: str) -> Fraction:
    total = Fraction(0)
    for number, ten, myriad in _MIXED_PART.findall(text):
        value = Fraction(number.replace(",", ""))
        for unit in (ten, myriad):
            value *= _HAN_TENS.get(unit) or _HAN_MYRIADS.get(unit) or 1
        total += value
    return total


def english_value(text: str) -> Fraction | None:
    """Of "two hundred and five", "1.5 million", "a dozen"; None for a list, as "three four", and for other words."""
    total = section = Fraction(0)
    last = 0
    seen = False
    for word in re.split(r"[\s-]+", text.lower()):
        if word in ("and", "a", "an"):
            continue
        if word in _SCALES:
            scale = _SCALES[word]
            section = (section or Fraction(1)) * scale
            if scale >= 1_000:
                total, section = total + section, Fraction(0)
            last = 0
        elif word in _SMALL or _ONLY_DIGITS.match(word):
            value = Fraction(_SMALL[word]) if word in _SMALL else Fraction(word.replace(",", ""))
            if last and not (last in range(20, 100, 10) and 0 < value < 10):
                return None
            section += value
            last = int(value) or 1
        else:
            return None
        seen = True
    return total + section if seen else None


def roman_value(text: str) -> int | None:
    """Up to XXXIX, which is as far as centuries, kings and wars go; None when it is not written as it should be."""
    if not re.fullmatch(r"X{0,3}(?:IX|IV|V?I{0,3})", text) or not text:
        return None
    values = [_ROMAN[letter] for letter in text]
    return sum(-one if one < after else one for one, after in zip(values, [*values[1:], 0], strict=True))
