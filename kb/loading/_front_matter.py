"""The block of metadata at the top of a Markdown file: YAML between `---`, TOML between `+++`."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kb.records import Scalar

_YAML = re.compile(r"---[ \t]*\n(.*?\n)??(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_TOML = re.compile(r"\+\+\+[ \t]*\n(.*?\n)??\+\+\+[ \t]*(?:\n|\Z)", re.DOTALL)
_LOOKS_LIKE_KEY = re.compile(r"\s*[\w.\"' -]+:(?:\s|$)")

MAX_CHARACTERS = 65_536
"""Longer blocks are text: metadata has a few hundred characters, and parsing costs time."""
MAX_INTEGER = 2**63 - 1
"""The largest integer that a database column takes; larger ones become text."""


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """What the block says, how many characters of the text it takes, and what went wrong."""

    metadata: Mapping[str, Scalar] = field(default_factory=dict)
    length: int = 0
    warning: str | None = None
    """Set when the block is broken; `length` is its length then too, but it stays in the text."""


def read_front_matter(text: str) -> FrontMatter:
    """Read the block at the top of `text`; an absent one has length 0."""
    is_toml = text.startswith("+++")
    match = (_TOML if is_toml else _YAML).match(text[: MAX_CHARACTERS + 8])
    if not match:
        return FrontMatter()
    block = match[1] or ""
    try:
        parsed = _parse_toml(block) if is_toml else _parse_yaml(block)
    except ValueError as error:
        if not is_toml and not _LOOKS_LIKE_KEY.match(block):
            return FrontMatter()  # a rule on the first line, and prose
        problem = str(error).split("\n", 1)[0]
        warning = f"its front matter is broken and stays in the text: {problem}"
        return FrontMatter(length=match.end(), warning=warning)
    if parsed is not None and not isinstance(parsed, dict):
        return FrontMatter()  # a rule on the first line, and prose
    if not block.strip():
        return FrontMatter()  # two rules
    return FrontMatter(_flat(parsed or {}), match.end())


def _parse_toml(block: str) -> Any:
    import tomllib

    try:
        return tomllib.loads(block)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _parse_yaml(block: str) -> Any:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the same in C, ten times faster
    try:
        return yaml.load(block, loader)
    except (yaml.YAMLError, RecursionError, TypeError, OverflowError) as error:
        problem = getattr(error, "problem", None) or error
        raise ValueError(str(problem)) from error


def _flat(table: Mapping[Any, Any]) -> dict[str, Scalar]:
    """Keep scalars, and lists of scalars as one string; nested tables are left out."""
    # Nothing nested is followed, so aliases that stand for millions of values cost nothing.
    metadata: dict[str, Scalar] = {}
    for key, value in table.items():
        if isinstance(value, (list, set, tuple)):
            items = [scalar for item in value if (scalar := _scalar(item)) not in (None, "")]
            if items:
                metadata[str(key)] = ", ".join(str(item) for item in items)
        elif (scalar := _scalar(value)) is not None:
            metadata[str(key)] = scalar
    return metadata


def _scalar(value: Any) -> Scalar | None:
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return value if -MAX_INTEGER <= value <= MAX_INTEGER else hex(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return None
