"""The same said otherwise, and one thing said wrongly, by rule: numbers, names and negations of a sentence.

Everything is drawn by the generator that is passed, so a sentence gives the same with the same seed. What isn't
possible for a sentence gives None.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random
from typing import Literal, TypeAlias

Language: TypeAlias = Literal["en", "zh", "ja"]

_ONES = [
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
_TENS = ("", "", *["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"])
_HAN = "〇一二三四五六七八九"
_COUNTERS = (
    "个名位人年月天岁歳次回层層座场場所条只匹头部件种種类項项級届章节期号米公里吨円元秒小時倍家间隊队艘架台枚张首篇世つヶか"
    "店本"
)
_MONTHS = [
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
]

_DIGITS = re.compile(r"(?<![\w.,:/\-–°])(?:\d{1,3}(?:,\d{3})+|\d+)(?![\w:/\-–]|[.,]\d)")
_CJK_DIGITS = re.compile(r"(?<![A-Za-z\d.,:/\-–°])(?:\d{1,3}(?:,\d{3})+|\d+)(?![A-Za-z\d:/\-–]|[.,]\d)")
_NUMBER_WORD = re.compile(rf"(?<![\w-])(?:{'|'.join([*_ONES[2:], *_TENS[2:]])})(?![\w-])")
_HAN_NUMBER = re.compile(rf"(?<![第〇一二三四五六七八九十百千万亿])[二三四五六七八九](?=[{_COUNTERS}])")
_ENGLISH_DATE = re.compile(rf"\b({'|'.join(_MONTHS)}) (\d{{1,2}}), (\d{{4}})\b")
_CJK_DATE = re.compile(r"(?<![\d\-–])(\d{4})年(\d{1,2})月(\d{1,2})日(?![\-–])")


def english(number: int) -> str:
    """A number below a hundred in words."""
    tens, ones = divmod(number, 10)
    return _ONES[number] if number < 20 else _TENS[tens] + (f"-{_ONES[ones]}" if ones else "")


def han(number: int) -> str:
    """A number below a hundred in Han numerals."""
    tens, ones = divmod(number, 10)
    return ("" if tens == 0 else "十" if tens == 1 else f"{_HAN[tens]}十") + (_HAN[ones] if ones or not tens else "")


# ── the same otherwise ──


def numbers_reworded(sentence: str, language: Language) -> str | None:
    """Every number and date that can be is written another way; None when there is none."""
    if re.search(r"[\"“「『][^\"”」』]*\d", sentence):  # what is quoted has to stay as it is
        return None
    said = _english_numbers(sentence) if language == "en" else _cjk_numbers(sentence)
    return said if said != sentence else None


def _english_numbers(sentence: str) -> str:
    said = _ENGLISH_DATE.sub(lambda m: f"{m[2]} {m[1]} {m[3]}", sentence)
    said = re.sub(r"(?<=\d)%", " percent", said)
    dated = [found.span() for found in re.finditer(rf"\d+ (?:{'|'.join(_MONTHS)})|(?:{'|'.join(_MONTHS)}) \d+", said)]

    def write(found: re.Match[str]) -> str:
        if any(start <= found.start() < end for start, end in dated):
            return found[0]
        plain = found[0].replace(",", "")
        if 2 <= int(plain) < 100 and not plain.startswith("0"):
            return english(int(plain))
        return plain

    digits = _DIGITS.sub(write, said)
    return _NUMBER_WORD.sub(lambda m: str(_value(m[0])), said) if digits == said else digits


def _value(word: str) -> int:
    return _ONES.index(word) if word in _ONES else 10 * _TENS.index(word)


def _cjk_numbers(sentence: str) -> str:
    said = _CJK_DATE.sub(lambda m: f"{m[1]}-{int(m[2]):02}-{int(m[3]):02}", sentence)
    if said != sentence:
        return said
    said = re.sub(r"(?<![\d.])(\d{1,2})%", lambda m: f"百分之{han(int(m[1]))}", sentence)
    said = re.sub(rf"(?<![\d.,年A-Za-z])(\d{{1,2}})(?=[{_COUNTERS}])", lambda m: han(int(m[1])), said)
    said = re.sub(r"(?<![\d.,])(\d{4})(?=年)", lambda m: "".join(_HAN[int(one)] for one in m[1]), said)
    said = re.sub(r"(?<![\d.,])(\d+)0000(?!\d|[.,]\d)", r"\1万", said)
    return said if said != sentence else _HAN_NUMBER.sub(lambda m: str(_HAN.index(m[0])), sentence)


_ASIDE = re.compile(r"\s?[(（][^()（）]*[)）]")
_RELATIVE = re.compile(
    r", (?:which|who|where|whose|including|such as|especially|with|although|while) (?:[^,;.]|[.,]\d)*(?=[,;.]|$)"
)
_OPENING = re.compile(r"^((?:In|On|At|By|During|After|Before|Since|From|Until|Under|Today|As of) [^,]{3,60}), (?=\w)")


def clauses_reworded(sentence: str, language: Language, random: Random) -> str | None:
    """Asides and a clause dropped, the opening put at the end, or who says it put before."""
    said = _ASIDE.sub("", sentence)
    if language != "en":
        clauses = [clause for clause in re.split(r"，|,(?!\d)|、(?=.{8})", said.rstrip("。")) if clause.strip()]
        if len(clauses) > 2:
            clauses.pop(random.randrange(1, len(clauses)))
        before = "根据原文，" if language == "zh" else "本文によると、"
        return before + ("，" if language == "zh" else "、").join(clauses) + "。"
    said = _RELATIVE.sub("", said, count=1)
    moved = _OPENING.sub("", said)
    opening = _OPENING.match(said)
    if opening and re.search(r"[.;] ", said) is None:
        first = opening[1]
        return f"{moved[0].upper()}{moved[1:].rstrip('. ')} {first[0].lower()}{first[1:]}."
    first_word = said.split(" ", 1)[0]
    lowered = (
        said[0].lower() + said[1:] if first_word in ("The", "A", "An", "In", "It", "This", "These", "They") else said
    )
    return f"According to the text, {lowered}"


# ── one thing wrong ──


def number_changed(sentence: str, passage: str, language: Language, random: Random) -> str | None:
    """One number is another, which the passage doesn't hold."""
    cjk = language != "en"
    places = [
        *(_CJK_DIGITS if cjk else _DIGITS).finditer(sentence),
        *(_HAN_NUMBER if cjk else _NUMBER_WORD).finditer(sentence),
    ]
    places = [found for found in places if sentence.count(found[0]) == 1]
    random.shuffle(places)
    for found in places:
        for _ in range(20):
            other = _other_number(found[0], random)
            if other != found[0] and not _holds_number(passage, other):
                return sentence[: found.start()] + other + sentence[found.end() :]
    return None


