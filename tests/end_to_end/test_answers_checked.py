"""A model that cites and quotes in every wrong way: text, citations and notes are right, whole and streamed alike."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kb.answers import Answer, AnswerReady, CitationFound, ClaimChecked, TextPiece
from kb.knowledge_base import KnowledgeBase
from tests.llm_server import Reply, Request, ScriptedServer, chat_script, chunk, scripted_server, stream_reply

DOCUMENTS = {
    "a.md": "# Refunds\n\nRefunds are paid within 30 days. You need the receipt.\n",
    "b.md": "# Shipping\n\nShipping costs are never refunded. Parcels are kept for ten days.\n",
    "c.md": "# 退款\n\n退款在七个工作日内处理。需要提供订单号。\n",
    "d.md": "# 返金\n\n返金は三十日以内に行われます。領収書が必要です。\n",
    "e.md": "# Leave\n\nAnnual leave is 25 days. Ask your manager two weeks ahead.\n",
}
QUESTION = "When are refunds paid, 退款 and 返金, and how long is leave?"


@dataclass
class Asked:
    """A base whose model says what it is told; `[a]` in it stands for the number of a.md."""

    base: KnowledgeBase
    server: ScriptedServer

    def numbers(self) -> dict[str, int]:
        return {hit.source: number for number, hit in enumerate(self.base.search(QUESTION).hits, start=1)}

    def both_ways(self, said: str) -> tuple[Answer, str]:
        """The answer to a model that says this in pieces of many sizes, and what it said."""
        numbers = self.numbers()
        said = re.sub(r"(?<![A-Za-z])([a-e])(?=[\],、）)】†-])", lambda found: str(numbers[f"{found[1]}.md"]), said)
        found: list[Answer] = []
        for size in (1, 3, 11, len(said)):
            pieces = [chunk(said[at : at + size]) for at in range(0, len(said), size)]
            self.server.script = partial(_says, pieces)
            events = list(self.base.stream(QUESTION))
            last = events[-1]
            assert isinstance(last, AnswerReady)
            assert "".join(event.text for event in events if isinstance(event, TextPiece)) == last.answer.text
            assert {e.citation for e in events if isinstance(e, CitationFound)} == set(last.answer.citations)
            assert [e.claim for e in events if isinstance(e, ClaimChecked)] == list(last.answer.claims)
            found.append(last.answer)
        whole = found[0]
        for other in found:
            assert (other.text, other.citations, other.claims, other.notes) == (
                whole.text, whole.citations, whole.claims, whole.notes
            )  # fmt: skip
        return whole, said


def _says(pieces: list[dict[str, Any]], request: Request) -> Reply:
    return stream_reply([*pieces, chunk(None, "stop")], cut=5)


def silent(request: Request) -> Reply:
    return chat_script("unused")(request)


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    folder = tmp_path_factory.mktemp("checked")
    (folder / "documents").mkdir()
    for name, text in DOCUMENTS.items():
        (folder / "documents" / name).write_text(text, "utf-8")
    (folder / ".env").write_text("OPENAI_API_KEY=sk-test-1234567890\n", "utf-8")
    (folder / "config.toml").write_text('documents_dir = "documents"\ndata_dir = "data"\n', "utf-8")
    with (
        scripted_server(silent) as server,
        KnowledgeBase.open(
            Path(folder) / "config.toml",
            embedding={"use": "hashing"},
            store={"use": "memory"},
            loading={"isolated": False},
            retrieval={"cutoff": -1.0},
            generation={"use": "openai"},
            chat={"answer": {"base_url": server.base_url, "model": "a-model", "retries": 0}},
        ) as base,
    ):
        base.ingest()
        yield Asked(base, server)


def sources(answer: Answer) -> set[str]:
    return {citation.source for citation in answer.citations}


@pytest.mark.parametrize(
    ("said", "cited"),
    [
        ("Refunds are paid within 30 days [a][b].", {"a.md", "b.md"}),
        ("Refunds are paid within 30 days [a, b].", {"a.md", "b.md"}),
        ("退款在七个工作日内处理【c】。", {"c.md"}),
        ("返金は三十日以内に行われます（出典d）。", {"d.md"}),
        ("Annual leave is 25 days 【e†source】.", {"e.md"}),
        ("With `rows[a]`, refunds are paid within 30 days [a].", {"a.md"}),
    ],
)
def test_markers_in_the_forms_of_models_become_citations(asked: Asked, said: str, cited: set[str]) -> None:
    answer, _ = asked.both_ways(said)
    assert sources(answer) == cited
    assert re.findall(r"\[\d+\]", re.sub(r"`[^`]*`|array\[\d\]", "", answer.text)) == [
        f"[{number}]" for number in dict.fromkeys(asked.numbers()[name] for name in sorted(cited))
    ]
    if "`" not in said:  # no source holds that code
        assert answer.support == 1


def test_a_marker_that_points_nowhere_is_taken_out_and_named(asked: Asked) -> None:
    answer, _ = asked.both_ways("Refunds are paid within 30 days [99]. You need the receipt [a][98].")
    assert "99" not in answer.text
    assert "98" not in answer.text
    assert sources(answer) == {"a.md"}
    assert any("[99], [98]" in note for note in answer.notes)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("It says “Refunds are paid within a single hour” [a].", "is not in"),
        ("It says “Refunds are paid within 30 days. Shipping costs are never refunded” [a][b].", "is not in"),
        ("It says “Shipping costs are never refunded” [a].", "it is in"),
        ("资料写道「退款在一小时内处理完毕」[c]。", "is not in"),
        ("「返金は一時間以内に行われます」とあります[d]。", "is not in"),
    ],
)
def test_a_quotation_that_its_source_does_not_hold_is_not_shown_as_checked(
    asked: Asked, said: str, reason: str
) -> None:
    answer, _ = asked.both_ways(said)
    assert [claim.verdict == "supported" for claim in answer.claims] == [False]
    assert any("quotation" in note and reason in note for note in answer.notes)
    everything = "\n".join(DOCUMENTS.values())
    assert all(citation.quote in everything for citation in answer.citations)


@pytest.mark.parametrize(
    "said",
    [
        "Refunds are paid within 90 days [a].",
        "Refunds are not paid within 30 days [a].",
        "退款在九个工作日内处理[c]。",
        "退款不在七个工作日内处理[c]。",
        "返金は九十日以内に行われます[d]。",
    ],
)
def test_a_claim_that_its_source_denies_is_flagged_with_the_reason(asked: Asked, said: str) -> None:
    answer, _ = asked.both_ways(said)
    (claim,) = answer.claims
    assert claim.verdict != "supported"
    assert claim.reasons
    assert claim.evidence


def test_what_the_documents_do_not_settle_is_said_in_one_word_and_never_shown(asked: Asked) -> None:
    answer, _ = asked.both_ways("NOT_IN_DOCUMENTS")
    assert not answer.answered
    assert (answer.citations, answer.claims) == ((), ())
    assert answer.hits
    assert "NOT_IN" not in answer.text
