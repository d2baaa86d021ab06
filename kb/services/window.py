"""A sliding window of a minute over what was sent, in tokens or in requests.

Written here, as no library fits: pyrate-limiter keeps an entry for every token and its limit is fixed, aiolimiter
and limits' counters let twice the limit through within some minute, openlimit is given up, token-throttle wants
Python 3.12. None can wait for what a service says, learn a limit it is not told, or wait so that Ctrl-C ends it.
"""

from __future__ import annotations

import math
from collections import deque

WINDOW_SECONDS = 60.0


class Window:
    """How much of one thing may be sent, by the setting, by what the service says and by what was learned.

    A request counts from the moment it is sent until a minute after its answer has come: the service counted it
    somewhere between, so whatever may be sent here has room there as well.

    Args:
        most: The configured limit.
    """

    def __init__(self, most: float | None = None) -> None:
        self.most = math.inf if most is None else float(most)
        self.learned: float | None = None
        """What passed within a minute when the service refused more; None while nothing is known."""
        self._ceiling = math.inf
        self._answered: deque[tuple[float, int]] = deque()
        self._sum = 0
        self._open = 0
        self._left = math.inf
        self._left_until = -math.inf

    @property
    def limit(self) -> float:
        """The least of what is configured and learned; inf when nothing is known."""
        return min(self.most, math.inf if self.learned is None else self.learned)

    def begin(self, amount: int) -> None:
        """Count what is being sent."""
        self._open += amount
        self._left -= amount

    def end(self, begun: int, counted: int, now: float) -> None:
        """Count `counted` for a minute, in the place of what was begun; 0 when the service did not take it."""
        self._open -= begun
        if counted:
            self._answered.append((now, counted))
            self._sum += counted

    def refused(self, now: float, amount: float) -> None:
        """Learn from a refusal of `amount`."""
        self.learned = float(self.used(now))
        self._ceiling = self.learned + amount

    def passed(self, now: float) -> None:
        """Learn from an answer that what passed within the last minute may pass."""
        if self.learned is not None:
            self.learned = max(self.learned, self.used(now))

    def disproved(self, now: float) -> bool:
        """Whether as much has passed within the last minute as was refused."""
        return self.used(now) >= self._ceiling

    def doubtful(self, now: float) -> float:
        """How much more would be what was refused."""
        return self._ceiling - self.busy(now)

    def tell(self, left: float, until: float) -> None:
        """Believe the service that so much is left until then, without what is still on its way to it."""
        self._left = left - self._open
        self._left_until = until

    def used(self, now: float) -> int:
        """What was answered within the last minute."""
        while self._answered and self._answered[0][0] + WINDOW_SECONDS <= now:
            self._sum -= self._answered.popleft()[1]
        return self._sum

    def busy(self, now: float) -> int:
        """What was answered within the last minute or is under way."""
        return self.used(now) + self._open

    def allowed(self, now: float, least: float) -> float:
        """What may be sent by the setting and the service's word; `least`, if nothing else is under way."""
        busy = self.busy(now)
        room = self.most - busy if busy else max(self.most, least)
        return min(room, self._left) if now < self._left_until else room

    def expected(self, now: float) -> float:
        """What may be sent by what was learned."""
        return math.inf if self.learned is None else self.learned - self.busy(now)

    def opens_in(self, now: float, amount: float, limit: float) -> float:
        """Seconds until `amount` fits below `limit`, if nothing else is sent; inf if it hangs on an answer."""
        excess = self.busy(now) + amount - limit
        for answered, counted in self._answered:
            if excess <= 0:
                break
            excess -= counted
            if excess <= 0:
                opens = answered + WINDOW_SECONDS
                wait = opens - now
                return wait if now + wait >= opens else wait + math.ulp(opens)  # rounded down, it would be too early
        return 0.0 if excess <= 0 else math.inf

    def told_in(self, now: float, amount: float) -> float:
        """Seconds until the service's word no longer holds `amount` back."""
        return max(0.0, self._left_until - now) if self._left < amount else 0.0
