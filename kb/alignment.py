"""Where a claim agrees with a sentence before and after, and in between says something else.

The words of both, in Chinese and Japanese their characters, are laid side by side by their longest common runs
(Ratcliff and Metzener 1988, as in difflib).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache

from kb.names import COMMON_CAPITALS, fold
from kb.quantities import Quantity, agrees, quantities
from kb.sentences import CJK, Span
from kb.words import STOP_WORDS

_TOKEN = re.compile(rf"\d+(?:[.,]\d+)+|[^\W_{CJK}]+(?:['’\-&][^\W_{CJK}]+)*|[{CJK}]")
_CJK = re.compile(f"[{CJK}]")
_CLAUSE = re.compile(r"[，。；;！？!?]|[,.:：]\s")
_SAYS_LITTLE = re.compile(r"[ぁ-ゖー\d,.的了在是和与及被把也都就而于由从對对為为不没沒并以其之将至为来到]")
"""Hiragana, digits, 不 and 没, which are checked as negations, and grammar."""
_NUMERAL = re.compile(r"[〇零一二两兩三四五六七八九十百千万亿億]")

_LEAST_ALIGNED = 0.5
"""Of the claim's tokens; where fewer stand in the sentence in order, it says something else, and nothing is swapped."""
_EDGE = 2
"""So many tokens have to agree beside a swap, unless claim or sentence begins or ends there."""
_MOST_TOKENS = 250
_LEAST_CJK_SWAP = 2
_MOST_SWAPPED = 14
_SHORT = 6

_EVERYDAY_WORDS = """
    推出 发布 发表 出版 建立 创立 成立 创建 开始 位于 坐落 属于 包括 包含 成为 作为 担任 获得 取得 得到 进行 举行
    举办 开展 使用 利用 采用 认为 表示 指出 提出 提到 说明 称为 叫做 名叫 又称 亦称 即是 就是 并且 而且 以及 还有
    同时 此外 因此 所以 由于 因为 但是 然而 虽然 之后 之前 以后 以前 后来 随后 当时 目前 现在 其中 主要 通常 一般
    大约 可以 能够 需要 应该 必须 可能 已经 曾经 正在 分别 共同 一同 出生 诞生 去世 逝世 死亡 加入 参加 参与 离开
    前往 来到 抵达 返回 居住 生活 工作 学习 毕业 结婚 设立 设置 安装 建造 修建 建设 兴建 生产 制造 制作 开发 研发
    研制 设计 发明 发现 产生 出现 发生 形成 构成 组成 导致 造成 引起 影响 改变 变成 转变 增加 提高 提供 支持 负责
    管理 领导 控制 拥有 具有 持有 存在 分布 覆盖 达到 超过 接近 等于 相当 用于 用来 适合 根据 按照 通过 经过 关于
    对于 至于 位在 開始 設立 設置 建設 採用 発表 発売 製造 開発 所属 就任 獲得 位置 現在 当時 以後 場合 必要
"""
_EVERYDAY = re.compile("|".join(_EVERYDAY_WORDS.split()))
"""Verbs and the like, which are no names: 创立 in the place of 建立 says the same, or near it."""


@dataclass(frozen=True, slots=True)
class Swap:
    """What a claim has in the place of something else."""

    claimed: str
    stated: str


@dataclass(frozen=True, slots=True)
class _Token:
    key: str
    text: str
    start: int
    end: int


def _key(word: str) -> str:
    """A word as it is compared: 3,500 is 3500."""
    return word.replace(",", "") if word[0].isdigit() else fold(word)


@lru_cache(maxsize=2048)
def _tokens(sentence: str) -> tuple[str, tuple[_Token, ...], tuple[str, ...]]:
    text = unicodedata.normalize("NFKC", sentence)
    tokens = tuple(_Token(_key(found.group()), found.group(), *found.span()) for found in _TOKEN.finditer(text))
    return text, tokens, tuple(token.key for token in tokens)


@dataclass(frozen=True, slots=True)
class Aligned:
    """A claim laid beside a sentence."""

    swaps: tuple[Swap, ...] = ()
    """Names, numbers and in Chinese and Japanese a few characters that the claim has in the place of others."""
    gaps: tuple[tuple[Span, Span], ...] = ()
    """Where they differ by a few words: spans of both in NFKC, either of which may be empty."""


