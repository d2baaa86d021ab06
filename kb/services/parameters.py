"""What a chat request says beside its messages, in the form that a model takes.

Reasoning models refuse `temperature`, and want `max_completion_tokens` in the place of `max_tokens`; some services
refuse `stream_options`. OpenAI says which parameter it refuses and why; others only in words. What was refused once
is not sent again.
"""

from __future__ import annotations

import json
import re
from typing import Any

import openai

_CODES = frozenset({"unsupported_parameter", "unsupported_value", "unknown_parameter"})
_REFUSES = re.compile(
    r"(?i)unsupported|not\s+(?:be\s+)?(?:supported|permitted|allowed|accepted|recogni[sz]ed)|n't\s+support|not\s+support"
    r"|unrecogni[sz]ed|unknown|unexpected|deprecated|no\s+such|extra\s+(?:inputs|fields)"
    r"|invalid\s+(?:parameter|argument|field|key)|only\s+the\s+default|use\s+\W?max_completion_tokens"
)
"""How services say that they do not take a parameter at all; "max_tokens is too large" is not among it."""
_OF_STREAMS: dict[str, Any] = {"stream_options": {"include_usage": True}}
_NEVER_REFUSED = frozenset({"model"})


class Parameters:
    """The parameters of one model at one service."""

    def __init__(self, model: str, temperature: float, max_tokens: int) -> None:
        self._whole: dict[str, Any] = {"model": model, "temperature": temperature, "max_tokens": max_tokens}
        self._streamed = dict(_OF_STREAMS)

    def of(self, *, stream: bool) -> dict[str, Any]:
        """The arguments of the client's `create`."""
        return {**self._whole, **self._streamed, "stream": True} if stream else {**self._whole, "stream": False}

    def without_refused(self, sent: dict[str, Any], error: openai.APIStatusError) -> bool:
        """Leave out what the error says that the service refused; False when it speaks of something else.

        Args:
            sent: The arguments that were refused.
            error: What the service answered.
        """
        refused = _refused(sent, error)
        if refused is None:
            return False
        self._streamed.pop(refused, None)
        fewer = {name: value for name, value in self._whole.items() if name != refused}
        if refused == "max_tokens" and "max_tokens" in self._whole:
            fewer["max_completion_tokens"] = self._whole["max_tokens"]
        self._whole = fewer
        return True


def _refused(sent: dict[str, Any], error: openai.APIStatusError) -> str | None:
    names = [name for name in ("stream_options", *sent) if name in sent and name not in {"stream", *_NEVER_REFUSED}]
    if error.code in _CODES and error.param:
        return error.param if error.param in names else None
    said = error.body if isinstance(error.body, str) else json.dumps(error.body, default=str)
    said = said if error.body else error.message
    if not _REFUSES.search(said):
        return None
    return next((name for name in names if re.search(rf"(?<!\w){name}(?!\w)", said)), None)
