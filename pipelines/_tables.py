"""Figures as lines of text, and in files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kb.errors import ConfigError


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """One line for each row: the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    ]


def write_result(file: Path, result: Any) -> None:
    """Write a result as JSON. Raises ConfigError."""
    try:
        file.write_text(json.dumps(result, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{file} cannot be written: {error.strerror}. Choose another --out") from error
