"""What every embedder promises. A new one is in this suite as soon as its file is in kb/embedding."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kb.abilities import CountsTokens
from kb.components import Embedder
from kb.errors import KbError
from kb.settings import component_names
from tests.contracts._embedders import Setup, build, setup_for

ROOT = Path(__file__).parents[2]
SERVICE_COSINE = 0.999

TEXTS = [
    "The reading room opens at nine.",
    "x",
    "展览每周一闭馆,学生可以半价购票。",
    "会議室を使うときは、前日までに申し込んでください。",
    "a document that says </s> <s> <|endoftext|> <mask> and goes on",
    "🙂🙂 → ﬁne\tprint\n\nand   a gap\u3000here\u200b",
    "مرحبا بالعالم",
    "def f(x: int) -> int:\n    return x ** 2",
    "a longer passage with many words " * 12,
    "The reading room opens at nine.",
]

CHILD = """
import json, sys
import numpy as np
from tests.contracts._embedders import Setup, build
name, options, environment, texts, way = json.loads(sys.stdin.buffer.read())
embedder = build(name, Setup(options, environment))
vectors = getattr(embedder, way)(texts)
print(json.dumps([embedder.fingerprint, vectors.astype("float64").tolist()]))
"""


@pytest.fixture(scope="module", params=component_names("embedding"))
def named_setup(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Setup]]:
    name: str = request.param
    with setup_for(name, tmp_path_factory.mktemp(name)) as setup:
        if setup.missing:
            pytest.skip(setup.missing)
        yield name, setup


@pytest.fixture(scope="module")
def embedder(named_setup: tuple[str, Setup]) -> Embedder:
    return build(*named_setup)


@pytest.fixture(params=["embed_documents", "embed_queries"])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def embed(embedder: Embedder, way: str, texts: list[str]) -> NDArray[np.float32]:
    vectors: NDArray[np.float32] = getattr(embedder, way)(texts)
    return vectors


def assert_same(left: NDArray[Any], right: NDArray[Any], local: bool) -> None:
    if local:
        np.testing.assert_array_equal(left, right)
    else:
        assert (left * right).sum(axis=1).min() >= SERVICE_COSINE


def test_says_what_it_is(embedder: Embedder) -> None:
    assert embedder.name
    assert embedder.fingerprint
    assert embedder.dimension > 0
    assert embedder.max_tokens > 0
    assert embedder.batch_texts > 0
    assert -1 <= embedder.cutoff <= 1


def test_vectors_are_float32_finite_and_of_unit_length(embedder: Embedder, way: str) -> None:
    vectors = embed(embedder, way, TEXTS)
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(TEXTS), embedder.dimension)
    assert np.isfinite(vectors).all()
    np.testing.assert_allclose(np.linalg.norm(vectors.astype(np.float64), axis=1), 1, atol=1e-5)


def test_no_texts_give_no_rows(embedder: Embedder, way: str) -> None:
    vectors = embed(embedder, way, [])
    assert vectors.shape == (0, embedder.dimension)
    assert vectors.dtype == np.float32


def test_a_batch_equals_one_by_one_in_order(embedder: Embedder, way: str, named_setup: tuple[str, Setup]) -> None:
    batch = embed(embedder, way, TEXTS)
    single = np.concatenate([embed(embedder, way, [text]) for text in TEXTS])
    assert_same(batch, single, named_setup[1].local)
    assert_same(embed(embedder, way, TEXTS[::-1]), batch[::-1], named_setup[1].local)
    # so the rows are told apart, and an embedder that gives one vector for all does not pass
    assert batch[0] @ batch[2] < 0.99


def test_the_same_text_gives_the_same_vector_in_another_process(
    embedder: Embedder, way: str, named_setup: tuple[str, Setup]
) -> None:
    name, setup = named_setup
    job = json.dumps([name, dict(setup.options), dict(setup.environment), TEXTS, way])
    child = subprocess.run(
        [sys.executable, "-c", CHILD],
        input=job.encode(),
        capture_output=True,
        check=True,
        timeout=120,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    fingerprint, vectors = json.loads(child.stdout)
    assert fingerprint == embedder.fingerprint
    assert_same(np.array(vectors), embed(embedder, way, TEXTS).astype(np.float64), setup.local)


def test_a_text_at_the_limit_is_taken_and_one_above_it_refused(embedder: Embedder) -> None:
    if not isinstance(embedder, CountsTokens):
        pytest.skip(f"{type(embedder).__name__} does not count tokens")
    room = embedder.max_tokens - embedder.token_overhead
    each = embedder.count_tokens("a a") - embedder.count_tokens("a")
    text = "a" + " a" * ((room - embedder.count_tokens("a")) // each)
    assert room - each < embedder.count_tokens(text) <= room
    assert embedder.embed_documents([text]).shape == (1, embedder.dimension)
    with pytest.raises(KbError, match=str(embedder.max_tokens - embedder.token_overhead)):
        embedder.embed_documents(["a fine text", text + " a" * (embedder.token_overhead + each)])


def test_tokens_are_counted_for_every_text(embedder: Embedder) -> None:
    if not isinstance(embedder, CountsTokens):
        pytest.skip(f"{type(embedder).__name__} does not count tokens")
    assert embedder.count_tokens("") == 0
    assert all(embedder.count_tokens(text) > 0 for text in TEXTS)
    twice = embedder.count_tokens(f"{TEXTS[0]}\n{TEXTS[2]}")
    assert twice >= embedder.count_tokens(TEXTS[0]) + embedder.count_tokens(TEXTS[2])
