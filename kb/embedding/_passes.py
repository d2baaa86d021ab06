"""One pass through a local model for each text, several texts at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_Work = TypeVar("_Work")
_Result = TypeVar("_Result")


def each(work: Callable[[_Work], _Result], contents: Sequence[_Work], threads: int) -> list[_Result]:
    """Do one pass for each of `contents`, so many at once; results are in their order."""
    if len(contents) > 1 and threads > 1:
        with ThreadPoolExecutor(min(threads, len(contents)), thread_name_prefix="embed") as pool:
            return list(pool.map(work, contents))
    return [work(content) for content in contents]
