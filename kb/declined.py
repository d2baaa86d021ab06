r"""Answers in which a model says in its own words that the documents don't answer.

A model that is told to reply with one word often writes a sentence instead: "The provided documents do not mention
…", 资料中没有提到…, 資料には記載がありません. That is no answer. What is looked for is narrow, as a wrong find hides
an answer:

- the whole answer declines: each of its sentences says that the *documents* hold nothing on it, or that the
  question can't be answered from them, or is advice ("Please contact support", 建议您…, ご確認ください);
- it cites nothing: "Refunds are not offered [1]" and "the handbook does not mention it [1]" are answers;
- no sentence goes on with "but" and something that the documents do say.

While an answer streams, a beginning that may be a refusal's (`kb.refusal_openings`) waits as long as `may_decline`
says so: until a citation, the end of a sentence that doesn't decline, or `_BEFORE_NEGATION` characters without a
negation.

    >>> declines("I'm sorry, but the provided documents do not mention parental leave. Please ask your manager.")
    True
    >>> declines("The documents do not mention it, but refunds take 30 days."), declines("退款不适用于特价商品。")
    (False, False)
"""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise

from kb.sentences import CJK

MOST_CHARACTERS = 800
"""A longer text says more than that there is nothing to say; so much of a stream is held back at most."""
# A negation begins within so many Latin letters, or three fourths as many Han or kana: where it comes later, what
# stands before it is an answer. Japanese has it at the end of its sentences.
_BEFORE_NEGATION = 80
_WIDE_SHARE = 4 / 3

_CITED = re.compile(r"\[\d{1,9}\]")
_WIDE = re.compile(f"[{CJK}\u3000-\u303f\uff00-\uffef]")
_STOP = re.compile(r"(?<=[.!?])\s+(?=\S)|(?<=[。！？])\s*(?=[^\s」』”’）)])|\n+(?=\S)")
_NEGATION = re.compile(
    r"\b(?:not|no|none|nothing|cannot|unable|neither|insufficient|lacks?)\b|n['’]t\b|[不没沒無无未难難]|ない|"
    r"ません|なし|なかっ|できかね|不明",
    re.IGNORECASE,
)

# ── English ──

_GIVEN = (
    r"(?:provided|given|supplied|available|retrieved|above|numbered|present|current|user['’]s|your|shared|"
    r"uploaded|cited)"
)
_SOURCE = (
    r"(?:contexts?|documents?|sources?|passages?|excerpts?|snippets?|knowledge base|documentation|reference "
    r"materials?|materials?)"
)
_VAGUE = r"(?:information|texts?|content|files?|records?|data|articles?|material)"
_BEHIND = (
    r"(?:(?: that)?(?: (?:was|were|is|are))? (?:provided|given|supplied|available|above|here|i (?:have|was "
    r"given)|you(?: have|['’]ve)? (?:provided|shared|uploaded|given)))"
)
_SOURCES = (
    rf"(?:(?:any|none|all|either|some) of )?(?:the|these|this|those|your|any|my)? ?"
    rf"(?:(?:{_GIVEN},? )+(?:{_SOURCE}|{_VAGUE})|{_SOURCE}|{_VAGUE}(?={_BEHIND})){_BEHIND}?"
)
_DO_NOT = r"(?:do not|don['’]t|does not|doesn['’]t|did not|didn['’]t|fails? to)"
_ADVERBS = r"(?:(?:appear to|seem to|explicitly|specifically|directly|actually|currently|clearly|also) )*"
_SAY = (
    r"(?:mention|specify|state|say|answer|address|cover|discuss|settle|describe|indicate|reveal|explain|"
    r"clarify|define|detail|refer to|tell|touch on|speak of)s?"
)
_HOLD = r"(?:contain|include|provide|give|have|offer|hold|list|present|supply)s?"
_MATTER = (
    r"(?:information|details?|answers?|mention|data|anything|references?|explanations?|guidance|specifics|"
    r"enough|sufficient|context|statements?|content)"
)
_IS_NOT = r"(?:is|are|was|were)(?: not|n['’]t)"
_SAID = (
    r"(?:mentioned|specified|stated|provided|covered|addressed|discussed|described|included|given|found|"
    r"available|answered|contained|settled|present|listed|defined|documented|explained)"
)

