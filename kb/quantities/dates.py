"""Dates and times of day, as they are written in English, Chinese and Japanese.

>>> found = [dates(text)[0].alternatives for text in ("March 5, 2021", "2021年3月5日", "令和3年3月", "5/3/2021")]
>>> found[0] == found[1], found[2], found[3]
(True, ((2021, 3, None),), ((2021, 3, 5), (2021, 5, 3)))
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from kb.quantities.numerals import HAN_DIGITS, value_of

Day: TypeAlias = tuple[int | None, int | None, int | None]
"""Year, month and day; None for what isn't said."""


class Date(NamedTuple):
    """`text[start:end]` is a date; several readings where the order of day and month isn't known."""

    start: int
    end: int
    alternatives: tuple[Day, ...]


class Time(NamedTuple):
    """`text[start:end]` is a time of day."""

    start: int
    end: int
    minutes: int
    """Since midnight."""
    half_known: bool
    """Whether it is known to be before or after noon."""


_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_MONTH = (
    r"(?P<month>Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?"
    r"|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)\b\.?"
)
_DAY = r"(?P<day>[12]\d|3[01]|0?[1-9])(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>1\d{3}|20\d{2})"
_HAN_NUMBER = f"[{HAN_DIGITS}十]"
_ERAS = {"明治": 1867, "大正": 1911, "昭和": 1925, "平成": 1988, "令和": 2018, "民国": 1911, "民國": 1911}
"""The year before the first of each era."""

_ENGLISH_DATES = tuple(
    re.compile(pattern)
    for pattern in (
        rf"\b{_MONTH} {_DAY}(?!\d|[.,:]\d)(?:,? {_YEAR})?\b",
        rf"\b{_DAY} (?:of )?{_MONTH}(?:,? {_YEAR})?\b",
        rf"\b{_MONTH},? (?:of )?{_YEAR}\b",
        rf"\b(?:in|since|until|by|during|of|from|to|through|late|early|mid|every|last|next|and)[ -]{_MONTH}",
    )
)
_CJK_DATES = tuple(
    re.compile(pattern)
    for pattern in (
        rf"(?:(?P<era>{'|'.join(_ERAS)})(?P<era_year>\d{{1,2}}|元|{_HAN_NUMBER}{{1,3}})"
        rf"|(?P<year>\d{{4}}|[{HAN_DIGITS}]{{4}}))\s?年(?!代)"
        rf"(?:\s?(?P<month>1[0-2]|0?[1-9]|{_HAN_NUMBER}{{1,2}})\s?月"
        rf"(?:\s?(?P<day>\d{{1,2}}|{_HAN_NUMBER}{{1,3}})\s?[日号號])?)?",
        rf"(?P<month>(?<!\d)1[0-2]|(?<!\d)0?[1-9]|(?<!{_HAN_NUMBER}){_HAN_NUMBER}{{1,2}})\s?月"
        rf"(?:\s?(?P<day>\d{{1,2}}|{_HAN_NUMBER}{{1,3}})\s?[日号號])",
        r"(?P<month>(?<!\d)1[0-2]|(?<!\d)0?[1-9]|(?<![个個〇一二三四五六七八九十])[一二三四五六七八九十]|(?<![个個])十[一二])月(?![球光亮面])",
    )
)
_NUMERIC_DATES = (
    re.compile(r"(?<![\d.-])(?P<year>\d{4})([-/.])(?P<month>1[0-2]|0?[1-9])\2(?P<day>[12]\d|3[01]|0?[1-9])(?![\d-])"),
)
_NAMED_MONTH = re.compile("[JFMASOND](?:an|eb|ar|pr|ay|un|ul|ug|ep|ct|ov|ec)")
_SEPARATED = re.compile(r"\d[-/.]\d\d?[-/.]\d")
_CLOCK = re.compile(r"\d(?::\d\d|\s?[aApP]\.?[mM]|\s?o'c)|[点點時时]|(?:[nN]oo|[mM]id)[nd]|正午")
_SLASHED = re.compile(r"(?<![\d/.])(\d{1,2})[/.](\d{1,2})[/.]((?:19|20)\d{2})(?![\d/])")
_TIME = re.compile(
    r"(?<![\d:.])(?P<hour>[01]?\d|2[0-4]):(?P<minute>[0-5]\d)(?::[0-5]\d)?(?:\s?(?P<half>[ap])\.?m\b\.?)?(?![\d:])"
    r"|(?<![\d:.])(?P<h2>1[0-2]|0?[1-9])(?:\s?(?P<half2>[ap])\.?m\b\.?|\s?o'clock)"
    rf"|(?P<half3>上午|下午|早上|清晨|凌晨|晚上|中午|傍晚|午前|午後|朝|夜|晚|早)の?(?P<h3>\d{{1,2}}|{_HAN_NUMBER}{{1,3}})"
    rf"[点點時时](?!間|间)(?:(?P<m3>\d{{1,2}}|{_HAN_NUMBER}{{1,3}})分|(?P<half_hour>半))?"
    r"|(?<!\d)(?P<h4>1?\d|2[0-4]|十[一二三四五六七八九]?)[点點時时](?!間|间|代|点)(?:(?P<m4>[0-5]?\d)分|(?P<half_hour2>半)|(?=[钟鐘に頃ごまか]))"
    r"|\b(?P<noon>noon|midday|midnight)\b|(?P<noon2>正午)",
    re.IGNORECASE,
)
_AFTERNOON = frozenset(("下午", "晚上", "傍晚", "午後", "夜", "晚", "p", "P"))


