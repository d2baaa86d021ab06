"""Questions in English that lean on what was asked before."""

from __future__ import annotations

import re

from kb.leaning._leaning import Leaning
from kb.words import content_terms, identifiers

_MOST_WORDS = 6
"""Of a fragment that begins with a preposition."""

_OPENERS = re.compile(
    r"(?:(?:ok(?:ay)?|so|and|but|or|also|then|now|yes|no|well|right|hm+|great|alright|sure|thanks"
    r"|thank you)\b[\s,.!:–—-]*)+",
    re.IGNORECASE,
)
_JOINS = re.compile(r"\b(?:and|but|or|also|then|so)\b", re.IGNORECASE)
_ABOUT = re.compile(
    r"(?:what|how) about\b|what of\b|(?:(?:is it|is that|are they|it is) )?(?:the )?same (?=(?:for|in|with|at|on) )"
    r"|how is it (?=(?:for|in|with|at) )",
    re.IGNORECASE,
)
_ASKS = re.compile(
    r"(?:what|how|when|where|who|whom|whose|why|which)\b"
    r"|(?:is|are|was|were|am|do|does|did|can|could|will|would|shall|should|may|might|must|has|have|had"
    r"|isn't|aren't|wasn't|don't|doesn't|didn't|can't|couldn't|won't|wouldn't|shouldn't|haven't|hasn't)\b"
    r"|(?:show|tell|give|list|explain|describe|compare|summari[sz]e|find|please|let)\b",
    re.IGNORECASE,
)
_ASKS_WITHIN = re.compile(
    r"\b(?:how|what|why|which|(?:do|does|did|can|is|are|must|may|should) (?:i|we|you|the|it))\b", re.I
)
_CASE = re.compile(
    r"(?:if|when|where|while|after|before|until|unless|as long as) "
    r"(?:i|i'm|we|we're|you|you're|it|it's|they|they're|he|she|the|my|our|your|a|an|some\w+|no\w+|any\w+)\b",
    re.IGNORECASE,
)
_PREPOSITION = re.compile(
    r"(?:in|for|at|with|without|by|from|during|under|over|via|per|on|after|before|only|even|not)\b", re.IGNORECASE
)
_TOO = re.compile(r",?\s*\b(?:too|as well|then|instead|though)?[\s?.!]*$", re.IGNORECASE)
_ENDS_TOO = re.compile(r"\b(?:too|as well)\s*\?$", re.IGNORECASE)

# "Is it possible to …", "how long does it take to …", "is there": these refer to nothing.
_EXPLETIVE = re.compile(
    r"\b(?:(?:is|was|isn't|would|will) it(?: be)?|it(?:'s| is| was| would be| will be)) (?:\w+ ){1,2}?"
    r"(?:to|that|if|whether|when|for (?:\w+ ){1,3}to)\b"
    r"|\b(?:does|do|did|will|can|could|may) it (?:normally |usually |typically )?(?:take|cost|need|require)"
    r"(?: (?!to\b|until\b|before\b)[\w']+){0,4} (?:to|until|before|for (?:an?|the|my|our|your))\b"
    r"|\b(?:sa(?:y|ys|id)|announce[ds]?|claim(?:s|ed)?|believe[ds]?|thinks?|thought)"
    r" (?:that )?(?:it|they|he|she) (?:would|will|had|has|is|was|were|could|can|did|should)\b"
    r"|\bwhat does it mean (?:for|to|when|if|that)\b"
    r"|^it(?:'s| is)\b|\bdoes it (?:matter|make sense|happen)\b|\bwhen it comes to\b|\bit (?:rains|snows)\b"
    r"|\b(?:is|are|was|were|be|isn't|aren't|if|that|whether|when) there\b|\bthere(?:'s| is| are| was| were| will)\b"
    r"|\bthis (?:year|month|week|morning|afternoon|evening|time|spring|summer|autumn|fall|winter|quarter|january"
    r"|february|march|april|may|june|july|august|september|october|november|december|company|page|site|website|app"
    r"|office|tool|handbook|documentation)\b|\bthese days\b|\bthose (?:who|that|of|in|on|with|without)\b"
    r"|\b(?:someone|anyone|somebody|anybody|somewhere|anywhere|something) else\b|\beach other\b",
    re.IGNORECASE,
)
_OF_OTHERS = re.compile(r"\b(?:their|theirs|its|his|her|hers|they|them|he|she|him)\b", re.IGNORECASE)
"""What they refer to may stand in the same clause."""
_WHO = re.compile(
    r"(?:who|whose)\b|(?:which|what) (?!is\b|are\b|was\b|do\b|does\b|did\b|can\b|will\b|has\b|have\b|if\b)\w+", re.I
)
"""A question that names whom it asks for: "Which company expanded its business?"."""
_SUBJECTS = re.compile(r"(?:they|he|she)\b", re.IGNORECASE)
_REFERS = re.compile(
    r"\b(?:it|they|them|their|theirs|its|he|him|his|she|her|hers|this|these|those|the former|the latter)\b"
    r"|\bthat(?=[?.!]*$|\s+(?:case|rule|plan|way|time|day|one|period|point|too|also|as well|mean|include|apply"
    r"|work|count|cost|take)\b)"
    r"|(?<=\bis )that\b|(?<=\bwas )that\b|(?<=\bdoes )that\b|(?<=\bdid )that\b|(?<=\bdo )that\b|(?<=\bof )that\b"
    r"|(?<=\bwill )that\b|(?<=\bwould )that\b|(?<=\bafter )that\b|(?<=\bbefore )that\b|(?<=\bfor )that\b"
    r"|\bthere(?=[?.!,]*$|,| (?:too|as well|and|or|also)\b)|\b(?:what|who|where|how|when|which|anything|nothing) else\b"
    r"|\b(?:another|other|new|old|that|this|first|second|third|last|next|same) ones?\b(?! (?:of|day|week|month"
    r"|year|hour)\b)"
    r"|\bwhich ones?\b(?! (?:day|week|month|year|hour))|\b(?:the )?others(?=[?.!,]|$)"
    r"|\bthe same(?=[?.!,]|$|,? (?:true|for|in|apply|applies|with|there|thing|rules?|goes|holds?)\b)"
    r"|\b(?:then|instead|afterwards|so|meanwhile)(?=[?.!]*$)|\b(?:any|the) other (?:way|option|exception"
    r"|condition|rule|limit)s?\b",
    re.IGNORECASE,
)
_CLAUSE_ENDS = re.compile(
    r"[,.;:!?]|\b(?:if|when|because|and|but|or|that|which|before|after|while|until|once|as|unless|though|although|so)\b"
    r"|(?<=\w )(?:what|who|whom|whether|where|how)\b",
    re.IGNORECASE,
)
_NAMED = re.compile(
    r"\b(?:an?|the|my|our|your|some|any|every|each|no|two|three|several|many)\s+(?!longer\b|more\b|same\b"
    r"|other\b)[\w-]+"
    r"|\b[\w-]*\d[\w-]*|(?<=\s)(?!I\b|I')[A-Z]\w+|\b(?:some|any|every|no)(?:one|body)\b|\bpeople\b"
)
_PLURAL = re.compile(
    r"(?<!who )(?<!what )(?<!which )(?<!it )(?<!that )\b(?!does\b|always\b)[a-z]{3,}(?<![su'i])s\b", re.I
)

