"""Whether two sentences about the same say it or deny it: is not, 没有, ありません, unable; increased and decreased.

A negation is told by its cue, and what it negates by the words beside it: in English and Chinese those that
follow, in Japanese those before. What a language only makes words with, or doesn't deny, is none: "not only",
不但, なければならない, 无线, 必ず.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from kb.sentences import Span
from kb.words import content_terms, has_cjk

_SCOPE_TERMS = 4
"""Words, or pairs of characters, beside a cue that it may negate."""
_SCOPE_CHARACTERS = 80
_CJK_SCOPE_CHARACTERS = 7
_KANA_AFTER = 2
"""A cue may end in kana that both sides have: なかった and した differ by しなかっ."""

_CUE = re.compile(
    r"\b(?:not|cannot|never|neither|nor|none|nobody|nothing|nowhere|without|no(?!\.? ?\d)|fail(?:s|ed)? to"
    r"|lack(?:s|ed|ing)?|unable to|refus(?:es?|ed|ing) to|hardly|barely)\b|n't\b"
    r"|(?P<zh>不|没有|沒有|没|沒|未|无|無|非|勿|别|否)"
    r"|(?P<ja>な(?:い|く|かっ|し|けれ)|ませ(?:ん|ぬ)|(?<=[あかがさたなばまらわせべれえけてねめげ])ず(?:に|、|。)?|まい)",
    re.IGNORECASE,
)
_NOT_NEGATIONS = re.compile(
    r"\bnot (?:only|just|merely|simply|least|until|to mention)\b|\bno (?:doubt|less than|fewer than|sooner|matter)\b"
    r"|\bnothing but\b|\bwhether or not\b|\bor not\b|\bno(?=\. ?\d)"
    "|不[但仅僅只止光单過过同断斷少久满錯错论論管列丹锈朽幸禁愧惜由一时及等足良]|不得不|不能不|不可[思或]|差不多|不动产|不動産|不思議"
    "|[无無]人(?=[机機の\\W])|[无無][论論线線数數锡比不非穷限疑声烟机機事料視理]|未[来來婚]|未成年|非[洲常凡]|[除莫]非|非营利|非営利|非政府|[是能可与]否|是非|否则|否則"
    "|别[人的墅名称号]|[区特分类级性个告识派]别|(?<=[年歳])没|没[收落入]|[沉淹出埋日戦]没"
    "|な(?:ければ|くては|いと)(?:なら|いけ)\\w+|ざるを得\\w+|(?:だけ|のみ|ばかり)で(?:は)?なく|かもしれ(?:ない|ません)|(?:少な|危な)[いくか]"
    "|(?:ま|間)もなく|なく(?:す|し[たて]|なる|なっ)|行なく|はかな[いく]|つな[いがぐげ]|[い]ずれ|わずか|僅か|必ず|まず|はず|みず"
    "|[か関]かわらず|関わらず|相変わらず|思わず|絶えず|おのず|やむを得ず|やむなく|に(?:過|す)ぎな|(?:ほか|他)なら|ではないか",
    re.IGNORECASE,
)
_CLAUSE_END = re.compile(r"[,;:.!?。，、；：！？)）」]| but | although | though | while | whereas | because |但|而")
_QUESTION = re.compile(r"[?？]\s*[\"”」』）)]?\s*$|[か吗呢]。?$")

_OPPOSITES = """
increas decreas | rise fall | rose fell | risen fallen | more less | more fewer | higher lower | high low | before after
| alway never | allow forbid | allow prohibit | includ exclud | accept reject | succeed fail | win lose | won lost
| agre disagre | support oppos | support refut | enabl disabl | enabl prevent | promot inhibit | activ inhibit
| gain loss
| larger smaller | largest smallest | faster slower | oldest youngest | older younger | highest lowest | most least
| maximum minimum | open close | start end | begin end | first last | north south | east west | northern southern
| eastern western
| left right | legal illeg | posit negat | strengthen weaken | improv worsen | upregul downregul | up-regul down-regul
| 增加 减少 | 增长 下降 | 上升 下降 | 提高 降低 | 升高 降低 | 高于 低于 | 多于 少于 | 大于 小于 | 允许 禁止 | 之前 之后
| 以前 以后
| 支持 反对 | 成功 失败 | 胜利 失败 | 最大 最小 | 最高 最低 | 最多 最少 | 最早 最晚 | 包括 除外 | 进口 出口 | 开始 结束
| 肯定 否定
| 増加 減少 | 上昇 下降 | 上昇 低下 | 許可 禁止 | 以前 以降 | 以上 以下 | 最大 最小 | 最高 最低 | 成功 失敗 | 賛成 反対
| 開始 終了
| 可能 不可 | 右側 左側 | 北部 南部 | 东部 西部 | 東部 西部 | 左侧 右侧
"""
_OPPOSITE: dict[str, set[str]] = {}
for _pair in _OPPOSITES.split("|"):
    _one, _other = _pair.split()
    _OPPOSITE.setdefault(_one, set()).add(_other)
    _OPPOSITE.setdefault(_other, set()).add(_one)
_PREFIX = re.compile(r"(?:un|in|im|ir|il|dis|non-?)(?=[a-z]{4})")

_ASSIMILATED = frozenset(("im", "ir", "il"))
"""Before these the stem of a word may be cut otherwise than without: "imposs", "possibl"."""


@dataclass(frozen=True, slots=True)
class Negation:
    """A cue, and the words that it may negate."""

    cue: str
    start: int
    end: int
    """Where the cue stands in the sentence in NFKC."""
    scope: tuple[str, ...]
    """Nearest first."""
    around: str = ""
    """In Chinese and Japanese the cue with a character before and after, such as 眠不醒."""


@lru_cache(maxsize=4096)
def negations(sentence: str) -> tuple[Negation, ...]:
    """The negations of a sentence, in order; a question denies nothing."""
    text = unicodedata.normalize("NFKC", sentence).replace("’", "'")
    if _QUESTION.search(text):
        return ()
    return tuple(_negations(text))


def _negations(text: str) -> Iterator[Negation]:
    plain = [found.span() for found in _NOT_NEGATIONS.finditer(text)] if _CUE.search(text) else []
    for cue in _CUE.finditer(text):
        if any(start <= cue.start() < end for start, end in plain):
            continue
        around = text[max(0, cue.start() - 1) : cue.end() + 1] if cue["zh"] or cue["ja"] else ""
        scope = _before(text, cue.start()) if cue["ja"] else _after(text, cue.end(), cjk=bool(cue["zh"]))
        yield Negation(cue.group(), cue.start(), cue.end(), tuple(term for term in scope if len(term) > 1), around)


_MODAL = re.compile("能够|能|可以|可|会|會|得|应该|应|需要|需|必须|必|愿意|想|再|曾")
"""Between 不 and what it denies: 不能结转 denies 结转."""


def _after(text: str, start: int, *, cjk: bool) -> list[str]:
    modal = _MODAL.match(text, start) if cjk else None
    start = modal.end() if modal else start
    beside = text[start : start + (_CJK_SCOPE_CHARACTERS if cjk else _SCOPE_CHARACTERS)]
    end = _CLAUSE_END.search(beside, 1)
    return content_terms(beside[: end.start()] if end else beside)[:_SCOPE_TERMS]


def _before(text: str, end: int) -> list[str]:
    beside = text[max(0, end - 2 * _CJK_SCOPE_CHARACTERS) : end]
    clause = re.split(r"[、。，,（）「」]", beside)[-1] or beside
    return content_terms(clause)[: -_SCOPE_TERMS - 1 : -1]


def turned_around(claim: str, sentence: str, gaps: Iterable[tuple[Span, Span]] = ()) -> str | None:
    """The word by which a claim says the opposite of a sentence about the same; None when it doesn't.

    Args:
        claim: A sentence.
        sentence: What it is compared with.
        gaps: Where they differ by a few words between words that agree, as spans of both in NFKC: a negation on
            one side of a gap turns around what stands beside it.

    >>> turned_around("The plan is not free.", "The plan is free."), turned_around("It is free.", "It is free.")
    ('not', None)
    """
    denied, stated = negations(claim), negations(sentence)
    for one, other in gaps if denied or stated else ():
        ours = [negation for negation in denied if _within(negation, one)]
        theirs = [negation for negation in stated if _within(negation, other)]
        # With other words in the gap it may be a modifier that one side has more, as in "unused days" and "days".
        if len(ours) % 2 != len(theirs) % 2 and _rest(claim, one, ours) == _rest(sentence, other, theirs):
            return (ours or theirs)[0].cue.lower()
    for alone, own, about in _unmatched(denied, stated, claim, sentence):
        if _speaks_of(_terms(about), alone.scope, _often(own)) and not _undone(alone.scope, _terms(about), _terms(own)):
            return alone.cue.lower()
    if denied or stated:
        return None  # "did not increase" and "decreased": no way to tell
    return _opposite(_terms(claim), _terms(sentence))


def _rest(sentence: str, gap: Span, cues: Sequence[Negation]) -> frozenset[str]:
    """The words of a gap beside its negations."""
    text = unicodedata.normalize("NFKC", sentence)[: gap[1]]
    for cue in cues:
        text = f"{text[: cue.start]}{' ' * (cue.end - cue.start)}{text[cue.end :]}"
    return frozenset(content_terms(text[gap[0] :]))


def _within(negation: Negation, span: Span) -> bool:
    return span[0] <= negation.start and negation.end <= span[1] + _KANA_AFTER


def _unmatched(
    denied: Sequence[Negation], stated: Sequence[Negation], claim: str, sentence: str
) -> Iterator[tuple[Negation, str, str]]:
    """The negations of either side that deny nothing that one of the other side denies, each used once."""
    left = list(stated)
    for negation in denied:
        common, at = max(((_alike(negation, one), -i) for i, one in enumerate(left)), default=(0, 0))
        if common:
            del left[-at]
        elif negation.scope and negation.scope[0] not in _terms(sentence) and left:
            del left[0]  # "not allowed" beside "not permitted"
        else:
            yield negation, claim, sentence
    for negation in left:
        yield negation, sentence, claim


def _alike(one: Negation, other: Negation) -> int:
    """How much of what they deny is the same; all when they stand between the same characters."""
    return len({*one.scope} & {*other.scope}) + _SCOPE_TERMS * (one.around != "" and one.around == other.around)


@lru_cache(maxsize=4096)
def _terms(sentence: str) -> frozenset[str]:
    return frozenset(content_terms(sentence))


@lru_cache(maxsize=4096)
def _often(sentence: str) -> frozenset[str]:
    """Words that stand in a sentence more than once: what is denied of one may be said of the other."""
    counts = Counter(content_terms(sentence))
    return frozenset(term for term, count in counts.items() if count > 1)


def _speaks_of(about: frozenset[str], scope: tuple[str, ...], often: frozenset[str]) -> bool:
    """Whether a sentence has what is denied: the pair of characters at the cue, or half of the words in its scope."""
    said = [term for term in scope if term not in often]
    if not said:
        return False
    if has_cjk(said[0]):
        return said[0] == scope[0] and said[0] in about
    return 2 * sum(term in about for term in said) >= len(said)


def _undone(scope: tuple[str, ...], about: frozenset[str], own: frozenset[str]) -> str | None:
    """The word that says with a prefix what the other says with a cue, as "not able" and "unable"."""
    for word in about - own:
        prefix = _PREFIX.match(word)
        if prefix and word[prefix.end() :] in scope:
            return word
    return None


def _opposite(ours: frozenset[str], theirs: frozenset[str]) -> str | None:
    only_ours, only_theirs = ours - theirs, theirs - ours
    for word in sorted(only_ours):
        if _OPPOSITE.get(word, frozenset()) & only_theirs or _prefixed(word, only_theirs):
            return word
    for word in sorted(only_theirs):
        if _prefixed(word, only_ours):
            return word
    return None


def _prefixed(word: str, others: frozenset[str]) -> bool:
    """Whether a word denies one of the others by a prefix: "unable" and "able", "imposs" and "possibl"."""
    prefix = _PREFIX.match(word)
    if prefix is None:
        return False
    rest = word[prefix.end() :]
    return rest in others or (prefix.group() in _ASSIMILATED and any(other.startswith(rest) for other in others))
