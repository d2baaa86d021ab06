"""Which of the scored units an answer quotes, and in what order.

The best one comes first, then what comes close to it, best first: a reader should not have to look for the answer. What
belongs together stays together and in its own order: the steps or items of one list with the line above them, and
sentences that follow each other. What a question asks for decides how much belongs to it:

- how something is done, or what things there are: the whole list of the best unit;
- two things compared, or two questions in one: the best unit for each side;
- anything else: the best unit and those near it.

Nothing is quoted twice, and nothing that a quoted unit already says.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kb.generation._units import Unit
from kb.words import content_terms

MOST_ITEMS = 12
"""A longer list is quoted by its best items: nobody reads it in an answer."""
_SAME = 0.8
"""Two units that share so many of the shorter one's words say the same."""
_LEAST_WORDS = 3

_STEPS = re.compile(
    r"\bhow (?:do|can|should|would|must|may) (?:i|we|you|one|they)\b|\bhow to\b"
    r"|\bhow (?:is|are) .* (?:done|made|set up)\b|\bwhat (?:are the )?steps\b"
    r"|怎么(?!样的|回事)|怎样|如何|步骤|流程|手续"
    r"|どうやって|どうすれば|どのように|どうしたら|手順|方法|やり方",
    re.IGNORECASE,
)
_LIST = re.compile(
    r"\b(?:what|which) (?:\w+ ){0,2}(?:are|do|can|must|may|should)\b|\b(?:list|name) (?:all|the)\b"
    r"|\b(?:what|which) (?:kinds|types|things|cases|conditions|documents|goods|items|reasons)\b"
    r"|哪些|哪几|有什么|什么情况|何がありますか|どんなもの|何と何|どの.{1,8}がありますか|どんな場合|一覧",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Scored:
    """A unit and how well it answers."""

    unit: Unit
    score: float
    has_form: bool
    """Whether it has the form that the question asks for."""


def chosen(
    question: str, scored: Sequence[Scored], found: Sequence[Unit], *, most: int, closeness: float
) -> list[list[Unit]]:
    """The units to quote, best first, those that belong together in one group.

    Args:
        question: As asked.
        scored: Units with scores; at least one.
        found: All units of the hits in reading order.
        most: Groups and single units.
        closeness: The least share of the best score.
    """
    ranked = sorted(scored, key=lambda s: (-s.score, s.unit.number, s.unit.start))
    floor = closeness * ranked[0].score
    groups: list[list[Unit]] = []
    for one in ranked:
        if len(groups) >= most or one.score < floor:
            break
        if not any(_repeats(one.unit, quoted) for group in groups for quoted in group):
            groups.append([one.unit] if groups else _together(question, one.unit, found))
    return _joined(groups)


def for_each_side(sides: Sequence[Sequence[Scored]]) -> list[list[Unit]]:
    """The best unit of each side in the order of the question, each once."""
    units = [max(side, key=lambda s: s.score).unit for side in sides]
    groups: list[list[Unit]] = []
    for unit in units:
        if not any(_repeats(unit, quoted) for group in groups for quoted in group):
            groups.append([unit])
    return _joined(groups)


def _together(question: str, unit: Unit, found: Sequence[Unit]) -> list[Unit]:
    """The best unit with what it needs: the list that it is of, or leads to."""
    if unit.kind == "sentence" and unit.text.endswith((":", "：")):
        led = [one for one in found if one.number == unit.number and one.context_span == (unit.start, unit.end)]
        return _whole([one for one in led if one.list == led[0].list]) or [unit]
    if unit.list is not None and (_STEPS.search(question) or _LIST.search(question)):
        return _whole([one for one in found if one.number == unit.number and one.list == unit.list]) or [unit]
    return [unit]


def _whole(items: list[Unit]) -> list[Unit]:
    """A list that can be quoted as a whole; nothing when it is too long."""
    return items if len(items) <= MOST_ITEMS else []


def _repeats(unit: Unit, quoted: Unit) -> bool:
    """Whether a unit says nothing that a quoted one doesn't say."""
    if unit.number == quoted.number and quoted.context_span == (unit.start, unit.end):
        return True
    if unit.kind == "row" or quoted.kind == "row":
        return unit.text == quoted.text
    own, other = set(content_terms(unit.text)), set(content_terms(f"{quoted.context} {quoted.text}"))
    return (
        len(own) >= _LEAST_WORDS
        and len(own & other) >= _SAME * len(own)
        and own - other == {term for term in own - other if not any(c.isdigit() for c in term)}
    )


def _joined(groups: list[list[Unit]]) -> list[list[Unit]]:
    """Units that belong together in one group, in their own order, at the place of the best of them.

    A sentence that leans on a quoted one follows it, without repeating it; items of one list stand below its lead-in.
    """
    result: list[list[Unit]] = []
    for group in groups:
        unit = group[0]
        near = next((g for g in result if _follows(unit, g[-1]) or _same_list(unit, g[0])), None)
        if near is None:
            result.append(group)
        elif unit.kind == "item":
            near[:] = sorted({*near, *group}, key=lambda item: item.start)
        else:
            near.append(replace(unit, context="", context_span=None))
    return result


def _same_list(unit: Unit, quoted: Unit) -> bool:
    return unit.list is not None and (unit.number, unit.list) == (quoted.number, quoted.list)


def _follows(unit: Unit, quoted: Unit) -> bool:
    return (
        unit.kind == quoted.kind == "sentence"
        and unit.number == quoted.number
        and unit.context_span == (quoted.start, quoted.end)
    )
