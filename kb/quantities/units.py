"""Units that numbers are written with, and what they measure."""

from __future__ import annotations

import re
from fractions import Fraction

_UNIT_TABLE: tuple[tuple[str, int | str, str], ...] = (
    ("%", 1, r"%|per ?cent\b|percentage points?\b|个?百分点|パーセント|ポイント"),
    ("USD", 1, r"US ?dollars?\b|dollars?\b|USD\b|美元|美金|ドル|米ドル"),
    ("EUR", 1, r"euros?\b|EUR\b|欧元|歐元|ユーロ"),
    ("GBP", 1, r"GBP\b|pounds sterling\b|英镑|英鎊|ポンド"),
    ("JPY", 1, r"yen\b|JPY\b|日元|日圓|円"),
    ("CNY", 1, r"yuan\b|RMB\b|CNY\b|人民币|人民幣|块钱|元"),
    ("decade", 1, r"s\b(?<=0s)|'s\b(?<=0's)|年代"),
    ("century", 1, r"(?:th|st|nd|rd)?[ -]centur(?:y|ies)\b|世纪|世紀"),
    ("seconds", "1/1000", r"ms\b|milliseconds?\b|毫秒|ミリ秒"),
    ("seconds", 1, r"secs?\b|seconds?\b|秒"),
    ("seconds", 60, r"mins?\b|minutes?\b|分钟|分鐘|分間|分(?=[以に、。で])"),
    ("seconds", 3600, r"hrs?\b|hours?\b|个?小时|個?小時|時間|个钟头"),
    ("seconds", 86400, r"days?\b|天|日間|日以"),
    ("seconds", 604800, r"weeks?\b|周(?![年岁歳])|週間?|个?星期|個?星期|礼拜"),
    ("months", 1, r"months?\b|个月|個月|[ヶケかカヵ]月間?"),
    ("months", 12, r"years?\b(?! old)|年間|年(?![代度级級])"),
    ("metres", "1/1000", r"mm\b|millimet(?:er|re)s?\b|毫米|ミリメートル"),
    ("metres", "1/100", r"cm\b|centimet(?:er|re)s?\b|厘米|公分|センチメートル|センチ"),
    ("metres", 1000, r"km\b(?!2|²|/)|kilomet(?:er|re)s?\b(?! per)|公里|千米|キロメートル"),
    ("metres", 1, r"m\b(?!2|²|/)|met(?:er|re)s?\b|米(?!元|ドル)|公尺|メートル"),
    ("miles", 1, r"miles?\b|mi\b|英里|マイル"),
    ("feet", 1, r"feet\b|foot\b|ft\b|英尺|英呎|フィート"),
    ("km2", 1, r"km2\b|km²|square kilomet(?:er|re)s?\b|平方公里|平方千米|平方キロメートル|平方キロ"),
    ("m2", 1, r"m2\b|square met(?:er|re)s?\b|平方米|平方メートル"),
    ("grams", "1/1000", r"mg\b|milligrams?\b|毫克|ミリグラム"),
    ("grams", 1000, r"kg\b|kilos?\b|kilograms?\b|公斤|千克|キログラム"),
    ("grams", 1_000_000, r"tons?\b|tonnes?\b|吨|噸|トン"),
    ("grams", 1, r"g\b|grams?\b|克(?![拉服])|グラム"),
    ("bytes", 10**3, r"[kK]B\b"),
    ("bytes", 10**6, r"MB\b"),
    ("bytes", 10**9, r"GB\b"),
    ("bytes", 10**12, r"TB\b"),
    ("degrees", 1, r"°[CF]?|degrees?\b|摄氏度|度(?!假)"),
)
_UNIT = re.compile("|".join(f"(?P<u{i}>{pattern})" for i, (_, _, pattern) in enumerate(_UNIT_TABLE)))
_MEASURES = {f"u{i}": (name, Fraction(factor)) for i, (name, factor, _) in enumerate(_UNIT_TABLE)}
_CURRENCY = {"$": "USD", "US$": "USD", "€": "EUR", "£": "GBP", "¥": "¥", "元": "CNY"}
_SAME = {frozenset(("¥", "JPY")), frozenset(("¥", "CNY"))}
_BETWEEN = re.compile(r"[ \t-]?")


def unit_at(text: str, position: int) -> tuple[str, Fraction, int]:
    """The unit that begins at `position`, or one blank or hyphen further: its name, its factor, and where it ends.

    Where there is none known: "", 1 and `position`.
    """
    between = _BETWEEN.match(text, position)
    found = _UNIT.match(text, position) or _UNIT.match(text, between.end() if between else position)
    if found is None or found.lastgroup is None:
        return "", Fraction(1), position
    return *_MEASURES[found.lastgroup], found.end()


def currency_of(sign: str) -> str:
    """The currency of a sign before a number; "¥" stands for two."""
    return _CURRENCY.get(sign.strip().upper(), "")


def comparable(one: str, other: str) -> bool:
    """Whether numbers of two units can be compared: the same, or one that isn't known."""
    return not one or not other or one == other or frozenset((one, other)) in _SAME
