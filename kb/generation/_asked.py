"""What kind of answer a question asks for, and whether a text can be one.

"How long" asks for a time, 多少钱 for money, 何人 for a number of people, and a question about a thing
with a name asks about no other. It is only the form that is looked at: a text of the right form may
still be a wrong answer, but one of another form answers nothing (Voorhees and Tice 2000, question
answering by answer type).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_NUMBER = (
    r"(?:\d[\d,.]*|[一二两三四五六七八九十百半]+"
    r"|(?:half|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|thirty|forty|fifty"
    r"|sixty|ninety|hundred)\b)"
)
_SPAN = (
    rf"{_NUMBER}\s?(?:-|–|to|至|～|〜)?\s?(?:{_NUMBER})?\s?"
    r"(?:calendar |working |business |more |full |個|个|か|ヶ|営)?\s?"
)
_TIME_UNIT = (
    r"(?:seconds?|minutes?|hours?|days?|weeks?|months?|years?"
    r"|秒|分|小时|时|時間|時|天|日|工作日|営業日|业日|周|星期|週間|週|月|年|晚|泊|点)"
)
_AT_ONCE = r"annual|yearly|immediately|at once|立即|马上|すぐ"


@dataclass(frozen=True, slots=True)
class _Kind:
    asked: re.Pattern[str]
    given: re.Pattern[str]


def _kind(asked: str, given: str) -> _Kind:
    return _Kind(re.compile(asked, re.IGNORECASE), re.compile(given, re.IGNORECASE))


_KINDS = (
    _kind(
        r"what (?:percentage|share|proportion)|百分之几|什么比例|比例是|何パーセント|何割|割合は",
        r"[%％]|百分之|分之|割|percent",
    ),
    _kind(
        r"how much (?:does|do|is|are|will|would|money|extra)\b.*(?:cost|pay|paid|charge|fee|price|get|receive)"
        r"|\bprice\b|what does .* cost|多少钱|几元|价格是|收费|费用是多少|いくら|料金は",
        rf"[€¥￥$£]\s?\d|{_NUMBER}\s?(?:euros?|yuan|yen|pounds?|欧元|日元|元|円|ユーロ)|free\b|免费|無料|[%％]",
    ),
    _kind(
        r"(?:what|which) (?:exact )?date|on (?:what|which) day of"
        r"|几月几[日号]|哪一?天|几号|何月何日|何日(?=に|まで|から|です)",
        r"\d{1,2} (?:January|February|March|April|May|June|July|August|September|October|November|December)"
        r"|(?:January|February|March|April|May|June|July|August|September|October|November|December) \d"
        r"|\d{4}-\d{2}-\d{2}|\d+\s?[月日号]|(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day|周[一二三四五六日]|[月火水木金土日]曜"
        r"|day \d|当天|次日|当日|翌日|同じ日|same day|next day",
    ),
    _kind(r"what time|at what hour|几点|何時(?!間)", r"\d{1,2}[:：]\d{2}|\d+\s?(?:am|pm|点|時)"),
    _kind(
        r"how long"
        r"|how many (?:more )?(?:working |calendar |business )?(?:seconds|minutes|hours|days|weeks|months|years)"
        r"|how (?:soon|fast|quickly|often|early)|多久|多长时间|几天|多少天|几个月|多少个月|几年|几小时|几分钟|多少分钟"
        r"|多少小时"
        r"|何日|何週間|何か月|何ヶ月|何ヵ月|何年|何時間|何分|どれくらいで|どのくらいで|どれくらいの期間|何営業日",
        rf"{_SPAN}{_TIME_UNIT}|{_AT_ONCE}",
    ),
)
# Things counted with a counter: the answer has the counter too, or another for the same things.
_COUNTED = re.compile(
    r"(?:多少|几|何)(个|名|人|次|件|回|個|枚|台|歳|岁|公斤|文字|种|箱|度|层|階|笔|单|字|本|通|項目|段)"
)
_COUNTERS = {
    "个": "[个個]?",
    "個": "[个個]?",
    "次": "[次回]",
    "回": "[次回]",
    "名": "[名人位]",
    "人": "[名人位]",
    "笔": "[笔单]",
    "单": "[笔单]",
}
_HOW_MANY = re.compile(r"how many\b", re.IGNORECASE)

_LATIN_WORD = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-_.][A-Za-z0-9]+)*")
_SENTENCE_START = re.compile(r"(?:^|[.?!:]\s)\s*[\"'(]*$")


_DEFINED = (
    re.compile(r"^what (?:is|are) (?:an? |the )?(?P<thing>.{1,60}?)\s*\??$", re.IGNORECASE),
    re.compile(r"^(?:什么是|何谓)(?P<thing>.{1,30}?)[？?]?$"),
    re.compile(r"^(?P<thing>.{1,30}?)(?:是什么(?:意思)?|是指什么)[？?]?$"),
    re.compile(r"^(?P<thing>.{1,30}?)(?:とは(?:何|なん)?(?:ですか|でしょうか|のことですか)?)[？?。]?$"),
)


def definition(question: str) -> re.Pattern[str] | None:
    """How a sentence begins that says what the thing is, when the question asks for nothing else."""
    found = next((found for pattern in _DEFINED if (found := pattern.search(question.strip()))), None)
    if found is None:
        return None
    return re.compile(
        rf"(?:(?:an?|the) )?{re.escape(found['thing'])}(?:s|es)?\s?(?:[(（][^)）]*[)）])?\s?"
        r"(?:is\b|are\b|means\b|refers\b|stands for\b|是|指|即|とは|は)",
        re.IGNORECASE,
    )


def given_form(question: str) -> re.Pattern[str] | None:
    """What an answer must hold to be of the form that is asked for; None when any form will do."""
    for kind in _KINDS:
        if kind.asked.search(question):
            return kind.given
    counted = _COUNTED.search(question)
    if counted:
        counter = counted.group(1)
        return re.compile(rf"{_NUMBER}\s?{_COUNTERS.get(counter, re.escape(counter))}", re.IGNORECASE)
    return re.compile(_NUMBER, re.IGNORECASE) if _HOW_MANY.search(question) else None


def unknown_names(question: str, texts: Iterable[str]) -> tuple[str, ...]:
    """The names and codes in Latin letters that a question is about and none of the texts holds.

    A name has a capital or a digit in it (`Shopify`, `iPhone`, `SEV1`); a word that is capitalised
    because it begins a sentence is none. Words that follow each other are one name, of which the texts
    may hold a part only: `William Maclure` is known where they speak of Maclure.
    """
    held = "\n".join(texts).casefold()
    names: list[list[str]] = []
    end = -1
    for match in _LATIN_WORD.finditer(question):
        word = match.group()
        begins = _SENTENCE_START.search(question[: match.start()]) is not None
        marked = word[1:] != word[1:].lower() or any(c.isdigit() for c in word) or (word[0].isupper() and not begins)
        if not marked:
            continue
        if names and question[end : match.start()] == " ":
            names[-1].append(word)
        else:
            names.append([word])
        end = match.end()
    unknown = [words for words in names if not any(word.casefold() in held for word in words)]
    return tuple(" ".join(words) for words in unknown if len(" ".join(words)) > 1)
