"""Chat models behind an OpenAI-compatible service, whole or streamed."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

import openai

from kb.components import Message
from kb.services.clock import REAL_TIME, Clock
from kb.services.connection import CLIENT_ERRORS, Connection
from kb.services.failures import explain, not_an_answer
from kb.services.tokens import about_tokens
from kb.settings import ChatPurpose

DEFAULT_MODEL = "gpt-4o"
MODEL_VARIABLE = "OPENAI_MODEL"

CUT_SHORT = "length"
"""The ending of a reply that reached max_tokens."""
_REFUSED_PARAMETER = frozenset({"unsupported_parameter", "unsupported_value"})


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole reply, and how it ended."""

    text: str
    ending: str
    """"stop", "length" (max_tokens reached), "content_filter" …"""


class OpenAIChat:
    """A chat model for one purpose.

    Raises:
        MissingKeyError: the variable named by `api_key_env` is not set.
    """

    def __init__(self, purpose: ChatPurpose, secret: Callable[[str], str | None], clock: Clock = REAL_TIME) -> None:
        model = purpose.model or secret(MODEL_VARIABLE) or DEFAULT_MODEL
        self.name = f"openai:{model}"
        self._connection = Connection(
            kind="chat",
            model=model,
            base_url=purpose.base_url,
            key_variable=purpose.api_key_env,
            timeout_seconds=purpose.timeout_seconds,
            retries=purpose.retries,
            requests_per_minute=purpose.requests_per_minute,
            tokens_per_minute=purpose.tokens_per_minute,
            secret=secret,
            clock=clock,
        )
        self._most_tokens = purpose.max_tokens
        self._arguments: dict[str, Any] = {
            "model": model,
            "temperature": purpose.temperature,
            "max_tokens": purpose.max_tokens,
        }

    def complete(self, messages: Sequence[Message]) -> str:
        """The whole reply, maybe empty. Raises ServiceError."""
        return self.reply(messages).text

    def reply(self, messages: Sequence[Message]) -> Reply:
        """The whole reply, and how it ended. Raises ServiceError."""
        answer = self._create(messages, stream=False)
        choices: Any = getattr(answer, "choices", None)
        message: Any = getattr(choices[0], "message", None) if isinstance(choices, list) and choices else None
        if message is None:
            raise not_an_answer(self._connection.service)
        text = message.content if isinstance(message.content, str) else getattr(message, "refusal", None) or ""
        return Reply(text, choices[0].finish_reason or "stop")

    def stream(self, messages: Sequence[Message]) -> Generator[str, None, str]:
        """Yield the reply in pieces, empty ones skipped; return how it ended.

        Raises:
            ServiceError: also when the stream ends before the model has said that it is done; what came
                until then is not the whole reply.
        """
        ending = ""
        try:
            with self._create(messages, stream=True) as chunks:
                for chunk in chunks:
                    piece, ended = _piece(chunk)
                    ending = ended or ending
                    if piece:
                        yield piece
        except CLIENT_ERRORS as error:
            explain(error, self._connection.service).raised()
        if not ending:
            service = self._connection.service
            raise service.error(f"the reply of {service.named} broke off before its end: ask again")
        return ending

    def _create(self, messages: Sequence[Message], *, stream: bool) -> Any:
        sent = [{"role": message.role, "content": message.content} for message in messages]

        def attempt() -> Any:
            completions: Any = self._connection.client.chat.completions.with_raw_response
            while True:
                arguments = self._arguments
                try:
                    return completions.create(messages=sent, stream=stream, **arguments)
                except openai.BadRequestError as error:
                    fewer = _without_refused(arguments, error)
                    if fewer is None:
                        raise
                    self._arguments = fewer

        # Services count what may be answered, max_tokens, as well.
        tokens = about_tokens(message.content for message in messages) + self._most_tokens
        answer = self._connection.call(attempt, tokens)
        if stream and not hasattr(answer, "__enter__"):
            raise not_an_answer(self._connection.service)
        return answer


def _piece(chunk: Any) -> tuple[str, str]:
    """The text in one chunk and the ending it announces; chunks without choices, or for usage only, have none."""
    for choice in getattr(chunk, "choices", None) or ():
        delta = getattr(choice, "delta", None)
        content = getattr(delta, "content", None) or getattr(delta, "refusal", None)
        return (content if isinstance(content, str) else ""), str(getattr(choice, "finish_reason", None) or "")
    return "", ""


def _without_refused(arguments: dict[str, Any], error: openai.BadRequestError) -> dict[str, Any] | None:
    """The arguments in the form that a reasoning model takes, when the error says that it refused the usual ones."""
    if error.code not in _REFUSED_PARAMETER or error.param not in arguments or error.param == "model":
        return None
    fewer = {name: value for name, value in arguments.items() if name != error.param}
    if error.param == "max_tokens":
        fewer["max_completion_tokens"] = arguments["max_tokens"]
    return fewer
