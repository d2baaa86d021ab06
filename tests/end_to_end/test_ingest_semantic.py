"""The semantic chunker's sentences go through the ledger: what was paid for once is not embedded again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kb.abilities import CountsTokens, CountsWords, NamesVocabulary
from kb.chunking._spans import counted_for
from kb.components import Parts, build_component
from kb.errors import ServiceError
from kb.ingest.remembering import RememberingEmbedder
from kb.records import Document
from kb.sentences import sentence_spans
from tests.end_to_end._bases import CountingEmbedder, Place

SEMANTIC = {"chunking": {"use": "semantic", "semantic": {"size_tokens": 60, "min_tokens": 10, "header_tokens": 0}}}
SENTENCES = [f"Part {number} is about {number * 7} and {number * 11} and no more." for number in range(40)]


def place_of(tmp_path: Path, embedder: CountingEmbedder) -> Place:
    place = Place(tmp_path / "documents", tmp_path / "data", embedder=embedder)
    place.write("a.txt", " ".join(SENTENCES))
    return place


def test_an_edited_sentence_is_the_only_one_that_is_embedded_again(tmp_path: Path) -> None:
    embedder = CountingEmbedder()
    place = place_of(tmp_path, embedder)
    first = place.ingest(options=SEMANTIC)
    assert set(SENTENCES) <= set(embedder.sent)
    assert first.embedded == len(embedder.sent) == len(set(embedder.sent))
    assert first.tokens == sum(map(embedder.count_tokens, embedder.sent))
    assert first.embedding_calls == embedder.requests
    embedder.sent.clear()
    edited = "Part 20 is about an umbrella."
    place.write("a.txt", " ".join([*SENTENCES[:20], edited, *SENTENCES[21:]]))
    second = place.ingest(options=SEMANTIC)
    assert [text for text in embedder.sent if len(sentence_spans(text)) == 1] == [edited]
    assert second.embedded == len(embedder.sent)
    assert second.chunks_added < first.chunks_total / 2


def test_what_was_embedded_before_a_service_died_is_not_embedded_again(tmp_path: Path) -> None:
    dying = CountingEmbedder(fails_after=24)
    with pytest.raises(ServiceError, match="the service is down"):
        place_of(tmp_path, dying).ingest(options=SEMANTIC)
    healthy = CountingEmbedder()
    report = place_of(tmp_path, healthy).ingest(options=SEMANTIC)
    assert len(dying.sent) == 24
    assert set(healthy.sent).isdisjoint(dying.sent)
    assert set(SENTENCES) <= {*healthy.sent, *dying.sent}
    assert report.embedded == len(healthy.sent)


def test_a_sentence_that_is_refused_costs_only_its_chunk(tmp_path: Path) -> None:
    place = place_of(tmp_path, CountingEmbedder(refuses="Part 20 "))
    report = place.ingest(options=SEMANTIC)
    assert report.failed == 1
    (problem,) = report.problems
    assert "is left out, the rest is indexed" in problem.reason
    kept = " ".join(place.sections("a.txt"))
    assert "Part 20 " not in kept
    assert sum(sentence in kept for sentence in SENTENCES) > 30


def test_outside_of_an_ingest_the_chunker_embeds_and_keeps_nothing(tmp_path: Path) -> None:
    embedder = CountingEmbedder()
    place = place_of(tmp_path, embedder)
    place.ingest(options=SEMANTIC)
    embedder.sent.clear()
    with place.open(**SEMANTIC) as base:
        base.chunker.chunk(Document("d", "d.txt", " ".join(SENTENCES), "", "text"))
    assert embedder.sent == SENTENCES


def test_what_is_lent_has_just_the_abilities_of_its_embedder() -> None:
    e5 = build_component("embedding", "e5", {}, Parts())
    lent = RememberingEmbedder(e5)
    assert (lent.fingerprint, lent.dimension, lent.token_overhead) == (e5.fingerprint, 384, e5.token_overhead)
    counted: Any = CountingEmbedder()
    counted.counts_by = "bytes"
    embedders: list[Any] = [e5, CountingEmbedder(), counted]
    for ability in (CountsTokens, CountsWords, NamesVocabulary):
        for embedder in embedders:
            assert isinstance(RememberingEmbedder(embedder), ability) is isinstance(embedder, ability)
    of_counted: Any = RememberingEmbedder(counted)
    assert counted_for(Parts(embedder=of_counted)).endswith("counted by bytes")
