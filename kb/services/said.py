"""What a chat service says in one answer or one part of a stream, in whatever of the usual forms it says it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_TEXT_PARTS = frozenset({"text", "output_text"})


@dataclass(frozen=True, slots=True)
class Said:
    """What one message or delta holds."""

    text: str = ""
    ending: str = ""
    """Why the reply ends here: "stop", "length", …; empty while it goes on."""
    thinking: str = ""
    """What the service sets off as the model's thinking; no part of the answer."""


def said_in(answer: Any) -> Said | None:
    """Read the first choice of a whole answer or a part of a stream; None when there is no choice to read.

    A part without choices, with a delta of nothing or for usage only says nothing, which is no fault of a stream.
    """
    choices = _of(answer, "choices")
    for choice in choices if isinstance(choices, list) else ():
        if _of(choice, "index") not in (0, None):
            continue
        message = _of(choice, "message") or _of(choice, "delta")
        ending = _of(choice, "finish_reason")
        text = _text(_of(message, "content")) or _text(_of(message, "refusal"))
        thinking = _text(_of(message, "reasoning_content")) or _text(_of(message, "reasoning"))
        return Said(text, ending if isinstance(ending, str) else "", thinking)
    return None


def error_in(answer: Any) -> str | None:
    """The message of an error that a service sends in the place of an answer, as if all were well."""
    error = _of(answer, "error")
    message = _of(error, "message") if error and not isinstance(error, str) else error
    if message and isinstance(message, str):
        return message
    return "no reason given" if error else None


def tokens_in(answer: Any) -> tuple[int, int] | None:
    """The tokens of prompt and reply, as the service counted them; None where it does not say."""
    usage = _of(answer, "usage")
    counts = (_of(usage, "prompt_tokens"), _of(usage, "completion_tokens"))
    if all(isinstance(count, int) and not isinstance(count, bool) and count >= 0 for count in counts):
        return counts
    return None


def _of(thing: Any, name: str) -> Any:
    """A field, of the client's objects or, where the client did not know what to make of it, of what was sent."""
    return thing.get(name) if isinstance(thing, dict) else getattr(thing, name, None)


def _text(content: Any) -> str:
    """A text, or the texts of a list of parts, joined; parts of other kinds (thinking, images) are none."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = (
        part if isinstance(part, str) else _of(part, "text")
        for part in content
        if isinstance(part, str) or _of(part, "type") in _TEXT_PARTS
    )
    return "".join(part for part in parts if isinstance(part, str))
