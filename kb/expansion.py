"""Other wordings of a question, written by a chat model: what each of them finds becomes one list.

Documents may call a thing by another name than the question does. The original comes first and decides what
its words weigh; the model's reply is untrusted and only ever used as text to search with.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kb.components import Chat, Message
from kb.errors import RefusedError, ServiceError
from kb.fusion import reciprocal_rank
from kb.recall import Recalled
from kb.records import Hit, Step
from kb.services.replies import replies_or_refusals

if TYPE_CHECKING:
    from kb.settings import ExpansionSection

_AT_ONCE = 8
"""Questions that are asked of the model at the same time, when several are searched in one call."""
_MOST_CHARACTERS = 20_000
"""Of a reply; the wordings asked for have far fewer."""
_LONGEST = 400
"""Characters of a wording; a longer line is an explanation."""
# The original's ranking counts twice, as a model may miss the matter. Source first among 135 development questions
# (100 without other wordings), counted once, twice: 103, 103 with a good one, 99, 101 with two good and one of another
# question, 53, 92 with one of another question, 23, 57 with three of those.
_ORIGINAL_COUNTS = 2
_DIGITS = 6

_RULES = """You reword questions, so that a search finds documents that use other words.
Write {wordings} other wordings of the question, in the language of the question, one a line, and nothing else: no \
numbers, no explanation, no answer. Each asks for the same; use synonyms, or the terms that a document on the matter \
would use. Keep names, codes, numbers, conditions and what the question excludes."""

_MARK = re.compile(
    r"[ \t>]*(?:[-*+•·‣–—]+[ \t]+|\(?\d{1,3}[.)、:：．](?!\d)\s*|（\d{1,3}）\s*|[①-⑳]\s*"
    r"|(?i:wording|question|query)[ \t]*\d*[:：]\s*)"
)
_AROUND = " \t\"'`*_“”‘’「」『』《》,;，；"
_INTRODUCES = (":", "：")


@dataclass(frozen=True, slots=True)
class Expanded:
    """A question with its other wordings."""

    question: str
    others: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """Which wordings were searched, or why there are none."""

    @property
    def wordings(self) -> tuple[str, ...]:
        """All that is searched, the original first."""
        return (self.question, *self.others)


@dataclass(frozen=True, slots=True)
class Expander:
    """Asks a chat model for other wordings."""

    chat: Chat
    section: ExpansionSection

    def expand(self, questions: Sequence[str]) -> list[Expanded]:
        """Each question with its other wordings, in their order; with none, and a note, when the service fails."""
        rules = Message("system", _RULES.format(wordings=self.section.wordings))
        asked = [(rules, Message("user", question.strip())) for question in questions]
        try:
            replies = replies_or_refusals(self.chat, asked, _AT_ONCE)
        except ServiceError as error:
            return [_as_asked(question, error) for question in questions]
        return [self._expanded(question, reply) for question, reply in zip(questions, replies, strict=True)]

    def _expanded(self, question: str, reply: str | RefusedError) -> Expanded:
        if isinstance(reply, RefusedError):
            return _as_asked(question, reply)
        others = wordings_in(reply, question, self.section.wordings)
        if not others:
            return Expanded(question, notes=("the model gave no other wording of the question",))
        listed = "; ".join(f"({number}) {wording}" for number, wording in enumerate(others, start=2))
        return Expanded(question, others, (f"searched in other wordings too: {listed}",))


def _as_asked(question: str, error: ServiceError) -> Expanded:
    return Expanded(question, notes=(f"only the question as it was asked was searched: {error}",))


def wordings_in(reply: str, question: str, most: int) -> tuple[str, ...]:
    """The wordings in a model's reply, clean, each once and none the question itself.

    Args:
        reply: Lines, with or without numbers, bullets and quotes, or JSON with a list of texts.
        question: As it was asked.
        most: The first so many are taken.
    """
    taken = {_key(question): ""}
    for line in _lines(reply[:_MOST_CHARACTERS]):
        wording = " ".join("".join(c if c.isprintable() else " " for c in line).split()).strip(_AROUND)
        if len(taken) > most:
            break
        if len(wording) <= _LONGEST and not wording.endswith(_INTRODUCES) and _says_something(wording):
            taken.setdefault(_key(wording), wording)
    return tuple(taken.values())[1:]


def _key(wording: str) -> str:
    """The same for wordings that differ in nothing that a search would see."""
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", wording).casefold()))


def _lines(reply: str) -> list[str]:
    """The texts of a JSON list, else the marked lines, else all lines but the fences."""
    lines = [line for line in reply.splitlines() if not line.lstrip().startswith("```")]
    try:
        return _texts(json.loads("\n".join(lines)))
    except (ValueError, RecursionError):
        pass
    marked = [line[mark.end() :] for line in lines if (mark := _MARK.match(line))]
    return marked if any(map(_says_something, marked)) else lines


def _says_something(line: str) -> bool:
    return any(map(str.isalpha, line))


def _texts(found: object) -> list[str]:
    """All texts in what was read as JSON, in their order; keys of objects are none."""
    if isinstance(found, str):
        return [found]
    inner = found.values() if isinstance(found, dict) else found if isinstance(found, list) else ()
    return [text for value in inner for text in _texts(value)]


def fuse_wordings(found: Sequence[Recalled], expanded: Sequence[Expanded], k: float) -> Iterator[Recalled]:
    """What the wordings of each question found, as one list for each question.

    Args:
        found: For each wording of each question, in their order.
        expanded: The questions.
        k: Of reciprocal rank fusion.
    """
    each = iter(found)
    for one in expanded:
        yield _fused([next(each) for _ in one.wordings], k)


def _fused(found: Sequence[Recalled], k: float) -> Recalled:
    """One list of what several wordings found: scores are sums over wordings of 1 / (k + rank), the original twice.

    A hit is as similar as to the wording that it is most similar to. Its steps are those of the original, when
    that found it, then one for each other wording that did, and `expanded`.
    """
    original = found[0]
    if len(found) == 1:
        return original
    ranked: dict[str, list[tuple[int, int, Hit]]] = {}
    for number, recalled in enumerate(found, start=1):
        for rank, hit in enumerate(recalled.hits, start=1):
            ranked.setdefault(hit.chunk.id, []).append((number, rank, hit))
    rankings = [[hit.chunk.id for hit in recalled.hits] for recalled in found]
    ranking = reciprocal_rank([rankings[0]] * (_ORIGINAL_COUNTS - 1) + rankings, k)
    hits = []
    for place, (chunk_id, score) in enumerate(ranking, start=1):
        of_original = [hit for number, _, hit in ranked[chunk_id] if number == 1]
        steps = of_original[0].steps if of_original else ()
        others = tuple(Step(f"wording {n}", rank, hit.score) for n, rank, hit in ranked[chunk_id] if n > 1)
        last = Step("expanded", place, round(score, _DIGITS))
        hits.append(
            replace(
                ranked[chunk_id][0][2],
                score=last.score,
                scored_by="fused",
                similarity=max(hit.similarity for _, _, hit in ranked[chunk_id]),
                steps=(*steps, *others, last),
            )
        )
    return Recalled(hits, original.words)
