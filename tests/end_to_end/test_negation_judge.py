"""The evaluation of negation with a chat model as judge, over a socket: its ratings decide, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from kb.evaluation.negation import evaluate, load_data
from kb.knowledge_base import KnowledgeBase
from tests.llm_server import Reply, Request, chat_reply, error_reply, scripted_server

CONFIG = """
[embedding]
use = "hashing"
[store]
use = "memory"
[loading]
isolated = false
[rerank]
use = "llm_judge"
[chat.judge]
base_url = "{base_url}"
retries = 0
"""
PAIRS = [
    ("Who likes the violin?", "Who does not like the violin?", "At five he liked it.", "At five he did not like it."),
    ("谁喜欢下雨？", "谁不喜欢下雨？", "青蛙喜欢下雨的日子。", "猫不喜欢下雨的日子。"),
    ("犬は庭で眠る？", "犬は庭で眠らない？", "犬は庭でよく眠る。", "犬は庭では眠らない。"),
]


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    file = tmp_path / "pairs.jsonl"
    rows = [dict(zip(("q1", "q2", "doc1", "doc2"), pair, strict=True)) for pair in PAIRS]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return file


def belongs(request: Request) -> bool:
    """Whether the passage that is to be rated is the question's own."""
    asked = request.body["messages"][-1]["content"]
    return any(f"Question: {pair[n]}" in asked and f"\n{pair[2 + n]}\n" in asked for pair in PAIRS for n in (0, 1))


def judged(
    project: Callable[..., Path], pairs: Path, script: Callable[[Request], Reply]
) -> dict[str, tuple[bool, ...]]:
    with scripted_server(script) as server:
        project(CONFIG.format(base_url=server.base_url), "OPENAI_API_KEY=sk-test\n")
        with KnowledgeBase.open("config.toml") as base:
            result = evaluate(base, load_data(pairs))
        assert len(server.requests) <= 2 * 2 * len(PAIRS), "two passages for each question, and no more"
    return {one.name: one.right for one in result.systems}


def test_a_judge_that_knows_is_right_on_every_pair(project: Callable[..., Path], pairs: Path) -> None:
    right = judged(project, pairs, lambda request: chat_reply("10" if belongs(request) else "2"))
    assert right["llm_judge"] == (True, True, True)
    assert list(right) == ["dense", "keyword", "fused", "llm_judge"]


@pytest.mark.parametrize(
    "script",
    [
        lambda request: chat_reply("2" if belongs(request) else "10"),
        lambda request: chat_reply("7"),
        lambda request: chat_reply("I cannot say."),
        lambda request: error_reply(500, "overloaded"),
    ],
    ids=["wrong", "undecided", "unreadable", "failing"],
)
def test_a_judge_that_errs_ties_or_fails_is_right_on_none(
    project: Callable[..., Path], pairs: Path, script: Callable[[Request], Reply]
) -> None:
    assert judged(project, pairs, script)["llm_judge"] == (False, False, False)