_ENGLISH = (
    rf"{_SOURCES},? {_DO_NOT} {_ADVERBS}{_SAY}(?! that\b)",
    rf"{_SOURCES},? {_DO_NOT} {_ADVERBS}{_HOLD} .{{0,60}}\b{_MATTER}\b",
    rf"{_SOURCES},? (?:has|have|contains?|provides?|includes?|gives?|offers?) (?:no|insufficient|not enough) "
    rf".{{0,40}}\b{_MATTER}\b",
    rf"{_SOURCES},? (?:{_IS_NOT}|lacks?|(?:is|are) silent|(?:is|are) insufficient).{{0,30}}\b(?:sufficient|"
    rf"enough|answer|information|details?|on this)\b",
    rf"(?:none|neither) of {_SOURCES},? {_ADVERBS}(?:{_SAY}|{_HOLD})",
    rf"nothing in {_SOURCES},? {_ADVERBS}(?:{_SAY}|{_HOLD}|relates?)",
    rf"(?:there (?:is|was|are|were) )?(?:no|not any|not enough|insufficient)(?: \w+){{0,4}}? (?:information|details?|"
    rf"answers?|mention|explanations?|guidance)\b(?! (?:may|must|should|shall)\b).{{0,120}}? (?:in|within|"
    rf"among|from) {_SOURCES}",
    rf"(?:there (?:is|was) )?nothing (?:on|about|regarding) .{{1,100}}? (?:in|within|among) {_SOURCES}",
    r"there (?:is|was|are) (?:no|not any|not enough|insufficient) (?:\w+ ){0,2}(?:information|mention|"
    r"details) (?:on|about|of|regarding)",
    rf"no (?:relevant |such |specific |direct )?{_MATTER}.{{0,80}}\b(?:was|were|is|are|could be|can be) "
    rf"(?:found|available|provided|given)",
    rf"i(?: (?:(?:can|could|do|did|was|am)(?: not|n['’]t)|cannot|(?:am|was) unable to)|['’]m unable to|['’]m "
    rf"not able to)"
    rf"(?: able to)? (?:find|locate|see|identify) .{{0,140}}\b(?:in|within|among|from) {_SOURCES}",
    rf"i (?:(?:can|could|do|did)(?: not|n['’]t)|cannot|(?:am|was) (?:unable|not able) to) {_ADVERBS}(?:find|"
    rf"locate|see|have|provide) "
    rf"(?:enough|sufficient|any|an|the|that|this|specific|relevant|access to)? ?(?:relevant |specific )?(?:{_MATTER})",
    rf"(?:i|it|we)(?: (?:can|could)(?: not|n['’]t)| cannot|['’]m unable to| (?:am|was) unable to|['’]m not "
    rf"able to| am not able to| cannot be)"
    rf" (?:be )?(?:determined?|tell|say|confirm(?:ed)?|answer(?:ed)?|know|told|establish(?:ed)?|"
    rf"provide).{{0,120}}\b(?:from|based on|with|using|given|in|by) {_SOURCES}",
    r"i(?: (?:can(?:no|['’])t|can not|could not|couldn['’]t|am unable to|am not able to)|['’]m unable to) "
    r"(?:answer|help with) (?:this|that|the|your) (?:question|request)",
    r"i (?:do not|don['’]t) (?:know|have (?:enough|sufficient|the|any) (?:information|details|context|data))",
    rf"the answer (?:{_IS_NOT}|cannot be|can['’]t be|could not be|does not appear|doesn['’]t appear)\b",
    rf"(?:this|that|such|the requested) (?:information|question|topic|detail|data) (?:{_IS_NOT}|cannot be|"
    rf"can['’]t be|could not be) {_ADVERBS}{_SAID}",
    rf"[^.!?]{{2,70}} (?:{_IS_NOT}|cannot be|can['’]t be) {_ADVERBS}{_SAID} (?:anywhere )?(?:in|by|within|"
    rf"from) {_SOURCES}",
)
# Behind "Based on the provided documents, …", which has named them already.
_ENGLISH_BEHIND = (
    r"(?:i|it|we)(?: (?:can|could)(?: not|n['’]t)| cannot| (?:am|was) unable to|['’]m unable to|['’]m not able to)"
    r" (?:be )?(?:determine|tell|say|confirm|answer|know|establish|provide|find)",
)
_BEFORE_ENGLISH = re.compile(
    rf"(?:(?:i['’]m|i am|we['’]re|we are)? ?(?:very |so )?(?:sorry|afraid)(?: that)?|unfortunately|regrettably|"
    rf"i apologi[sz]e|apologies|therefore|thus|so|hence"
    rf"|as such|(?:based on|according to|from|given|in|within|using|looking at|after reviewing|having "
    rf"reviewed) {_SOURCES}(?: alone| only)?)(?:,? but)?[,:.]? +",
    re.IGNORECASE,
)
_BUT_ENGLISH = re.compile(
    r"\b(?:but|however|although|though|except|instead|whereas|while|only that|they do|it does)\b", re.IGNORECASE
)

