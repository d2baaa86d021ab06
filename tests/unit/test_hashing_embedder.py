"""The hashing embedder: what other tests rely on."""

from __future__ import annotations

import numpy as np

from kb.components import Parts
from kb.embedding.hashing import HashingEmbedder, Options, build


def embedder(dimension: int = 256) -> HashingEmbedder:
    return build(Options(dimension=dimension), Parts())


def test_texts_that_share_words_are_nearer_in_any_script() -> None:
    passages = ["The harbour closes at dusk in winter.", "港口冬天黄昏时关闭。", "ピアノの調律は年に二回です。"]
    questions = ["When does the harbour close in winter?", "港口什么时候关闭?", "ピアノの調律は何回ですか"]
    similarity = embedder().embed_queries(questions) @ embedder().embed_documents(passages).T
    assert similarity.argmax(axis=1).tolist() == [0, 1, 2]
    assert similarity.diagonal().min() > embedder().cutoff


def test_texts_without_a_word_have_a_vector() -> None:
    vectors = embedder().embed_documents(["", " \n", "?!", "\ud800"])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1)


def test_the_vector_is_the_sum_of_signed_features() -> None:
    # crc32("a") = 0xE8B7BE43: the top bit is set, so −1 at 0x43 mod 16 = 3; crc32("b") = 0x71BEEFF9: +1 at 9
    vector = embedder(16).embed_documents(["b a b"])[0]
    expected = np.zeros(16)
    expected[3], expected[9] = -1, 2
    np.testing.assert_allclose(vector, expected / 5**0.5, rtol=1e-6)


def test_words_han_characters_and_signs_are_tokens() -> None:
    assert embedder().count_tokens("Two words, 三个字!") == 2 + 1 + 3 + 1
