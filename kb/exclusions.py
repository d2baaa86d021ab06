"""What a question excludes: "which plans except Enterprise", 除了信用卡以外, クレジットカード以外.

Cues in English, Chinese and Japanese, precise rather than complete: an exclusion that is none may hide the
right answer, one that is missed costs nothing. So a negated question ("why does it not start?", 没有网络时怎么办,
できない場合は) excludes nothing, and neither does what a language makes words with (non-, 非).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from kb.words import content_terms

_HAN = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff"
_KANA = re.compile("[\u3041-\u3096\u30a1-\u30fa]")
_MOST_CHARACTERS = 1000
"""A longer question is a pasted text, which excludes nothing."""
_MOST_WORDS = 6
"""A longer phrase is a clause, and no thing that could be told by its words."""


@dataclass(frozen=True, slots=True)
class _Found:
    """One cue with its phrase: `question[start:end]` is both."""

    start: int
    end: int
    phrases: tuple[str, ...]


def exclusions(question: str) -> tuple[str, ...]:
    """The phrases that a question excludes, in their order, each once.

    >>> exclusions("Which plans except Enterprise and Pro have a free trial?")
    ('Enterprise', 'Pro')
    >>> exclusions("除了信用卡以外，还能怎么付款？"), exclusions("Why does it not start?")
    (('信用卡',), ())
    """
    return tuple(dict.fromkeys(phrase for found in _find(_plain(question)) for phrase in found.phrases))


def without_exclusions(question: str) -> str:
    """The rest of a question, without what it excludes and the words that say so."""
    text = _plain(question)
    for found in reversed(_find(text)):
        text = f"{text[: found.start]} {text[found.end :]}"
    return " ".join(text.split())


def _plain(question: str) -> str:
    return unicodedata.normalize("NFKC", question).replace("’", "'")


def _find(text: str) -> list[_Found]:
    """All cues that don't overlap, in their order; of two that do, the first."""
    if len(text) > _MOST_CHARACTERS:
        return []
    spaceless = _japanese(text) if _KANA.search(text) else _chinese(text)
    found: list[_Found] = []
    for one in sorted([*_english(text), *spaceless], key=lambda one: (one.start, -one.end)):
        if not found or one.start >= found[-1].end:
            found.append(one)
    return found


def _found(start: int, end: int, phrases: list[str]) -> Iterator[_Found]:
    """One, when there is a word in it that says what is excluded."""
    said = tuple(phrase for phrase in (phrase.strip(" 的の") for phrase in phrases) if content_terms(phrase))
    if said:
        yield _Found(start, end, said)


# ── English ──