# ── Chinese ──

_ZH_SOURCES = (
    r"(?:[您你我]?们?(?:所|已|目前|现有|現有)?(?:提供|给出|給出|给|給|给定|給定|现有|現有|上述|以上|检索到|"
    r"檢索到|已有|当前|目前|这些|這些|相关|相關|已知|参考|參考|任何|各份)?的?)*"
    r"(?:参考|參考)?(?:资料|資料|文档|文檔|文件|材料|上下文|来源|來源|知识库|知識庫|内容|內容|信息|資訊|文本|"
    r"片段|段落)(?:中|里|裡|内|內|之中|当中)?"
)
_ZH_NO_REPORT = r"(?:(?!显示|顯示|表明|指出|规定|規定|写明|寫明|称|稱|：|:|。).)"
_ZH_SAY = (
    r"(?:提到|提及|说明|說明|包含|包括|涉及|给出|給出|提供|找到|记载|記載|涵盖|涵蓋|描述|指出|回答|介绍|介紹|"
    r"列出|规定|規定|查到|显示|顯示|谈及|談及|写明|有关|有關|关于|關於|相关|相關|足够|足夠|任何|答案|这方面|"
    r"這方面|此类|该)"
)
_ZH_CANNOT = r"(?:无法|無法|不能|未能|难以|難以|没办法|没有办法|不足以)"
_ZH_ANSWER = r"(?:回答|作答|确定|確定|得知|找到|判断|判斷|得出|查到|确认|確認|解答|提供|给出|給出|知道|了解)"
_CHINESE = (
    rf"(?:{_ZH_SOURCES})(?:也|均|都|并|並|似乎|，)?{_ZH_NO_REPORT}{{0,30}}?(?:没有|沒有|并未|並未|未|没|"
    rf"沒)(?:曾|能|有|明确|明確|直接|具体|具體|详细|任何|地)*{_ZH_SAY}",
    rf"(?:{_ZH_SOURCES})(?:也|均|都|并|並)?不(?:包含|包括|涉及|足以|足够|足夠|含有|能回答|能说明|能够回答)",
    rf"(?:根据|根據|依据|依據|基于|基於|从|從|仅凭|僅憑|在|按照)?(?:{_ZH_SOURCES})[，,]?(?:我|还|還|是|也|并|"
    rf"並)?{_ZH_CANNOT}.{{0,20}}{_ZH_ANSWER}",
    rf"(?:我)?{_ZH_CANNOT}(?:从|從|根据|根據|依据|依據|在|基于|基於|由|通过)(?:{_ZH_SOURCES}).{{0,40}}{_ZH_ANSWER}",
    r"(?:我)?(?:没有|沒有|未能|未|并未|無法|无法)(?:在.{0,20}(?:中|里|裡))?(?:找到|查到|检索到|檢索到|发现|"
    r"發現).{0,40}(?:信息|資訊|内容|內容|资料|資料|答案|说明|說明|记载|記載|依据|规定)",
    r"(?:我)?(?:无法|無法|不能)(?:回答|解答)(?:这个|這個|该|該|此|您的|你的|这一)?(?:问题|問題)",
    rf"(?:关于|關於|对于|對於|有关|有關).{{1,40}}(?:{_ZH_SOURCES})(?:并|並|中)?(?:没有|沒有|未|并未|並未|没)",
    rf".{{1,30}}(?:在|于)(?:{_ZH_SOURCES})(?:没有|沒有|未|并未|並未|均未)(?:被|有|找到|查到)?.{{0,6}}(?:提及|"
    rf"提到|说明|說明|记载|記載|涉及|规定|答案|信息)",
    r"(?:我)?不(?:知道|清楚)(?:这个问题的)?(?:答案)?",
)
_BEFORE_CHINESE = re.compile(
    r"(?:很|非常|十分|真的)?(?:抱歉|遗憾|遺憾|对不起|對不起|不好意思)(?:地)?[，,。！]?|因此[，,]?|所以[，,]?|由此[，,]?"
)
_BUT_CHINESE = re.compile("但|不过|不過|然而|只是|仅说明|僅|除了|虽然|雖然|尽管|儘管|只提到|只说|只有|仅提")