def align(claim: str, sentence: str, sources: Sequence[str] = ()) -> Aligned:
    """Compare a claim with a sentence word by word.

    What stands elsewhere in `sources` is swapped only when it is short, as more may be another sentence's statement.

    >>> align("The museum of Kyoto opened in May.", "The museum of Osaka opened in May.").swaps
    (Swap(claimed='Kyoto', stated='Osaka'),)
    """
    text, ours, our_keys = _tokens(claim)
    other, theirs, their_keys = _tokens(sentence)
    if not ours or not theirs or max(len(ours), len(theirs)) > _MOST_TOKENS:
        return Aligned()
    blocks = SequenceMatcher(None, our_keys, their_keys, autojunk=False).get_matching_blocks()
    if sum(block.size for block in blocks) < _LEAST_ALIGNED * len(ours):
        return Aligned()
    found: list[Swap] = []
    gaps: list[tuple[Span, Span]] = []
    for (a, a_end), (b, b_end) in _between(len(ours), len(theirs), [(x.a, x.b, x.size) for x in blocks[:-1]]):
        if max(a_end - a, b_end - b) <= _SHORT:
            gaps.append((_span(ours, a, a_end), _span(theirs, b, b_end)))
        # A claim that is a part of the sentence has beside its end only the words next to it.
        if a == 0:
            b = max(b, b_end - (a_end - a) - 1)
        elif a_end == len(ours):
            b_end = min(b_end, b + (a_end - a) + 1)
        one, two = ours[a:a_end], theirs[b:b_end]
        if not one or not two or max(len(one), len(two)) > _MOST_SWAPPED:
            continue
        swap = Swap(text[one[0].start : one[-1].end], other[two[0].start : two[-1].end])
        if _CLAUSE.search(swap.claimed) or _CLAUSE.search(swap.stated):
            continue
        if max(len(one), len(two)) > _SHORT and _stands_in(swap.claimed, sources):
            continue
        if _names_swapped(one, two, set(our_keys), set(their_keys)) or _numbers_swapped(claim, one, sentence, two):
            found.append(swap)
    return Aligned(tuple(found), tuple(gaps))


def _span(tokens: Sequence[_Token], first: int, last: int) -> Span:
    """From the token before to the token after, so that an empty run has its place."""
    start = tokens[first - 1].end if first else 0
    return start, tokens[last].start if last < len(tokens) else tokens[-1].end + 1


def _between(our_length: int, their_length: int, blocks: Sequence[tuple[int, int, int]]) -> Iterator[tuple[Span, Span]]:
    """The places of what stands on both sides between two runs that agree, or before the first or after the last."""
    last = (our_length, their_length)
    solid = [(a, b, size) for a, b, size in blocks if size >= _EDGE or (a, b) == (0, 0) or (a + size, b + size) == last]
    ends = [(0, 0), *((a + size, b + size) for a, b, size in solid)]
    begins = [*((a, b) for a, b, _ in solid), last]
    for (a, b), (a_end, b_end) in zip(ends, begins, strict=True):
        if a < a_end or b < b_end:
            yield (a, a_end), (b, b_end)


def _stands_in(text: str, sources: Sequence[str]) -> bool:
    return any(text in _tokens_of_source(source) for source in sources)


@lru_cache(maxsize=512)
def _tokens_of_source(source: str) -> str:
    return unicodedata.normalize("NFKC", source)


def _names_swapped(ours: Sequence[_Token], theirs: Sequence[_Token], our_keys: set[str], their_keys: set[str]) -> bool:
    """Whether both sides hold a name, or some characters that mean something, which the other one lacks."""
    new = [token for token in ours if token.key not in their_keys]
    gone = [token for token in theirs if token.key not in our_keys]
    if not any(_CJK.match(token.text) for token in ours):
        return any(map(_is_name, new)) and any(map(_is_name, gone))
    if not new or not gone:
        return False
    return all(_says(some) >= _LEAST_CJK_SWAP for some in (ours, theirs)) and bool(_says(new))


def _says(tokens: Sequence[_Token]) -> int:
    """How many characters of a run mean something; everyday words don't, and numerals only within a word (九州)."""
    text = _EVERYDAY.sub("", "".join(token.text for token in tokens))
    said = [character for character in text if _SAYS_LITTLE.match(character) is None]
    return len(said) if any(_NUMERAL.match(character) is None for character in said) else 0


def _is_name(token: _Token) -> bool:
    return token.text[0].isupper() and token.key not in COMMON_CAPITALS and token.key not in STOP_WORDS


def _numbers_swapped(claim: str, ours: Sequence[_Token], sentence: str, theirs: Sequence[_Token]) -> bool:
    one = [quantity for quantity in quantities(claim) if quantity.sure and _overlaps(quantity, ours)]
    two = [quantity for quantity in quantities(sentence) if _overlaps(quantity, theirs)] if one else []
    return bool(two) and not any(agrees(quantity, two) for quantity in one)


def _overlaps(quantity: Quantity, run: Sequence[_Token]) -> bool:
    return quantity.start < run[-1].end and run[0].start < quantity.end
