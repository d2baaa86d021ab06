"""The parts of a streamed reply, without the events that hold nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
from openai.types.chat import ChatCompletionChunk


class ReplyParts(openai.Stream[ChatCompletionChunk]):
    """A stream that passes over events without data.

    Heartbeats, `retry:` and a bare `event: ping` are such events. By the rules of server-sent events (WHATWG HTML,
    9.2.6) they are no message, but the client reads each as JSON, and would break the stream off.
    """

    def _iter_events(self) -> Iterator[Any]:
        return (event for event in super()._iter_events() if event.data.strip())