_CUE = re.compile(
    r"\b(?:except(?:ing)?(?: for)?|excluding|exclusive of|with the exception of|(?<!none )(?<!no )other than"
    r"|(?<!\bthem )(?<!\bit )(?<!\bus )apart from|aside from|besides|not (?:including|counting)"
    r"|(?<!seconds )(?<!minutes )(?<!hours )(?<!days )(?<!weeks )(?<!months )(?<!years )(?P<without>without)"
    r"|(?P<of_a_thing>but not|(?<=\w )(?:that|which|who) (?:(?:is|are|was|were) not|(?:is|are|was|were)n't)))\s+",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W_][\w.'@/+#-]*", re.UNICODE)
# Passed over at the beginning of the phrase: "without having to go through the staging server".
_BEFORE_WORDS = """
    a an the any my our your their his her its this these those such some having being using use going go to in on at
    of for from by with through via need necessity involving either both without besides except
"""
_BEFORE = frozenset(_BEFORE_WORDS.split())
# Where the phrase ends: what begins a clause or another part of the sentence.
_BEHIND_WORDS = """
    is are was were be been do does did can could will would shall should may might must has have had am that which
    who whom whose when if while because what how why where as than so but in on at for with from by to during after
    before within under until via through into onto since about between among across towards toward there
    include includes offer offers allow allows apply applies exist exists provide provides contain contains require
    requires accept accepts get gets even though due not never only also already usually
"""
_BEHIND = frozenset(_BEHIND_WORDS.split())
_BETWEEN = frozenset({"and", "or", "nor"})
# "except when it rains" excludes a case, "but not limited to" nothing, and "without a doubt" is a manner of speaking.
_NO_PHRASE = re.compile(
    r"(?:when|if|that|where|as|only|limited|least|necessarily|always|yet|all|doubt|question|exception|fail|delay"
    r"|further|success|end|precedent|notice|warning)\b",
    re.IGNORECASE,
)
# "that is not a plan" and "but not SMS" exclude a thing; "rules that are not known" and "but not again" none.
_A_THING = re.compile(r"(?:in |on |for |from )?(?:an? |the |my |our |your |[A-Z\d]|\w+s\b|\w+ \w+s\b)")
# What follows from something missing is asked of a passage on that very thing.
_ASKS_ABOUT_IT = re.compile(r"\bwhat (?:will |would |might |could )?happens?\b|\bwhat if\b|\bwhy\b", re.IGNORECASE)


def _english(text: str) -> Iterator[_Found]:
    for cue in _CUE.finditer(text):
        if cue["without"] and _ASKS_ABOUT_IT.search(text):
            continue
        if cue["of_a_thing"] and not _A_THING.match(text, cue.end()):
            continue
        phrases, end = _words(text, cue.end())
        if phrases and not _NO_PHRASE.match(phrases[0]):
            yield from _found(cue.start(), end, phrases)


def _words(text: str, start: int) -> tuple[list[str], int]:
    """The phrases that begin at `start`, parted by "and" and "or", and where the last ends."""
    parts: list[list[str]] = [[]]
    end, count = start, 0
    while count < _MOST_WORDS and (word := _WORD.match(text, end if end == start else _next(text, end))):
        if word[0] in _BETWEEN:
            parts.append([])
        elif word[0] in _BEFORE and not parts[-1]:
            pass
        elif word[0] in _BEHIND or word[0].endswith("n't"):  # a capital is part of a name: "To the Lighthouse"
            break
        else:
            parts[-1].append(word[0])
            count += 1
        end = word.end()
    return [" ".join(part).rstrip(".'/-") for part in parts if part], end


def _next(text: str, end: int) -> int:
    """Where the next word begins: behind one space, not behind a comma."""
    return end + 1 if text[end : end + 1].isspace() else len(text)


# ── Chinese ──

_P = '[^，。？！、；：,?!;:()（）“”"\\s]'
_ASKS = re.compile("哪|什么|谁|何|几|多少|怎|其他|其它|别的")
_NOT_CHU = "(?<![删解消清免开排去拆扣根废移剔铲切破驱卸])"
# 除了…以外 and 除了…，
_CHU = re.compile(
    f"{_NOT_CHU}除(?!非|夕|法|以|去|此)了?(?P<x>(?:{_P}|、){{1,30}}?)(?:以外|之外|外(?![国面地部观交卖来貌科])的?)"
    f"|{_NOT_CHU}除了(?!此)(?P<y>{_P}{{1,16}}?)(?=[，,]|还|都|哪|什么|谁)"
)
# …以外的 and …除外
_OUTSIDE = re.compile(
    f"(?:^|[，。？、(（的在是有\\s])(?P<x>(?:(?![的在是有]){_P}){{2,12}}?)"
    "(?:(?:以外|之外)的|除外(?=[的，。？、)）,?]|$))"
)
_DISTANCE = re.compile("[\\d一二三四五六七八九十百千万几多]+.{0,3}$|意料|预料|料想|想象|预期|除|此")
# 不包括…的, and behind a comma or a bracket
_NOT_INCLUDING = re.compile(
    f"(?:不包括|不包含|不含)(?!所有)(?P<x>{_P}{{1,10}}?)的|[，,(（]但?(?:不包括|不包含|不含|不算)(?P<y>{_P}{{1,12}})"
)
_WITHOUT = re.compile(
    f"(?:不(?:需要|使用|经过|通过|借助|依赖|带|用)|(?:^|(?<=[，。？,?\\s在找选用])|(?<=哪些)|(?<=什么)|(?<=哪种))没有|无需|无须)"
    f"(?P<x>{_P}{{1,10}}?)"
    "(?:的(?!话|时候|时|原因|问题|影响|结果|后果|东西)|就能|就可|即可|便可|(?=怎么(?!办|样|回事)|怎样|如何(?!处理)|能否|能不能|可以|可不可以))"
)
# Adjectives, passives and verbs behind 没有 and 不用: no thing is excluded by them.
_NO_THING = re.compile(
    "特别|单独|直接|.{0,5}[于过了到给让]|被|得|把|足够|任何|明显|真正|必要|什么|人|担心|说|在|想|办法|发现|受|像|那么|其他|别|.*(?:时|后|的话)$"
)
_CASE = re.compile("情况下?[，,]?(?:会|该|应该|应|要)?(?:怎么办|怎么样|怎样|如何处理|怎么处理|发生)")
_ZH_WHY = re.compile("为什么|为何|为啥|怎么会|原因")


def _chinese(text: str) -> Iterator[_Found]:
    for match in _CHU.finditer(text):
        behind = text[match.end() :]
        also = re.search("也|还", behind)
        # 除了A，B也… and 除了A，还要B吗 ask about B; 除了A还有哪些 asks for what is not A.
        if not also or (also[0] == "还" and _ASKS.search(behind)):
            yield from _found(*match.span(), _listed(match["x"] or match["y"]))
    for match in _OUTSIDE.finditer(text):
        if not _DISTANCE.search(match["x"]):
            yield from _found(match.start("x"), match.end(), _listed(match["x"]))
    for match in _NOT_INCLUDING.finditer(text):
        yield from _found(*match.span(), _listed(match["x"] or match["y"]))
    for match in _WITHOUT.finditer(text):
        asks_about_it = _ZH_WHY.search(text) or _CASE.match(text, match.end())
        if not asks_about_it and not _NO_THING.match(match["x"]):
            yield from _found(*match.span(), _listed(match["x"]))


def _listed(phrase: str) -> list[str]:
    return re.split("[和与及或、]|以及", phrase)


# ── Japanese ──

_N = f"[{_HAN}\u30a1-\u30faー・A-Za-z0-9_.+#-]"
_OKURIGANA = f"(?<=[{_HAN}])[いきしちりけせえれみめ](?=[{_HAN}])"
_NOUN = f"(?:{_N}|{_OKURIGANA})+(?:(?:と|や|の|および|及び|または|又は|、)(?:{_N}|{_OKURIGANA})+)*"
_THING = f"(?=[{_HAN}\u30a1-\u30fa])(?!場合|時|際|限|理由|原因|点|状態)"
_JA = re.compile(
    f"(?P<x>{_NOUN})(?:(?P<besides>以外(?:の|に(?P<also>も)?|で(?P<also2>も)?|は|を|から|と)?)"
    "|を除(?:く(?!に|ため|方法|こと|作業)|い[てた]|き|けば)"
    f"|(?P<without>を(?:使わ|使用せ|利用せ|用い|経|経由せ|通さ|介さ)(?:ずに?|ないで|なくても|ない{_THING})"
    f"|(?:なし|無し)(?:でも?|に|の)|抜き(?:で|の)|の[な無]い{_THING})"
    f"|(?:では|じゃ|で)ない{_THING})"
)
_JA_ASKS = re.compile("何|どんな|どの|どれ|誰|いつ|どこ|なに|ほか|他|どう")
# どんな物を除いた全てが… asks for what is excluded.
_JA_ASKED = re.compile("(?:どんな|どの|どちらの|何の|どういう)$")
_JA_WHY = re.compile("なぜ|何故|どうして|どうなる|どうなり|理由|原因")
_JA_IDIOM = re.compile("[手息骨色毛税]$|(?:問題|間違い|限り|関係|意味|他|変わり|人気|仕方|例外)$")


def _japanese(text: str) -> Iterator[_Found]:
    for match in _JA.finditer(text):
        if _JA_IDIOM.search(match["x"]) or (match["without"] and _JA_WHY.search(text)):
            continue
        if _JA_ASKED.search(text, 0, match.start()):
            continue
        # X以外にもYは使えますか asks about Y; X以外にも何が asks for what is not X.
        if (match["also"] or match["also2"]) and not _JA_ASKS.search(text, match.end()):
            continue
        yield from _found(*match.span(), re.split("と|や|および|及び|または|又は|、", match["x"]))