# ── Japanese ──

_JA_SOURCES = (
    r"(?:(?:ご)?提供(?:された|いただいた|されている)|与えられた|示された|渡された|上記の|この|これらの|"
    r"お手元の|参照した|検索された|参考にした|いずれの|どの)?(?:の)?"
    r"(?:参考資料|資料|文書|ドキュメント|コンテキスト|情報源|出典|文脈|情報|ナレッジベース|テキスト|抜粋|"
    r"マニュアル類)(?:の中|内|中|の範囲|のいずれ)?"
)
_JA_NONE = (
    r"(?:ありません|ございません|ない|見つかりません|見当たりません|見つけられません|確認できません|いません|"
    r"おりません|なかった|なし)(?:でした|です|ようです|ので|ため)?"
)
_JA_MATTER = r"(?:記載|情報|記述|言及|説明|答え|回答|内容|明記|手がかり|該当|規定|定め|データ|触れ)"
_JA_CANNOT = (
    r"(?:わかりません|分かりません|判断できません|お答えできません|回答できません|答えられません|"
    r"確認できません|特定できません|見つけられません|不明です"
    r"|お答えすることができません|回答することはできません|お答えできかねます|判断しかねます|わからない|"
    r"分からない|お答えできない|回答できない|断定できません|見つかりません)(?:でした)?"
)
_JAPANESE = (
    rf"(?:{_JA_SOURCES})(?:に|には|では|で|から|からは|は|だけでは|のみでは|"
    rf"にも)[、,]?[^。]{{0,60}}?{_JA_MATTER}[^。]{{0,14}}?{_JA_NONE}[^。]{{0,20}}$",
    rf"(?:{_JA_SOURCES})(?:から|からは|では|で|だけでは|だけで|のみでは|には|を見る限り|"
    rf"に基づいて)[^。]{{0,60}}{_JA_CANNOT}[^。]{{0,10}}$",
    rf"[^。]{{1,40}}(?:については|に関しては|に関する[^。]{{1,8}}は|は|"
    rf"の[^。]{{1,8}}は)[、,]?(?:{_JA_SOURCES})(?:に|には|では|で|から|"
    rf"からは)[^。]{{0,30}}(?:{_JA_MATTER}[^。]{{0,14}}?{_JA_NONE}|{_JA_CANNOT}|{_JA_NONE})[^。]{{0,10}}$",
    rf"[^。]{{0,40}}(?:該当する|関連する|関する|必要な|十分な)(?:情報|記載|記述|内容|資料|"
    rf"文書)[^。]{{0,20}}{_JA_NONE}[^。]{{0,10}}$",
    r"(?:この|その|ご|本)?(?:質問|ご質問|問い)(?:に|には|にお)[^。]{0,10}(?:お答え|回答|"
    r"答え)[^。]{0,8}(?:できません|できかねます|いたしかねます|られません)[^。]{0,6}$",
    r"(?:お答え|回答)(?:することは|することが|は)?(?:できません|できかねます|いたしかねます)[^。]{0,6}$",
    r"(?:答え|回答)(?:は|が)[^。]{0,20}(?:見つかりません|見つけられません|ありません)(?:でした)?[^。]{0,6}$",
)
_BEFORE_JAPANESE = re.compile(
    r"(?:大変|誠に)?(?:申し訳(?:ありません|ございません|ないです)(?:が|けど)?|すみません(?:が)?|残念ながら|"
    r"恐れ入りますが|恐縮ですが|あいにく)[、。,]?|(?:そのため|したがって|よって)[、,]?"
)
_BUT_JAPANESE = re.compile("ただし|しかし|一方|ものの|けれど|ですが|ますが|ませんが|のみ記載|だけが記載|以外")