# Words of which every subject could be asked: alone they say nothing of what is meant.
_GENERIC_ENGLISH = """
    exception limit deadline condition detail detailed example cost costs price fee reason difference way option
    alternative requirement required require step apply applies decide approve pay paid happen happens long longer
    exactly exact work mean means need needed allow allowed possible mandatory include included count change late
    latest early earliest maximum minimum most least begin start end expire valid ask request answer know explain
    tell show say find get use much often soon far fast quick quickly rule case kind type sort anyone anybody
    everyone somebody someone thing anything something available free extra yes please further still ever always
    really usually normally currently best better worse cheaper cheap faster slower fine ok okay sure first last
    next number amount total value time times date since day days week month year hour minute repeat elaborate
    continue summarize summarise source sources quote who whom deny refuse refused confirm send sent submit
    expensive automatic automatically immediately different matter true correct right wrong take takes due ahead
    advance
"""
_GENERIC = frozenset(content_terms(_GENERIC_ENGLISH))
_TO_US = re.compile(r"\b(?:you|your|hello|hi)\b", re.IGNORECASE)


def english(text: str) -> Leaning | None:
    """Tell how a question leans; see `kb.leaning`."""
    opening = _OPENERS.match(text)
    opened = opening is not None and _JOINS.search(opening.group()) is not None
    rest = text[opening.end() :] if opening else text
    if about := _ABOUT.match(rest):
        return _adding(rest[about.end() :])
    if not re.search(r"\w", rest):
        return Leaning() if opened and text.endswith("?") else None
    if _is_fragment(rest, opened):
        return _adding(rest)
    return Leaning() if _refers(rest) or _says_little(rest) else None


def _adding(fragment: str) -> Leaning:
    adds = _TOO.sub("", fragment).strip(" ,.;:?!-–—")
    return Leaning(adds[:1].lower() + adds[1:] if _PREPOSITION.match(adds) else adds)


def _is_fragment(text: str, opened: bool) -> bool:
    """Whether a text is no question, but a part of one: "in Japan?", and behind an "and" any that asks nothing."""
    if _CASE.match(text):
        return opened and not re.search(
            r", ?(?:how|what|when|who|why|where|which|do|does|can|is|are|must|may)\b", text, re.I
        )
    if _ASKS.match(text) or _ASKS_WITHIN.search(text):
        return False
    short = len(text.split()) <= _MOST_WORDS
    if opened:
        return short or text.endswith("?")
    return text.endswith("?") and short and bool(_PREPOSITION.match(text) or _ENDS_TOO.search(text))


def _refers(text: str) -> bool:
    """Whether a word refers to what the text has not named before."""
    looked_at = _EXPLETIVE.sub(lambda found: "·" * len(found.group()), text)
    return any(not _is_named_before(text, found) for found in _REFERS.finditer(looked_at))


def _is_named_before(text: str, found: re.Match[str]) -> bool:
    before = text[: found.start()]
    own_clause = _OF_OTHERS.fullmatch(found.group()) is not None
    ends = [end.start() for end in _CLAUSE_ENDS.finditer(before)]
    named = before if own_clause else before[: ends[-1]] if ends else ""
    if own_clause and _SUBJECTS.match(found.group()) and not ends:
        named = ""
    if own_clause and _WHO.match(text):
        return True
    return bool(_NAMED.search(named) or _PLURAL.search(named))


def _says_little(text: str) -> bool:
    said = content_terms(text)
    if identifiers(text) or (not said and _TO_US.search(text)):
        return False
    return all(term in _GENERIC for term in said)
