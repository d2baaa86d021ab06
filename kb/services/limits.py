"""When the next request may be sent, and how large it may be.

What holds requests back: the configured limits, exactly; what the service says (`Retry-After`,
`x-ratelimit-*`); and what its refusals teach. A refusal teaches that what passed within the last minute
is about all that passes in one. That is checked by small requests beyond it ("probes"), one at a time, at
growing intervals. One that passes raises what was learned; when more has passed than what was refused
before, the service counts otherwise (in another span of time) or refused at random, and what was learned
is forgotten until it refuses again.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal
from weakref import WeakValueDictionary

from kb.services.clock import LONGEST_SLEEP_SECONDS, Clock
from kb.services.headers import told
from kb.services.probes import Probes
from kb.services.retry import LONGEST_ASKED_SECONDS
from kb.services.window import WINDOW_SECONDS, Window

Kind = Literal["tokens", "requests", ""]
"""What there was too much of, where a refusal says so."""

# Two windows and a half: a service that lets nothing pass for so long is not counting minutes.
PATIENCE_SECONDS = 150.0
# A window is filled by so many requests: less than one of them stays unused at its end.
SHARES = 8
# The first request has so many tokens, and those that pass allow for larger ones until one is refused: a request that
# is larger than the window would be refused, and might be asked to wait for all of it.
FIRST_TOKENS = 4_000.0
# A service's own count that differs more from ours than this is no count of the tokens we sent.
_CREDIBLE = 10


@dataclass(frozen=True, slots=True)
class Offer:
    """How many tokens the next request may have; 0: none may be sent for so many seconds."""

    tokens: int = 0
    probe: bool = False
    wait_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Turn:
    """Leave to send one request; it is given back by `passed`, `refused` or `ended`."""

    tokens: int
    begun: float
    probe: bool


class Limits:
    """The limits of one model of one service; for all that is sent to it, from any thread.

    Args:
        requests_per_minute: Not more than this within any minute; None: not known.
        tokens_per_minute: Likewise; a single text of more tokens is sent alone.
        clock: What time is measured by.
    """

    def __init__(self, requests_per_minute: int | None, tokens_per_minute: int | None, clock: Clock) -> None:
        self.clock = clock
        self.changed = threading.Condition()
        self._requests = Window(requests_per_minute)
        self._tokens = Window(tokens_per_minute)
        self._told_most = math.inf
        self._told_at = -math.inf
        self._not_before = -math.inf
        self._probes = Probes()
        self._refused_at = -math.inf
        self._refused_since: float | None = None
        self._largest_passed = 0
        self._cap = FIRST_TOKENS

    def tighten(self, requests_per_minute: int | None, tokens_per_minute: int | None) -> None:
        """Keep within these limits as well."""
        with self.changed:
            self._requests.most = min(self._requests.most, requests_per_minute or math.inf)
            self._tokens.most = min(self._tokens.most, tokens_per_minute or math.inf)

    def slots(self, most: int) -> int:
        """How many requests may be sent now, at least 1 and at most `most`."""
        with self.changed:
            return max(1, int(min(most, self._requests.allowed(self.clock.now(), 1))))

    # ── before a request ──

    def offer(self, first: int, wanted: int) -> Offer:
        """Say how large a request may be sent now.

        Args:
            first: Tokens of the text that has to be sent next.
            wanted: Tokens that could be sent in one request; at least `first`.
        """
        with self.changed:
            now = self.clock.now()
            if now < self._not_before:
                return Offer(wait_seconds=self._not_before - now)
            size = int(min(wanted, max(first, self._size(now))))
            least = max(first, size // 2)
            room = self._tokens.allowed(now, first)
            if room < least or self._requests.allowed(now, 1) < 1:
                told_in = max(self._requests.told_in(now, 1), self._tokens.told_in(now, least))
                return Offer(wait_seconds=max(told_in, self._opens_in(now, least, learned=False)))
            expected = self._tokens.expected(now)
            if expected >= least and self._requests.expected(now) >= 1:
                return Offer(int(min(size, room, expected)))
            if self._probes.under_way:
                return Offer(wait_seconds=self._opens_in(now, least, learned=True))
            if now >= self._probes.at:
                return Offer(int(min(wanted, room, max(first, self._probe_size(now, least)))), probe=True)
            return Offer(wait_seconds=min(self._probes.at - now, self._opens_in(now, least, learned=True)))

    def begin(self, tokens: int, offer: Offer) -> Turn:
        """Take an offer for a request of so many tokens."""
        with self.changed:
            self._requests.begin(1)
            self._tokens.begin(tokens)
            self._probes.under_way = self._probes.under_way or offer.probe
            return Turn(tokens, self.clock.now(), offer.probe)

    def wait_for_turn(self, tokens: int, check: Callable[[], None] = lambda: None) -> Turn:
        """Wait until a request of so many tokens may be sent; `check` may raise to end the wait."""
        tokens = max(1, tokens)
        with self.changed:
            while not (offer := self.offer(tokens, tokens)).tokens:
                check()
                self.changed.wait(min(self.clock.real(offer.wait_seconds), LONGEST_SLEEP_SECONDS))
            return self.begin(tokens, offer)

    # ── after it ──

    def passed(self, turn: Turn, counted: int | None, headers: Mapping[str, str]) -> None:
        """Note that a request was answered; `counted` are its tokens by the service, where it says them."""
        if counted is None or not turn.tokens / _CREDIBLE <= counted <= turn.tokens * _CREDIBLE:
            counted = turn.tokens
        with self.changed:
            now = self._end(turn, 1, counted)
            self._largest_passed = max(self._largest_passed, turn.tokens)
            self._hear(headers, turn, now)
            taught = [window for window in (self._tokens, self._requests) if window.learned is not None]
            for window in taught:
                window.passed(now)
            if turn.begun >= self._refused_at:
                if turn.probe:
                    self._probes.passed(now, self._refused_since)
                    if taught and all(window.disproved(now) for window in taught):
                        self._tokens.learned = self._requests.learned = None
                        self._cap = max(self._cap, self._largest_passed)
                self._refused_since = None
            if self._tokens.learned is None and turn.tokens * 2 > self._cap:
                self._cap = max(self._cap, min(2 * self._cap, self._tokens.used(now) / 2))

    def refused(self, turn: Turn, asked: float | None, kind: Kind, headers: Mapping[str, str]) -> None:
        """Note that the service refused a request for its rate; it `asked` to wait so many seconds."""
        if asked is not None and asked > LONGEST_ASKED_SECONDS:
            asked = None  # whoever sent this gives up; others may try
        with self.changed:
            now = self._end(turn, 0, 0)
            if turn.tokens > self._largest_passed:
                self._cap = min(self._cap, max(1.0, turn.tokens / 2))
            known = self._tokens.learned is not None or self._requests.learned is not None
            if kind != "requests":
                self._tokens.refused(now, turn.tokens)
                if self._tokens.learned:
                    self._cap = min(self._cap, max(1.0, self._tokens.learned / SHARES))
            if kind != "tokens":
                self._requests.refused(now, 1)
            if turn.begun >= self._refused_at:  # the others were sent before that was known
                self._probes.refused(now, asked, probe=turn.probe, known=known)
                if self._refused_since is None or now - self._refused_at > PATIENCE_SECONDS:
                    self._refused_since = now
                self._refused_at = now
            self._hear(headers, turn, now)
            if asked is not None:
                self._not_before = max(self._not_before, now + asked)

    def ended(self, turn: Turn, *, counts: bool) -> None:
        """Note that a request failed otherwise, or was given up; `counts`: the service may have counted it."""
        with self.changed:
            self._end(turn, int(counts), turn.tokens if counts else 0)

    def stuck(self) -> bool:
        """Whether the service has let nothing pass for longer than a window explains."""
        with self.changed:
            since = self._refused_since
            return since is not None and self.clock.now() - since > PATIENCE_SECONDS

    def _end(self, turn: Turn, requests: int, tokens: int) -> float:
        now = self.clock.now()
        self._requests.end(1, requests, now)
        self._tokens.end(turn.tokens, tokens, now)
        if turn.probe:
            self._probes.under_way = False
        self.changed.notify_all()
        return now

    def _hear(self, headers: Mapping[str, str], turn: Turn, now: float) -> None:
        """Believe what an answer says of the limits, unless a later request has said more."""
        if turn.begun < self._told_at:
            return
        self._told_at = turn.begun
        for window, said in ((self._tokens, told(headers, "tokens")), (self._requests, told(headers, "requests"))):
            if said.left is not None:
                window.tell(said.left, now + min(said.reset_seconds, WINDOW_SECONDS))
            if window is self._tokens and said.most is not None:
                self._told_most = said.most

    def _size(self, now: float) -> float:
        """What share of the window a request may take; while the window is not known, what has seemed to pass."""
        window = min(self._tokens.limit, self._told_most)
        share = window / SHARES if window else self._cap
        requests = self._requests.limit - self._requests.busy(now)
        few = 0 < requests < SHARES  # so they have to be large
        if self._tokens.learned is None and not (few and self._refused_at == -math.inf):
            share = min(share, self._cap)
        if few and math.isfinite(window):
            share = max(share, (window - self._tokens.busy(now)) / requests)
        return min(share, self._tokens.most, self._told_most)

    def _probe_size(self, now: float, least: int) -> float:
        """Half of what lies between what passes and what was refused, but not too little."""
        return max(least, self._tokens.doubtful(now) / 2) if self._tokens.learned is not None else least

    def _opens_in(self, now: float, tokens: int, *, learned: bool) -> float:
        requests, window = self._requests, self._tokens
        if learned:
            return max(requests.opens_in(now, 1, requests.limit), window.opens_in(now, tokens, window.limit))
        alone = min(tokens, window.most)  # what is larger than the window is sent when it is empty
        return max(requests.opens_in(now, 1, requests.most), window.opens_in(now, alone, window.most))


_shared: WeakValueDictionary[tuple[object, ...], Limits] = WeakValueDictionary()
_shared_guard = threading.Lock()


def shared_limits(
    place: tuple[object, ...], requests_per_minute: int | None, tokens_per_minute: int | None, clock: Clock
) -> Limits:
    """The limits of one place (address, account, model), one object as long as somebody uses it.

    Where two settings of the same place differ, the lower one holds.
    """
    with _shared_guard:
        limits = _shared.get((*place, clock))
        if limits is None:
            limits = _shared[(*place, clock)] = Limits(requests_per_minute, tokens_per_minute, clock)
        limits.tighten(requests_per_minute, tokens_per_minute)
        return limits
