"""How much of a service's rate limit an ingest uses: `python benchmarks/embedding_limits.py`.

Some texts are embedded through the real client at a service on loopback that lets 20,000 tokens pass in a sliding
window of a minute; a minute takes 1.5 seconds here, for the service and for the client's waits alike. The client
is not told how the service is set up, except where a line says so. `share` is the time that a client would need
that knew all and lost nothing (a window's tokens at once, as soon as the window is empty) over the time that was
needed; the service takes 0.2 of its seconds for a request. Where calls fail, the service has counted them, so that no
client could use more than the share that succeeds. A busy machine lowers every share: 10 ms here are 0.4 s there.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kb.components import Parts
from kb.embedding.openai import OpenAIEmbedder, Options
from kb.services.clock import Clock
from tests.limited_server import DIMENSION, Limited, limited_server
from tests.llm_server import vector_for

MINUTE_SECONDS = 1.5
CLOCK = Clock(60 / MINUTE_SECONDS)
TOKENS = 20_000
TEXT_TOKENS = 250
WINDOWS = 5
TEXTS = [f"{i:05d}" + "x" * (TEXT_TOKENS - 5) for i in range(int(TOKENS * (WINDOWS + 0.5)) // TEXT_TOKENS)]


@dataclass(frozen=True)
class Case:
    """One way that a service may be set up, and what the client is told of it."""

    name: str
    service: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    calls: int = 1
    """The texts are embedded in so many calls."""


CASES = [
    Case("Retry-After is sent", {"retry_after": True}),
    Case("nothing is sent", {}),
    Case("x-ratelimit-* is sent", {"tells": True}),
    Case("nothing is sent; calls smaller than the window", {}, calls=14),
    Case("Retry-After is sent; one request at a time, all that fits", {"retry_after": True}, {"in_flight": 1}),
    Case("nothing is sent; one request at a time, all that fits", {}, {"in_flight": 1}),
    Case("the limit is configured", {}, {"tokens_per_minute": TOKENS}),
    Case("the limit is configured; one request at a time", {}, {"tokens_per_minute": TOKENS, "in_flight": 1}),
    Case("nothing is sent; the window is of 6 seconds", {"window_seconds": 6.0, "work_seconds": 0.05}),
    Case(
        "Retry-After is sent; the window is of 6 seconds",
        {"window_seconds": 6.0, "work_seconds": 0.05, "retry_after": True},
    ),
    Case("nothing is sent; 10 requests a minute instead", {"tokens": 10**9, "requests": 10}, {"max_batch_items": 8}),
    Case("30 % of the calls fail; no limit", {"tokens": 10**9, "failures": 0.3}, {"max_batch_items": 5}),
    Case("30 % of the calls fail; Retry-After is sent", {"failures": 0.3, "retry_after": True}),
    Case("30 % of the calls fail; nothing is sent", {"failures": 0.3}),
]


def measure(case: Case) -> None:
    """Embed all texts, check the result, print a line."""
    service = Limited(CLOCK, **case.service)
    with limited_server(service) as base_url:
        options = Options(base_url=base_url, model="a-model", dimensions=DIMENSION, vocabulary="bytes", **case.options)
        embedder = OpenAIEmbedder(options, Parts(secret=lambda name: "none"), CLOCK)
        embedder.count_tokens("a")
        started = time.monotonic()
        step = -(-len(TEXTS) // case.calls)
        vectors = np.concatenate([embedder.embed_documents(TEXTS[i : i + step]) for i in range(0, len(TEXTS), step)])
        seconds = (time.monotonic() - started) * CLOCK.speed
    rows = np.array([vector_for(text, DIMENSION) for text in TEXTS])
    right = np.allclose(vectors, rows / np.linalg.norm(rows, axis=1, keepdims=True), atol=1e-6)
    twice = len(service.answered) - len(set(service.answered))
    if service.requests <= TOKENS:
        ideal = service.window_seconds * (len(TEXTS) // 8 // service.requests)
        share = f"{ideal / seconds:6.0%}"
    elif service.tokens <= TOKENS:
        ideal = service.window_seconds * WINDOWS
        share = f"{ideal / seconds:6.0%}"
    else:
        share = "      "
    counts = f"{service.statuses[429]:4} × 429  {service.statuses[200]:4} × 200  largest {service.largest:6}"
    verdict = f"twice {twice}  {'right' if right else 'WRONG'}"
    print(f"{share}  {seconds:6.1f} s  {counts}  {verdict}  {case.name}", flush=True)


def main() -> None:
    """Measure the cases whose names hold the given words, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*")
    parser.add_argument("--repeat", type=int, default=1)
    arguments = parser.parse_args()
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        os.environ.pop(name, None)
    with limited_server(Limited(CLOCK)) as base_url:  # the first request of a process takes longer
        options = Options(base_url=base_url, model="a-model", dimensions=DIMENSION, vocabulary="bytes")
        OpenAIEmbedder(options, Parts(secret=lambda name: "none"), CLOCK).embed_queries(["a"])
    for case in CASES:
        if all(word in case.name for word in arguments.words):
            for _ in range(arguments.repeat):
                measure(case)


if __name__ == "__main__":
    main()
