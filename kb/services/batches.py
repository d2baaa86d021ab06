"""What is still to be sent, cut into requests only when they are sent, as large as then is allowed."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

# So many tokens are not worth a second request that runs beside the first.
LEAST_TOKENS = 8_000


@dataclass(slots=True, eq=False)
class Batch:
    """Rows that are sent in one request, or in several if that is too large."""

    rows: deque[int]
    tokens: int
    alone: bool = False
    """It failed before, or is part of what was refused; its rows are not mixed with others again."""
    tried: int = 0
    ready_at: float = -math.inf
    failing_since: float = math.inf


class Batches:
    """Rows to be sent: those that were never answered, and batches that failed.

    Args:
        sizes: The tokens of each row.
        most_items: Rows in one request.
        most_tokens: Tokens in one request, unless a row alone has more.
    """

    def __init__(self, sizes: Sequence[int], most_items: int, most_tokens: int) -> None:
        self._sizes = sizes
        self._most = self._limits = (most_items, most_tokens)
        self._passed = (0, 0)
        self._fresh = Batch(deque(range(len(sizes))), sum(sizes))
        self._failed: deque[Batch] = deque()

    def __bool__(self) -> bool:
        return bool(self._fresh.rows or self._failed)

    def next(self, now: float) -> Batch | None:
        """What comes next; None when all has to wait."""
        for batch in self._failed:
            if batch.ready_at <= now:
                return batch
        return self._fresh if self._fresh.rows else None

    def ready_in(self, now: float) -> float:
        """Seconds until a failed batch need not wait."""
        return max(0.0, min((batch.ready_at for batch in self._failed), default=math.inf) - now)

    def first(self, batch: Batch) -> int:
        """The tokens of a batch's first row."""
        return self._sizes[batch.rows[0]]

    def wanted(self, batch: Batch, slots: int) -> int:
        """How many tokens the next request should have, if the batch is shared out among so many."""
        share = batch.tokens if batch.alone else max(LEAST_TOKENS, math.ceil(batch.tokens / slots))
        return max(self.first(batch), min(batch.tokens, share, self._limits[1]))

    def take(self, batch: Batch, tokens: int) -> Batch:
        """Take from the head of a batch at least one row, and else not more than so many tokens."""
        taken = Batch(deque(), 0, batch.alone)
        while batch.rows and len(taken.rows) < self._limits[0]:
            size = self.first(batch)
            if taken.rows and taken.tokens + size > tokens:
                break
            taken.rows.append(batch.rows.popleft())
            taken.tokens += size
            batch.tokens -= size
        if batch.alone and not batch.rows:
            self._failed.remove(batch)
            taken.tried, taken.failing_since = batch.tried, batch.failing_since
        return taken

    def put_back(self, batch: Batch) -> None:
        """Send what was refused for the time again, before all others."""
        if batch.alone:
            self._failed.appendleft(batch)
        else:
            self._fresh.rows.extendleft(reversed(batch.rows))
            self._fresh.tokens += batch.tokens

    def put_failed(self, batch: Batch) -> None:
        """Send a batch again as it is."""
        batch.alone = True
        self._failed.appendleft(batch)

    def put_halves(self, batch: Batch) -> None:
        """Send its halves, the first one first, so that what a service refuses soon stands alone."""
        rows, middle = list(batch.rows), len(batch.rows) // 2
        for half in (rows[middle:], rows[:middle]):
            self._failed.appendleft(Batch(deque(half), sum(self._sizes[row] for row in half), alone=True))

    def passed(self, batch: Batch) -> None:
        """Note how large a request may be."""
        self._passed = (max(self._passed[0], len(batch.rows)), max(self._passed[1], batch.tokens))

    def too_large(self, batch: Batch) -> None:
        """Note that a batch was refused, which its size may explain if none so large has passed."""
        most_items, most_tokens = self._limits
        if len(batch.rows) > self._passed[0]:
            self._limits = (min(most_items, max(len(batch.rows) // 2, self._passed[0])), most_tokens)
        elif batch.tokens > self._passed[1]:
            self._limits = (most_items, min(most_tokens, max(batch.tokens // 2, self._passed[1])))

    def refused_alone(self) -> None:
        """Note that a row was refused alone, which explains the refusals of what it was part of."""
        self._limits = self._most
