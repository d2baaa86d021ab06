"""What comes back from a helper is taken only when it can have been made of what was sent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.components import Parts, build_component
from kb.errors import KbError, LoadError
from kb.ingest.engine import Means
from kb.ingest.engine._bench import Bench, setup_for
from kb.ingest.engine._sent import Sent, SentVectors, Span, as_json, chunks_of, sent_from, span_of, vectors_from
from kb.ingest.reading import pipelines
from kb.ingest.remembering import RememberingEmbedder
from kb.ingest.walk import FoundFile
from kb.loading import document_id
from kb.records import Chunk, Document, Heading
from kb.settings import Settings

FILE = FoundFile(Path("文.md"), "文.md", 10, 1)
HASH = "0" * 64
DOCUMENT = Document(document_id("文.md"), "文.md", "第一段。 これは文。 One two.", "题", "markdown", {"a": 1})
TEXTS = ["运费是十元。", "これは倉庫についての文です。", "A parcel is weighed.", "x"]


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), st.data())
def test_a_document_and_its_chunks_come_as_they_were(text: str, data: st.DataObject) -> None:
    document = replace(DOCUMENT, text=text, headings=(Heading(1, text, 0, len(text)),))
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    page = data.draw(st.none() | st.integers(1, 9))
    chunk = Chunk("a", document.id, text[start:end], start, end, page, (text,), text)
    came = sent_from(as_json(Sent(HASH, "", document, (span_of(chunk),), ("a note",))), FILE)
    assert came.document == document
    assert came.spans is not None
    assert chunks_of(document, came.spans) == (chunk,)
    assert came.notes == ("a note",)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\x80\x04K\x01.",
        as_json(Sent(HASH)),
        as_json(Sent(HASH, "", replace(DOCUMENT, path="other.md"))),
        as_json(Sent(HASH, "", replace(DOCUMENT, id="other"))),
        as_json(Sent(HASH, "", replace(DOCUMENT, headings=(Heading(1, "x", 0, 99),)))),
        as_json(Sent(HASH, "", DOCUMENT, (Span("a", 0, 99, None, (), ""),))),
        as_json(Sent(HASH, "", DOCUMENT, (Span("a", -1, 2, None, (), ""),))),
        as_json(Sent(HASH, "", DOCUMENT, (Span("a", 2, 2, None, (), ""),))),
        as_json(Sent(HASH, "", DOCUMENT, (Span("a", 0, 2, None, (), ""), Span("a", 2, 3, None, (), "")))),
        as_json(Sent(HASH, "", DOCUMENT, (Span("", 0, 2, None, (), ""),))),
        as_json(Sent(HASH, "", DOCUMENT)).replace(b'"pages":[]', b'"pages":"none"'),
    ],
)
def test_what_cannot_have_been_made_of_the_file_is_an_error_of_that_file(content: bytes) -> None:
    with pytest.raises(LoadError, match=r"a worker gave what is no document of it") as caught:
        sent_from(content, FILE)
    assert caught.value.path == FILE.relative


def test_vectors_are_counted_and_measured() -> None:
    rows = np.eye(2, 4, dtype="<f4")
    right = SentVectors(5, rows.tobytes())
    assert np.array_equal(vectors_from(right, 2, 4, keeping=False), rows)
    none = np.full((2, 4), np.nan, "<f4")
    for wrong, texts in [
        (right, 3),
        (SentVectors(5, (2 * rows).tobytes()), 2),
        (SentVectors(5, none.tobytes()), 2),
        (SentVectors(5, rows.tobytes(), (b"a",)), 2),
    ]:
        with pytest.raises(KbError, match="a worker gave"):
            vectors_from(wrong, texts, 4, keeping=False)


def bench(embedder: str, **options: object) -> tuple[RememberingEmbedder, Bench]:
    settings = Settings(embedding={"use": embedder, embedder: options})
    lent = RememberingEmbedder(build_component("embedding", embedder, options, Parts()))
    parts = Parts(embedder=lent, count_tokens=lent.count_tokens)  # type: ignore[arg-type]  # as the wiring does
    chunker = build_component("chunking", "recursive", {}, parts)
    means = Means(settings, lent, chunker, pipelines(settings.loading, chunker.fingerprint))
    return lent, Bench(setup_for(means))


@pytest.mark.parametrize("embedder", ["hashing", "e5"])
def test_a_bench_embeds_as_the_embedder_does(embedder: str) -> None:
    lent, there = bench(embedder)
    assert there.differences == ()
    sent = there.embed(TEXTS, keeping=False)
    vectors = vectors_from(sent, len(TEXTS), lent.dimension, keeping=False)
    assert np.array_equal(vectors, lent.embed_documents(TEXTS))
    assert sent.tokens == sum(map(lent.count_tokens, TEXTS))


def test_a_bench_packs_the_vectors_of_tokens_when_they_are_kept() -> None:
    lent, there = bench("e5", keep_token_vectors=True)
    sent = there.embed(TEXTS, keeping=True)
    (here,) = lent.embedder.embed_parts_with_states(TEXTS)  # type: ignore[attr-defined]  # e5 has it
    assert sent.token_vectors == here.token_vectors
    assert np.array_equal(vectors_from(sent, len(TEXTS), lent.dimension, keeping=True), here.vectors)


def test_a_setup_does_not_show_what_it_holds() -> None:
    settings = Settings(loading={"pdf": {"passwords": ["geheim 密码"]}})
    lent = RememberingEmbedder(build_component("embedding", "hashing", {}, Parts()))
    parts = Parts(embedder=lent, count_tokens=lent.count_tokens)  # type: ignore[arg-type]  # as the wiring does
    chunker = build_component("chunking", "recursive", {}, parts)
    setup = setup_for(Means(settings, lent, chunker, {}))
    assert "passwords" in setup.content
    assert "geheim" not in repr(setup)
