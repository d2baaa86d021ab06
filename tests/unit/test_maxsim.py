"""Late interaction: the right passage comes first, kept token vectors do as computed ones do, both scores count."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kb.components import Parts, build_component
from kb.embedding._e5_tokens import FORM_BYTES
from kb.embedding.e5 import E5Embedder, Options, build
from kb.errors import ConfigError, KbError
from kb.records import Chunk, Hit
from kb.rerank.maxsim import MaxSim, max_sim
from tests.model_passes import count_passes

EXAMPLES = {
    "How much is a membership?": (
        "Membership begins on the day when the card is handed over.",
        "Membership costs forty euros a year, and half of that for students.",
    ),
    "学生票可以便宜多少?": ("学生可以在周末参观展览,周一闭馆。", "凭学生证购票可享受半价优惠。"),
    "会議室の予約はいつまでにすればいいですか。": (
        "会議室では飲み物を飲めますが、食事はできません。",
        "会議室を使うときは、前日までに受付で申し込んでください。",
    ),
}
"""Question → a passage on the same matter, and the one that answers."""
TEXTS = [text for pair in EXAMPLES.values() for text in pair]


@pytest.fixture(scope="module")
def e5() -> E5Embedder:
    return build(Options(threads=2), Parts())


def hits_of(texts: Sequence[str], scores: Sequence[float]) -> list[Hit]:
    chunks = [Chunk(f"c{number}", "d", text, 0, len(text)) for number, text in enumerate(texts)]
    return [Hit(chunk, "a.md", score, "fused", 0.5) for chunk, score in zip(chunks, scores, strict=True)]


def reranker(embedder: Any, weight: float = 1.0, **parts: Any) -> MaxSim:
    built: MaxSim = build_component("rerank", "maxsim", {"weight": weight}, Parts(embedder=embedder, **parts))
    return built


# ── the embedder's token vectors ──


def test_token_states_are_unit_rows_one_for_each_token_of_the_text_alone(e5: E5Embedder) -> None:
    for states, text in zip(e5.token_states(TEXTS), TEXTS, strict=True):
        assert states.shape == (e5.count_tokens(text), e5.dimension)
        assert states.dtype == np.float32
        np.testing.assert_allclose(np.linalg.norm(states, axis=1), 1, atol=1e-5)
    (asked,) = e5.query_token_states([TEXTS[0]])
    assert len(asked) == e5.count_tokens(TEXTS[0])
    assert not np.allclose(asked, e5.token_states(TEXTS[:1])[0]), "questions have another prefix"
    assert [states.shape for states in e5.token_states([" "])] == [(0, e5.dimension)]
    assert e5.token_states([]) == []


def test_the_same_text_has_the_same_token_states_in_another_process(e5: E5Embedder) -> None:
    program = (
        "import sys; from kb.components import Parts; from kb.embedding.e5 import Options, build\n"
        "states = build(Options(threads=1), Parts()).token_states([sys.argv[1]])[0]\n"
        "sys.stdout.buffer.write(states.tobytes())"
    )
    done = subprocess.run([sys.executable, "-c", program, TEXTS[3]], capture_output=True, check=True, timeout=120)
    assert done.stdout == e5.token_states(TEXTS)[3].tobytes()


def test_a_vector_that_comes_with_token_vectors_is_the_same_and_costs_no_second_pass(
    e5: E5Embedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = e5.embed_documents(TEXTS)
    passes = count_passes(monkeypatch)
    (part,) = e5.embed_parts_with_states(TEXTS)
    assert len(passes) == len(TEXTS)
    assert part.vectors is not None
    np.testing.assert_array_equal(part.vectors, plain)
    assert part.tokens == sum(map(e5.count_tokens, TEXTS))
    assert [len(packed) for packed in part.token_vectors] == [
        FORM_BYTES + e5.count_tokens(text) * e5.dimension // 4 for text in TEXTS
    ], "two bits a number"


def test_kept_token_vectors_are_nearly_those_that_are_computed(e5: E5Embedder) -> None:
    (part,) = e5.embed_parts_with_states(TEXTS)
    for packed, states in zip(part.token_vectors, e5.token_states(TEXTS), strict=True):
        kept = e5.unpack_states(packed)
        assert kept is not None
        np.testing.assert_allclose(np.linalg.norm(kept, axis=1), 1, atol=1e-5)
        assert (kept * states).sum(axis=1).min() > 0.95


@pytest.mark.parametrize("damage", [b"", b"\0\0\0\0", b"cut short"])
def test_what_was_packed_in_another_form_is_not_read(e5: E5Embedder, damage: bytes) -> None:
    (part,) = e5.embed_parts_with_states(TEXTS[:1])
    assert e5.unpack_states(damage) is None
    assert e5.unpack_states(part.token_vectors[0][:-1]) is None
    assert e5.unpack_states(damage[:4].ljust(4) + part.token_vectors[0][4:]) is None


def test_a_text_that_is_too_long_is_refused_before_anything_is_kept(e5: E5Embedder) -> None:
    with pytest.raises(KbError, match="at most 507"):
        list(e5.embed_parts_with_states(["a " * 600]))


# ── the reranker ──


@pytest.mark.parametrize("question", EXAMPLES)
def test_the_passage_that_answers_comes_before_one_that_shares_the_matter(e5: E5Embedder, question: str) -> None:
    reranked = reranker(e5).rerank(question, hits_of(EXAMPLES[question], [0.5, 0.5]))
    assert [hit.chunk.id for hit in reranked.hits] == ["c1", "c0"]
    assert {hit.scored_by for hit in reranked.hits} == {"maxsim"}
    assert reranked.scale == "interval"


def test_both_scores_count_and_the_weight_says_how_much(e5: E5Embedder) -> None:
    question = "How much is a membership?"
    hits = hits_of([*EXAMPLES[question], "展览每周一闭馆。"], [0.9, 0.5, 0.1])
    assert reranker(e5, weight=0).rerank(question, hits).hits[0].chunk.id == "c0"
    assert reranker(e5, weight=5).rerank(question, hits).hits[0].chunk.id == "c1"


def test_kept_and_computed_token_vectors_serve_one_question_together(e5: E5Embedder) -> None:
    (part,) = e5.embed_parts_with_states(TEXTS)
    kept = dict(zip(TEXTS, part.token_vectors, strict=True))
    hits = hits_of(TEXTS, [0.5 + number / 100 for number in range(len(TEXTS))])
    for question in EXAMPLES:
        fresh = reranker(e5).rerank(question, hits)
        for some in (TEXTS, TEXTS[::2]):
            lent = {text: kept[text] for text in some}
            mixed = reranker(e5, token_vectors=lambda texts, lent=lent: lent).rerank(question, hits)
            scores = {hit.chunk.id: hit.score for hit in mixed.hits}
            assert all(abs(scores[hit.chunk.id] - hit.score) < 0.5 for hit in fresh.hits)
            assert mixed.hits[0].chunk.id == fresh.hits[0].chunk.id


def test_what_is_kept_is_not_computed(e5: E5Embedder, monkeypatch: pytest.MonkeyPatch) -> None:
    (part,) = e5.embed_parts_with_states(TEXTS)
    kept = dict(zip(TEXTS, part.token_vectors, strict=True))
    passes = count_passes(monkeypatch)
    reranker(e5, token_vectors=lambda texts: kept).rerank("Who?", hits_of(TEXTS, [0.5] * len(TEXTS)))
    assert len(passes) == 1, "that of the question"


def test_no_hits_or_a_question_without_tokens_change_nothing(e5: E5Embedder) -> None:
    hits = tuple(hits_of(TEXTS, [0.5] * len(TEXTS)))
    assert reranker(e5).rerank("Who?", []).hits == ()
    assert reranker(e5).rerank(" ", hits).hits == hits
    assert reranker(e5).rerank(" ", hits).scale is None


def test_the_score_is_the_mean_of_the_best_similarities() -> None:
    def rows(*rows: tuple[float, float]) -> NDArray[np.float32]:
        return np.array(rows, np.float32).reshape(-1, 2)

    asked = rows((1, 0), (0, 1))
    found = max_sim(asked, [rows((1, 0), (0.6, 0.8)), rows((0, -1)), rows()])
    np.testing.assert_allclose(found, [(1 + 0.8) / 2, (0 - 1) / 2, -1], atol=1e-6)


def test_an_embedder_without_token_vectors_is_told_with_the_one_that_has_them() -> None:
    hashing = build_component("embedding", "hashing", {}, Parts())
    with pytest.raises(ConfigError, match=r"\[embedding\] use = 'e5'"):
        reranker(hashing)


def test_the_fitted_numbers_come_with_the_package() -> None:
    import kb.embedding._e5_tokens as tokens

    assert np.load(tokens.TOKENS_FILE).shape == (2, 384)
    assert Path(tokens.TOKENS_FILE).stat().st_size < 4096
