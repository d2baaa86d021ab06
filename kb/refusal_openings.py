"""How refusals in a model's own words begin: a stream waits only as long as its first words may be such a beginning.

An answer is shown from its first word on. A refusal that begins like an answer ("Parental leave is not mentioned in
the documents.") is then told at its end; it stays in the model's words, and counts as not answered all the same.
"""

from __future__ import annotations

_ENGLISH = """
i'm sorry|i am sorry|sorry|i'm afraid|i am afraid|i apologize|i apologise|apologies|unfortunately|regrettably
i can|i could|i do not|i don't|i did not|i didn't|i was|i'm unable|i am unable|i'm not able|i am not able|i have no
it can|it is not|it isn't|we can|we could|we are unable|there is no|there isn't|there was no|there are no|there were no
there is insufficient|there is not enough|no |none of|nothing|neither|not enough|insufficient
the provided|the given|the supplied|the available|the retrieved|the above|the numbered|the present|the current
the user's|the uploaded|the shared|the cited|the context|the document|the source|the passage|the excerpt|the snippet
the knowledge base|the reference|the material|the information|the text|the content|the files|the records|the data
the articles|the answer|the requested|these |those |this |that |your |my |any of|all of|either of|some of
provided|given|supplied|based on|according to|from the|from these|from your|in the|within the|using the|looking at
after reviewing|having reviewed|therefore|thus|so |hence|as such
"""
_CHINESE = """
抱歉|很抱歉|非常抱歉|十分抱歉|真的抱歉|对不起|對不起|不好意思|遗憾|很遗憾|遺憾|很遺憾|非常遗憾|因此|所以|由此
根据|根據|依据|依據|基于|基於|从|從|仅凭|僅憑|在|按照|资料|資料|文档|文檔|文件|材料|上下文|来源|來源|知识库|知識庫|内容|內容|信息
資訊|文本|片段|段落|参考|參考|提供|您|你|我|所|已|目前|现有|現有|给|給|上述|以上|检索|檢索|当前|这些|這些|相关|相關|任何|各份
没有|沒有|未能|未|并未|並未|无法|無法|不能|不知道|不清楚|关于|關於|对于|對於|有关|有關
"""
_JAPANESE = """
申し訳|大変申し訳|誠に申し訳|すみません|残念|恐れ入り|恐縮|あいにく|そのため|したがって|よって|ご提供|提供|与えられ|示された|渡された
上記|この|その|これらの|お手元|参照|検索|参考|いずれ|どの|資料|文書|ドキュメント|コンテキスト|情報|出典|文脈|ナレッジ|テキスト|抜粋
マニュアル|該当|関連|関する|必要な|十分な|ご質問|質問|問い|本質問|お答え|回答|答え
"""
OPENINGS = tuple(
    opening for lines in (_ENGLISH, _CHINESE, _JAPANESE) for line in lines.splitlines() for opening in line.split("|")
)
_DECORATION = " \t\r\n*_`\"'“”「」>#-"
_LONGEST = max(map(len, OPENINGS))


def may_open_refusal(text: str) -> bool:
    """Whether the first words of an answer, as far as they have come, may begin a refusal.

    >>> [may_open_refusal(text) for text in ("", "Th", "The documents do", "The limit", "A 429 means", "资料中没有")]
    [True, True, True, False, False, True]
    """
    beginning = text.lstrip(_DECORATION)[:_LONGEST].lower().replace("’", "'")
    return any(beginning.startswith(opening) or opening.startswith(beginning) for opening in OPENINGS if opening)
