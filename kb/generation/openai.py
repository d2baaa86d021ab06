"""Answers written by a chat model (`[chat.answer]`, gpt-4o by default) from the hits alone.

The model sees numbered contexts and rules (`kb.prompts`). Whole and streamed answers run through the same
writer, so they are equal: a declined question is a value, never a sentence to search for, whether the model used
the word it was told or its own (`kb.declined`), and links that no source has (`kb.links`) and markers that point
nowhere are gone before anyone sees them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Sequence
from typing import Protocol, runtime_checkable

from pydantic import Field

from kb.answers import Claim, Generated
from kb.citations import removed_note
from kb.components import Chat, Message, Parts
from kb.declined import declines, may_decline
from kb.errors import ConfigError, RefusedError, ServiceError
from kb.inert import one_line
from kb.links import LinkFilter, links_note
from kb.markers import MarkerFilter, find_markers
from kb.prompts import SENTINEL, Prompt, build_prompt, not_found_text, question_language
from kb.records import Hit
from kb.refusal_openings import may_open_refusal
from kb.revision import revision_messages
from kb.services.chat import CUT_SHORT, Reply
from kb.services.tokens import about_tokens
from kb.settings import ComponentOptions

_FILTERED = "content_filter"
_DECORATION = " \t\r\n*_`\"'“”「」[]>#"
_MAYBE_SENTINEL = re.compile(
    rf"[\s*_`\"]*(?:{'|'.join(SENTINEL[:length] for length in range(len(SENTINEL) - 1, 0, -1))})?\Z"
)
_NOTE_CHARACTERS = 200
_BEFORE_SENTINEL = ' \t\r\n*_`"'


class Options(ComponentOptions):
    """`[generation.openai]`; model, address, key and length stand in `[chat.answer]`."""

    max_context_tokens: int = Field(8_000, ge=100)
    """Of contexts in one prompt, with sources and fences. A chunk of the shipped size counts 190 on average and 380
    at most (sample documents), so 20 of the largest fit, and with rules and answer all fits a model that reads 16,000.
    Counted, where no vocabulary is lent, as one for each three bytes, which is seldom too few (`about_tokens`): a
    vocabulary has to be fetched, and a question should not wait for that."""


@runtime_checkable
class TellsEnding(Protocol):
    """A chat that also says how a reply ended."""

    def reply(self, messages: Sequence[Message]) -> Reply:
        """The whole reply and its ending."""
        ...


def build(options: Options, parts: Parts) -> OpenAIGenerator:
    """Build the generator. Raises MissingKeyError."""
    if parts.chat is None:
        raise ConfigError('[generation] use = "openai" needs a chat model: set [chat.answer]')
    return OpenAIGenerator(options, parts.chat(), parts.count_tokens or _about_tokens)


class OpenAIGenerator:
    """Answers from hits by a chat model."""

    def __init__(self, options: Options, chat: Chat, count_tokens: Callable[[str], int]) -> None:
        self._options = options
        self._chat = chat
        self._count_tokens = count_tokens
        self.name = chat.name

    def generate(self, question: str, hits: Sequence[Hit]) -> Generated:
        """Answer at once. Raises ServiceError."""
        if not hits:
            return _declined(question)
        prompt = self._prompt(question, hits)
        if isinstance(self._chat, TellsEnding):
            reply = self._chat.reply(prompt.messages)
        else:
            reply = Reply(self._chat.complete(prompt.messages), "stop")
        writer = _Writer(prompt, question)
        writer.feed(reply.text)
        writer.finish()
        return self._generated(writer, prompt, reply)

    def stream(self, question: str, hits: Sequence[Hit]) -> Generator[str, None, Generated]:
        """Answer in pieces; the joined pieces are the returned text. Raises ServiceError."""
        if not hits:
            declined = _declined(question)
            yield declined.text
            return declined
        prompt = self._prompt(question, hits)
        return (yield from self._streamed(question, prompt, prompt.messages))

    def revise(
        self, question: str, hits: Sequence[Hit], text: str, unsupported: Sequence[Claim]
    ) -> Generator[str, None, Generated]:
        """Answer again, in pieces, without the claims that the contexts don't support. Raises ServiceError."""
        prompt = self._prompt(question, hits)
        return (yield from self._streamed(question, prompt, revision_messages(prompt, text, unsupported)))

    def _streamed(self, question: str, prompt: Prompt, messages: Sequence[Message]) -> Generator[str, None, Generated]:
        writer = _Writer(prompt, question)
        replies = iter(self._chat.stream(messages))
        while True:
            try:
                piece = writer.feed(next(replies))
            except StopIteration as stop:
                reply = stop.value if isinstance(stop.value, Reply) else Reply(writer.text, "stop")
                break
            if piece:
                yield piece
        if piece := writer.finish():
            yield piece
        return self._generated(writer, prompt, reply)

    def _prompt(self, question: str, hits: Sequence[Hit]) -> Prompt:
        return build_prompt(question, hits, self._options.max_context_tokens, self._count_tokens)

    def _generated(self, writer: _Writer, prompt: Prompt, reply: Reply) -> Generated:
        if not writer.text.strip():
            raise self._empty(reply.ending)
        notes = list(prompt.notes)
        if reply.ending == CUT_SHORT:
            notes.append("the answer reached its greatest length and is cut off: raise [chat.answer] max_tokens")
        elif reply.ending == _FILTERED:
            notes.append(f"a content filter of {self.name} cut the answer off")
        if writer.links_removed:
            notes.append(links_note(writer.links_removed))
        if writer.removed:
            notes.append(removed_note(writer.removed))
        if writer.own_words:
            notes.append(f"the model declined in its own words: {one_line(writer.own_words)[:_NOTE_CHARACTERS]}")
        cites = bool(find_markers(writer.text))
        if writer.declined:
            return Generated(writer.text, answered=False, notes=tuple(notes), usage=reply.usage)
        if writer.settled_in_part:
            notes.append("the model added that the documents do not settle all of the question")
        if not cites:
            notes.append("the answer cites no source, so nothing in it could be checked")
        answered = cites or not writer.settled_in_part
        return Generated(writer.text, answered=answered, notes=tuple(notes), usage=reply.usage)

    def _empty(self, ending: str) -> ServiceError:
        if ending == _FILTERED:
            return RefusedError(f"a content filter of {self.name} refused the answer", service=self.name)
        if ending == CUT_SHORT:
            reason = "used up its greatest length before the first word: raise [chat.answer] max_tokens"
        else:
            reason = "sent an empty reply: ask again"
        return ServiceError(f"{self.name} {reason}", service=self.name)


