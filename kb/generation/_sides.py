"""The sides of a question that asks for two things: a comparison, or two questions in one."""

from __future__ import annotations

import re

_MOST_CHARACTERS = 60
_THING = rf"(.{{1,{_MOST_CHARACTERS}}}?)"
_COMPARED = (
    re.compile(rf"\b(?:difference|differences|differ) between {_THING} and {_THING}[?.]?$", re.IGNORECASE),
    re.compile(
        rf"\bhow (?:do|does|is|are) {_THING} (?:differ(?:ent)? from|compare (?:to|with)) {_THING}[?.]?$", re.IGNORECASE
    ),
    re.compile(rf"\bcompare {_THING} (?:and|with|to) {_THING}[?.]?$", re.IGNORECASE),
    re.compile(rf"^{_THING}(?:和|与|跟|同){_THING}(?:之间)?(?:有(?:什么|何|哪些)|的)?(?:区别|不同|差别|差异)"),
    re.compile(rf"^{_THING}と{_THING}(?:との|の)(?:違い|差|相違)"),
)
_TWO_QUESTIONS = (
    re.compile(
        r"^(?P<first>.+?)(?:,| and|, and|;)\s+(?:and\s+)?"
        r"(?P<second>(?:how|what|which|who|when|where|why|on which|by when)\b.+)$",
        re.IGNORECASE,
    ),
    re.compile(
        r"^(?P<first>.*(?:什么|多少|几|哪|谁|怎么|多久|吗).*?)[，,；;？?]\s*(?P<second>.*(?:什么|多少|几|哪|谁|怎么|多久|吗).*)$"
    ),
    re.compile(
        r"^(?P<first>.*(?:何|いつ|どこ|誰|だれ|いくら|どの|どれ|か、|か。).*?)[、。？?]\s*(?P<second>.*(?:何|いつ|どこ|誰|だれ|いくら|どの|どれ).*)$"
    ),
)
# A clause that begins so says under what condition, and asks nothing.
_ASKS = re.compile(
    r"(?!(?:when|where|if|while|as|once|after|before)\b).*\b(?:how|what|which|who|when|where|why)\b", re.IGNORECASE
)
_LATIN = re.compile(r"[A-Za-z]")


def sides(question: str) -> tuple[str, ...]:
    """What each side asks for, as a question or a name of its own; none when there is one side.

    >>> sides("What is the difference between a webhook and polling?")
    ('a webhook', 'polling')
    >>> sides("How long is the link valid, and who gets it?")
    ('How long is the link valid', 'who gets it?')
    """
    asked = question.strip()
    for pattern in _COMPARED:
        if found := pattern.search(asked):
            return found.group(1).strip(), found.group(2).strip()
    for pattern in _TWO_QUESTIONS:
        found = pattern.search(asked)
        if found and (not _LATIN.match(asked) or _ASKS.match(found["first"])):
            return found["first"].strip(), found["second"].strip()
    return ()
