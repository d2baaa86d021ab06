"""The language that a person is answered in: English, Chinese or Japanese, told by its script."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from kb.sentences import CJK

Language: TypeAlias = Literal["en", "zh", "ja"]

_KANA = re.compile("[\u3041-\u3096\u30a1-\u30fa\u3005\uff66-\uff9d]")
_CJK_CHARACTER = re.compile(f"[{CJK}]")
_LATIN_WORD = re.compile(r"[A-Za-z']+")
# Words that only an English question has; names and terms in a Chinese or Japanese one are none of them.
_ENGLISH_GRAMMAR_WORDS = """
what which who whom whose why how when where is are was were does do did can could should would will
the a an of to in on for with about and or if it my your
"""
_ENGLISH_GRAMMAR = frozenset(_ENGLISH_GRAMMAR_WORDS.split())


def question_language(text: str) -> Language:
    """Tell the language of a question by its script: kana is Japanese, other Han text Chinese, else "en".

    A question in another language counts as English; the English rules ask for an answer in the
    question's own language. An English question that merely quotes Chinese or Japanese words stays
    English, and a Chinese one full of English terms stays Chinese:

    >>> question_language("What does 退款 mean?"), question_language("OpenAI rate limit 怎么办")
    ('en', 'zh')
    """
    cjk = len(_CJK_CHARACTER.findall(text))
    if not cjk:
        return "en"
    words = [word.lower() for word in _LATIN_WORD.findall(text)]
    if sum(word in _ENGLISH_GRAMMAR for word in words) >= 2 and cjk <= 2 * len(words):
        return "en"
    return "ja" if _KANA.search(text) else "zh"