def _declined(question: str) -> Generated:
    return Generated(not_found_text(question_language(question)), answered=False)


def _about_tokens(text: str) -> int:
    return about_tokens([text])


class _Writer:
    """Turns what the model says into the answer's text.

    The sentinel, or a refusal in other words, becomes our own sentence; then come `LinkFilter` and `MarkerFilter`, in
    this order, as a link of numbers is a citation. The beginning is held back while it may still be a refusal.
    """

    def __init__(self, prompt: Prompt, question: str) -> None:
        self._not_found = not_found_text(prompt.language)
        # The person's own addresses may be repeated.
        self._links = LinkFilter([*prompt.contexts, question], prompt.language)
        self._markers = MarkerFilter(prompt.n_contexts)
        self._held = ""
        self._started = False
        self._over = False
        self._beginning: str | None = ""
        self.text = ""
        self.declined = False
        """The model said that the contexts don't answer."""
        self.own_words = ""
        """How it said so, where it did not use the sentinel."""
        self.settled_in_part = False
        """It said so after an answer."""

    @property
    def removed(self) -> tuple[int, ...]:
        return self._markers.removed

    @property
    def links_removed(self) -> tuple[str, ...]:
        return self._links.removed

    def feed(self, piece: str) -> str:
        """Take what the model said next; give what is sure to be part of the answer."""
        if self._over:
            return ""
        self._held += piece
        if not self._started:
            opening = self._held.lstrip(_DECORATION)
            if opening.startswith(SENTINEL):
                self.declined = self._over = True
                return self._write(self._not_found)
            if SENTINEL.startswith(opening):
                return ""
            self._started = True
            self._held = self._held.lstrip()
        before, found, _ = self._held.partition(SENTINEL)
        if found:
            self.settled_in_part = self._over = True
            return self._pass(before.rstrip(_BEFORE_SENTINEL))
        maybe = _MAYBE_SENTINEL.search(self._held)
        sure = len(self._held) if maybe is None else maybe.start()
        passed, self._held = self._held[:sure], self._held[sure:]
        return self._pass(passed)

    def finish(self) -> str:
        """Give what was held back, without blanks at the end."""
        if self.declined:
            return ""
        last = "" if self._over else self._held.strip() if not self._started else self._held.rstrip()
        passed = self._pass(last)
        passed += self._show(self._markers.feed(self._links.finish()) + self._markers.finish())
        beginning, self._beginning = self._beginning, None
        if beginning is None:
            # It was shown already, as it began like an answer.
            if declines(self.text):
                self.declined, self.own_words = True, self.text
            return passed
        if declines(beginning):
            self.declined, self.own_words = True, beginning
            return self._write(self._not_found)
        return self._write(beginning)

    def _pass(self, said: str) -> str:
        return self._show(self._markers.feed(self._links.feed(said)))

    def _show(self, piece: str) -> str:
        if self._beginning is None:
            return self._write(piece)
        self._beginning += piece
        if may_open_refusal(self._beginning) and may_decline(self._beginning):
            return ""
        piece, self._beginning = self._beginning, None
        return self._write(piece)

    def _write(self, piece: str) -> str:
        self.text += piece
        return piece
