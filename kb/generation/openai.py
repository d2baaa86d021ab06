"""Answers written by a chat model (`[chat.answer]`, gpt-4o by default) from the hits alone.

The model sees numbered contexts and rules (`kb.prompts`). Whole and streamed answers run through the same
writer, so they are equal: a declined question is a value, never a sentence to search for, and markers that
point nowhere are gone before anyone sees them.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from typing import Protocol, runtime_checkable

from pydantic import Field

from kb.answers import Generated
from kb.citations import MarkerFilter, find_markers, removed_note
from kb.components import Chat, Message, Parts
from kb.errors import ConfigError, RefusedError, ServiceError
from kb.prompts import SENTINEL, Prompt, build_prompt, not_found_text, question_language
from kb.records import Hit
from kb.services.chat import CUT_SHORT, Reply
from kb.settings import ComponentOptions

_FILTERED = "content_filter"
_DECORATION = " \t\r\n*_`\"'“”「」[]>#"
_MAYBE_SENTINEL = re.compile(
    rf"[\s*_`\"]*(?:{'|'.join(SENTINEL[:length] for length in range(len(SENTINEL) - 1, 0, -1))})?\Z"
)
_BEFORE_SENTINEL = ' \t\r\n*_`"'


class Options(ComponentOptions):
    """`[generation.openai]`; model, address, key and length stand in `[chat.answer]`."""

    max_context_characters: int = Field(40_000, ge=200)
    """Of chunk text in one prompt. Five chunks of 400 tokens are a fourth of it, and all of it is well below what
    gpt-4o reads in any script; lower it for a small model of your own."""


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
    return OpenAIGenerator(options, parts.chat())


class OpenAIGenerator:
    """Answers from hits by a chat model."""

    def __init__(self, options: Options, chat: Chat) -> None:
        self._options = options
        self._chat = chat
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
        writer = _Writer(prompt)
        writer.feed(reply.text)
        writer.finish()
        return self._generated(writer, prompt, reply.ending)

    def stream(self, question: str, hits: Sequence[Hit]) -> Generator[str, None, Generated]:
        """Answer in pieces; the joined pieces are the returned text. Raises ServiceError."""
        if not hits:
            declined = _declined(question)
            yield declined.text
            return declined
        prompt = self._prompt(question, hits)
        writer = _Writer(prompt)
        replies = iter(self._chat.stream(prompt.messages))
        while True:
            try:
                piece = writer.feed(next(replies))
            except StopIteration as stop:
                ending = stop.value or "stop"
                break
            if piece:
                yield piece
        if piece := writer.finish():
            yield piece
        return self._generated(writer, prompt, ending)

    def _prompt(self, question: str, hits: Sequence[Hit]) -> Prompt:
        return build_prompt(question, hits, self._options.max_context_characters)

    def _generated(self, writer: _Writer, prompt: Prompt, ending: str) -> Generated:
        if not writer.text.strip():
            raise self._empty(ending)
        notes = list(prompt.notes)
        if ending == CUT_SHORT:
            notes.append("the answer reached its greatest length and is cut off: raise [chat.answer] max_tokens")
        elif ending == _FILTERED:
            notes.append(f"a content filter of {self.name} cut the answer off")
        if writer.removed:
            notes.append(removed_note(writer.removed))
        cites = bool(find_markers(writer.text))
        if writer.declined:
            return Generated(writer.text, answered=False, notes=tuple(notes))
        if writer.settled_in_part:
            notes.append("the model added that the documents do not settle all of the question")
        if not cites:
            notes.append("the answer cites no source, so nothing in it could be checked")
        return Generated(writer.text, answered=cites or not writer.settled_in_part, notes=tuple(notes))

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


class _Writer:
    """Turns what the model says into the answer's text: the sentinel into a refusal, markers into `[n]`."""

    def __init__(self, prompt: Prompt) -> None:
        self._not_found = not_found_text(prompt.language)
        self._markers = MarkerFilter(prompt.n_contexts)
        self._held = ""
        self._started = False
        self._over = False
        self.text = ""
        self.declined = False
        """The model said that the contexts don't answer."""
        self.settled_in_part = False
        """It said so after an answer."""

    @property
    def removed(self) -> tuple[int, ...]:
        return self._markers.removed

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
            return self._write(self._markers.feed(before.rstrip(_BEFORE_SENTINEL)))
        maybe = _MAYBE_SENTINEL.search(self._held)
        sure = len(self._held) if maybe is None else maybe.start()
        passed, self._held = self._held[:sure], self._held[sure:]
        return self._write(self._markers.feed(passed))

    def finish(self) -> str:
        """Give what was held back, without blanks at the end."""
        last = "" if self._over else self._held.strip() if not self._started else self._held.rstrip()
        return "" if self.declined else self._write(self._markers.feed(last) + self._markers.finish())

    def _write(self, piece: str) -> str:
        self.text += piece
        return piece
