"""Pictures that are written into a text as `data:` addresses."""

from __future__ import annotations

import re

MIN_DATA_CHARACTERS = 100
"""Shorter data URIs are examples in a text about them; an embedded picture has thousands."""
_DATA_URI = re.compile(
    rf"data:([a-z]+/[\w.+-]+)(?:;[\w.=+-]+)*+,[^\s()\"'<>]{{{MIN_DATA_CHARACTERS},}}+", re.IGNORECASE
)


def without_data(text: str) -> str:
    """The text with `embedded:image/png` where the data of a picture stood."""
    return _DATA_URI.sub(r"embedded:\1", text)
