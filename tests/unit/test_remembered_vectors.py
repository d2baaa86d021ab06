from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kb.remembered_vectors as remembered
from kb.components import Parts, build_component
from kb.remembered_vectors import RememberedVectors
from tests.end_to_end._bases import CountingEmbedder

TEXTS = ["apples are red", "梅は咲いたか", "pears are green"]


@pytest.fixture
def embedder() -> CountingEmbedder:
    return CountingEmbedder()


def test_vectors_are_those_of_the_embedder_in_the_order_of_the_texts(embedder: CountingEmbedder) -> None:
    plain: Any = build_component("embedding", "hashing", {"dimension": 64}, Parts())
    kept = RememberedVectors(embedder)
    for texts in (TEXTS[:2], TEXTS[::-1], [TEXTS[0], TEXTS[0]]):
        assert np.array_equal(kept.of(texts), plain.embed_documents(texts))
    assert sorted(embedder.sent) == sorted(TEXTS), "each was embedded once"


def test_what_was_not_used_for_longest_is_forgotten(
    embedder: CountingEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remembered, "_MOST_BYTES", 2 * 64 * 4)
    kept = RememberedVectors(embedder)
    kept.of(TEXTS[:2])
    kept.of(TEXTS[:1])
    kept.of(TEXTS[2:])  # no room for the second
    kept.of(TEXTS[:1])
    assert embedder.sent == TEXTS
    kept.of(TEXTS[1:2])
    assert embedder.sent == [*TEXTS, TEXTS[1]]