def dates(text: str) -> list[Date]:
    """Every date of a text in NFKC, in order; a year alone is one only in Chinese and Japanese (2021年)."""
    found: list[Date] = []
    taken = bytearray(len(text))
    for make in (_written, _slashed):
        for one in make(text):
            if not any(taken[one.start : one.end]):
                taken[one.start : one.end] = b"\1" * (one.end - one.start)
                found.append(one)
    return sorted(found)


def times(text: str) -> list[Time]:
    """Every time of day of a text in NFKC, in order."""
    if not _CLOCK.search(text):
        return []
    return [time for match in _TIME.finditer(text) if (time := _time(match)) is not None]


def _written(text: str) -> Iterator[Date]:
    for pattern in _patterns(text):
        for match in pattern.finditer(text):
            groups = match.groupdict()
            year = _number(groups.get("year"))
            if groups.get("era"):
                year = _ERAS[groups["era"]] + (1 if groups["era_year"] == "元" else _number(groups["era_year"]) or 0)
            month = _month(groups.get("month"))
            day = _number(groups.get("day"))
            if (month is None or 1 <= month <= 12) and (day is None or 1 <= day <= 31):
                yield Date(*match.span(), ((year, month, day),))


def _patterns(text: str) -> Iterator[re.Pattern[str]]:
    """Those that may be found: nearly all sentences have no date at all."""
    if _SEPARATED.search(text):
        yield from _NUMERIC_DATES
    if _NAMED_MONTH.search(text):
        yield from _ENGLISH_DATES
    if "月" in text or "年" in text:
        yield from _CJK_DATES


def _slashed(text: str) -> Iterator[Date]:
    for match in _SLASHED.finditer(text) if _SEPARATED.search(text) else ():
        one, other, year = map(int, match.groups())
        readings = {(year, month, day) for day, month in ((one, other), (other, one)) if month <= 12 and day <= 31}
        if readings:
            yield Date(*match.span(), tuple(sorted(readings)))


def _number(text: str | None) -> int | None:
    value = value_of(text) if text else None
    return None if value is None else int(value)


def _month(text: str | None) -> int | None:
    if text and text[:1].isascii() and text[:1].isalpha():
        return _MONTHS.index(text[:3].lower()) + 1
    return _number(text)


def _time(match: re.Match[str]) -> Time | None:
    group: Callable[[str], str | None] = match.group
    if group("noon") or group("noon2"):
        return Time(*match.span(), 0 if (group("noon") or "").lower() == "midnight" else 12 * 60, True)
    hour = _number(group("hour") or group("h2") or group("h3") or group("h4"))
    minute = _number(group("minute") or group("m3") or group("m4")) or 0
    if group("half_hour") or group("half_hour2"):
        minute = 30
    half = group("half") or group("half2") or group("half3")
    if hour is None or hour > 24 or minute > 59:
        return None
    if half in _AFTERNOON and hour < 12:
        hour += 12
    elif half and half not in _AFTERNOON and half != "中午" and hour == 12:
        hour = 0
    return Time(*match.span(), (hour % 24) * 60 + minute, half is not None or hour > 12)
