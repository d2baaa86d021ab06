"""Counts passes through the embedded model."""

from __future__ import annotations

from typing import Any

import pytest

from kb.embedding._e5_model import E5Model


def count_passes(patch: pytest.MonkeyPatch) -> list[int]:
    """From now on, the number of tokens of each pass."""
    made: list[int] = []
    inputs = E5Model._inputs

    def counted(model: E5Model, content: list[int]) -> Any:
        made.append(len(content))
        return inputs(model, content)

    patch.setattr(E5Model, "_inputs", counted)
    return made
