"""What an answer costs besides retrieval and the model: `python -m benchmarks.answer_overhead [--rounds N]`.

A chat model on loopback, in a process of its own, writes a word every few milliseconds, some times faster than real
ones. Measured is the time from the hits until the request reaches it (the prompt, the client), and from its end
until the answer is there (its citations, the verdicts on its claims). Its first word is the time at which it was
written, so that it is known how much later it is passed on.

The same is measured of the bare client with the same prompt, in turns: what it takes is not this project's, though
nobody asks a model without one.

It fails when a figure is above its goal. Nothing else may run meanwhile. Linux only.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.queues import Queue
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import openai

from kb import evidence
from kb.answers import AnswerReady, HitsFound, TextPiece
from kb.filters import Filter
from kb.knowledge_base import KnowledgeBase
from kb.prompts import build_prompt
from kb.records import Hit
from kb.services.tokens import about_tokens

SAMPLES = Path(__file__).parents[1] / "knowledge_base"
QUESTION = "What does a 429 mean and how should I handle it?"
WHOLE_GOAL, FIRST_GOAL = 10.0, 5.0
WARM_UP = 5
PACE = 0.003
"""Seconds between two words."""
ANSWER = (
    "A 429 means that you are sending requests too fast. [1] The server refuses them until the window has passed [2], "
    "and it is not an error in what you have sent. [1][3] Wait as long as the Retry-After header says, then send the "
    "request again. [4]\n\n- 402 is another matter: the quota of the month is used up. [5]\n"
    "- Nothing else has to be done. [2]"
)


def main() -> int:
    """Measure, print, and give 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=100)
    rounds = parser.parse_args().rounds
    context = multiprocessing.get_context("spawn")
    ports, held = context.Queue(), context.Queue()
    server = context.Process(target=_serve, args=(ports, held), daemon=True)
    server.start()
    try:
        with tempfile.TemporaryDirectory() as folder:
            return _measure(Path(folder), ports.get(timeout=60), held, rounds)
    finally:
        server.kill()


def _measure(folder: Path, port: int, held: Queue[tuple[float, float]], rounds: int) -> int:
    # Any key will do; a program of its own would take it from the environment.
    env = folder / ".env"
    env.write_text("OPENAI_API_KEY=none\n", "utf-8")
    config = folder / "config.toml"
    config.write_text(
        f'documents_dir = "{SAMPLES}"\n[generation]\nuse = "openai"\n'
        f'[chat.answer]\nmodel = "a-model"\nbase_url = "http://127.0.0.1:{port}/v1"\n',
        "utf-8",
    )
    with KnowledgeBase.open(config) as base:
        base.ingest()
        for _ in range(WARM_UP):
            base.ask(QUESTION)
            held.get()
        english: Filter = {"path": ["api", "support"]}
        messages = _messages(base.search(QUESTION, cutoff=-1, where=english).hits)
        client = openai.OpenAI(api_key="none", base_url=f"http://127.0.0.1:{port}/v1")
        measured, bare = [], []
        for _ in range(rounds):
            measured.append(_one(base, held, english))
            bare.append(_bare(client, messages, held))
        mixed = [_one(base, held) for _ in range(rounds)]
        first = [_first_token(base, held) for _ in range(rounds)]
    before, after = ([one[i] for one in measured] for i in (0, 1))
    print("milliseconds                                    p50      p95")
    _show("from the hits to the request", before)
    _show("from the model's end to the answer", after)
    _show("both", [sum(one) for one in measured])
    _show("both, with passages in three languages", [sum(one) for one in mixed])
    _show("both, of the bare client", [sum(one) for one in bare])
    added = [sum(one) - sum(other) for one, other in zip(measured, bare, strict=True)]
    whole = _show("besides retrieval, the model and its client", added, WHOLE_GOAL)
    return max(whole, _show("first word passed on", first, FIRST_GOAL))


def _one(base: KnowledgeBase, held: Queue[tuple[float, float]], where: Filter = None) -> tuple[float, float]:
    """Milliseconds before and behind the model's part of an answer, from sources that were never read before."""
    for kept in (evidence.read, evidence._read_one, evidence.quantities_of, evidence.key_of):
        kept.cache_clear()
    found = 0.0
    for event in base.stream(QUESTION, cutoff=-1, where=where):
        if isinstance(event, HitsFound):
            found = time.monotonic()
        if isinstance(event, AnswerReady):
            ended = time.monotonic()
            assert event.answer.answered
            assert len(event.answer.hits) == 5
    began, done = held.get()
    return 1000 * (began - found), 1000 * (ended - done)


def _messages(hits: Sequence[Hit]) -> list[Any]:
    prompt = build_prompt(QUESTION, hits, 8_000, lambda text: about_tokens([text]))
    return [{"role": message.role, "content": message.content} for message in prompt.messages]


def _bare(client: openai.OpenAI, messages: list[Any], held: Queue[tuple[float, float]]) -> tuple[float, float]:
    """The same milliseconds of a program that only asks the model."""
    started = time.monotonic()
    text = ""
    for part in client.chat.completions.create(model="a-model", messages=messages, stream=True):
        text += part.choices[0].delta.content or ""
    ended = time.monotonic()
    began, done = held.get()
    return 1000 * (began - started), 1000 * (ended - done)


def _first_token(base: KnowledgeBase, held: Queue[tuple[float, float]]) -> float:
    """Milliseconds from a first token's being written to its being passed on."""
    late = 0.0
    for event in base.stream(f"{QUESTION} Say the time."):
        if isinstance(event, TextPiece) and not late:
            late = time.monotonic() - float(event.text)
    held.get()
    return 1000 * late


def _show(name: str, times: list[float], goal: float | None = None) -> int:
    missed = goal is not None and median(times) > goal
    p95 = quantiles(times, n=20)[-1]
    aim = "" if goal is None else f"  goal {goal:.0f}{': MISSED' if missed else ''}"
    print(f"{name:42} {median(times):8.2f} {p95:8.2f}{aim}")
    return int(missed)


# ── the model ──


def _serve(ports: Queue[int], held: Queue[tuple[float, float]]) -> None:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            """Write an answer, and tell when the request came and when it was written."""
            began = time.monotonic()
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            says_time = "Say the time." in body["messages"][-1]["content"]
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            words = [f"{word} " for word in ANSWER.split(" ")]
            time.sleep(0.02)  # the client is waiting by now, as it would for a model
            if says_time:
                self._event(f"{time.monotonic():.6f} ")
            for word in words:
                time.sleep(PACE)
                self._event(word)
            self._event(None)
            self.wfile.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
            held.put((began, time.monotonic()))

        def _event(self, text: str | None) -> None:
            choice = {"index": 0, "delta": {"content": text}, "finish_reason": None if text else "stop"}
            event = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
            data = f"data: {json.dumps(event)}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    ports.put(server.server_address[1])
    server.serve_forever()


if __name__ == "__main__":
    sys.exit(main())