def _other_number(number: str, random: Random) -> str:
    if number[0].isdigit():
        places = [i for i, one in enumerate(number) if one.isdigit()]
        place = random.choice(places[-2:])
        digits = "123456789" if place == 0 else "0123456789"
        return number[:place] + random.choice(digits.replace(number[place], "")) + number[place + 1 :]
    if number in _HAN:
        return random.choice("二三四五六七八九".replace(number, ""))
    return random.choice([word for word in _ONES[2:13] + list(_TENS[2:]) if word != number])


def _holds_number(passage: str, number: str) -> bool:
    if number in passage:
        return True
    plain = number.replace(",", "")
    value = int(plain) if plain.isdigit() else _HAN.index(number) if number in _HAN else _value(number)
    written = {str(value), f"{value:,}"}
    if value < 100:
        written |= {english(value), han(value)}
    return any(re.search(rf"(?<![\w.,]){re.escape(one)}(?![\w])", passage, re.I) for one in written) or (
        value < 10 and _HAN[value] in passage
    )


def name_changed(sentence: str, passage: str, name: str, others: Sequence[str], random: Random) -> str | None:
    """A name, which stands in the sentence once, is another one, which the passage doesn't hold."""
    inside = name.isascii()
    if sentence.count(name) != 1:
        return None
    at = sentence.index(name)
    around = sentence[at - 1 : at] + sentence[at + len(name) : at + len(name) + 1]
    if inside and any(one.isalnum() or one == "-" for one in around):
        return None
    folded = passage.casefold()
    allowed = [one for one in others if not any(part in folded for part in one.casefold().split())]
    return sentence.replace(name, random.choice(allowed)) if allowed else None