# Advice behind a refusal.
_ADVICE = re.compile(
    r"(?:please|if you|if there|you (?:may|might|can|could|should)(?: want to| wish to| need to)? (?:contact|"
    r"check|consult|ask|refer|try|look|reach|provide|share|find)"
    r"|i (?:recommend|suggest|would recommend|would suggest|['’]d recommend|['’]d suggest)|let me know|feel "
    r"free|could you|would you|can you|is there anything|for (?:more|further|this|that|accurate)"
    r"|it (?:may|might|would) be (?:best|helpful|useful|worth)|try )"
    r"|(?:请|請|建议|建議|如果|如需|如有|若|您可以(?:联系|咨询|查阅|查看|提供)|你可以|可以(?:联系|咨询|查阅|"
    r"尝试)|欢迎|是否需要|需要更多)"
    r"|(?:よろしければ|もし|別の|詳しくは|詳細は|詳細については|追加の|必要であれば|必要に応じて|他の資料|"
    r"担当|恐れ入りますが|お手数ですが|ほかに|他に)"
    r"|[^。]{0,40}(?:ください|お願いします|お願いいたします|おすすめします|お勧めします)[。！]?$",
    re.IGNORECASE,
)


_NAMES_SOURCES = re.compile(_SOURCES, re.IGNORECASE)
_LANGUAGES = (
    (_BEFORE_ENGLISH, _ENGLISH, _BUT_ENGLISH),
    (_BEFORE_CHINESE, _CHINESE, _BUT_CHINESE),
    (_BEFORE_JAPANESE, _JAPANESE, _BUT_JAPANESE),
)


@cache
def _one_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """All in one; compiled when first needed, as together they take some tenths of a second."""
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns), re.IGNORECASE)


def declines(text: str) -> bool:
    """Whether a whole answer, its markers being `[n]`, says that the documents don't answer, and nothing else."""
    sentences = _sentences(text)
    return may_decline(text) and _all_decline(sentences) and any(map(_declines, sentences))


def may_decline(text: str) -> bool:
    """Whether an answer that has come so far could still be one that `declines`."""
    if len(text) > MOST_CHARACTERS or _CITED.search(text):
        return False
    *whole, last = _sentences(text) or [""]
    return _all_decline(whole) and _may_go_on(last)


def _sentences(text: str) -> list[str]:
    """Sentences, cut so that what comes behind changes none but the last."""
    text = text.strip()
    ends = [0, *(found.end() for found in _STOP.finditer(text)), len(text)]
    return [text[start:end].strip() for start, end in pairwise(ends) if text[start:end].strip()]


def _all_decline(sentences: list[str]) -> bool:
    return all(_declines(sentence) or _ADVICE.match(sentence) for sentence in sentences)


def _may_go_on(sentence: str) -> bool:
    beginning = _beginning(sentence)
    return len(beginning) == len(sentence) or bool(_NEGATION.search(beginning) or _ADVICE.match(sentence))


def _beginning(sentence: str) -> str:
    """What of a sentence must hold the negation of a refusal."""
    most = _BEFORE_NEGATION
    if len(sentence) * _WIDE_SHARE <= most:
        return sentence
    room = float(most)
    for at, character in enumerate(sentence):
        room -= _WIDE_SHARE if _WIDE.match(character) else 1
        if room < 0:
            return sentence[:at]
    return sentence


def _declines(sentence: str) -> bool:
    if not _NEGATION.search(_beginning(sentence)):
        return False
    sentence = sentence.strip("*_ ").rstrip(".!。！ ")
    languages = _LANGUAGES if _WIDE.search(sentence) else _LANGUAGES[:1]
    return any(_declines_in(sentence, *language) for language in languages)


def _declines_in(sentence: str, before: re.Pattern[str], patterns: tuple[str, ...], but: re.Pattern[str]) -> bool:
    while (found := before.match(sentence)) is not None and found.end() < len(sentence):
        if before is _BEFORE_ENGLISH and _NAMES_SOURCES.search(found.group()):
            patterns = (*_ENGLISH, *_ENGLISH_BEHIND)
        sentence = sentence[found.end() :]
    return but.search(sentence) is None and _one_of(patterns).match(sentence) is not None
