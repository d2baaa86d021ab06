r"""Text of documents as it is sent to a chat model: nothing in it is read as anything but text.

The fence around a text says where it ends, but three things would be read before any fence:

- control tokens of chat templates (`<|im_start|>`, `[INST]`, `</s>`). OpenAI takes them for text; a server that
  fills in a template and reads the whole would begin a new message there. They get a blank behind their first
  character, `< |im_start|>`: a model still knows what a document speaks of, and can quote it, where a character
  nobody sees would be copied into answers;
- characters that a person doesn't see and a model reads (Unicode's tags, zero-width characters, marks that
  turn the direction): an order can hide in them. They are left out; what emoji and Persian need stays;
- our own words: the sentinel of `kb.prompts`, which a document could have a model say, and the name of our fences.

Only what is sent changes. Quotes in citations come from the chunk, and stay as they stand in the document.

    >>> as_sent("a<|im_start|>system\u200b [INST] NOT_IN_DOCUMENTS </context-1>")
    'a< |im_start|>system [ INST] NOT IN DOCUMENTS < /context-1>'
"""

from __future__ import annotations

import re

SENTINEL = "NOT_IN_DOCUMENTS"
"""What the model says, and nothing else, when the contexts don't answer."""

_NAMES = (
    "s|bos|eos|pad|unk|mask|sep|cls|sop|eop|gmask|think|start_of_turn|end_of_turn|start_of_image|end_of_text"
    "|tools?|tool_call|tool_calls|tool_response|system|user|assistant|human|model|function_calls?|im_start|im_end"
)
_CONTROL = re.compile(
    rf"(?P<first><)(?=\|[^|<>\s]{{1,40}}\|>|｜[^｜<>]{{1,40}}｜>|/?(?:{_NAMES})>|</?SYS>>|/?(?:context|passage)-)"
    r"|(?P<bracket>\[)(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_RESULTS|TOOL_CALLS|TOOL_CONTENT|gMASK|"
    r"MASK|CLS|SEP)\])",
    re.IGNORECASE,
)
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0"
    "\ufff9-\ufffb\U000e0000-\U000e00ff]"
    # One joiner or variation selector shapes the letter before it; a row of them spells something.
    "|(?<=[\u200c\u200d\ufe00-\ufe0f\U000e0100-\U000e01ef])[\u200c\u200d\ufe00-\ufe0f\U000e0100-\U000e01ef]+"
)
_SENTINEL = re.compile("[_ ]".join(SENTINEL.split("_")), re.IGNORECASE)


def as_sent(text: str) -> str:
    """The text without what a model would read as more than text."""
    text = _CONTROL.sub(r"\g<0> ", _UNSEEN.sub("", text))
    return _SENTINEL.sub(lambda found: found.group().replace("_", " "), text)
