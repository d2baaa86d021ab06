"""Which titles of a file's properties say something about its content."""

from __future__ import annotations

import re

_SENSELESS = re.compile(
    r"\(?(?:untitled|anonymous|unnamed|no title|unknown)\b.*"
    r"|microsoft (?:word|powerpoint|excel) - .*"
    r"|.*\.(?:docx?|docm|dotx|pdf|pptx?|xlsx?|tex|indd|txt|md|dvi|odt|rtf)"
    r"|[^\s_]+(?:_[^\s_]+)+"
    r"|(?:document|title|print|slide|binder|word document)\s*\d*",
    re.IGNORECASE,
)
MAX_CHARACTERS = 300
"""A longer title is a text that slipped into the wrong field."""


def sensible_title(title: str) -> str:
    """The title on one line, or "" when a program or a file name made it."""
    title = " ".join(title.split())
    return "" if len(title) > MAX_CHARACTERS or _SENSELESS.fullmatch(title) else title
