"""Whether a question leans on what was asked before, as "And in Japan?", 那大阪呢？ and それはいつまでですか do.

Cues in English, Chinese and Japanese, precise rather than complete: a question that stands by itself must never be
altered, and one that is missed is searched as it was asked. A question leans when it

1. only names something else to ask the same of ("What about a service?", 大阪では？): it adds to the one before,
2. refers to what it does not name (it, they, there, 它, それ), unless that stands earlier in the question itself ("If a
   parcel is lost, who pays for it?"; Hobbs 1978, doi:10.1016/0024-3841(78)90006-2, looks there first as well),
3. or says too little to be searched ("How long?", 谁批准？, いつまでですか): all its words could be asked of anything.
"""

from __future__ import annotations

import unicodedata

from kb.leaning._english import english
from kb.leaning._leaning import Leaning as Leaning
from kb.leaning._unspaced import chinese, japanese
from kb.prompts import question_language

_MOST_CHARACTERS = 300
"""A longer question is a pasted text, or tells all that it is about."""


def leaning(question: str) -> Leaning | None:
    """Tell how a question leans on what was asked before it; None when it stands by itself.

    >>> leaning("And in Japan?"), leaning("How long does it take?"), leaning("How long is a reset link valid?")
    (Leaning(adds='in Japan'), Leaning(adds=''), None)
    >>> leaning("那大阪呢？"), leaning("それはいつまでですか。"), leaning("怎样重置密码呢？")
    (Leaning(adds='大阪'), Leaning(adds=''), None)
    """
    text = plain(question)
    if not text or len(text) > _MOST_CHARACTERS:
        return None
    language = question_language(text)
    if language == "en":
        return english(text)
    return chinese(text) if language == "zh" else japanese(text)


def plain(question: str) -> str:
    """A question on one line, in one form for each character."""
    return " ".join(unicodedata.normalize("NFKC", question).replace("’", "'").split())
