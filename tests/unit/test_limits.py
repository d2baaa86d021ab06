"""Windows, headers and batches: what a request may hold, and when."""

from __future__ import annotations

import time
from email.utils import formatdate

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kb.services.batches import Batches
from kb.services.headers import asked_seconds, retry_after_seconds, span_seconds, told
from kb.services.probes import LONGEST_WAIT_SECONDS, Probes
from kb.services.window import Window


@example(1, [(1.671648681414726, 1.671648681414726, 1), (13.429972394756003, 0.0, 1)])  # a sum that is rounded down
@given(
    most=st.integers(1, 100),
    requests=st.lists(st.tuples(st.floats(0, 30), st.floats(0, 20), st.integers(1, 100)), max_size=40),
)
def test_no_minute_holds_more_than_the_limit_wherever_a_service_counts_between_request_and_answer(
    most: int, requests: list[tuple[float, float, int]]
) -> None:
    window = Window(most)
    now, counted = 0.0, []
    for pause, takes, amount in requests:
        now += pause
        if amount > most:
            assert window.opens_in(now, amount, most) == float("inf")
            continue
        if window.allowed(now, 0) < amount:
            now += window.opens_in(now, amount, most)
        assert window.allowed(now, 0) >= amount, "opens_in says when"
        window.begin(amount)
        begun, now = now, now + takes
        window.end(amount, amount, now)
        counted.append((begun, now, amount))
    for begun, _, _ in counted:
        # The earliest moment of this request against the latest of those before it.
        assert sum(size for sent, answered, size in counted if answered + 60 > begun >= sent) <= most


def test_what_the_service_says_is_left_holds_until_it_says() -> None:
    window = Window()
    window.begin(10)
    window.tell(30, until=5.0)
    assert window.allowed(1.0, 0) == 20, "10 are on their way"
    window.begin(15)
    assert window.allowed(1.0, 0) == 5
    assert window.told_in(1.0, 6) == 4.0
    assert window.told_in(1.0, 5) == 0.0
    assert window.allowed(5.0, 0) > 10**9


def test_a_refusal_teaches_what_passed_and_more_that_passes_disproves_it() -> None:
    window = Window()
    for _ in range(3):
        window.begin(100)
        window.end(100, 100, 1.0)
    window.refused(2.0, 50)
    assert window.learned == 300
    assert window.expected(2.0) == 0
    window.begin(60)
    window.end(60, 60, 3.0)
    window.passed(3.0)
    assert window.learned == 360
    assert window.disproved(3.0), "50 more were refused"
    assert window.expected(61.0) == 300, "a minute after the first answers"


def test_probes_wait_longer_while_they_are_refused_and_soon_follow_each_other_when_they_pass() -> None:
    probes = Probes()
    now, waits = 0.0, []
    probes.refused(now, None, probe=False, known=False)
    for _ in range(20):
        waits.append(probes.at - now)
        now = probes.at
        probes.refused(now, None, probe=True, known=True)
    assert waits[0] <= 0.5
    assert 0.75 * LONGEST_WAIT_SECONDS <= max(waits) <= LONGEST_WAIT_SECONDS
    probes.passed(now, now - 8)
    assert probes.at == now
    probes.refused(now, None, probe=False, known=False)
    assert 4.5 <= probes.at - now <= 6, "it took 8 seconds the last time"
    probes.refused(now, 33.0, probe=True, known=True)
    assert probes.at - now == pytest.approx(33), "the service says when"


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("1s", 1),
        ("6m0s", 360),
        ("120ms", 0.12),
        ("1h2m3.5s", 3723.5),
        ("12.5", 12.5),
        ("", None),
        (None, None),
        ("soon", None),
        ("-3", None),
        ("nan", None),
        ("inf", None),
        ("9" * 500 + "s", float("inf")),
    ],
)
def test_spans_of_time_are_read_in_every_form(value: str | None, seconds: float | None) -> None:
    assert span_seconds(value) == seconds


def test_moments_are_read_as_spans_from_now() -> None:
    now = time.time()
    for value in (f"{now + 30:.0f}", f"{(now + 30) * 1000:.0f}"):
        assert span_seconds(value) == pytest.approx(30, abs=2)
    assert span_seconds(f"{now - 30:.0f}") == 0
    assert retry_after_seconds(formatdate(now + 30, usegmt=True)) == pytest.approx(30, abs=2)
    assert retry_after_seconds("7", "1500") == 1.5
    assert retry_after_seconds("when it suits") is None


def test_a_refusal_without_retry_after_asks_for_the_reset_of_what_ran_out() -> None:
    headers = {
        "x-ratelimit-limit-tokens": "40000",
        "x-ratelimit-remaining-tokens": "0",
        "x-ratelimit-reset-tokens": "7s",
        "x-ratelimit-remaining-requests": "12",
        "x-ratelimit-reset-requests": "55s",
    }
    assert asked_seconds(headers) == 7
    assert asked_seconds({**headers, "retry-after": "3"}) == 3
    assert asked_seconds({"retry-after": "0"}) is None
    assert told(headers, "tokens").most == 40_000
    assert told({"x-ratelimit-remaining": "5", "x-ratelimit-reset": "9"}, "requests").left == 5
    assert told({"x-ratelimit-remaining-tokens": "5"}, "tokens").left is None, "it does not say until when"


@given(
    sizes=st.lists(st.integers(1, 50), max_size=60),
    most_items=st.integers(1, 9),
    moves=st.lists(st.tuples(st.integers(1, 120), st.sampled_from(["done", "rate", "failed", "refused"]))),
)
def test_batches_keep_their_limits_and_lose_and_double_nothing(
    sizes: list[int], most_items: int, moves: list[tuple[int, str]]
) -> None:
    batches = Batches(sizes, most_items, 100)
    done: list[int] = []
    fates = iter(moves)
    while batches:
        batch = batches.next(0.0)
        assert batch is not None
        tokens, fate = next(fates, (100, "done"))
        taken = batches.take(batch, min(tokens, batches.wanted(batch, 2)))
        assert len(taken.rows) <= most_items
        assert taken.tokens == sum(sizes[row] for row in taken.rows)
        assert taken.tokens <= max(tokens, sizes[taken.rows[0]])
        if fate == "rate":
            batches.put_back(taken)
        elif fate == "failed":
            batches.put_failed(taken)
        elif fate == "refused" and len(taken.rows) > 1:
            batches.too_large(taken)
            batches.put_halves(taken)
        else:
            batches.passed(taken)
            done += taken.rows
    assert sorted(done) == list(range(len(sizes)))
