"""Chat models behind an OpenAI-compatible service, whole or streamed."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import openai

from kb.answers import Usage
from kb.components import Message
from kb.errors import ServiceError
from kb.services import usage as used
from kb.services.clock import REAL_TIME, Clock
from kb.services.connection import CLIENT_ERRORS, Connection
from kb.services.events import ReplyParts
from kb.services.failures import cleaned, not_an_answer
from kb.services.parameters import Parameters
from kb.services.said import Said, error_in, said_in, tokens_in
from kb.services.thinking import ThinkingFilter, begins_unopened, without_thinking
from kb.services.tokens import about_tokens
from kb.services.usage import usage_told
from kb.settings import ChatPricesTable, ChatPurpose
from kb.tracing import span

DEFAULT_MODEL = "gpt-4o"
MODEL_VARIABLE = "OPENAI_MODEL"

CUT_SHORT = "length"
"""The ending of a reply that reached max_tokens."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole reply without the model's thinking, how it ended, and what it used."""

    text: str
    ending: str
    """"stop", "length" (max_tokens reached), "content_filter" …"""
    usage: Usage | None = None


class OpenAIChat:
    """A chat model for one purpose.

    Args:
        purpose: The model, and how it is reached.
        secret: Looks a variable up.
        clock: What waits and limits are measured by.
        prices: What models cost.

    Raises:
        MissingKeyError: the variable named by `api_key_env` is not set.
        ConfigError: a header or the proxy cannot be one.
    """

    def __init__(
        self,
        purpose: ChatPurpose,
        secret: Callable[[str], str | None],
        clock: Clock = REAL_TIME,
        prices: ChatPricesTable | None = None,
    ) -> None:
        self._model = purpose.model or secret(MODEL_VARIABLE) or DEFAULT_MODEL
        self.name = f"openai:{self._model}"
        self._connection = Connection(kind="chat", model=self._model, options=purpose, secret=secret, clock=clock)
        self._service = self._connection.service
        self._most_tokens = purpose.max_tokens
        self._parameters = Parameters(self._model, purpose.temperature, purpose.max_tokens)
        self._prices = prices or ChatPricesTable()
        # Set by the setting, or by a reply that was seen to begin so.
        self._unopened = purpose.unopened_thinking

    def complete(self, messages: Sequence[Message]) -> str:
        """The whole reply, maybe empty. Raises ServiceError."""
        return self.reply(messages).text

    def reply(self, messages: Sequence[Message]) -> Reply:
        """The whole reply, how it ended, and what it used.

        Raises:
            ServiceError: the service failed, or sent something else than a reply.
            StoppedError: it was stopped.
        """
        with span("kb.chat", model=self._model) as told:
            reply = self._reply(messages)
            told.set(ending=reply.ending, **usage_told(reply.usage))
            return reply

    def _reply(self, messages: Sequence[Message]) -> Reply:
        answer = self._connection.call(self._sender(messages, stream=False), self._tokens(messages))
        self._look_for_error(answer)
        said = said_in(answer)
        if said is None:
            raise not_an_answer(self._service)
        ending = said.ending or "stop"
        text, unopened = without_thinking(said.text, all_of_it=self._unopened and ending == CUT_SHORT)
        self._unopened = self._unopened or unopened
        return Reply(text, ending, self._usage(messages, said.text + said.thinking, tokens_in(answer)))

    def stream(self, messages: Sequence[Message]) -> Generator[str, None, Reply]:
        """Yield the reply in pieces, empty ones skipped; return the whole, as `reply` would.

        Closing the generator closes the connection.

        Raises:
            ServiceError: also when the stream ends before the model has said that it is done; what came
                until then is not the whole reply.
            StoppedError: it was stopped.
        """
        thinking = ThinkingFilter(held=self._unopened or begins_unopened(self._model))
        raw: list[str] = []
        text: list[str] = []
        ending, tokens = "", None
        send, size = self._sender(messages, stream=True), self._tokens(messages)
        with self._connection.stream(send, size, ReplyParts) as parts:
            for said, counted in self._parts(parts):
                ending, tokens = said.ending or ending, counted or tokens
                raw += (said.text, said.thinking)
                if said.thinking:
                    thinking.live()
                if piece := thinking.feed(said.text):
                    text.append(piece)
                    yield piece
                self._unopened = self._unopened or thinking.unopened
                if thinking.leaked:
                    raise self._service.error(
                        f"{self._service.named} sent its thinking as if it were the answer, without marking where it "
                        "begins: ask again, which will hold it back, or set unopened_thinking = true"
                    )
        if not ending:
            raise self._broke_off()
        if piece := thinking.finish(all_of_it=self._unopened and ending == CUT_SHORT):
            text.append(piece)
            yield piece
        return Reply("".join(text), ending, self._usage(messages, "".join(raw), tokens))

    def _parts(self, parts: Iterator[Any]) -> Iterator[tuple[Said, tuple[int, int] | None]]:
        """What each part of a stream says, and the tokens it counts."""
        ended = False
        try:
            for part in parts:
                self._look_for_error(part)
                said = said_in(part) or Said()
                ended = ended or bool(said.ending)
                yield said, tokens_in(part)
        except CLIENT_ERRORS as error:
            # A connection that breaks behind the model's last word has lost nothing.
            if not (ended and isinstance(error, openai.APIConnectionError)):
                self._connection.failed(error)

    def _sender(self, messages: Sequence[Message], *, stream: bool) -> Callable[[openai.OpenAI], Any]:
        # They are what the service takes already; as `messages` the client would look each over for a millisecond.
        sent = {"messages": [{"role": message.role, "content": message.content} for message in messages]}

        def send(client: openai.OpenAI) -> Any:
            completions: Any = client.chat.completions.with_raw_response
            while True:
                arguments = self._parameters.of(stream=stream)
                try:
                    return completions.create(messages=(), extra_body=sent, **arguments)
                except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
                    if not self._parameters.without_refused(arguments, error):
                        raise

        return send

    def _tokens(self, messages: Sequence[Message]) -> int:
        """Services count what may be answered, max_tokens, as well."""
        return about_tokens(message.content for message in messages) + self._most_tokens

    def _usage(self, messages: Sequence[Message], said: str, counted: tuple[int, int] | None) -> Usage:
        """What one request used, which is added to the meter as well."""
        prompt, completion = counted or (about_tokens(m.content for m in messages), about_tokens([said]))
        dollars = self._prices.dollars(self._model, prompt, completion)
        usage = Usage(1, prompt, completion, dollars, estimated=counted is None)
        used.count(usage)
        return usage

    def _look_for_error(self, answer: Any) -> None:
        if message := error_in(answer):
            said = cleaned(message, self._service.secrets)
            raise self._service.error(f"{self._service.named} broke off: {said}")

    def _broke_off(self) -> ServiceError:
        return self._service.error(f"the reply of {self._service.named} broke off before its end: ask again")
