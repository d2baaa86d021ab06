"""What a service says about its limits in the headers of an answer, good or bad."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

# A number above this is a moment (seconds since 1970) rather than a span of time.
_MOMENT = 1e9
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SPAN = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|[smhd]))+")
_SPAN_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhd])")


@dataclass(frozen=True, slots=True)
class Told:
    """One limit: `x-ratelimit-{limit,remaining,reset}-tokens` or `-requests`."""

    most: float | None = None
    """The whole window."""
    left: float | None = None
    """What may still be sent; None where the service does not say until when that holds."""
    reset_seconds: float = 0.0
    """Until the window is whole again."""


def told(headers: Mapping[str, str], kind: str) -> Told:
    """Read what the headers say of "tokens" or of "requests"; without a kind they mean requests."""
    endings = (f"-{kind}", "") if kind == "requests" else (f"-{kind}",)
    for ending in endings:
        most, left = (_number(headers.get(f"x-ratelimit-{name}{ending}")) for name in ("limit", "remaining"))
        reset = span_seconds(headers.get(f"x-ratelimit-reset{ending}"))
        if most is not None or (left is not None and reset is not None):
            return Told(most or None, None if reset is None else left, reset or 0.0)
    return Told()


def asked_seconds(headers: Mapping[str, str]) -> float | None:
    """How long a refusal asks to wait: `Retry-After`, else the reset of what has run out; None if it doesn't say."""
    asked = retry_after_seconds(headers.get("retry-after"), headers.get("retry-after-ms"))
    if asked is None:
        ran_out = [said for said in (told(headers, "tokens"), told(headers, "requests")) if said.left == 0]
        asked = max((said.reset_seconds for said in ran_out), default=0.0)
    return asked or None


def retry_after_seconds(seconds: str | None, milliseconds: str | None = None) -> float | None:
    """Read a Retry-After header (seconds or a date); None when there is none that can be read."""
    for value, unit in ((milliseconds, 1000), (seconds, 1)):
        try:
            wait = float(value) / unit if value else math.nan
        except ValueError:
            wait = _seconds_until(value)
        if math.isfinite(wait) and wait >= 0:
            return wait
    return None


def span_seconds(value: str | None) -> float | None:
    """Read "1.5", "6m0s", "120ms", or a moment as seconds or milliseconds since 1970, as a span from now."""
    value = (value or "").strip().lower()
    if _SPAN.fullmatch(value):
        return sum(float(number) * _UNITS[unit] for number, unit in _SPAN_PART.findall(value))
    number = _number(value)
    if number is None or number < _MOMENT:
        return number
    return max(0.0, (number if number < 1000 * _MOMENT else number / 1000) - time.time())


def _number(value: str | None) -> float | None:
    try:
        number = float(value or "")
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _seconds_until(date: str | None) -> float:
    try:
        return max(0.0, parsedate_to_datetime(date or "").timestamp() - time.time())
    except (ValueError, OverflowError):
        return math.nan
