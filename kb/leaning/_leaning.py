"""How a question leans on the one before."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Leaning:
    """A question that does not stand by itself."""

    adds: str = ""
    """What the same is asked of, "in Japan"; empty when the question asks something of its own."""