_Change: TypeAlias = tuple[re.Pattern[str], str]

_ENGLISH_NEGATION: tuple[_Change, ...] = (
    (
        re.compile(r"\b(is|was|are|were|did|does|do|could|would|will|has|have|had|should) not (?!only|just|until)"),
        r"\1 ",
    ),
    (re.compile(r"\bcannot\b"), "can"),
    (
        re.compile(
            r"(?<=\w )(is|was|are|were|can|could|will|would|must|should)"
            r"(?= (?!not\b|n't|only|just|never|no\b|nothing|un|barely)\w)"
        ),
        r"\1 not",
    ),
    (
        re.compile(
            r"(?<=[a-z] )(became|began|won|took|made|held|gave|led|[a-z]{3,}ed) "
            r"(?=(?:the|a|an|in|his|her|its|to)\b)"
        ),
        r"never \1 ",
    ),
)
_CHINESE_NEGATION: tuple[_Change, ...] = (
    (re.compile("不是"), "是"),
    (re.compile("没有(?=[^，。]{2})"), "有"),
    (re.compile("未(?=[能被有曾])"), ""),
    (re.compile("不(?=[会能需])"), ""),
    (re.compile("(?<![于还但或就只可总凡其别正便乃算像若要既])是(?![否非不])"), "不是"),
    (re.compile("(?<![未不])被"), "没有被"),
    (re.compile("(?<![不])(?=可以|能够|应该|需要)"), "不"),
    (re.compile("(?<![拥具没享含所还只占持])有(?![限关名时机些的效利])"), "没有"),
    (re.compile("(?<![不现正所自])在(?![内于])"), "不在"),
    (re.compile("(?<=[\u4e00-\u9fff])(?=参加|加入|成为|获得|发现|使用|创立|建立|举行|担任|负责|采用|出版)"), "没有"),
)
_JAPANESE_NEGATION: tuple[_Change, ...] = (
    (re.compile("しなかった(?=。|$)"), "した"),
    (re.compile("ていない(?=。|$)"), "ている"),
    (re.compile("ではない(?=。|$)"), "である"),
    (re.compile("できない(?=。|$)"), "できる"),
    (re.compile("した(?=。|$)"), "しなかった"),
    (re.compile("れた(?=。|$)"), "れなかった"),
    (re.compile("れる(?=。|$)"), "れない"),
    (re.compile("ている(?=。|$)"), "ていない"),
    (re.compile("ていた(?=。|$)"), "ていなかった"),
    (re.compile("だった(?=。|$)"), "ではなかった"),
    (re.compile("である(?=。|$)"), "ではない"),
    (re.compile("となった(?=。|$)"), "とならなかった"),
)
_NEGATIONS: dict[Language, tuple[_Change, ...]] = {
    "en": _ENGLISH_NEGATION,
    "zh": _CHINESE_NEGATION,
    "ja": _JAPANESE_NEGATION,
}
_UNCERTAIN = re.compile(r"\b(?:whether|or not|not only|neither|nor|if|barely)\b|不但|不仅|是否|不仅仅")


def negation_changed(sentence: str, language: Language) -> str | None:
    """A negation more, or one less; None where it might not change what is said."""
    if _UNCERTAIN.search(sentence):
        return None
    quoted = [found.span() for found in re.finditer(r"[\"“「『《(（].*?[\"”」』》)）]", sentence)]
    for pattern, replacement in _NEGATIONS[language]:
        for found in pattern.finditer(sentence):
            if not any(start <= found.start() < end for start, end in quoted):
                return sentence[: found.start()] + found.expand(replacement) + sentence[found.end() :]
    return None
