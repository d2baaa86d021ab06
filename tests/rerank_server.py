"""A rerank service on loopback that follows a script; the scores of a right answer are made of the words in common."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from kb.words import terms
from tests.llm_server import Reply, Request, Script, error_reply, json_reply


def word_score(question: str, text: str) -> float:
    """The share of the question's words that a text holds, 0 to 1."""
    asked = set(terms(question))
    return len(asked & set(terms(text))) / max(1, len(asked))


def right_scores(request: Request) -> list[float]:
    return [word_score(request.body["query"], text) for text in request.body["documents"]]


def results(scores: Sequence[Any]) -> list[dict[str, Any]]:
    """What a right answer's `results` is, in the order of the documents."""
    return [{"index": index, "relevance_score": score} for index, score in enumerate(scores)]


def results_reply(found: Any) -> Reply:
    return json_reply({"id": "1", "model": "m", "results": found, "usage": {"total_tokens": 1}})


def rerank_script(request: Request) -> Reply:
    """A service that works: the best `top_n` first, each with its document, as some send it."""
    body = request.body
    if not isinstance(body.get("query"), str) or not all(isinstance(text, str) for text in body["documents"]):
        return error_reply(422, "query and documents should be strings")
    ranked = sorted(results(right_scores(request)), key=lambda result: -result["relevance_score"])
    return results_reply(
        [{**result, "document": {"text": body["documents"][result["index"]]}} for result in ranked[: body["top_n"]]]
    )


def scored(*scores: Any) -> Script:
    """A service that always gives these scores to the documents, in their order."""
    return lambda request: results_reply(results(scores))


def in_turn(*replies: Reply) -> Script:
    """One reply after the other; the last one again and again."""
    left = itertools.chain(replies, itertools.repeat(replies[-1]))
    return lambda request: next(left)
